"""Attention of a model on one piece: read once, packed layer by layer when asked, turned into arcs between notes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gpt_core import attention as core
from gpt_core.checkpoint import Checkpoint
from gpt_core.edges import EdgeRule, pack, stored_for
from gpt_core.errors import UserError
from music_transformer.arc_query import ArcPack, ArcQuery, ArcSet, find_arcs
from music_transformer.arc_tokens import Tokens, music_tokens
from music_transformer.events import encode, token_notes
from music_transformer.score import Score
from music_transformer.vocabulary import BOS

_CHUNK = 64
Rows = tuple[range, NDArray[Any]]  # some queries and their weights [n, T]


class AttentionView:
    """What one model saw while it read one sequence: tokens in their places, and packed layers on demand.

    ``start`` tokens lay before the window and were out of the model's reach; the whole piece has ``whole`` tokens and
    ``seconds``. Packs keep the edges that ``kept`` says (default: as many as 1.2 MB hold). Safe to use from several threads.
    """

    def __init__(
        self,
        trace: core.Trace,
        tokens: Tokens,
        model: dict[str, Any],
        *,
        kept: EdgeRule | None = None,
        whole: int | None = None,
        seconds: float = 0.0,
    ) -> None:
        if trace.length != len(tokens.labels):
            raise ValueError(f"the model read {trace.length} tokens and {len(tokens.labels)} are described")
        self.trace = trace
        self.tokens = tokens
        self.model = model
        self.kept = kept or stored_for(trace.config.n_head * trace.length)
        self.seconds = seconds
        self.whole = whole or trace.start + trace.length
        self._packs: dict[tuple[str, int], ArcPack] = {}
        self._flow: tuple[int, torch.Tensor] | None = None
        self._lock = threading.Lock()

    @property
    def start(self) -> int:
        """How many tokens lay out of reach before the window."""
        return self.trace.start

    def pack(self, view: str, layer: int) -> ArcPack:
        """Return a packed layer, made at the first call."""
        if view not in core.VIEWS:
            raise UserError(f"view is {view!r}; choose one of {', '.join(core.VIEWS)}")
        with self._lock:
            if (view, layer) not in self._packs:
                heads = self.trace.config.n_head if view == "heads" else 1
                self._packs[view, layer] = make_pack(
                    lambda head: self._rows(view, layer, head),
                    heads,
                    self.tokens.leads,
                    self.kept,
                    sum_to_one=view != "max",
                )
            return self._packs[view, layer]

    def _rows(self, view: str, layer: int, head: int) -> Iterator[Rows]:
        flow = self._rollout(layer) if view == "rollout" else None
        for part in _chunks(self.trace.length):
            if flow is not None:
                rows = flow[part.start : part.stop]
            elif view == "heads":
                rows = core.rows(self.trace, layer, part, [head])[0]
            else:
                rows = core.blend(self.trace, layer, part, view)
            yield part, rows.cpu().numpy()

    def _rollout(self, layer: int) -> torch.Tensor:
        """The rollout [T, T] up to ``layer``, grown from the layer below where that was the last one asked for."""
        known, flow = (
            self._flow
            if self._flow and self._flow[0] <= layer
            else (0, core.rollout(self.trace, self.trace.queries, 0))
        )
        for l in range(known + 1, layer + 1):
            parts = [core.blend(self.trace, l, part) @ flow for part in _chunks(self.trace.length)]
            flow = (flow + torch.cat(parts)) / 2
        self._flow = (layer, flow)
        return flow

    def arcs(self, query: ArcQuery) -> ArcSet:
        """Answer a query."""
        return find_arcs(self.pack(query.view, query.layer), self.tokens.places, self.tokens.leads, query)

    def opening(self) -> ArcQuery:
        """Return a query to open the view with: the last note, or the last token of a text, in a middle layer."""
        tokens = note_tokens(self.tokens) if self.tokens.notes else (self.trace.length - 1,)
        return ArcQuery(layer=self.trace.config.n_layer // 2, tokens=tokens)

    def manifest(self) -> dict[str, Any]:
        """Return everything a viewer needs beside the packs, as JSON types."""
        c = self.trace.config
        shape = {"layers": c.n_layer, "heads": c.n_head, "context": c.context}
        return {
            "format": 2,
            "model": self.model | shape,
            "kind": "music" if self.tokens.notes else "text",
            "tokens": self.tokens.to_dict(),
            "start": self.start,
            "whole": self.whole,
            "seconds": self.seconds,
            "reach": self.reach(),
            "stored": {"top_k": self.kept.top_k, "mass": self.kept.mass},
        }

    def reach(self) -> str:
        """Say which tokens the model could see."""
        what = "events" if self.tokens.note else "tokens"
        if self.trace.length == self.whole:
            return f"All {self.whole:,} {what} were in reach."
        end = self.start + self.trace.length
        held = f"The window holds {self.trace.length:,} {what}: numbers {self.start + 1:,} to {end:,} were in reach"
        before = f", the {self.start:,} before were not" if self.start else ""
        after = f"; {self.whole - end:,} more follow, unread" if self.whole > end else ""
        return f"{held}{before}{after}."


def make_pack(
    rows_of: Callable[[int], Iterator[Rows]], heads: int, leads: Sequence[int], kept: EdgeRule, *, sum_to_one: bool
) -> ArcPack:
    """Pack each head's rows in one pass, and add up rows and columns before anything is left out."""
    length = len(leads)
    lead = np.asarray(leads) == np.arange(length)
    sums = np.zeros((3, heads, length))

    def chunks() -> Iterator[NDArray[Any]]:
        for head in range(heads):
            for part, rows in rows_of(head):
                sums[0, head, part.start : part.stop] = rows.sum(1, dtype=np.float64)
                sums[1, head] += rows.sum(0, dtype=np.float64)
                sums[2, head] += rows[lead[part.start : part.stop]].sum(0, dtype=np.float64)
                yield rows[:, : part.stop]

    packed = pack(chunks(), heads, length, kept)
    if sum_to_one:
        sums[0] = 1.0  # exactly, whatever the rounding of the sum
    return ArcPack(packed, *sums.astype(np.float16))


