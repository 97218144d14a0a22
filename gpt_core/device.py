"""Which device to use, in which precision, and two settings of the machine that make training faster."""

from __future__ import annotations

import ctypes
import sys

import torch

from gpt_core.errors import UserError


def choose_device(wish: str = "auto") -> torch.device:
    """Return the device for ``auto`` (cuda, else mps, else cpu) or for a wish; an absent one is refused."""
    if wish == "auto":
        wish = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    if wish == "cuda" and not torch.cuda.is_available():
        raise UserError("no CUDA device is here; use --device cpu (or auto)")
    if wish == "mps" and not torch.backends.mps.is_available():
        raise UserError("no Apple GPU is here; use --device cpu (or auto)")
    return torch.device(wish)


def fast_bf16(device: torch.device) -> bool:
    """Say whether bf16 matrix products are faster than fp32 ones there; without bf16 units a CPU is far slower at them."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported()
    if device.type == "cpu":
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported()) and torch.cpu._is_avx512_bf16_supported()
    return False


def keep_large_blocks() -> None:
    """Tell glibc to keep freed memory: by default every activation is given back and page-faulted in again."""
    if not sys.platform.startswith("linux"):
        return
    try:
        libc = ctypes.CDLL(None)
        m_mmap_max, m_trim_threshold, m_top_pad = -4, -1, -2
        libc.mallopt(m_mmap_max, 0)
        libc.mallopt(m_trim_threshold, 2**31 - 1)
        libc.mallopt(m_top_pad, 256 << 20)
    except (OSError, AttributeError):  # another C library: nothing to set
        return
