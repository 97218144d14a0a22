"""The native engine: a model's weights packed for native/step.cpp, and one C call per column of ids."""

from __future__ import annotations

import contextlib
import ctypes
import math
import mmap
import os
from ctypes import c_float, c_int32, c_void_p
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from gpt_core.cache import KVCache
from gpt_core.config import GPTConfig
from gpt_core.model import GPT, Block
from gpt_core.native_build import library
from gpt_core.packing import Shelf

KINDS = ("fp32", "bf16", "int8")  # how weights are stored; sums run in fp32 always
PANEL = 32
_MOST_THREADS = 8
_BYTES_PER_THREAD = 1_000_000  # of weights: below, another thread costs more than it brings
_ORDERS = {
    "position": ("none", "learned", "rotary", "relative"),
    "norm": ("layer", "rms"),
    "activation": ("gelu_tanh", "gelu", "relu", "relu2"),
}


class _Linear(ctypes.Structure):
    _fields_ = [("weight", c_void_p), ("scale", c_void_p), ("bias", c_void_p)]


class _Layer(ctypes.Structure):
    _fields_ = [
        *((name, _Linear) for name in ("c_attn", "c_proj", "c_fc", "c_out")),
        *((name, c_void_p) for name in ("gain_1", "shift_1", "gain_2", "shift_2", "relative")),
    ]


_INTEGERS = (
    "kind", "layers", "heads", "width", "head", "vocab", "position", "norm", "activation", "qk_norm", "embed_norm",
    "distances",
)  # fmt: skip


class _Model(ctypes.Structure):
    _fields_ = [
        *((name, c_int32) for name in _INTEGERS),
        ("eps", c_float),
        *((name, c_void_p) for name in ("wte", "wpe", "cos", "sin", "gain_f", "shift_f")),
        ("head_out", _Linear),
        ("layer", ctypes.POINTER(_Layer)),
    ]


class _Request(ctypes.Structure):
    _fields_ = [
        *((name, c_int32) for name in ("takes", "shared", "capacity")),
        *((name, c_void_p) for name in ("shared_keys", "keys", "shared_values", "values", "scratch")),
    ]


