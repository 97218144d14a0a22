"""Our half of the app, without gradio: the routes under ``/mt`` behind their guard."""

from __future__ import annotations

from fastapi import APIRouter, Depends, FastAPI

from music_transformer.web import explore, guard, routes, stream
from music_transformer.web.session import Session


def build_backend(session: Session) -> FastAPI:
    """A FastAPI app with our routes; ``app.state.session`` is the session."""
    app = FastAPI(title="Music Transformer", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.session = session
    guard.install(app)
    for router in (routes.router, explore.router, stream.router):
        include(app, router, session)
    return app


def include(app: FastAPI, router: APIRouter, session: Session) -> None:
    """Mount a router of ours or of a tab under ``/mt``, guarded."""
    app.include_router(router, prefix="/mt", dependencies=[Depends(guard.guard(session))])
