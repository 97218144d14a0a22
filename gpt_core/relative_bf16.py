"""The same blocks as :mod:`gpt_core.relative` for bf16 training on a CPU: products in bf16, scores and sums in fp32."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gpt_core import relative_blocks
from gpt_core.relative_blocks import numbers, spans, two_ways


def relative_attention_bf16(q: Tensor, k: Tensor, v: Tensor, table: Tensor) -> Tensor:
    """Return softmax((q·kᵀ + S_rel) / √D, causal) · v for q, k, v [B, H, T, D] in bf16, as [B, H, T, D] in bf16.

    Row c of ``table`` [H, T, D] belongs to distance T-1-c. For the gradients, B·H·T·(T + 128) / 2 weights are kept.
    """
    out: Tensor = _Attention.apply(q, k, v, table.to(torch.bfloat16))
    return out


class _Attention(torch.autograd.Function):
    """Forward and backward; the names of the gradients are those of their tensors with a d before them."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, table: Tensor) -> Tensor:
        batch, heads, length, size = q.shape
        q, k, v = (q / math.sqrt(size)).contiguous(), k.contiguous(), v.contiguous()
        out = torch.empty_like(q)
        future = torch.ones(relative_blocks.BLOCK, relative_blocks.BLOCK, dtype=torch.bool).triu_(1)
        kept = []
        for start, stop in spans(length):
            n = stop - start
            by_distance, by_key = two_ways(q.new_zeros(numbers(heads, start, stop)), heads, start, stop)
            weights = q.new_empty(batch, heads, n, stop)
            for b in range(batch):
                mine = q[b, :, start:stop]
                by_distance.copy_(torch.bmm(mine, table[:, length - stop :].mT))
                w = torch.bmm(mine, k[b, :, :stop].mT).float().add_(by_key)
                w[..., start:].masked_fill_(future[:n, :n], float("-inf"))
                w.sub_(w.amax(-1, keepdim=True)).exp_()
                weights[b] = w.div_(w.sum(-1, keepdim=True))
                out[b, :, start:stop] = torch.bmm(weights[b], v[b, :, :stop])
            kept.append(weights)
        ctx.save_for_backward(q, k, v, table, out, *kept)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dout: Tensor) -> tuple[Tensor, ...]:
        q, k, v, table, out, *kept = ctx.saved_tensors
        batch, heads, length, size = q.shape
        dout = dout.contiguous()
        along = (dout.float() * out.float()).sum(-1, keepdim=True)
        dq, dk, dv = (torch.zeros_like(q, dtype=torch.float32) for _ in range(3))
        dtable = torch.zeros_like(table, dtype=torch.float32)
        for (start, stop), weights in zip(spans(length), kept, strict=True):
            # What lies between the rows stays zero: it is read by distance.
            skewed, by_key = two_ways(q.new_zeros(numbers(heads, start, stop)), heads, start, stop)
            for b in range(batch):
                w, mine, dmine = weights[b], q[b, :, start:stop], dout[b, :, start:stop]
                dv[b, :, :stop] += torch.bmm(w.mT, dmine)
                dscores = torch.bmm(dmine, v[b, :, :stop].mT).float().sub_(along[b, :, start:stop]).mul_(w).bfloat16()
                dk[b, :, :stop] += torch.bmm(dscores.mT, mine)
                by_key.copy_(dscores)
                by_distance = skewed.contiguous()
                dtable[:, length - stop :] += torch.bmm(by_distance.mT, mine)
                dq[b, :, start:stop] = torch.bmm(dscores, k[b, :, :stop])
                dq[b, :, start:stop] += torch.bmm(by_distance, table[:, length - stop :])
        return (dq / math.sqrt(size)).bfloat16(), dk.bfloat16(), dv.bfloat16(), dtable.bfloat16()
