"""Routes that look into a piece: what may come next, how it measures, and whether its receipt holds."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter

from gpt_core.errors import UserError
from music_transformer.meters import measure
from music_transformer.midi import write_midi
from music_transformer.next_events import Draft, draft, likeliest, nats_per_event
from music_transformer.vocabulary import NOTE_OFF, VOCAB_SIZE
from music_transformer.web.asking import Here, Own, Visitor
from music_transformer.web.imports import receipt_of
from music_transformer.web.session import Session
from music_transformer.web.shelf import Piece, Shelf

router = APIRouter()


@dataclass(frozen=True)
class Moment:
    """A piece (None: nothing yet), a second in it (None: its end), events chosen one by one from there, and which model looks."""

    piece: str | None = None
    model: str | None = None
    at: float | None = None
    events: tuple[int, ...] = ()


def _draft(own: Shelf, moment: Moment) -> Draft:
    return draft(own.score(moment.piece) if moment.piece else None, moment.at, moment.events)


@router.post("/next")
def next_events(here: Here, own: Own, moment: Moment) -> dict[str, Any]:
    """The ten likeliest next events, the ten likeliest strikes, where they would stand, and the notes chosen so far."""
    now = _draft(own, moment)
    ranked = likeliest(here.models.music(moment.model), now, VOCAB_SIZE)
    new = [n for n in now.score().notes if n.start >= now.cut.join - 1e-6]
    return {
        "join": now.cut.join,
        "seconds": now.seconds,
        "events": [event._asdict() for event in ranked[:10]],
        "strikes": [event._asdict() for event in ranked if event.id < NOTE_OFF][:10],
        "notes": [[n.pitch, n.start, n.end, n.velocity] for n in new],
    }


@router.post("/next/keep")
def keep(own: Own, moment: Moment) -> Piece:
    """Save what was chosen by hand as a piece of its own."""
    now = _draft(own, moment)
    score = now.score()
    if not moment.events or len(score.notes) == len(now.cut.prompt.notes):
        raise UserError("no note was chosen yet; click one of the likeliest notes first")
    piece = Piece(
        id="",
        kind="edit",
        name=f"By hand, {len(score.notes) - len(now.cut.prompt.notes)} notes",
        parent=moment.piece,
        seconds=score.end,
        join=now.cut.join,
        notes=len(score.notes),
        facts={"events": list(moment.events)},
    )
    return own.add(piece, write_midi(score))


@router.get("/pieces/{id}/meters")
def meters(here: Here, own: Own, id: str) -> dict[str, Any]:
    """Figures of the new part beside those of what it continues, the surprise of its model among them; kept in the sidecar."""
    piece = own.get(id)
    if piece.facts.get("meters", {}).get("checkpoint") != here.models.maker(piece.facts).sha:
        piece = own.change(id, facts={**piece.facts, "meters": _measured(here, own, piece)})
    return piece.facts["meters"]


def _measured(here: Session, own: Shelf, piece: Piece) -> dict[str, Any]:
    score = own.score(piece.id)
    composed = piece.parent is not None or piece.kind == "take"
    join = piece.join if composed else 0.0
    model = here.models.maker(piece.facts)
    before, after = nats_per_event(model, score, join)
    rows = {"new" if composed else "piece": {**measure(score, join, piece.until).to_dict(), "nats": _number(after)}}
    if composed and join > 0:
        rows["prompt"] = {**measure(score, 0.0, join).to_dict(), "nats": _number(before)}
    return {"checkpoint": model.sha, "rows": rows}


def _number(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 3)


@router.post("/pieces/{id}/recreate")
def recreate_piece(here: Here, visitor: Visitor, own: Own, id: str) -> dict[str, Any]:
    """Compose a piece again from the receipt in its file, and compare every byte."""
    from music_transformer.compose import recreate

    data = own.midi(id)
    receipt = receipt_of(data)
    if receipt is None:
        raise UserError("this file carries no receipt; only pieces composed here do")
    with here.turns.turn(visitor):
        began = time.perf_counter()
        made = recreate(receipt, here.models.maker({"model": receipt.model}))
    return {"same": made == data, "bytes": len(made), "took": round(time.perf_counter() - began, 2)}
