"""Logit lens: what the model would predict if it stopped after any of its layers."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from gpt_core.attention import Trace
from gpt_core.errors import UserError
from gpt_core.model import GPT


@dataclass(frozen=True)
class Guess:
    """The likeliest next ids after ``layer`` blocks, and where the id that really follows stands (rank 1 = first)."""

    layer: int
    ids: list[int]
    probabilities: list[float]
    next_rank: int | None = None
    next_probability: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return JSON types."""
        return asdict(self)


@torch.no_grad()
def lens(model: GPT, trace: Trace, layer: int) -> Tensor:
    """Return logits [Q, V] read from the stream after ``layer`` blocks: 0 is the embedding, ``n_layer`` the model.

    The final norm is applied at every layer; without it the early layers' logits have no meaningful scale.
    Source: nostalgebraist 2020, "interpreting GPT: the logit lens".
    """
    if not 0 <= layer <= model.config.n_layer:
        raise UserError(f"there is no layer {layer}; the lens reads after 0 to {model.config.n_layer} blocks")
    return model.lm_head(model.ln_f(trace.residual[layer][None]))[0]


@torch.no_grad()
def guesses(model: GPT, trace: Trace, position: int, top: int = 5) -> list[Guess]:
    """Return, layer by layer, what the model would let follow the token at ``position``."""
    here = trace.queries
    if position not in here:
        raise UserError(f"there is no token {position}; this trace has tokens {here.start} to {here.stop - 1}")
    follows = int(trace.ids[position + 1]) if position + 1 < trace.length else None
    stream = torch.stack([x[position - here.start] for x in trace.residual])  # (n_layer + 1, C)
    probability = model.lm_head(model.ln_f(stream)).float().softmax(-1)
    return [_guess(layer, row, top, follows) for layer, row in enumerate(probability)]


def _guess(layer: int, probability: Tensor, top: int, follows: int | None) -> Guess:
    best = probability.topk(min(top, len(probability)))
    ids, shares = best.indices.tolist(), best.values.tolist()
    if follows is None:
        return Guess(layer, ids, shares)
    share = probability[follows]
    return Guess(layer, ids, shares, int((probability > share).sum()) + 1, float(share))
