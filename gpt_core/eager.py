"""The eager engine: a decoding step of few, cheap array operations on the model's own weights; no compiler needed.

One row through PyTorch's modules costs more in calls than in arithmetic. Here NumPy and PyTorch share one memory and each
does what it is quicker at; for the products, which are most of the work, a short trial on this machine decides.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from typing import cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gpt_core.cache import KVCache
from gpt_core.config import GPTConfig
from gpt_core.model import GPT, Block
from gpt_core.packing import Shelf

Array = np.ndarray
Product = Callable[[Array], Array]  # [B, in] -> [B, out]
Shape = tuple[int, ...]  # (out, in)

_SHARING = 4  # takes from which on it pays to read what all of them have read only once
_packed: Shelf[dict[int, Tensor]] = Shelf()  # mkldnn's copies of weights, by the address of the original
_fastest: dict[object, dict[Shape, str]] = {}  # for rows, threads and shapes: the name in _PRODUCTS per shape


def _torch_product(weight: Tensor, bias: Tensor | None, rows: int, packed: dict[int, Tensor]) -> Product:
    return lambda x: F.linear(torch.from_numpy(x), weight, bias).numpy()


def _numpy_product(weight: Tensor, bias: Tensor | None, rows: int, packed: dict[int, Tensor]) -> Product:
    if rows > 1:
        raise NotImplementedError("for one row; PyTorch is quicker at several")
    w, b, out = weight.numpy(), None if bias is None else bias.numpy(), np.empty((1, len(weight)), np.float32)
    one = out[0]

    def product(x: Array) -> Array:
        np.dot(w, x[0], out=one)
        return out if b is None else np.add(out, b, out=out)

    return product


def _mkldnn_product(weight: Tensor, bias: Tensor | None, rows: int, packed: dict[int, Tensor]) -> Product:
    key = weight.data_ptr()
    if key not in packed:
        packed[key] = torch.ops.mkldnn._reorder_linear_weight(weight)
    w, linear = packed[key], torch.ops.mkldnn._linear_pointwise
    return lambda x: linear(torch.from_numpy(x), w, bias, "none", [], "").numpy()


# mkldnn's operators are not part of PyTorch's public interface: where they are missing or fail, they are left out.
_PRODUCTS = {"torch": _torch_product, "numpy": _numpy_product, "mkldnn": _mkldnn_product}


def _products(linears: list[nn.Linear], rows: int, packed: dict[int, Tensor]) -> list[Product]:
    """Bind each linear's weights to the product that is quickest here for so many rows."""
    pairs = [(x.weight.detach(), None if x.bias is None else x.bias.detach()) for x in linears]
    key = (rows, torch.get_num_threads(), *sorted({tuple(w.shape) for w, _ in pairs}))
    if key not in _fastest:
        _fastest[key] = _try_out([w for w, _ in pairs], rows)
    names = _fastest[key]
    return [_PRODUCTS[names[tuple(w.shape)]](w, b, rows, packed) for w, b in pairs]


def _try_out(weights: list[Tensor], rows: int) -> dict[Shape, str]:
    """Name the product for each shape: NumPy's for all of them, or PyTorch's two as they come, whichever sums up to less.

    The two libraries have threads of their own, which wait busily: taking turns, they would stand in each other's way.
    """
    shapes = {tuple(w.shape): w for w in weights}
    times = {name: {s: _trial(make, w, rows) for s, w in shapes.items()} for name, make in _PRODUCTS.items()}
    torchs = {s: min(("torch", "mkldnn"), key=lambda name: times[name][s]) for s in shapes}
    numpys = dict.fromkeys(shapes, "numpy")
    return min(torchs, numpys, key=lambda names: sum(times[names[tuple(w.shape)]][tuple(w.shape)] for w in weights))


def _trial(make: Callable[..., Product], weight: Tensor, rows: int) -> float:
    """Seconds of the best of some runs; infinite for a product that doesn't work here."""
    x = np.ones((rows, weight.shape[1]), np.float32)
    try:
        run = make(weight, None, rows, {})
        return min(_seconds(run, x) for _ in range(6))
    except (AttributeError, RuntimeError, NotImplementedError):
        return math.inf