def _up(n: int) -> int:
    return -(-n // PANEL) * PANEL


def panels(rows: Tensor) -> Tensor:
    """Lay rows [..., N, D] out as panels [..., N/32, D, 32], N filled up with zeros."""
    filled = F.pad(rows, (0, 0, 0, _up(rows.shape[-2]) - rows.shape[-2]))
    return filled.unflatten(-2, (-1, PANEL)).transpose(-1, -2).contiguous()


class Arena:
    """Memory for all weights in one piece, in pages of 2 MB where the system has them: 4 KB ones cost look-ups."""

    def __init__(self, size: int) -> None:
        if hasattr(mmap, "MADV_HUGEPAGE"):
            self.block = mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            with contextlib.suppress(OSError):  # a kernel without them
                self.block.madvise(mmap.MADV_HUGEPAGE)
        else:
            self.block = mmap.mmap(-1, max(size, 1))
        self.used = 0

    def copy(self, tensor: Tensor) -> Tensor:
        """Return a copy that lies here, or the tensor itself where no room is left."""
        if self.used + tensor.nbytes > len(self.block):
            return tensor
        mine = torch.frombuffer(self.block, dtype=tensor.dtype, count=tensor.numel(), offset=self.used)
        self.used += -(-tensor.nbytes // 64) * 64
        return mine.view(tensor.shape).copy_(tensor)


class Packed:
    """A model's weights as step.cpp reads them. Holds no reference to the model, and nothing of any request."""

    def __init__(self, model: GPT, kind: str, lib: ctypes.CDLL) -> None:
        self.kind, self.lib, self.config = kind, lib, model.config
        self.kept: list[Tensor] = []  # keeps the memory alive that the structs point to
        self.arena = Arena(self._size(model))
        self.path = lib.mt_path(os.environ.get("GPT_CORE_NATIVE_PATH", "").encode())
        if self.path < 0:
            raise ValueError(f"this machine can't run {os.environ['GPT_CORE_NATIVE_PATH']!r}")
        self._layers = (_Layer * model.config.n_layer)(
            *[self._layer(block) for block in cast("list[Block]", list(model.h))]
        )
        self.struct = self._model(model)
        self.threads = self._threads()

    @property
    def path_name(self) -> str:
        """The instruction set in use."""
        return str(self.lib.mt_path_name(self.path).decode())

    def _threads(self) -> int:
        size = sum(t.nbytes for t in self.kept)
        return max(1, min(torch.get_num_threads(), _MOST_THREADS, size // _BYTES_PER_THREAD))

    def _keep(self, tensor: Tensor | None) -> int | None:
        if tensor is None:
            return None
        self.kept.append(tensor.detach().contiguous())
        return self.kept[-1].data_ptr()

    def _size(self, model: GPT) -> int:
        """Bytes of all matrices."""
        size = {"fp32": 4, "bf16": 2, "int8": 1}[self.kind]
        matrices = (m.weight for m in model.modules() if isinstance(m, torch.nn.Linear))
        return sum(-(-_up(len(w)) * w.shape[1] * size // 64) * 64 for w in matrices)

    def _linear(self, layer: torch.nn.Linear) -> _Linear:
        weight, scale = layer.weight.detach().float(), None
        if self.kind == "int8":
            scale = weight.abs().amax(1).clamp_min(1e-30) / 127
            packed = panels((weight / scale[:, None]).round().to(torch.int8))
            scale = F.pad(scale, (0, _up(len(scale)) - len(scale)))
        elif self.kind == "bf16":  # outputs j and j + 16 share a word
            packed = panels(weight.bfloat16()).unflatten(-1, (2, PANEL // 2)).transpose(-1, -2)
        else:
            packed = panels(weight)
        bias = None if layer.bias is None else F.pad(layer.bias.detach().float(), (0, _up(len(weight)) - len(weight)))
        return _Linear(self._keep(self.arena.copy(packed)), self._keep(scale), self._keep(bias))

    def _norm(self, norm: torch.nn.Module) -> tuple[int | None, int | None]:
        return self._keep(getattr(norm, "weight", None)), self._keep(getattr(norm, "bias", None))

    def _layer(self, block: Block) -> _Layer:
        attn, mlp = block.attn, block.mlp
        linears = [self._linear(linear) for linear in (attn.c_attn, attn.c_proj, mlp.c_fc, mlp.c_proj)]
        relative = getattr(attn, "rel", None)
        relative = None if relative is None else self._keep(panels(relative.detach()))
        return _Layer(*linears, *self._norm(block.ln_1), *self._norm(block.ln_2), relative)

    def _model(self, model: GPT) -> _Model:
        c = model.config
        orders = [order.index(getattr(c, name)) for name, order in _ORDERS.items()]
        wpe = model.wpe.weight if c.position == "learned" else None
        cos, sin = (model.cos, model.sin) if c.position == "rotary" else (None, None)
        tables = [self._keep(cast("Tensor | None", t)) for t in (model.wte.weight, wpe, cos, sin)]
        return _Model(
            KINDS.index(self.kind), c.n_layer, c.n_head, c.n_embd, c.head_size, c.vocab_size, *orders, c.qk_norm,
            c.embed_norm, c.distances, c.norm_eps, *tables, *self._norm(model.ln_f), self._linear(model.lm_head),
            self._layers,
        )  # fmt: skip


class NativeEngine:
    """One request: PyTorch reads the window, then each column is one C call. See :class:`gpt_core.generate.Engine`."""

    def __init__(self, model: GPT, packed: Packed) -> None:
        self.model, self.packed, self.config = model, packed, model.config
        self.length = 0
        self.name = f"native, {packed.kind}, {packed.path_name}, {packed.threads} thread{'s' * (packed.threads > 1)}"

    def prefill(self, window: Tensor, takes: int) -> Tensor:
        """Forget everything, read window [B, T]; a single row is read once and copied to ``takes`` rows."""
        cache = KVCache(self.config, len(window), capacity=window.shape[1])
        logits = self.model(window, cache, last_only=True)[:, -1]
        alike = len(window) == 1 < takes  # then whole panels of what all takes have read are stored once
        self._prepare(max(takes, len(window)), cache.length // PANEL * PANEL if alike else 0)
        self._copy(cache)
        self.length = cache.length
        return logits.expand(max(takes, len(window)), -1)

    def step(self, column: Tensor) -> Tensor:
        """Read one more column [B] and return the next logits [B, V]."""
        if self.length >= self.config.context:
            raise IndexError(f"the model reads {self.config.context} tokens; prefill a shorter window")
        ids = column.contiguous()
        out = torch.empty(self.takes, self.config.vocab_size)
        p = self.packed
        p.lib.mt_step(p.path, self._model_at, self._request_at, ids.data_ptr(), self.length, out.data_ptr(), p.threads)
        self.length += 1
        return out

    def _prepare(self, takes: int, shared: int) -> None:
        """Reserve memory; what is never written to is never taken from the system."""
        c, self.takes, self.shared = self.config, takes, shared
        capacity = _up(c.context - shared)
        self._room = [self._rows(1, shared), self._rows(takes, capacity)]
        (shared_keys, shared_values), (keys, values) = self._room
        self._model_at = ctypes.addressof(self.packed.struct)
        scratch = torch.zeros(self.packed.lib.mt_scratch(self._model_at, takes, shared + capacity))
        self._kept = (shared_keys, keys, shared_values, values, scratch)
        self._request = _Request(takes, shared, capacity, *(t.data_ptr() for t in self._kept))
        self._request_at = ctypes.addressof(self._request)

    def _rows(self, takes: int, positions: int) -> tuple[Tensor, Tensor]:
        c = self.config
        rows, lanes = (c.n_layer, takes, c.n_head), _up(c.head_size)
        keys = torch.empty(*rows, positions // PANEL, c.head_size, PANEL)
        return keys, torch.zeros(*rows, lanes // PANEL, positions, PANEL)

    def _copy(self, cache: KVCache) -> None:
        """Lay out the first positions of the cache as shared ones, the others as each take's own."""
        for (keys, values), part in zip(
            self._room, (slice(self.shared), slice(self.shared, cache.length)), strict=True
        ):
            if part.stop == (part.start or 0):
                continue
            lanes = values.shape[3] * PANEL - self.config.head_size
            for layer, (k, v) in enumerate(zip(cache.keys, cache.values, strict=True)):
                packed = panels(k[:, :, part])
                keys[layer][:, :, : packed.shape[2]] = packed
                wide = F.pad(v[:, :, part], (0, lanes)).unflatten(-1, (-1, PANEL)).transpose(2, 3)
                values[layer][:, :, :, : wide.shape[3]] = wide


_packed: Shelf[Packed | str] = Shelf()


def native_engine(model: GPT, kind: str = "fp32") -> NativeEngine | str:
    """Return an engine for one request, or a sentence that says why there is none.

    The weights are packed once per model and again after they changed; the first time, the step is compared with the
    model itself.
    """
    if model.device.type != "cpu" or model.wte.weight.dtype != torch.float32:
        return f"the native step runs fp32 models on the CPU; this one is {model.wte.weight.dtype} on {model.device}"
    lib = library()
    if isinstance(lib, str):
        return lib
    packed = _packed.get(model, kind, lambda: _pack(model, kind, lib))
    return packed if isinstance(packed, str) else NativeEngine(model, packed)


def _pack(model: GPT, kind: str, lib: ctypes.CDLL) -> Packed | str:
    try:
        with torch.inference_mode():
            packed = Packed(model, kind, lib)
            off = _difference(model, packed)
    except ValueError as e:
        return str(e)
    if off <= {"fp32": 1e-4, "bf16": 0.1, "int8": 0.2}[kind]:
        return packed
    return f"the native step ({packed.path_name}) does not give the model's own logits here (off by {off:.2g})"


def _difference(model: GPT, packed: Packed) -> float:
    """Largest distance of native logits from the model's, in units of the largest logit, over a few ids."""
    c: GPTConfig = model.config
    length = min(6, c.context)
    if length < 2:
        return 0.0
    ids = (torch.arange(2 * length).view(2, -1) * 7 + 1) % c.vocab_size
    engine = NativeEngine(model, packed)
    engine.prefill(ids[:, :1], 2)
    for n in range(1, length):
        logits = engine.step(ids[:, n])
    wanted = model(ids)[:, -1]
    finite = wanted.isfinite()
    if not torch.equal(finite, logits.isfinite()):
        return math.inf
    scale = wanted[finite].abs().amax().clamp_min(1.0) if finite.any() else 1.0
    return float((logits - wanted)[finite].abs().amax() / scale) if finite.any() else 0.0
