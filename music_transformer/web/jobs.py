"""A job composes in a thread of its own, reports what it plays as it goes, and saves its takes, also after a stop."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from gpt_core.errors import UserError
from music_transformer.compose import Composition, Step, Take, refuse_silence
from music_transformer.web import refusals
from music_transformer.web.live import LiveTake
from music_transformer.web.orders import Order
from music_transformer.web.session import Session
from music_transformer.web.shelf import Piece, Shelf

_EVERY = 0.06  # seconds between two messages: often enough to look continuous
log = logging.getLogger(__name__)


class Job:
    """One order of one visitor. ``emit`` receives messages (dicts of JSON types) from the job's thread.

    Types: queue (ahead), start (join, takes, seed, seconds), notes (events, seconds, done, rate, left), done (pieces,
    stopped), error (message). After done or error nothing follows but None, which closes the stream.
    """

    def __init__(
        self, session: Session, visitor: str, order: Order, emit: Callable[[dict[str, Any] | None], None]
    ) -> None:
        self.session, self.visitor, self.order, self.emit = session, visitor, order, emit
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="compose", daemon=True)

    def start(self) -> Job:
        """Begin; returns at once."""
        self._thread.start()
        return self

    def join(self, seconds: float) -> None:
        """Wait until it is over, but no longer than so many seconds."""
        if self._thread.is_alive():
            self._thread.join(seconds)

    def stop(self) -> None:
        """End soon and keep what exists; a job that still waits leaves the queue."""
        self._stop.set()

    def _run(self) -> None:
        try:
            for message in self._messages():
                self.emit(message)
        except UserError as error:
            self.emit({"type": "error", "message": refusals.sentence(error)})
        except Exception:
            log.exception("a composition failed")
            self.emit({"type": "error", "message": "something went wrong here; the log of the server says what"})
        finally:
            self.emit(None)

    def _messages(self) -> Iterator[dict[str, Any]]:
        shelf = self.session.shelf(self.visitor)
        composition = start_composition(self.session, shelf, self.order)
        turn = self.session.turns.turn(
            self.visitor,
            ahead=lambda n: self.emit({"type": "queue", "ahead": n}),
            cancel=self._stop.is_set,
        )
        with turn as mine:
            if mine:
                yield {
                    "type": "start",
                    "join": composition.cut.join,
                    "takes": composition.config.takes,
                    "seed": composition.config.seed,
                    "seconds": composition.config.seconds,
                }
                yield from self._live(composition)
        takes = composition.takes() if any(composition.ids) else []
        stopped = self._stop.is_set()
        if not stopped and not any(t.new.notes for t in takes):
            refuse_silence(takes)
        yield {"type": "done", "pieces": save_takes(shelf, self.order, takes), "stopped": stopped}

    def _live(self, composition: Composition) -> Iterator[dict[str, Any]]:
        cut, config = composition.cut, composition.config
        lives = [LiveTake(t, cut.join, cut.ids) for t in range(config.takes)]
        begun = sent = time.perf_counter()
        events: list[Any] = []
        seen = [0] * config.takes
        drawn = 0
        step: Step | None = None
        for step in composition.steps(self._stop.is_set):
            for live, ids in zip(lives, composition.ids, strict=True):
                for id in ids[seen[live.index] :]:
                    drawn += 1
                    if (event := live.feed(id)) is not None:
                        events.append(event)
                seen[live.index] = len(ids)
            now = time.perf_counter()
            if now - sent >= _EVERY:
                yield _notes(step, events, (drawn, now - begun), config.seconds)
                events, sent = [], now
        if step is not None:
            yield _notes(step, events, (drawn, time.perf_counter() - begun), config.seconds)


def _notes(step: Step, events: list[Any], pace: tuple[int, float], asked: float) -> dict[str, Any]:
    drawn, took = pace
    slowest = min((s for s, over in zip(step.seconds, step.done, strict=True) if not over), default=asked)
    left = took * (asked - slowest) / slowest if slowest > 0 else None
    return {
        "type": "notes",
        "events": events,
        "seconds": step.seconds,
        "done": step.done,
        "rate": round(drawn / took, 1) if took else 0.0,
        "left": None if left is None else round(max(left, 0.0), 1),
    }


def start_composition(session: Session, shelf: Shelf, order: Order) -> Composition:
    """The composition an order asks for, not begun; UserError where its piece cannot be continued from there."""
    score = source = None
    if order.piece is not None:
        score, source = shelf.score(order.piece), shelf.midi(order.piece)
    return Composition(
        session.models.music(order.model),
        score,
        order.compose,
        order.sampling,
        source=source,
        model_name=order.model or session.models.usual,
    )


def save_takes(shelf: Shelf, order: Order, takes: list[Take]) -> list[str | None]:
    """Put takes on the shelf below the piece they continue: the id of each, None for one of nothing but rests."""
    return [
        shelf.add(_piece(shelf, order, t), t.midi("whole"), t.midi("new")).id if t.new.notes else None for t in takes
    ]


def _piece(shelf: Shelf, order: Order, take: Take) -> Piece:
    return Piece(
        id="",
        kind="take",
        name=_name(shelf, order, take),
        parent=order.piece,
        seconds=take.whole.end,
        join=take.join,
        until=order.compose.until,
        notes=len(take.whole.notes),
        facts={
            "preset": order.preset,
            **take.receipt.settings,
            "seed": take.seed,
            "take": take.index,
            "events": len(take.ids),
            "model": take.receipt.model,
            "checkpoint": take.receipt.checkpoint,
            "version": take.receipt.version,
        },
    )


def _name(shelf: Shelf, order: Order, take: Take) -> str:
    number = f", take {take.index + 1}" if order.compose.takes > 1 else ""
    mood = order.preset.capitalize()
    if order.compose.until is not None:
        return f"{mood}, {take.join:.1f}-{order.compose.until:.1f} s rewritten{number}"
    if order.piece is not None:
        return f"{mood} +{take.new.end:.0f} s{number}"
    return f"Improvisation {sum(p.parent is None and p.kind == 'take' for p in shelf.list()) + 1}"
