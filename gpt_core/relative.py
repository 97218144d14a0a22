"""Relative self-attention as it is trained on a CPU: exact, block by block, never a whole score matrix (Huang et al. 2018).

A block of queries meets only the keys up to its own end, so almost half of the products are never made, and skewing costs
nothing: scores by distance and scores by key are the same memory, read with rows that are one place apart in length.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

BLOCK = 128  # queries at a time


def takes(q: Tensor, k: Tensor) -> bool:
    """Say whether :func:`relative_attention` is for these: a whole sequence of more than a block, in fp32 or bf16, on a CPU."""
    plain = q.device.type == "cpu" and q.dtype in (torch.float32, torch.bfloat16) and not torch.compiler.is_compiling()
    return plain and BLOCK < q.shape[2] == k.shape[2]


def relative_attention(q: Tensor, k: Tensor, v: Tensor, embedding: Tensor) -> Tensor:
    """Return softmax((q·kᵀ + S_rel) / √D, causal) · v for q, k, v [B, H, T, D], as [B, H, T, D].

    ``embedding`` [H, M, D] holds one row per distance 0..M-1; farther keys share the last row. For the gradients, the
    weights are kept: B·H·T·(T + 3·128) / 2 numbers. bf16 goes to :mod:`gpt_core.relative_bf16`.
    """
    length = q.shape[2]
    distance = torch.arange(length - 1, -1, -1, device=q.device).clamp_(max=embedding.shape[1] - 1)
    table = embedding.index_select(1, distance)  # row c belongs to distance T-1-c
    if q.dtype == torch.bfloat16:
        from gpt_core.relative_bf16 import relative_attention_bf16

        return relative_attention_bf16(q, k, v, table, spans=list(spans(length)))
    trained = torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v, embedding))
    out: Tensor = _Attention.apply(q, k, v, table, trained)
    return out


def spans(length: int) -> Iterator[tuple[int, int]]:
    """First and last + 1 of each block of queries."""
    for start in range(0, length, BLOCK):
        yield start, min(start + BLOCK, length)


def _numbers(heads: int, start: int, stop: int) -> int:
    return heads * (stop - start) * (2 * stop - start)


def _two_ways(memory: Tensor, first: int, heads: int, start: int, stop: int) -> tuple[Tensor, Tensor]:
    """The numbers from ``first`` on as scores [H, n, K] of n queries by distance, and the same scores by key.

    Query i meets key j at column j + n-1-i of the first view, since column c is distance K-1-c: a row of the second view
    is one place shorter. K + n places a row keep the rows apart.
    """
    n, row = stop - start, 2 * stop - start
    by_distance = memory.as_strided((heads, n, stop), (n * row, row + 1, 1), first)
    by_key = memory.as_strided((heads, n, stop), (n * row, row, 1), first + n - 1)
    return by_distance, by_key


class _Attention(torch.autograd.Function):
    """Forward and backward; the names of the gradients are those of their tensors with a d before them."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> Tensor:
        table, trained = rest
        batch, heads, length, size = q.shape
        q = q / math.sqrt(size)
        out = torch.empty_like(q.transpose(1, 2), memory_format=torch.contiguous_format).transpose(1, 2)
        total = q.new_empty(batch, heads, length, 1)
        future = torch.ones(BLOCK, BLOCK, dtype=torch.bool).triu_(1)
        kept = []
        for start, stop in spans(length):
            each = _numbers(heads, start, stop)
            memory = q.new_empty(each * (batch if trained else 1))
            n = stop - start
            for b in range(batch):
                by_distance, w = _two_ways(memory, b * each if trained else 0, heads, start, stop)
                mine = q[b, :, start:stop]
                torch.bmm(mine, table[:, length - stop :].mT, out=by_distance)
                w.baddbmm_(mine, k[b, :, :stop].mT)
                w[..., start:].masked_fill_(future[:n, :n], float("-inf"))
                w.sub_(w.amax(-1, keepdim=True)).exp_()
                torch.sum(w, -1, keepdim=True, out=total[b, :, start:stop])
                torch.bmm(w, v[b, :, :stop], out=out[b, :, start:stop])
            kept += [memory] * trained
        out.div_(total)
        if trained:
            ctx.save_for_backward(q, k, v, table, out, total, *kept)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dout: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, table, out, total, *kept = ctx.saved_tensors
        batch, heads, length, size = q.shape
        dout = dout / total  # the kept weights have not been divided by their sum
        along = (dout * out).sum(-1, keepdim=True)
        dq, dk, dv = q.new_zeros(batch, length, 3, heads, size).permute(2, 0, 3, 1, 4)  # as c_attn wants them
        dtable = torch.zeros_like(table)
        memory = q.new_empty(_numbers(heads, max(length - BLOCK, 0), length))
        scratch = q.new_empty(heads * BLOCK * length)
        for (start, stop), weights in zip(spans(length), kept, strict=True):
            n, each = stop - start, _numbers(heads, start, stop)
            by_distance, dscores = _two_ways(memory, 0, heads, start, stop)
            memory[:each].view(heads, n, n + stop)[..., : n - 1] = 0  # what lies between the rows is read by distance
            dw = scratch[: heads * n * stop].view(heads, n, stop)
            for b in range(batch):
                w = _two_ways(weights, b * each, heads, start, stop)[1]
                mine, dmine = q[b, :, start:stop], dout[b, :, start:stop]
                dv[b, :, :stop].baddbmm_(w.mT, dmine)
                torch.bmm(dmine, v[b, :, :stop].mT, out=dw)
                torch.mul(w, dw.sub_(along[b, :, start:stop]), out=dscores)
                dk[b, :, :stop].baddbmm_(dscores.mT, mine)
                dtable[:, length - stop :].baddbmm_(by_distance.mT, mine)
                torch.bmm(dscores, k[b, :, :stop], out=dq[b, :, start:stop])
                dq[b, :, start:stop].baddbmm_(by_distance, table[:, length - stop :])
        return dq.div_(math.sqrt(size)), dk, dv, dtable, None
