"""Causal attention in bf16 on a CPU with matrix tiles (AMX), forward and backward, for training: native/attention.cpp.

The softmax and all sums run in fp32; a row's weights are made again in the backward pass instead of kept (FlashAttention,
Dao et al. 2022). PyTorch's own attention answers on every other machine, and where no gradient is asked for.
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor

from gpt_core.native_build import library

_SHORTEST = 64  # positions; below, packing costs more than the products


class _View(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("batch", "head", "row")),
    ]


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def ready() -> bool:
    """Say whether this machine can: an x86 CPU with AMX in bf16, a system that lets us use it, a compiler."""
    return _library() is not None


def _library() -> ctypes.CDLL | None:
    if not torch.cpu._is_amx_tile_supported():  # most machines: nothing is built there
        return None
    found = library("attention")
    return None if isinstance(found, str) or not found.attention_ready() else found


def takes(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Say whether :func:`causal_attention` is for these: whole sequences in bf16 on such a CPU, to be trained."""
    if q.device.type != "cpu" or q.dtype != torch.bfloat16 or not torch.is_grad_enabled():
        return False
    alike = q.shape == k.shape == v.shape and k.dtype == v.dtype == q.dtype
    return alike and q.shape[2] >= _SHORTEST and q.shape[3] % 16 == 0 and ready()


def causal_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Return softmax(q·kᵀ / √D, causal) · v for q, k, v [B, H, T, D] in bf16, as [B, H, T, D] in bf16; D is a multiple of 16."""
    out: Tensor = _forward(q, k, v)[0]
    return out


def _call(name: str, tensors: list[Tensor], log_sums: Tensor) -> None:
    lib = _library()
    if lib is None:
        raise RuntimeError("this machine has no matrix tiles (AMX)")
    views = (_View * len(tensors))(*[_View(x.data_ptr(), *x.stride()[:3]) for x in tensors])
    shape = (ctypes.c_int64 * 4)(*tensors[0].shape)
    if getattr(lib, name)(views, log_sums.data_ptr(), shape, torch.get_num_threads()):
        raise MemoryError(f"no memory for attention over {list(tensors[0].shape)}")


def _like(q: Tensor) -> Tensor:
    """Return an empty [B, H, T, D] that lies in memory as [B, T, H, D], as the projections around it want it."""
    batch, heads, length, size = q.shape
    return q.new_empty(batch, length, heads, size).transpose(1, 2)


def _rows(x: Tensor) -> Tensor:
    return x if x.stride(-1) == 1 else x.contiguous()


@torch.library.custom_op(
    "gpt_core::causal_attention", mutates_args=(), schema="(Tensor q, Tensor k, Tensor v) -> (Tensor, Tensor)"
)
def _forward(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Return the output and, per query, the base-2 log of the sum of its weights, [B, H, T] in fp32."""
    out, log_sums = _like(q), q.new_empty(q.shape[:3], dtype=torch.float32)
    _call("attention_forward", [_rows(q), _rows(k), _rows(v), out], log_sums)
    return out, log_sums


@torch.library.custom_op(
    "gpt_core::causal_attention_backward",
    mutates_args=(),
    schema="(Tensor q, Tensor k, Tensor v, Tensor out, Tensor log_sums, Tensor dout) -> (Tensor, Tensor, Tensor)",
)
def _backward(
    q: Tensor, k: Tensor, v: Tensor, out: Tensor, log_sums: Tensor, dout: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of q, k and v."""
    gradients = _like(q), _like(q), _like(q)
    _call("attention_backward", [*map(_rows, (q, k, v, out, dout)), *gradients], log_sums)
    return gradients


@_forward.register_fake
def _(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    return _like(q), q.new_empty(q.shape[:3], dtype=torch.float32)


@_backward.register_fake
def _(q: Tensor, *rest: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return _like(q), _like(q), _like(q)


def _keep(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(*inputs, *output)


def _gradients(ctx: Any, dout: Tensor, _: Tensor) -> tuple[Tensor, ...]:
    gradients: tuple[Tensor, ...] = _backward(*ctx.saved_tensors, dout)
    return gradients


_forward.register_autograd(_gradients, setup_context=_keep)
