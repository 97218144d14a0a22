"""The How-it-works tab: one token's way through the model in real numbers, drawn by static/steps.js over our routes."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body

from gpt_core import steps
from gpt_core.errors import UserError
from music_transformer.arc_tokens import event_label, legible
from music_transformer.events import encode
from music_transformer.samples import TITLES
from music_transformer.vocabulary import BOS
from music_transformer.web.asking import Visitor
from music_transformer.web.component import mount
from music_transformer.web.reading import LONGEST_TEXT, pieces_of, score_of
from music_transformer.web.session import Session

TITLE = "How it works"
_LENGTH = 32  # tokens walked through: a score matrix of this size can still be read


def build(session: Session) -> None:
    """The page."""
    mount("steps", "mt-steps")


def routes(session: Session) -> APIRouter:
    """Choices, one walk, and a model's inventory of weights; all JSON, all small."""
    router = APIRouter()
    models = session.models

    @router.get("/steps")
    def choices() -> dict[str, Any]:
        return {"models": {kind: models.names(kind) for kind in ("music", "text")}, "samples": TITLES}

    @router.post("/steps")
    def walk(visitor: Visitor, order: Annotated[dict[str, Any], Body()]) -> dict[str, Any]:
        return answer(session, visitor, order)

    @router.get("/steps/inventory/{kind}/{name}")
    def inventory(kind: str, name: str) -> dict[str, Any]:
        return steps.inventory(models.get(kind, name).model)

    return router


def answer(session: Session, visitor: str, order: dict[str, Any]) -> dict[str, Any]:
    """Walk ``{kind, model, text | piece | sample, position, layer, head}``; -1 as position is the last token."""
    kind = "text" if order.get("kind") == "text" else "music"
    found = session.models.get(kind, str(order.get("model", "")))
    ids = (_text_ids if kind == "text" else _music_ids)(session, found, visitor, order)[:_LENGTH]
    position, layer, head = (_whole(order, name) for name in ("position", "layer", "head"))
    position = min(position, len(ids) - 1) if position >= 0 else len(ids) - 1
    walked = steps.walk(found.model, ids, position, layer, head)
    names = _names(kind, found.codec, [*ids, *walked["output"]["ids"]])
    c = found.config
    return {
        "walk": walked,
        "matrices": steps.matrices(found.model, ids, layer, head),
        "labels": names[: len(ids)],
        "next": names[len(ids) :],
        "shape": {"layers": c.n_layer, "heads": c.n_head, "width": c.n_embd, "head_size": c.head_size},
        "about": {"norm": c.norm, "activation": c.activation, "qk_norm": c.qk_norm, "position": c.position},
    }


def _whole(order: dict[str, Any], name: str) -> int:
    value = order.get(name, 0)
    if not isinstance(value, int) or isinstance(value, bool):
        raise UserError(f"{name} is not a whole number; give one")
    return value


def _music_ids(session: Session, found: Any, visitor: str, order: dict[str, Any]) -> list[int]:
    return [BOS, *encode(score_of(session, visitor, order))]


def _text_ids(session: Session, found: Any, visitor: str, order: dict[str, Any]) -> list[int]:
    text = order.get("text")
    if not isinstance(text, str) or not text or len(text) > LONGEST_TEXT:
        raise UserError(f"there is no text to walk through; write 1 to {LONGEST_TEXT:,} characters")
    return found.codec.encode(text)


def _names(kind: str, codec: Any, ids: list[int]) -> list[str]:
    return [event_label(i) for i in ids] if kind == "music" else [legible(p) for p in pieces_of(codec, ids)]
