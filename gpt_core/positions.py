"""Positions: rotary angles and the relative logits of Music Transformer, both as pure functions."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def rotary_table(length: int, head_size: int, base: float = 10000.0) -> tuple[Tensor, Tensor]:
    """Return cosines and sines [length, head_size / 2] of the rotary angles (Su et al. 2021, section 3.2.2)."""
    frequency = base ** (-torch.arange(0, head_size, 2, dtype=torch.float32) / head_size)
    angle = torch.arange(length, dtype=torch.float32)[:, None] * frequency
    return angle.cos(), angle.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate each pair (x[i], x[i + D/2]) of x [..., T, D] by its position's angle; cos, sin are [T, D/2]."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1).to(x.dtype)


def relative_logits(q: Tensor, embedding: Tensor, n_keys: int) -> Tensor:
    """Return S_rel [B, H, T, K]: query i against the embedding of its distance to key j, by skewing.

    ``q`` [B, H, T, D] are the last T of K positions; ``embedding`` [H, M, D] holds one row per distance 0..M-1, and
    farther keys share the last row. Entries above the diagonal are meaningless: mask them. Memory beyond the result is
    O(K·D) rather than O(T·K·D) (Huang et al. 2018, section 3.4.1).
    """
    n_queries = q.shape[-2]
    distance = torch.arange(n_keys - 1, -1, -1, device=q.device).clamp_(max=embedding.shape[1] - 1)
    by_distance = q @ embedding[:, distance].transpose(-1, -2)  # (B, H, T, K), column c = distance K-1-c
    padded = F.pad(by_distance, (1, 0)).flatten(-2)  # row i now starts i places late:
    return padded[..., n_queries:].unflatten(-1, (n_queries, n_keys))  # cutting T places skews it into place


def relative_logits_naive(q: Tensor, embedding: Tensor, n_keys: int) -> Tensor:
    """Return the same logits by gathering an embedding per pair, O(T·K·D) memory: Shaw et al. 2018, kept to compare."""
    n_queries = q.shape[-2]
    i = torch.arange(n_keys - n_queries, n_keys, device=q.device)[:, None]
    j = torch.arange(n_keys, device=q.device)[None, :]
    distance = (i - j).clamp(0, embedding.shape[1] - 1)
    return torch.einsum("bhtd,htkd->bhtk", q, embedding[:, distance])
