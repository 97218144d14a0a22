"""KVCache: the keys and values of what was already read, preallocated per layer."""

from __future__ import annotations

import torch
from torch import Tensor

from gpt_core.config import GPTConfig
from gpt_core.errors import UserError


class KVCache:
    """Keys and values [B, H, capacity, D] for every layer, and how many positions are filled.

    One cache serves one request; the model never keeps a reference to it.
    """

    def __init__(
        self,
        config: GPTConfig,
        batch: int = 1,
        *,
        capacity: int | None = None,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.config = config
        self.length = 0
        self.capacity = capacity or config.context
        shape = (batch, config.n_head, self.capacity, config.head_size)
        self.keys = [torch.zeros(shape, device=device, dtype=dtype) for _ in range(config.n_layer)]
        self.values = [torch.zeros(shape, device=device, dtype=dtype) for _ in range(config.n_layer)]

    @property
    def batch(self) -> int:
        """How many rows the cache holds."""
        return self.keys[0].shape[0]

    def append(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Write k, v [B, H, T, D] behind what is there; return all keys and values [B, H, length + T, D] of the layer.

        ``length`` moves on by :meth:`advance`, once all layers have appended.
        """
        end = self.length + k.shape[2]
        if end > self.capacity:
            raise UserError(
                f"the cache holds {self.capacity} tokens and {end} were asked for; crop it or start a new one"
            )
        self.keys[layer][:, :, self.length : end] = k
        self.values[layer][:, :, self.length : end] = v
        return self.keys[layer][:, :, :end], self.values[layer][:, :, :end]

    def advance(self, n: int) -> None:
        """Count ``n`` more positions as filled."""
        self.length += n

    def crop(self, n: int) -> None:
        """Forget everything from position ``n`` on."""
        if not 0 <= n <= self.length:
            raise UserError(f"can't crop a cache of {self.length} tokens to {n}; give 0 to {self.length}")
        self.length = n

    def expand(self, batch: int) -> KVCache:
        """Return a cache whose ``batch`` rows all start as copies of this cache's single row."""
        if self.batch != 1:
            raise UserError(f"only a cache of 1 row can be expanded; this one has {self.batch}")
        copy = KVCache(self.config, batch, capacity=self.capacity, device=self.keys[0].device, dtype=self.keys[0].dtype)
        for mine, theirs in zip(self.keys + self.values, copy.keys + copy.values, strict=True):
            theirs[:, :, : self.length] = mine[:, :, : self.length]
        copy.length = self.length
        return copy
