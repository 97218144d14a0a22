"""Sampling: from logits to one id per row, by pure filters and one uniform number.

A filter takes logits [B, V] and returns logits [B, V] with the unwanted ids at -inf. Among equal logits the lowest id
counts as the likelier one, everywhere: so ``top_k=1``, ``top_p=0`` and ``temperature=0`` name the same id.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gpt_core.errors import UserError
from gpt_core.options import check, option

if TYPE_CHECKING:
    from torch import Generator, Tensor

    Filter = Callable[[Tensor, Tensor], Tensor]  # (ids so far [B, T], logits [B, V]) -> logits [B, V]

_LOOKS = (256, 4096)  # top_p nearly always ends among so many ids; a full sort of 50,257 takes 50 times as long
_NONE = float("-inf")


@dataclasses.dataclass(frozen=True)
class Sampling:
    """How an id is drawn from the logits. The seed is not here: it belongs to the generators."""

    temperature: float = option(
        1.0, "how adventurous: 0 always takes the likeliest id, 1 follows the model, more is wilder", low=0.0, high=10.0
    )
    top_k: int = option(0, "draw only from this many likeliest ids; 0 is off", low=0)
    top_p: float = option(
        1.0, "draw only from the likeliest ids that together reach this probability; 1 is off", low=0.0, high=1.0
    )
    min_p: float = option(
        0.0, "leave out ids less likely than this share of the likeliest; 0 is off", low=0.0, high=1.0
    )
    repetition_penalty: float = option(
        1.0,
        "make ids that were there already less likely (above 1) or likelier (below 1); 1 is off",
        low=0.1,
        high=10.0,
    )
    repetition_window: int = option(0, "how many of the last ids count as there already; 0 is all", low=0)


def filters_from(sampling: Sampling) -> list[Filter]:
    """Return the filters that ``sampling`` asks for, in the usual order.

    The order is repetition, temperature, top_k, top_p, min_p, as in Hugging Face's ``generate``. Whatever forbids ids
    (a grammar) belongs before them, so that k and p count allowed ids only. Raises UserError for values out of range.
    """
    check(sampling)
    s, out = sampling, []
    if s.repetition_penalty != 1.0:
        out.append(lambda ids, logits: repetition(ids, logits, s.repetition_penalty, s.repetition_window))
    if s.temperature != 1.0:
        out.append(lambda ids, logits: temperature(logits, s.temperature))
    if s.temperature == 0.0:
        return out
    if s.top_k > 0 or s.top_p < 1.0:
        out.append(lambda ids, logits: narrow(logits, s.top_k, s.top_p))
    if s.min_p > 0.0:
        out.append(lambda ids, logits: min_p(logits, s.min_p))
    return out


def repetition(ids: Tensor, logits: Tensor, penalty: float, window: int = 0) -> Tensor:
    """Divide the positive and multiply the negative logits of ids already in ``ids`` [B, T] by ``penalty``.

    Each id counts once, however often it was there. ``window`` limits the look back; 0 is no limit.
    Source: Keskar et al. 2019, "CTRL", section 4.1.
    """
    recent = ids[:, -window:] if window else ids
    seen = logits.new_zeros(logits.shape).scatter_(1, recent.to(logits.device), 1.0) > 0
    return logits.where(~seen, (logits / penalty).where(logits > 0, logits * penalty))


def temperature(logits: Tensor, value: float) -> Tensor:
    """Divide the logits by ``value``; 0 lets only the first of the largest survive.

    The largest logit of each row becomes 0 first, so that no temperature, however small, overflows.
    """
    if value == 0.0:
        best = logits.argmax(-1, keepdim=True)
        return logits.new_full(logits.shape, _NONE).scatter_(1, best, logits.gather(1, best))
    peak = logits.amax(-1, keepdim=True).clamp_min(-3e38)  # a row of nothing but -inf stays one
    return (logits - peak) / value


def top_k(logits: Tensor, k: int) -> Tensor:
    """Keep exactly the ``k`` likeliest ids; 0 and anything from V on keep all."""
    return narrow(logits, k=k)


def top_p(logits: Tensor, p: float) -> Tensor:
    """Keep the likeliest ids until their probabilities reach ``p``, the id that crosses it included.

    At least one id stays (``p`` = 0: exactly one); ``p`` = 1 keeps all. Sums run in float64.
    Source: Holtzman et al. 2020, "The Curious Case of Neural Text Degeneration".
    """
    return narrow(logits, p=p)


def narrow(logits: Tensor, k: int = 0, p: float = 1.0) -> Tensor:
    """``top_k``, then ``top_p`` over what it left, at the price of one look through the vocabulary."""
    first_k = 0 < k < logits.shape[-1]
    if not first_k and p >= 1.0:
        return logits
    if p >= 1.0:
        smallest = logits.topk(k).values[:, -1:]
        return _keep_best(logits, smallest, logits.new_full(smallest.shape, k))
    peak = logits.amax(-1, keepdim=True).clamp_min(-3e38)
    if first_k:
        best = logits.topk(k).values
        share = _weights(best, peak)
        share /= share.sum(-1, keepdim=True)
    else:
        best, share = _likeliest(logits, peak, p)
    count = (share.cumsum(-1)[:, :-1] < p).sum(-1, keepdim=True) + 1
    return _keep_best(logits, best.gather(1, count - 1), count)


def _likeliest(logits: Tensor, peak: Tensor, p: float) -> tuple[Tensor, Tensor]:
    """The largest logits of each row, in order, enough of them to reach ``p``, and their probabilities."""
    total = _weights(logits, peak).sum(-1, keepdim=True)
    for size in _LOOKS:
        best = logits.topk(min(size, logits.shape[-1])).values
        share = _weights(best, peak) / total
        if bool((share.sum(-1) > p + 1e-9).all()):
            return best, share
    best = logits.sort(-1, descending=True).values
    return best, _weights(best, peak) / total


def _weights(logits: Tensor, peak: Tensor) -> Tensor:
    return (logits.double() - peak).exp()


def min_p(logits: Tensor, share: float) -> Tensor:
    """Keep the ids at least ``share`` times as likely as the likeliest; 0 keeps all.

    Source: Nguyen et al. 2024, "Turning Up the Heat: Min-p Sampling".
    """
    if share == 0.0:
        return logits
    return logits.masked_fill(logits < logits.amax(-1, keepdim=True) + math.log(share), _NONE)


def _keep_best(logits: Tensor, smallest: Tensor, count: Tensor) -> Tensor:
    """Keep ``count`` [B, 1] ids from ``smallest`` [B, 1] up; of those equal to it the lowest ids come first."""
    kept = logits >= smallest
    if bool((kept.sum(-1, keepdim=True) > count).any()):
        above, tied = logits > smallest, logits == smallest
        kept = above | (tied & (tied.cumsum(-1) <= count - above.sum(-1, keepdim=True)))
    return logits.masked_fill(~kept, _NONE)


def sample(logits: Tensor, generators: Sequence[Generator] | None = None) -> Tensor:
    """Draw one id per row of ``logits`` [B, V]: LongTensor [B].

    Every row takes exactly one uniform number from its own CPU generator, also where a single id survives, so that
    the n-th id of a take rests on the n-th number whatever the settings and whatever runs beside it. The id is the
    first whose cumulative probability, in float64, exceeds that number: an id of probability 0 is never drawn.
    ``None`` draws from torch's global generator. Raises UserError on NaN, on +inf, and on a row without any id.
    """
    cumulative = logits.double().softmax(-1).cumsum(-1)
    total = cumulative[:, -1:]
    if bool(total.isnan().any()):
        raise UserError(_complaint(logits))
    numbers = uniforms(len(logits), generators).to(logits.device)
    return (cumulative <= numbers * total).sum(-1)


def uniforms(rows: int, generators: Sequence[Generator] | None) -> Tensor:
    """Take one number in [0, 1) from each generator, or all from torch's own: float64 [rows, 1]."""
    import torch

    if generators is None:
        return torch.rand((rows, 1), dtype=torch.float64)
    if len(generators) != rows:
        raise UserError(f"there are {rows} takes and {len(generators)} random generators; give one to each take")
    numbers = torch.empty((rows, 1), dtype=torch.float64)
    for row, generator in zip(numbers.unbind(), generators, strict=True):
        row.uniform_(generator=generator)
    return numbers


def _complaint(logits: Tensor) -> str:
    row = int((logits.double().softmax(-1).sum(-1)).isnan().nonzero()[0])
    if bool(logits[row].eq(_NONE).all()):
        return (
            f"no id may follow in take {row + 1}: the settings and rules leave none of {logits.shape[-1]}; loosen one"
        )
    return f"the model's logits in take {row + 1} are not finite numbers; its weights may be damaged"


def generators_for(seed: int, takes: int) -> list[Generator]:
    """Return one CPU generator per take; take i depends on ``(seed, i)`` alone, not on ``takes``.

    Any integer is a seed. Raises UserError for fewer than one take.
    """
    import torch

    if takes < 1:
        raise UserError(f"takes is {takes}; ask for at least 1")
    return [torch.Generator().manual_seed(_mix(seed, take)) for take in range(takes)]


def _mix(seed: int, take: int) -> int:
    digest = hashlib.blake2b(f"{seed} {take}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1  # 63 bits: what manual_seed takes on every platform
