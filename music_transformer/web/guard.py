"""The guard before our routes: the same login as gradio's, and no request from another site's page."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpt_core.errors import UserError
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
        return JSONResponse({"error": str(error)}, status)

    app.add_middleware(_Headers)


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
