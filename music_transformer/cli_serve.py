"""``music-transformer serve``: open the app."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import socket
import sys
import tempfile
import threading
import webbrowser
from pathlib import Path
from types import FrameType

from gpt_core.errors import UserError
from gpt_core.options import add_flags, from_args
from music_transformer.web.settings import ServeConfig


def add_serve(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``serve``."""
    add_flags(parser, ServeConfig)


def run_serve(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C; UserError where the address cannot be used or the app's libraries are missing."""
    config = from_args(ServeConfig, args)
    if config.folder:
        _refuse_unwritable(config.folder)
    _quiet()
    try:
        import uvicorn

        from music_transformer.web.page import build_app
    except ImportError as error:
        raise UserError(f"the app needs {error.name}; install it with: pip install 'music-transformer[app]'") from None
    place = _listen(config.host, config.port)
    app = build_app(config)
    session = app.state.session
    session.warm_up()
    shown = "127.0.0.1" if config.host in ("0.0.0.0", "") else config.host
    url = f"http://{shown}:{place.getsockname()[1]}"
    print(f"Music Transformer is at {url} (Ctrl-C ends it)", flush=True)
    if config.open_browser:
        threading.Timer(1.0, webbrowser.open, [url]).start()
    _end_on_sigterm()
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=3))
    try:
        server.run(sockets=[place])
    finally:
        session.close()
    return 0


def _refuse_unwritable(folder: str) -> None:
    """Rather now than when the first piece is to be kept."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True, mode=0o700)
        tempfile.TemporaryFile(dir=folder).close()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise UserError(f"pieces can't be kept in {folder}: {why}; choose another --folder") from None


def _end_on_sigterm() -> None:
    """Let SIGTERM, which uvicorn raises anew when it is done, end the program by an exception: then what is composed is saved."""

    def end(number: int, frame: FrameType | None) -> None:
        sys.exit(128 + number)

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, end)


def _quiet() -> None:
    """Nothing in the app calls home, and its end is no error; these keep its libraries from doing and saying otherwise."""
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    logging.getLogger("uvicorn.error").addFilter(_no_ended_request)


def _no_ended_request(record: logging.LogRecord) -> bool:
    """Whether to log: requests cut off by the server's end are told in a line of uvicorn's, they need no traceback each."""
    return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))


def _listen(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), reuse_port=False)
    except OSError as error:
        raise UserError(f"cannot listen on {host}:{port}: {error.strerror or error}; choose another --port") from None
