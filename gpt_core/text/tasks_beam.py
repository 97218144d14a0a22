"""Beam search: the likeliest whole answer instead of the likeliest next token.

The generation loop draws one id per row and never goes back; a beam drops rows and copies others, so it has a loop of its
own, on the same cached engine.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gpt_core.errors import UserError
from gpt_core.generate import CachedEngine
from gpt_core.model import GPT


@torch.inference_mode()
def beam_search(
    model: GPT, prompt: Sequence[int], *, beams: int, max_new: int, end: int, length_power: float = 1.0
) -> list[int]:
    """Return the best ids found after ``prompt``, without ``end``: log-probability divided by length^length_power.

    The length counts the end token. ``beams`` unfinished answers are kept at each step; the search ends when none of them
    can still beat the best finished one as it stands, or after ``max_new`` tokens. UserError where the window is too small.
    """
    if beams < 1:
        raise UserError(f"beams is {beams}; give at least 1")
    if len(prompt) + max_new > model.config.context:
        raise UserError(f"{len(prompt)} + {max_new} tokens don't fit the window of {model.config.context}; shorten one")
    engine = CachedEngine(model)
    logits = engine.prefill(torch.tensor([list(prompt)], device=model.device), beams).float()
    answers: list[list[int]] = [[]]
    scores = torch.zeros(1)
    best: tuple[float, list[int]] = (float("-inf"), [])
    for length in range(1, max_new + 1):
        total = scores[:, None] + logits[: len(answers)].log_softmax(-1).cpu()  # (beams, V)
        found, rows, ids = _strongest(total, 2 * beams)
        best = max(
            [
                best,
                *((s / length**length_power, answers[r]) for s, r, i in zip(found, rows, ids, strict=True) if i == end),
            ]
        )
        live = [(s, r, i) for s, r, i in zip(found, rows, ids, strict=True) if i != end][:beams]
        answers = [[*answers[r], i] for _, r, i in live]
        scores = torch.tensor([s for s, _, _ in live])
        if not live or live[0][0] / length**length_power <= best[0]:
            return best[1]
        if length < max_new:
            logits = _read(engine, live, beams)
    left = float(scores[0]) / max_new**length_power
    return answers[0] if left > best[0] else best[1]


def _strongest(total: Tensor, count: int) -> tuple[list[float], list[int], list[int]]:
    """The ``count`` best continuations: their scores, rows and ids."""
    top = total.flatten().topk(min(count, total.numel()))
    at = top.indices
    return top.values.tolist(), (at // total.shape[1]).tolist(), (at % total.shape[1]).tolist()


def _read(engine: CachedEngine, live: Sequence[tuple[float, int, int]], beams: int) -> Tensor:
    """Let each cache row become the one its answer grew from, and read the new ids; spare rows repeat the first."""
    padded = [*live, *[live[0]] * (beams - len(live))]
    rows = torch.tensor([r for _, r, _ in padded])
    cache = engine.cache
    assert cache is not None
    for kept in (*cache.keys, *cache.values):
        kept[:, :, : cache.length] = kept[rows, :, : cache.length]
    return engine.step(torch.tensor([i for _, _, i in padded], device=engine.model.device)).float()