def _seconds(run: Product, x: Array) -> float:
    start = time.perf_counter()
    run(x)
    return time.perf_counter() - start


def _rms(x: Array, eps: float) -> Array:
    scale = np.einsum("...i,...i->...", x, x)[..., None]
    scale /= x.shape[-1]
    scale += eps
    return x / np.sqrt(scale, out=scale)


def _norm(norm: nn.Module, c: GPTConfig) -> Callable[[Array], Array]:
    if c.norm == "rms":
        return lambda x: _rms(x, c.norm_eps)
    assert isinstance(norm, nn.LayerNorm)
    weight, bias, shape = norm.weight.detach(), None if norm.bias is None else norm.bias.detach(), (c.n_embd,)
    return lambda x: F.layer_norm(torch.from_numpy(x), shape, weight, bias, c.norm_eps).numpy()


def _activation(name: str) -> Callable[[Array], Array]:
    if name == "relu":
        return lambda x: np.maximum(x, 0, out=x)
    if name == "relu2":
        return lambda x: np.square(np.maximum(x, 0, out=x), out=x)
    how = "tanh" if name == "gelu_tanh" else "none"
    return lambda x: F.gelu(torch.from_numpy(x), approximate=how).numpy()


class EagerEngine:
    """One request on the CPU in fp32. See :class:`gpt_core.generate.Engine`."""

    def __init__(self, model: GPT, why: str = "") -> None:
        self.model, self.config = model, model.config
        self.name = "PyTorch and NumPy, fp32" + (f" ({why})" if why else "")
        self.cache: KVCache | None = None
        self.rows = 0
        self._alike = 0
        self._scale = np.float32(1 / math.sqrt(self.config.head_size))

    def prefill(self, window: Tensor, takes: int) -> Tensor:
        """Forget everything, read window [B, T]; a single row is read once and copied to ``takes`` rows."""
        cache = KVCache(self.config, len(window))
        logits = self.model(window, cache, last_only=True)[:, -1]
        if len(window) == 1 and takes > 1:
            cache, logits = cache.expand(takes), logits.expand(takes, -1)
        self.cache, self._alike = cache, window.shape[1] if len(window) == 1 and takes >= _SHARING else 0
        self.keys, self.values = ([t.numpy() for t in ts] for ts in (cache.keys, cache.values))
        self._prepare(cache.batch)
        return logits

    def _prepare(self, rows: int) -> None:
        """Bind the weights for that many rows."""
        if rows == self.rows:
            return
        m, c, self.rows = self.model, self.config, rows
        packed = _packed.get(m, "mkldnn", dict)
        layers = cast("list[Block]", list(m.h))
        self._wte = m.wte.weight.detach().numpy()
        self._wpe = m.wpe.weight.detach().numpy() if c.position == "learned" else None
        self._turns = _turns(*(cast(Tensor, t).numpy() for t in (m.cos, m.sin))) if c.position == "rotary" else None
        self._rel = [b.attn.rel.detach().numpy() for b in layers] if c.position == "relative" else None
        self._act = _activation(c.activation)
        self._norms = [(_norm(b.ln_1, c), _norm(b.ln_2, c)) for b in layers]
        linears = [x for b in layers for x in (b.attn.c_attn, b.attn.c_proj, b.mlp.c_fc, b.mlp.c_proj)]
        *blocks, self._head = _products([*linears, m.lm_head], rows, packed)
        self._blocks = list(zip(*[iter(blocks)] * 4, strict=True))
        self._last = _norm(m.ln_f, c)

    def step(self, column: Tensor) -> Tensor:
        """Read one more column [B] and return the next logits [B, V]."""
        assert self.cache is not None, "prefill first"
        c, at = self.config, self.cache.length
        x = self._wte[column.numpy()]
        if self._wpe is not None:
            x += self._wpe[at]
        if c.embed_norm:
            x = _rms(x, c.norm_eps)
        for layer, (attn, proj, fc, out) in enumerate(self._blocks):
            ln_1, ln_2 = self._norms[layer]
            x += proj(self._attend(layer, at, attn(ln_1(x))))
            x += out(self._act(fc(ln_2(x))))
        self.cache.advance(1)
        return torch.from_numpy(self._head(self._last(x)).copy())

    def _attend(self, layer: int, at: int, qkv: Array) -> Array:
        """Write the new key and value at position ``at`` and mix the values; qkv is [B, 3C], the result [B, C]."""
        c = self.config
        qkv = qkv.reshape(self.rows, 3, c.n_head, c.head_size)
        qk = qkv[:, :2]
        if c.qk_norm:
            qk = _rms(qk, c.norm_eps)
        if self._turns is not None:
            cos, sin = self._turns
            pairs = qk.reshape(self.rows, 2, c.n_head, 2, -1)
            qk = (pairs * cos[at] + pairs[..., ::-1, :] * sin[at]).reshape(qk.shape)
        keys, values = self.keys[layer], self.values[layer]
        keys[:, :, at], values[:, :, at] = qk[:, 1], qkv[:, 2]
        q = qk[:, 0] * self._scale
        bias = None if self._rel is None else _relative(q, self._rel[layer], at + 1)
        mix = _mix_one if self.rows == 1 else partial(_mix_shared, alike=self._alike) if self._alike else _mix_many
        return mix(q, keys[:, :, : at + 1], values[:, :, : at + 1], bias).reshape(self.rows, c.n_embd)


