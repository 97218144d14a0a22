"""Relative self-attention as it is trained on a CPU: exact, block by block, never a whole score matrix (Huang et al. 2018).

A block of queries meets only the keys up to its own end, so almost half of the products are never made, and skewing costs
nothing (:mod:`gpt_core.relative_blocks`).
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gpt_core import relative_blocks
from gpt_core.relative_bf16 import relative_attention_bf16
from gpt_core.relative_blocks import numbers, spans, two_ways


def takes(q: Tensor, k: Tensor) -> bool:
    """Say whether :func:`relative_attention` is for these: a whole sequence of more than a block, in fp32 or bf16, on a CPU."""
    plain = q.device.type == "cpu" and q.dtype in (torch.float32, torch.bfloat16) and not torch.compiler.is_compiling()
    return plain and relative_blocks.BLOCK < q.shape[2] == k.shape[2]


def relative_attention(q: Tensor, k: Tensor, v: Tensor, embedding: Tensor) -> Tensor:
    """Return softmax((q·kᵀ + S_rel) / √D, causal) · v for q, k, v [B, H, T, D], as [B, H, T, D].

    ``embedding`` [H, M, D] holds one row per distance 0..M-1; farther keys share the last row. For the gradients, the
    weights are kept: B·H·T·(T + 3·128) / 2 numbers. bf16 goes to :mod:`gpt_core.relative_bf16`.
    """
    length = q.shape[2]
    distance = torch.arange(length - 1, -1, -1, device=q.device).clamp_(max=embedding.shape[1] - 1)
    table = embedding.index_select(1, distance)  # row c belongs to distance T-1-c
    if q.dtype == torch.bfloat16:
        return relative_attention_bf16(q, k, v, table)
    trained = torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v, embedding))
    out: Tensor = _Attention.apply(q, k, v, table, trained)
    return out


class _Attention(torch.autograd.Function):
    """Forward and backward; the names of the gradients are those of their tensors with a d before them."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> Tensor:
        table, trained = rest
        batch, heads, length, size = q.shape
        q = q / math.sqrt(size)
        out = torch.empty_like(q.transpose(1, 2), memory_format=torch.contiguous_format).transpose(1, 2)
        total = q.new_empty(batch, heads, length, 1)
        future = torch.ones(relative_blocks.BLOCK, relative_blocks.BLOCK, dtype=torch.bool).triu_(1)
        kept = []
        for start, stop in spans(length):
            each = numbers(heads, start, stop)
            memory = q.new_empty(each * (batch if trained else 1))
            n = stop - start
            for b in range(batch):
                by_distance, w = two_ways(memory, heads, start, stop, first=b * each if trained else 0)
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
        memory = q.new_empty(numbers(heads, max(length - relative_blocks.BLOCK, 0), length))
        scratch = q.new_empty(heads * relative_blocks.BLOCK * length)
        for (start, stop), weights in zip(spans(length), kept, strict=True):
            n, each = stop - start, numbers(heads, start, stop)
            by_distance, dscores = two_ways(memory, heads, start, stop)
            memory[:each].view(heads, n, n + stop)[..., : n - 1] = 0  # what lies between the rows is read by distance
            dw = scratch[: heads * n * stop].view(heads, n, stop)
            for b in range(batch):
                w = two_ways(weights, heads, start, stop, first=b * each)[1]
                mine, dmine = q[b, :, start:stop], dout[b, :, start:stop]
                dv[b, :, :stop].baddbmm_(w.mT, dmine)
                torch.bmm(dmine, v[b, :, :stop].mT, out=dw)
                torch.mul(w, dw.sub_(along[b, :, start:stop]), out=dscores)
                dk[b, :, :stop].baddbmm_(dscores.mT, mine)
                dtable[:, length - stop :].baddbmm_(by_distance.mT, mine)
                torch.bmm(dscores, k[b, :, :stop], out=dq[b, :, start:stop])
                dq[b, :, start:stop].baddbmm_(by_distance, table[:, length - stop :])
        return dq.div_(math.sqrt(size)), dk, dv, dtable, None
