"""Evaluate: the negative log-likelihood of held-out tokens, in nats."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

from gpt_core import distributed
from gpt_core.errors import UserError
from gpt_core.model import GPT
from gpt_core.tokens import Shard, windows


@dataclass(frozen=True)
class Protocol:
    """How windows are laid: stride 0 = half the context; ``min_context`` leaves out targets with less before them.

    ``share`` (i, n) reads every n-th window from the i-th on.
    """

    context: int = 0
    stride: int = 0
    min_context: int = 0
    limit: int | None = None
    batch: int = 8
    share: tuple[int, int] = (0, 1)


def scored(model: GPT, shard: Shard, protocol: Protocol) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (targets, nats) [N] for each window: every token once, with stride..context tokens before it (bar the first).

    Fixed-stride scoring as in Music Transformer's and GPT-2's evaluations; the model is read in eval mode. Tokens that a
    loss mask leaves out are read and not scored.
    """
    context = protocol.context or model.config.context
    stride = protocol.stride or max(1, context // 2)
    group: list[tuple[np.ndarray, np.ndarray]] = []
    plan = zip(
        windows(shard, context, stride, protocol.limit), _marks(shard, context, stride, protocol.limit), strict=False
    )
    for (ids, first), mark in itertools.islice(plan, protocol.share[0], None, protocol.share[1]):
        chosen = np.arange(len(ids) - 1) >= max(first, protocol.min_context)
        if mark is not None:
            chosen &= mark[1:] > 0
        if not chosen.any():
            continue
        if group and (len(group) == protocol.batch or len(group[0][0]) != len(ids)):
            yield from _score(model, group)
            group = []
        group.append((ids, chosen))
    if group:
        yield from _score(model, group)


def _marks(shard: Shard, context: int, stride: int, limit: int | None) -> Iterator[np.ndarray | None]:
    """The loss mask in the same windows as the ids."""
    if shard.mask is None:
        return itertools.repeat(None)
    return (mark for mark, _ in windows(Shard(shard.mask, shard.offsets), context, stride, limit))


def _score(model: GPT, group: list[tuple[np.ndarray, np.ndarray]]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    was_training = model.training
    model.eval()
    ids = torch.from_numpy(np.stack([i for i, _ in group])).to(model.device)
    with torch.inference_mode():
        logits = model(ids[:, :-1]).float()
        nats = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
    model.train(was_training)
    rows = nats.view(len(group), -1).double().cpu().numpy()
    for (window, chosen), row in zip(group, rows, strict=True):
        yield window[1:][chosen], row[chosen]


def nats_per_token(model: GPT, shard: Shard, protocol: Protocol) -> float:
    """Return the mean over all scored tokens (and over all processes, each of which reads its share)."""
    total, count = 0.0, 0
    mine = dataclasses.replace(protocol, share=(distributed.rank(), distributed.world_size()))
    for _, nats in scored(model, shard, mine):
        total, count = total + float(nats.sum()), count + len(nats)
    both = distributed.total(torch.tensor([total, count], dtype=torch.float64))
    if not both[1]:
        raise UserError("there is nothing to score: no piece is longer than 1 token and the least context asked for")
    return float(both[0] / both[1])
