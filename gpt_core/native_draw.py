"""The draw in one C call: temperature, top_k, top_p and the random number, for the loop around the native step.

It draws the ids that the filters of :mod:`gpt_core.sampling` draw; what it can't do, they do.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import torch
from torch import Generator, Tensor

from gpt_core.native_build import library
from gpt_core.sampling import Sampling, sample, uniforms

Draw = Callable[[Tensor, Sequence[Generator] | None], Tensor]  # (logits [B, V], generators) -> ids [B]


class _Wanted(ctypes.Structure):  # mirrors draw.h
    _fields_ = [("top_k", ctypes.c_int32), ("temperature", ctypes.c_float), ("top_p", ctypes.c_double)]


def native_draw(sampling: Sampling) -> Draw | None:
    """Return a function that filters as ``sampling`` says and draws; None for settings only the filters know."""
    lib, s = library(), sampling
    if (
        isinstance(lib, str)
        or ctypes.c_float(s.temperature).value == 0.0
        or s.min_p > 0.0
        or s.repetition_penalty != 1.0
    ):
        return None
    wanted = _Wanted(s.top_k, s.temperature, s.top_p)
    at, call = ctypes.addressof(wanted), lib.mt_draw

    def draw(logits: Tensor, generators: Sequence[Generator] | None = None) -> Tensor:
        rows, vocab = logits.shape
        x, out = logits.float().contiguous(), torch.empty(rows, dtype=torch.long)
        numbers = uniforms(rows, generators)
        if call(x.data_ptr(), rows, vocab, at, numbers.data_ptr(), out.data_ptr()):
            return sample(logits, generators)  # it says what is wrong
        return out

    draw.wanted = wanted  # type: ignore[attr-defined]  # lives as long as the function
    return draw
