"""What the model expects: the likeliest next events at a moment of a piece, and how surprised it was by what came."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from gpt_core.errors import UserError
from music_transformer.events import BOS, NOTE_OFF, STEPS_PER_SECOND, TIME_SHIFT, VELOCITY, describe, encode
from music_transformer.grammar import Grammar
from music_transformer.score import Score
from music_transformer.splice import Cut, cut, joined, new_part
from music_transformer.vocabulary import as_ids

if TYPE_CHECKING:
    from gpt_core.checkpoint import Checkpoint

MOST_BY_HAND = 2000  # events that may be chosen one by one before they are saved


class NextEvent(NamedTuple):
    """One event that may come next; ``share`` is its probability among all that may, ``pitch`` None if it has none."""

    id: int
    text: str
    share: float
    pitch: int | None


class Draft(NamedTuple):
    """A piece cut at a moment, and events chosen one by one from there on."""

    cut: Cut
    events: list[int]

    @property
    def seconds(self) -> float:
        """Where in the piece the chosen events have arrived."""
        waits = (id - TIME_SHIFT + 1 for id in self.events if TIME_SHIFT <= id < VELOCITY)
        return self.cut.join + sum(waits) / STEPS_PER_SECOND

    def score(self) -> Score:
        """The piece with the chosen events joined on; what still sounds is closed."""
        return joined(self.cut.prompt, new_part(self.cut.ids, self.events), self.cut.join)


def draft(score: Score | None, at: float | None, events: Sequence[int] = ()) -> Draft:
    """Cut a piece (None: nothing) at second ``at`` and lay the chosen events after it; UserError for bad ids."""
    chosen = as_ids(list(events)).tolist()
    if len(chosen) > MOST_BY_HAND:
        raise UserError(f"{len(chosen):,} events were chosen by hand; save after at most {MOST_BY_HAND:,}")
    return Draft(cut(score, at), chosen)


def likeliest(piano: Checkpoint, draft: Draft, count: int = 10) -> list[NextEvent]:
    """The ``count`` likeliest next events after a draft, of those that the grammar lets through, best first."""
    import torch

    ids = torch.tensor([[*draft.cut.ids, *draft.events]])
    window = ids[:, -piano.config.context :].to(piano.model.device)
    with torch.inference_mode():
        logits = piano.model(window)[:, -1].float().cpu()
        allowed = Grammar(prompt_length=len(draft.cut.ids))(ids, logits)
        best = allowed.softmax(-1)[0].topk(min(count, allowed.shape[-1]))
    pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return [
        NextEvent(id, describe(id), share, id % 128 if id < TIME_SHIFT else None) for id, share in pairs if share > 0
    ]


def nats_per_event(piano: Checkpoint, score: Score, join: float = 0.0, most: int = 4096) -> tuple[float, float]:
    """How surprised the model is by the events before and from second ``join`` on: mean nats, NaN where there are none.

    Each event is read after up to a full context and at least half of one (less near the beginning). Only the ``most``
    events around and after the join are read, so that an hour of music does not take minutes.
    """
    import numpy as np

    ids = [BOS, *encode(score)]
    new = _first_from(ids, join)
    first = max(0, min(new - piano.config.context, len(ids) - most))
    nats = _nats(piano, ids[first:])
    before, after = nats[: max(0, new - first - 1)], nats[max(0, new - first - 1) :]
    return tuple(float(np.mean(part)) if len(part) else float("nan") for part in (before, after))  # type: ignore[return-value]


def _first_from(ids: Sequence[int], join: float) -> int:
    """The index of the first event that acts after second ``join``."""
    step, limit = 0, round(join * STEPS_PER_SECOND)
    for i, id in enumerate(ids):
        step += id - TIME_SHIFT + 1 if TIME_SHIFT <= id < VELOCITY else 0
        if step > limit or (step == limit and (id < NOTE_OFF or VELOCITY <= id < BOS)):
            return max(1, i)
    return len(ids)


def _nats(piano: Checkpoint, ids: Sequence[int]) -> list[float]:
    """Nats of ids[1:], each read once, in windows that overlap by half a context."""
    import torch
    import torch.nn.functional as F

    context = piano.config.context
    out: list[float] = []
    for start in range(0, max(1, len(ids) - 1), context // 2):
        window = torch.tensor([ids[start : start + context + 1]], device=piano.model.device)
        if window.shape[1] < 2:
            break
        with torch.inference_mode():
            logits = piano.model(window[:, :-1]).float()
        nats = F.cross_entropy(logits[0], window[0, 1:], reduction="none").tolist()
        out += nats[len(out) - start :]
        if start + context + 1 >= len(ids):
            break
    return out