def _mix_one(q: Array, keys: Array, values: Array, bias: Array | None) -> Array:
    """Attention of one query per head, q [1, H, D] scaled, keys and values [1, H, K, D], in NumPy: [1, H, D]."""
    score = np.matmul(keys, q[..., None])[..., 0]  # (1, H, K)
    if bias is not None:
        score += bias
    score -= np.maximum.reduce(score, -1, keepdims=True)
    np.exp(score, out=score)
    mixed = np.matmul(score[:, :, None], values)[:, :, 0]
    mixed /= np.add.reduce(score, -1, keepdims=True)
    return mixed


def _mix_many(q: Array, keys: Array, values: Array, bias: Array | None) -> Array:
    """The same for several rows, where PyTorch's threads have enough to do."""
    mask = None if bias is None else torch.from_numpy(bias)[:, :, None]
    query, k, v = (torch.from_numpy(x) for x in (q[:, :, None], keys, values))
    return F.scaled_dot_product_attention(query, k, v, attn_mask=mask, scale=1.0).numpy()[:, :, 0]


def _mix_shared(q: Array, keys: Array, values: Array, bias: Array | None, alike: int) -> Array:
    """The same for rows whose first ``alike`` keys and values are equal, those of one prompt: the first row's serve all.

    They are read once instead of once a row, in products of a matrix and a matrix instead of a matrix and a vector.
    """
    query, k, v = (torch.from_numpy(x) for x in (q, keys, values))
    rows, heads, n_keys, size = k.shape
    score = query.new_empty(heads, rows, n_keys)
    score[..., :alike] = torch.bmm(query.transpose(0, 1), k[0, :, :alike].mT)
    own = torch.bmm(query.reshape(rows * heads, 1, size), k[:, :, alike:].flatten(0, 1).mT)
    score[..., alike:] = own.view(rows, heads, -1).transpose(0, 1)
    if bias is not None:
        score += torch.from_numpy(bias).transpose(0, 1)
    weights = score.softmax(-1)
    mixed = torch.bmm(weights[..., :alike], v[0, :, :alike]).transpose(0, 1)
    late = weights[..., alike:].transpose(0, 1).reshape(rows * heads, 1, -1)
    return (mixed + torch.bmm(late, v[:, :, alike:].flatten(0, 1)).view(rows, heads, size)).numpy()


def _turns(cos: Array, sin: Array) -> tuple[Array, Array]:
    """Tables [context, 2, D/2] for x = (a, b): (a, b)·cos + (b, a)·sin, the sines of the first half negated."""
    return np.stack((cos, cos), 1), np.stack((-sin, sin), 1)


def _relative(q: Array, embedding: Array, n_keys: int) -> Array:
    """Q [B, H, D] against embedding [H, M, D] of each key's distance, farther ones sharing the last: [B, H, n_keys]."""
    known = min(n_keys, embedding.shape[1])
    near = np.matmul(embedding[:, :known], q[..., None])[..., ::-1, 0]  # nearest last
    far = near[..., :1].repeat(n_keys - known, axis=-1)
    return np.concatenate((far, near), axis=-1)
