"""Who asks, for the parameters of a route: ``here: Here`` the session, ``visitor: Visitor`` the secret, ``own: Own`` the shelf."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request, Response

from music_transformer.web.session import Session
from music_transformer.web.shelf import Shelf


def _session(request: Request) -> Session:
    return request.app.state.session


Here = Annotated[Session, Depends(_session)]


def _visitor(here: Here, request: Request, response: Response) -> str:
    return here.visitor(request, response)


Visitor = Annotated[str, Depends(_visitor)]


def _shelf(here: Here, visitor: Visitor) -> Shelf:
    return here.shelf(visitor)


Own = Annotated[Shelf, Depends(_shelf)]
