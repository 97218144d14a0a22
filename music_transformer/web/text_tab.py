"""The Text tab: what the model would say next and why, a tree of choices, and completion; drawn by static/text.js."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from dataclasses import asdict
from typing import Annotated, Any

import gradio as gr
from fastapi import APIRouter, Body

from gpt_core.errors import UserError
from gpt_core.options import specs
from gpt_core.text.complete import CompleteConfig, TextSampling
from music_transformer.web import refusals
from music_transformer.web.asking import Visitor
from music_transformer.web.component import mount
from music_transformer.web.lines import JsonLines
from music_transformer.web.session import Session
from music_transformer.web.text_reading import Readings, completion_from, sampling_from

TITLE = "Text"
_SHOWN = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")


def build(session: Session) -> None:
    """The explorer and the completion, and both for programs."""
    mount("text", "mt-text")
    readings = Readings(session.models)

    def complete_text(text: str, settings: dict[str, Any]) -> list[str]:
        """Continue a text; ``settings``: model, max_new, takes, seed, stop (strings), appended (ids), special, past_end, and
        ``sampling``, an object with temperature, top_k, top_p and the like. What the model can't see is told as an info.
        """
        return _told(lambda: readings.complete({"text": text, **settings}, gr.Info))

    def next_tokens(text: str, settings: dict[str, Any]) -> list[dict[str, Any]]:
        """The ten likeliest next tokens; ``settings``: model, appended (ids), special, and ``sampling`` (an object)."""
        return _told(lambda: readings.next({"text": text, **settings}))

    gr.api(complete_text, api_name="complete_text", concurrency_limit=1)
    gr.api(next_tokens, api_name="next_tokens")


def _told(act: Callable[[], Any]) -> Any:
    """A UserError reaches the caller as its sentence."""
    try:
        return act()
    except UserError as error:
        raise gr.Error(refusals.sentence(error), print_exception=False) from None


def routes(session: Session) -> APIRouter:
    """Read a text, re-score its next tokens, look through the layers, complete. The page keeps the tree of tokens."""
    router = APIRouter()
    models = session.models
    readings = Readings(models)

    @router.get("/text")
    def choices() -> dict[str, Any]:
        fields = {s.name: _field(s) for s in specs(TextSampling) if s.name in _SHOWN}
        return {"models": models.names("text"), "fields": fields, "complete": asdict(CompleteConfig())}

    @router.post("/text/read")
    def read(order: Annotated[Any, Body()]) -> dict[str, Any]:
        return readings.read(order)

    @router.post("/text/next")
    def rescore(order: Annotated[Any, Body()]) -> dict[str, Any]:
        return {"next": readings.next(order)}

    @router.post("/text/lens")
    def lens(order: Annotated[Any, Body()]) -> dict[str, Any]:
        return {"layers": readings.lens(order)}

    @router.post("/text/complete")
    def complete(visitor: Visitor, order: Annotated[Any, Body()]) -> JsonLines:
        completion_from(order), sampling_from(order)  # refused at once, not within the stream
        begun = readings.begun(order)
        return JsonLines(_completion(session, visitor, begun, lambda say: readings.stream(order, say)))

    return router


def _field(spec: Any) -> dict[str, Any]:
    return {"help": spec.help, "default": spec.default, "low": spec.low, "high": spec.high}


def _completion(session: Session, visitor: str, begun: str, start: Any) -> Generator[bytes, None, None]:
    """JSON lines: what the text begins with, notices, then pieces of text as they come; a refusal is the last line."""
    said: list[str] = []
    try:
        with session.turns.turn(visitor):
            pieces = start(said.append)
            yield _line({"begun": begun})
            for line in said:
                yield _line({"notice": line})
            for piece in pieces:
                yield _line(asdict(piece))
    except UserError as error:
        yield _line({"error": refusals.sentence(error)})


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message, ensure_ascii=False).encode() + b"\n"
