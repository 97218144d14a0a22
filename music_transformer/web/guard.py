"""The guard before our routes: gradio's login, no request from another site's page, none too large or too slow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpt_core.errors import UserError
from music_transformer.web import refusals
from music_transformer.web.session import Session
from music_transformer.web.shelf import UnknownPiece
from music_transformer.web.turns import QueueFull

# The page may talk to its own server only, so that nothing a visitor brings can reach out of it.
POLICY = (
    "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; frame-ancestors 'self'; base-uri 'self'; "
    "form-action 'self'; object-src 'none'"
)
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


LARGEST_ORDER = 1_000_000  # bytes of a request that brings no file
PATIENCE, LONGEST = 30.0, 600.0  # seconds without a byte, and in all, until a request that is not complete is given up
_UPLOADS = ("/mt/pieces", "/gradio_api/upload")  # these have a limit of their own


def guard(session: Session) -> Callable[[Request], None]:
    """A dependency that lets in whoever gradio would let in, from our own pages or from no page at all."""

    def check(request: Request) -> None:
        if session.accounts is not None and session.login(request) is None:
            raise HTTPException(401, "log in first")
        origin = request.headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
            raise HTTPException(403, "this request comes from another site")

    return check


def install(app: FastAPI) -> None:
    """Answer UserErrors as sentences, and tell browsers what a page of ours may do."""

    @app.exception_handler(UserError)
    def sentence(request: Request, error: UserError) -> JSONResponse:
        status = 404 if isinstance(error, UnknownPiece) else 503 if isinstance(error, QueueFull) else 400
        return JSONResponse({"error": refusals.sentence(error)}, status)

    @app.exception_handler(RequestValidationError)
    def misshapen(request: Request, error: RequestValidationError) -> JSONResponse:
        first: dict[str, Any] = next(iter(error.errors()), {})
        where = ".".join(str(part) for part in first.get("loc", ()))
        sentence = UserError(f"the request is not understood: {where}: {first.get('msg', 'it is misshapen')}")
        return JSONResponse({"error": str(sentence)}, 422)

    @app.exception_handler(ClientDisconnect)
    def gone(request: Request, error: ClientDisconnect) -> Response:
        return Response(status_code=499)  # nobody reads it; without it every broken upload fills the log

    @app.exception_handler(StarletteHTTPException)
    def refused(request: Request, error: StarletteHTTPException) -> JSONResponse:
        return JSONResponse({"error": str(UserError(error.detail))}, error.status_code, error.headers)

    app.add_middleware(_Bounds)
    app.add_middleware(_Headers)


class _Bounds:
    """Refuse a request that is too large or whose body does not come. Plain ASGI, before anything is kept of it."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        limit = None if scope["path"].startswith(_UPLOADS) and scope["method"] == "POST" else LARGEST_ORDER
        taken, complete, last = 0, False, asyncio.get_running_loop().time() + LONGEST

        async def receive_some() -> Message:
            nonlocal taken, complete
            if complete:
                return await receive()  # waits until the visitor leaves
            try:
                left = last - asyncio.get_running_loop().time()
                message = await asyncio.wait_for(receive(), min(PATIENCE, max(0.0, left)))
            except TimeoutError:
                raise HTTPException(408, "the request did not come to its end in time; send it again") from None
            taken += len(message.get("body", b""))
            complete = not message.get("more_body")
            if limit is not None and taken > limit:
                raise HTTPException(413, f"the request is larger than {limit / 1e6:g} MB; send less at once")
            return message

        await self.app(scope, receive_some, send)


class _Headers:
    """Plain ASGI, so that streams pass through untouched and a closed page is noticed."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self.app(scope, receive, send_with_headers)
