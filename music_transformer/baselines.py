"""Baselines in the music model's own measures: uniform guessing and the n-gram model, in nats per event, note and second."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gpt_core.errors import UserError
from music_transformer.evaluation import Tally
from music_transformer.ngram import NGram
from music_transformer.vocabulary import VOCAB_SIZE

if TYPE_CHECKING:
    from gpt_core.tokens import Shard


def count_ngrams(train: Shard, order: int = 5) -> NGram:
    """Count the n-grams of a train split (23 million events: about 1 GB while counting)."""
    return NGram((train.piece(i) for i in range(len(train))), order)


def ngram_rates(model: NGram, shard: Shard, min_context: int = 0) -> dict[str, Any]:
    """Score every piece of a split; events with fewer than ``min_context`` before them in their piece are left out."""
    tally = Tally()
    for i in range(len(shard)):
        ids = shard.piece(i)
        if len(ids) > max(min_context, 1):
            tally.add(ids[1:][min_context:], model.nats(ids)[min_context:])
    return _checked(tally, min_context)


def uniform_rates(shard: Shard, min_context: int = 0) -> dict[str, Any]:
    """The rates of knowing nothing: every one of the 391 ids equally likely, ln 391 = 5.969 nats per event."""
    tally = Tally()
    for i in range(len(shard)):
        targets = shard.piece(i)[1:][min_context:]
        tally.add(targets, np.full(len(targets), np.log(VOCAB_SIZE)))
    return _checked(tally, min_context)


def _checked(tally: Tally, min_context: int) -> dict[str, Any]:
    if not tally.events:
        raise UserError(f"no event has {min_context} events before it; score with a smaller least context")
    return tally.rates()
