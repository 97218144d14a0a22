"""Attention: exact softmax rows of any layer, head and query, from the queries and keys of one forward pass.

Training and generation run on fused attention, which never forms the weights. Here they are formed from tapped q and k,
only for the layer and queries asked for: 2,048 tokens × 6 layers × 8 heads are 805 MB dense and never exist at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from gpt_core.cache import KVCache
from gpt_core.config import GPTConfig
from gpt_core.edges import STORED, EdgeRule, Edges, Packed, pack, strongest
from gpt_core.errors import UserError
from gpt_core.model import GPT, Tap
from gpt_core.positions import relative_logits

VIEWS = ("heads", "mean", "max", "rollout")
_CHUNK = 64  # queries at a time: half a megabyte per head at 2,048 keys, which stays in the cache of a CPU core


@dataclass(frozen=True)
class Trace:
    """What one forward pass over ``ids`` [T] left behind, per layer; a thing to compute rows from.

    ``q`` [H, Q, D] are the last Q of T queries as scored (Q = T after :func:`trace`), ``k`` [H, T, D] all keys,
    ``relative`` [H, M, D] the distance embeddings where the model has them, ``residual`` [Q, C] the stream: entry 0
    enters the first block, entry l leaves block l. ``start`` tokens lay before ``ids``, out of the window's reach.
    """

    ids: Tensor
    config: GPTConfig
    start: int = 0
    q: list[Tensor] = field(default_factory=list)
    k: list[Tensor] = field(default_factory=list)
    relative: list[Tensor] = field(default_factory=list)
    residual: list[Tensor] = field(default_factory=list)

    @property
    def length(self) -> int:
        """How many tokens were read."""
        return len(self.ids)

    @property
    def queries(self) -> range:
        """Which positions have a query."""
        return range(self.length - self.q[0].shape[1], self.length)

    @property
    def tap(self) -> Tap:
        """A tap for a forward pass of one sequence that keeps what rows and lenses need, still with its batch of one.

        It is told of every tensor of every step, so it does next to nothing: a step of a small model takes a millisecond.
        """
        kept = {
            "q": self.q.append,
            "k": self.k.append,
            "embedding": self.residual.append,
            "residual": self.residual.append,
        }

        def keep(name: str, layer: int, tensor: Tensor) -> None:
            if name in kept:
                kept[name](tensor)

        return keep


class _Borrowed:
    """One row of someone's cache up to ``length``, read and never written."""

    def __init__(self, cache: KVCache, row: int, length: int) -> None:
        self.length = length
        self.past = [[x[row : row + 1, :, :length] for x in xs] for xs in (cache.keys, cache.values)]

    def append(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        return torch.cat((self.past[0][layer], k), 2), torch.cat((self.past[1][layer], v), 2)

    def advance(self, n: int) -> None:
        """The borrowed cache stays as it is."""


def trace(model: GPT, ids: Tensor) -> Trace:
    """Read ``ids`` [T] once and keep what attention rows are computed from.

    Where T exceeds the context, the last ``context`` tokens are read and ``Trace.start`` counts those out of reach.
    """
    start = max(len(ids) - model.config.context, 0)
    return _run(model, Trace(ids[start:], model.config, start), ids[start:], None)


def trace_cached(model: GPT, ids: Tensor, cache: KVCache, *, row: int = 0, queries: int = 1) -> Trace:
    """The same for the last ``queries`` of ``ids`` [T] at the price of those alone: the keys are in ``cache``.

    ``ids`` are the tokens that row ``row`` of the cache has read, and perhaps a few more; the cache is left untouched.
    """
    known = len(ids) - queries
    if not 0 <= known <= cache.length:
        raise UserError(f"the cache holds {cache.length} tokens; {queries} queries of {len(ids)} need {known}")
    return _run(model, Trace(ids, model.config), ids[known:], _Borrowed(cache, row, known))


def _run(model: GPT, made: Trace, ids: Tensor, cache: _Borrowed | None) -> Trace:
    if not len(ids):
        raise UserError("there are no tokens to look at; give at least one")
    if model.training and model.config.dropout:
        raise UserError("the model drops weights at random while it trains; call model.eval() before looking inside")
    with torch.no_grad():
        model(ids[None].to(model.device), cache, made.tap, last_only=True)  # type: ignore[arg-type]
    for kept in (made.q, made.k, made.residual):
        kept[:] = [tensor[0] for tensor in kept]
    if made.config.position == "relative":
        made.relative.extend(block.attn.rel.detach() for block in model.h)  # type: ignore[union-attr, operator]
    return made


def scores(
    trace: Trace, layer: int, queries: range, heads: Sequence[int] | None = None, *, causal: bool = True
) -> Tensor:
    """Return q·kᵀ/√D [h, n, T] before the softmax, float32, -inf where the mask hides a key.

    ``causal=False`` lifts the mask from these scores, as BERT's attention has none; relative positions know no future.
    """
    if not causal and trace.relative:
        raise UserError("this model has embeddings for distances back only; it can't be shown unmasked")
    reached = _scores(trace, layer, queries, heads, causal)
    return F.pad(reached, (0, trace.length - reached.shape[-1]), value=float("-inf"))


def _scores(trace: Trace, layer: int, queries: range, heads: Sequence[int] | None, causal: bool = True) -> Tensor:
    """The scores of the keys that the last of the queries reaches: [h, n, queries.stop], or [h, n, T] unmasked."""
    _refuse_outside(trace, layer, queries, heads)
    chosen = slice(None) if heads is None else list(heads)
    first, stop = trace.queries.start, queries.stop if causal else trace.length
    q = trace.q[layer][chosen, queries.start - first : queries.stop - first].float()  # (h, n, D)
    q = q / math.sqrt(trace.config.head_size)
    out = q @ trace.k[layer][chosen, :stop].float().transpose(-1, -2)
    if trace.relative:
        out += relative_logits(q[None], trace.relative[layer][chosen].float(), stop)[0]
    if causal:
        n = len(queries)
        future = torch.ones(n, n, dtype=torch.bool, device=q.device).triu(1)
        out[..., queries.start :].masked_fill_(future, float("-inf"))
    return out


def _refuse_outside(trace: Trace, layer: int, queries: range, heads: Sequence[int] | None) -> None:
    here = trace.queries
    if not 0 <= layer < len(trace.q):
        raise UserError(f"there is no layer {layer}; the model has layers 0 to {len(trace.q) - 1}")
    if queries.step != 1 or not here.start <= queries.start < queries.stop <= here.stop:
        asked = f"{queries.start} to {queries.stop - 1}"
        raise UserError(f"there are no queries {asked}; this trace has tokens {here.start} to {here.stop - 1}")
    for head in heads or ():
        if not 0 <= head < trace.config.n_head:
            raise UserError(f"there is no head {head}; the model has heads 0 to {trace.config.n_head - 1}")


def rows(
    trace: Trace, layer: int, queries: range, heads: Sequence[int] | None = None, *, causal: bool = True
) -> Tensor:
    """Return the attention weights [h, n, T] of ``queries``: each row sums to 1, future keys weigh exactly 0."""
    if not causal:
        return scores(trace, layer, queries, heads, causal=False).softmax(-1)
    reached = _rows(trace, layer, queries, heads)
    return F.pad(reached, (0, trace.length - queries.stop))


def _rows(trace: Trace, layer: int, queries: range, heads: Sequence[int] | None = None) -> Tensor:
    return _scores(trace, layer, queries, heads).softmax(-1)


def column(trace: Trace, layer: int, key: int, heads: Sequence[int] | None = None) -> Tensor:
    """Return how strongly each query looks at ``key``: weights [h, T], 0 for queries before it.

    Each row has to be normalised first, so this costs the layer's rows from ``key`` on, a chunk at a time.
    """
    _refuse_outside(trace, layer, range(key, key + 1), heads)
    h = trace.config.n_head if heads is None else len(heads)
    out = torch.zeros(h, trace.length, device=trace.q[0].device)
    for part in _chunks(range(key, trace.length)):
        out[:, part.start : part.stop] = _rows(trace, layer, part, heads)[..., key]
    return out


def blend(trace: Trace, layer: int, queries: range, how: str = "mean") -> Tensor:
    """Return one row [n, T] per query over all heads: their ``mean`` (sums to 1) or ``max`` (sums to 1 or more)."""
    return F.pad(_blend(trace, layer, queries, how), (0, trace.length - queries.stop))


def _blend(trace: Trace, layer: int, queries: range, how: str = "mean") -> Tensor:
    every = _rows(trace, layer, queries)
    return every.amax(0) if how == "max" else every.mean(0)


def rollout(trace: Trace, queries: range, layer: int | None = None) -> Tensor:
    """Return how much of each token reaches ``queries`` through the layers up to ``layer``: rows [n, T] that sum to 1.

    Each layer passes on half by the residual stream and half by its heads' mean attention, and layers multiply
    (Abnar & Zuidema 2020, "Quantifying Attention Flow in Transformers", section 3). ``layer`` defaults to the last.
    """
    top = len(trace.q) - 1 if layer is None else layer
    _refuse_outside(trace, top, queries, None)
    if trace.queries.start:
        raise UserError("rollout needs every query of the piece; read it whole with trace()")
    flow = torch.eye(trace.length, device=trace.q[0].device)[queries.start : queries.stop]
    for l in range(top, -1, -1):
        through = torch.zeros_like(flow)
        for part in _chunks(range(queries.stop)):
            through[:, : part.stop] += flow[:, part.start : part.stop] @ _blend(trace, l, part)
        flow = (flow + through) / 2
    return flow


def _chunks(whole: range) -> Iterator[range]:
    for start in range(whole.start, whole.stop, _CHUNK):
        yield range(start, min(start + _CHUNK, whole.stop))


def edges(trace: Trace, layer: int, head: int, query: int, rule: EdgeRule) -> Edges:
    """Return the strongest edges of one row and how much weight they show and hide."""
    row = rows(trace, layer, range(query, query + 1), [head])[0, 0].cpu().numpy()
    return strongest(range(trace.length), row, rule)


def pack_layer(trace: Trace, layer: int, view: str = "heads", rule: EdgeRule = STORED) -> Packed:
    """Pack every row of a layer: all its heads, or one row per query for their ``mean``, ``max`` or the ``rollout``.

    8 heads of 2,048 tokens are at most 1.14 MB.
    """
    if view not in VIEWS:
        raise UserError(f"view is {view!r}; choose one of {', '.join(VIEWS)}")
    everything = range(trace.length)
    if view == "heads":
        each = [_row_of_head(trace, layer, head) for head in range(trace.config.n_head)]
    elif view == "rollout":
        flow = rollout(trace, everything, layer)
        each = [lambda part: flow[part.start : part.stop]]
    else:
        each = [lambda part: _blend(trace, layer, part, view)]
    chunks = (make(part).cpu().numpy() for make in each for part in _chunks(everything))
    return pack(chunks, len(each), trace.length, rule)


def _row_of_head(trace: Trace, layer: int, head: int) -> Callable[[range], Tensor]:
    return lambda part: _rows(trace, layer, part, [head])[0]
