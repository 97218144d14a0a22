"""Extractive answers: of the sentences that the source has, the one the model finds likeliest as the answer.

A small model that was taught to summarize writes fluent sentences about the wrong thing; asked to choose among true ones it
can only be wrong about which matters. The candidates are scored as the beam search scores its answers.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn.functional import cross_entropy

from gpt_core.cache import KVCache
from gpt_core.model import GPT
from gpt_core.tokens import IGNORE


@torch.inference_mode()
def answer_scores(model: GPT, prompt: Sequence[int], answers: Sequence[Sequence[int]]) -> list[float]:
    """Return the mean log-probability (nats per token, at most 0) of each answer's ids after ``prompt``.

    The prompt is read once. Prompt and longest answer must fit the window.
    """
    cache = KVCache(model.config, device=model.device, capacity=len(prompt) + max(map(len, answers)))
    model(torch.tensor([list(prompt[:-1])], device=model.device), cache=cache)
    longest = max(map(len, answers))
    read = torch.tensor([[prompt[-1], *ids[:-1]] + [0] * (longest - len(ids)) for ids in answers], device=model.device)
    wanted = torch.tensor([[*ids] + [IGNORE] * (longest - len(ids)) for ids in answers], device=model.device)
    logits = model(read, cache=cache.expand(len(answers)))
    nats = cross_entropy(logits.float().flatten(0, 1), wanted.flatten(), ignore_index=IGNORE, reduction="none")
    counts = torch.tensor([len(ids) for ids in answers], device=model.device)
    return (-nats.view_as(wanted).sum(1) / counts).tolist()
