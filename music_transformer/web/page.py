"""The page: opens the session, assembles the tabs that exist, mounts gradio and our routes side by side."""

from __future__ import annotations

import importlib
import importlib.util
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import gradio as gr
from fastapi import FastAPI, Request

from music_transformer.web.backend import build_backend, include
from music_transformer.web.session import Session
from music_transformer.web.settings import ServeConfig

TABS = ("music_tab", "attention_tab", "text_tab", "steps_tab")
TITLE = "Music Transformer"
_STATIC = Path(__file__).parent / "static"
_STALE = 3600  # seconds until gradio deletes a file of an API answer


def build_app(config: ServeConfig | None = None, session: Session | None = None) -> FastAPI:
    """The whole app, ready for uvicorn. ``app.state.session`` is its session."""
    session = session or Session(config)
    os.environ["GRADIO_TEMP_DIR"] = session.scratch.name  # gradio's own uploads go when the session closes
    app = build_backend(session)
    tabs = [importlib.import_module(name) for name in map(_dotted, TABS) if importlib.util.find_spec(name)]
    for tab in tabs:
        if hasattr(tab, "routes"):
            include(app, tab.routes(session), session)
    return _mount(app, _blocks(session, tabs), session)


def _dotted(tab: str) -> str:
    return f"music_transformer.web.{tab}"


def _blocks(session: Session, tabs: list[ModuleType]) -> gr.Blocks:
    demo = gr.Blocks(title=TITLE, analytics_enabled=False, fill_width=True, delete_cache=(_STALE, _STALE))
    with demo, gr.Tabs(elem_id="mt-tabs"):
        for tab in tabs:
            with gr.Tab(tab.TITLE):
                tab.build(session)
    demo.queue(max_size=session.config.queue_size, default_concurrency_limit=None)
    return demo


def _mount(app: FastAPI, demo: gr.Blocks, session: Session) -> FastAPI:
    theme = gr.themes.Base(font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"])
    gr.mount_gradio_app(
        app,
        demo,
        path="/",
        auth=session.accounts,
        max_file_size=int(session.config.max_upload * 1_000_000),
        footer_links=[],
        run_history=False,
        ssr_mode=False,
        enable_monitoring=False,
        theme=theme,
        css_paths=[_STATIC / "style.css"],
        show_error=True,
    )
    mounted = (getattr(route, "app", None) for route in reversed(app.routes))
    inner: Any = next(a for a in mounted if hasattr(a, "cookie_id"))  # gradio's own app

    def login(request: Request) -> str | None:
        """The rule of gradio's own get_current_user."""
        names = (f"access-token-{inner.cookie_id}", f"access-token-unsecure-{inner.cookie_id}")
        token = request.cookies.get(names[0]) or request.cookies.get(names[1])
        return inner.tokens.get(token)

    session.login = login
    return app