def _chunks(length: int) -> Iterator[range]:
    for start in range(0, length, _CHUNK):
        yield range(start, min(start + _CHUNK, length))


@dataclass(frozen=True)
class Attention:
    """An answered query: ``view`` it was asked of, the ``query`` and its ``arcs``."""

    view: AttentionView
    query: ArcQuery
    arcs: ArcSet

    def to_dict(self) -> dict[str, Any]:
        """Return the query, its edges in words, the mass shown and hidden, and the model's hash, as JSON types."""
        from music_transformer.arc_export import to_json

        return to_json(self)

    def save(self, path: Path | str) -> Path:
        """Write the answer as .svg, .png, .json or a self-contained .html page; returns the path."""
        from music_transformer.arc_export import save

        return save(self, Path(path))


def music_view(
    piano: Checkpoint, piece: Score | Sequence[int], *, at: float | None = None, name: str = ""
) -> AttentionView:
    """Let the model read a score (or its ids) and return the view of what it attended to.

    Where the piece is longer than the model's context, the window ends a quarter context after the note struck nearest
    to second ``at`` (default: at the piece's end). UserError for an empty piece.
    """
    ids = [BOS, *encode(piece)] if isinstance(piece, Score) else list(piece)
    context = piano.config.context
    stop = len(ids)
    if at is not None and stop > context:
        last = max(i for i in note_tokens(music_tokens(ids), at))
        stop = min(stop, max(last + 1 + context // 4, context))
    trace = core.trace(piano.model, torch.tensor(ids[:stop], dtype=torch.long))
    tokens = music_tokens(ids, trace.start, stop)
    about = {"name": name or piano.folder.name, "sha": piano.sha}
    return AttentionView(trace, tokens, about, whole=len(ids), seconds=float(token_notes(ids)[1][-1]))


def note_tokens(tokens: Tokens, at: float | None = None) -> tuple[int, ...]:
    """Return the tokens of the note struck nearest to second ``at`` (default: of the last note)."""
    struck = [(i, n) for i, n in enumerate(tokens.note) if n >= 0 and tokens.kinds[i] == "on"]
    if not struck:
        raise UserError("there is no note in reach to look at; give a piece with notes")
    if at is None:
        note = struck[-1][1]
    else:
        note = min(struck, key=lambda pair: abs(tokens.seconds[pair[0]] - at))[1]
    return tuple(i for i, n in enumerate(tokens.note) if n == note)


def attention(
    piano: Checkpoint,
    piece: Score | Sequence[int],
    *,
    at: float | None = None,
    query: ArcQuery | None = None,
    **asked: Any,
) -> Attention:
    """Show what the note struck nearest to second ``at`` attended to: ``attention(piano, score, layer=3, at=12.5)``.

    ``asked`` are fields of :class:`ArcQuery` (layer, view, direction, group, heads, rule), set over ``query``. Weights
    are the model's own softmax weights. An attention weight is not an explanation of what the model did.
    """
    full = replace(query or ArcQuery(), **asked)
    view = music_view(piano, piece, at=at)
    if at is not None and not 0 <= at <= view.seconds:
        raise UserError(f"--at is {at:g} s and the piece lasts {view.seconds:.2f} s; give a second within it")
    kept = view.kept
    view.kept = replace(kept, top_k=max(full.rule.top_k, kept.top_k), mass=max(full.rule.mass, kept.mass))
    if not full.tokens:
        full = replace(full, tokens=note_tokens(view.tokens, at))
    return Attention(view, full, view.arcs(full))
