"""The Compose tab: the instrument (drawn by static/compose.js over our routes), and the same actions as an API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradio as gr
from gradio.components import Component

from music_transformer.compose_config import PRESETS
from music_transformer.web.api import Api
from music_transformer.web.component import mount
from music_transformer.web.session import Session

TITLE = "Compose"


def build(session: Session) -> None:
    """The instrument, and its endpoints: /continue, /generate, /inspect, /render, /next_events, /recreate."""
    mount("compose", "mt-compose")
    common: list[Component] = [_number("seconds", 20), _number("takes", 1), _number("seed"), _preset()]
    drawn = [_number(name) for name in ("at", "until", "temperature", "top_k", "top_p", "min_p")]
    model = gr.Textbox(value=None, visible=False, label="model")
    ports: dict[str, tuple[list[Component], list[Component]]] = {
        "continue": ([_midi(), *common, *drawn, model], [_files(), _json()]),
        "generate": ([*common, model], [_files(), _json()]),
        "inspect": ([_midi()], [_json()]),
        "render": ([_midi()], [_file()]),
        "next_events": ([_midi(), _number("at"), model], [_json()]),
        "recreate": ([_midi()], [_file(), gr.Checkbox(visible=False, label="the same bytes")]),
    }
    for name, act in Api(session).endpoints.items():
        _endpoint(name, act, *ports[name])


def _endpoint(name: str, act: Callable[..., Any], inputs: list[Component], outputs: list[Component]) -> None:
    """Publish a function under ``/name``: a button that nobody sees. Its own queue is the session's."""
    button = gr.Button(visible=False)
    button.click(act, inputs, outputs, api_name=name, concurrency_limit=None, show_progress="hidden")


def _midi() -> gr.File:
    return gr.File(visible=False, file_types=[".mid", ".midi", ".rmi"], label="a MIDI file")


def _files() -> gr.File:
    return gr.File(visible=False, file_count="multiple", label="MIDI files")


def _file() -> gr.File:
    return gr.File(visible=False, label="the file made")


def _json() -> gr.JSON:
    return gr.JSON(visible=False)


def _number(label: str, value: float | None = None) -> gr.Number:
    return gr.Number(visible=False, label=label, value=value)


def _preset() -> gr.Dropdown:
    return gr.Dropdown(list(PRESETS), value="balanced", visible=False, label="preset")
