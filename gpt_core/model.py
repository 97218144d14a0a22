"""The decoder: SelfAttention, MLP, Block, GPT; parts first, the whole last."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gpt_core import fused, relative
from gpt_core.cache import KVCache
from gpt_core.config import PRESETS, GPTConfig
from gpt_core.errors import UserError
from gpt_core.positions import relative_logits, rotary_table, rotate

__all__ = ["GPT", "MLP", "PRESETS", "Block", "GPTConfig", "RMSNorm", "SelfAttention", "Tap", "causal_mask"]

# A tap is told (name, layer, tensor) as the forward pass goes by; it must not change the tensor.
# Names, in order: embedding, then per layer ln_1, q, k, v, heads, attn, ln_2, fc, mlp, residual, then ln_f.
# q and k are as scored (normed, rotated), k and v hold the cached ones too; fc is before the non-linearity.
Tap = Callable[[str, int, Tensor], None]


class RMSNorm(nn.Module):
    """Root-mean-square norm without weights (Zhang & Sennrich 2019)."""

    def __init__(self, eps: float) -> None:
        super().__init__()
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the last dimension."""
        return F.rms_norm(x, (x.shape[-1],), eps=self.eps)


def _norm(config: GPTConfig) -> nn.Module:
    if config.norm == "rms":
        return RMSNorm(config.norm_eps)
    return nn.LayerNorm(config.n_embd, eps=config.norm_eps, bias=config.bias)


def causal_mask(n_queries: int, n_keys: int, device: torch.device) -> Tensor:
    """Return bool [T, K], true where query i, one of the last T of K positions, may look at key j."""
    return torch.ones(n_queries, n_keys, dtype=torch.bool, device=device).tril(n_keys - n_queries)


class SelfAttention(nn.Module):
    """Multi-head self-attention over x [B, T, C], masked (GPT-2) or, with ``causal=False``, unmasked (BERT)."""

    def __init__(self, config: GPTConfig, *, causal: bool = True) -> None:
        super().__init__()
        self.config = config
        self.causal = causal
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        if config.position == "relative":
            self.rel = nn.Parameter(torch.empty(config.n_head, config.distances, config.head_size))

    def heads(self, x: Tensor, rotary: tuple[Tensor, Tensor] | None) -> tuple[Tensor, Tensor, Tensor]:
        """Project x [B, T, C] to q, k, v [B, H, T, D], normed and rotated as the config says."""
        c = self.config
        qkv = self.c_attn(x).unflatten(-1, (3, c.n_head, c.head_size))  # (B, T, 3, H, D)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)  # each (B, H, T, D)
        if c.qk_norm:
            q, k = (F.rms_norm(u, (c.head_size,), eps=c.norm_eps) for u in (q, k))
        if rotary is not None:
            q, k = rotate(q, *rotary).to(v.dtype), rotate(k, *rotary).to(v.dtype)
        return q, k, v

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Return softmax(q·kᵀ / √D + mask) · v, as [B, H, T, D]; the T queries are the last of the K keys."""
        n_queries, n_keys = q.shape[2], k.shape[2]
        drop = self.config.dropout if self.training else 0.0
        if self.config.position == "relative":
            if self.causal and not drop and relative.takes(q, k):
                return relative.relative_attention(q, k, v, self.rel)
            bias = relative_logits(q, self.rel.to(q.dtype), n_keys) / math.sqrt(q.shape[-1])
            if self.causal:
                bias = bias.masked_fill(~causal_mask(n_queries, n_keys, q.device), float("-inf"))
            return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=drop)
        if not self.causal or n_queries == 1:
            return F.scaled_dot_product_attention(q, k, v, dropout_p=drop)
        if n_queries == n_keys:
            if not drop and fused.takes(q, k, v):
                return fused.causal_attention(q, k, v)
            return F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=drop)
        mask = causal_mask(n_queries, n_keys, q.device)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=drop)

    def forward(
        self,
        x: Tensor,
        layer: int = 0,
        rotary: tuple[Tensor, Tensor] | None = None,
        cache: KVCache | None = None,
        tap: Tap | None = None,
    ) -> Tensor:
        """Attend from x [B, T, C] to itself and to what ``cache`` holds; returns [B, T, C]."""
        q, k, v = self.heads(x, rotary)
        if cache is not None:
            k, v = cache.append(layer, k, v)
        if tap:
            tap("q", layer, q)
            tap("k", layer, k)
            tap("v", layer, v)
        y = self.attend(q, k, v).transpose(1, 2).flatten(2)  # (B, T, C)
        if tap:
            tap("heads", layer, y)
        return self.c_proj(y)


class MLP(nn.Module):
    """The position-wise network: C -> 4C -> C."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.activation = config.activation
        self.c_fc = nn.Linear(config.n_embd, 4 * config.n_embd, bias=config.bias)
        self.c_proj = nn.Linear(4 * config.n_embd, config.n_embd, bias=config.bias)

    def act(self, x: Tensor) -> Tensor:
        """Apply the configured non-linearity."""
        if self.activation == "gelu_tanh":
            return F.gelu(x, approximate="tanh")
        if self.activation == "gelu":
            return F.gelu(x)
        return F.relu(x).square() if self.activation == "relu2" else F.relu(x)

    def forward(self, x: Tensor, layer: int = 0, tap: Tap | None = None) -> Tensor:
        """Map x [B, T, C] to [B, T, C]."""
        x = self.c_fc(x)
        if tap:
            tap("fc", layer, x)
        return self.c_proj(self.act(x))


class Block(nn.Module):
    """One decoder block: attention and MLP, each on a normed copy, each added to the residual stream."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.ln_1 = _norm(config)
        self.attn = SelfAttention(config)
        self.ln_2 = _norm(config)
        self.mlp = MLP(config)
        self.drop = nn.Dropout(config.dropout)

    def forward(
        self,
        x: Tensor,
        layer: int = 0,
        rotary: tuple[Tensor, Tensor] | None = None,
        cache: KVCache | None = None,
        tap: Tap | None = None,
    ) -> Tensor:
        """Map the residual stream x [B, T, C] to the next one."""
        normed = self.ln_1(x)
        if tap:
            tap("ln_1", layer, normed)
        a = self.attn(normed, layer, rotary, cache, tap)
        x = x + self.drop(a)
        normed = self.ln_2(x)
        if tap:
            tap("attn", layer, a)
            tap("ln_2", layer, normed)
        m = self.mlp(normed, layer, tap)
        x = x + self.drop(m)
        if tap:
            tap("mlp", layer, m)
            tap("residual", layer, x)
        return x


class _Table(nn.Embedding):
    """An embedding that draws nothing on the meta device: PyTorch would load its compiler for it, which takes 1.3 s."""

    def reset_parameters(self) -> None:
        """Draw the first weights, where there are any."""
        if not self.weight.is_meta:
            super().reset_parameters()


class GPT(nn.Module):
    """A decoder-only transformer that holds weights and nothing else: cache and tap are arguments."""

    cos: Tensor  # buffers, with rotary positions only
    sin: Tensor

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.config = config
        self.wte = _Table(config.vocab_size, config.n_embd)
        if config.position == "learned":
            self.wpe = _Table(config.context, config.n_embd)
        self.embed_norm = RMSNorm(config.norm_eps) if config.embed_norm else nn.Identity()
        self.drop = nn.Dropout(config.dropout)
        self.h = nn.ModuleList(Block(config) for _ in range(config.n_layer))
        self.ln_f = _norm(config)
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        if config.tied:
            self.lm_head.weight = self.wte.weight
        meta = self.wte.weight.is_meta  # then this is a shape, without numbers
        if config.position == "rotary":
            empty = torch.empty(config.context, config.head_size // 2)
            cos, sin = (empty, empty) if meta else rotary_table(config.context, config.head_size)
            self.register_buffer("cos", cos, persistent=False)
            self.register_buffer("sin", sin, persistent=False)
        if not meta:
            self.reset()

    @torch.no_grad()
    def reset(self) -> None:
        """Draw fresh weights: GPT-2's N(0, 0.02), residual projections scaled by 1/√(2·n_layer) or zero."""
        c = self.config
        for name, p in self.named_parameters():
            if p.dim() < 2:
                p.fill_(1.0 if name.endswith("weight") else 0.0)
            elif name.endswith("c_proj.weight"):
                p.zero_() if c.zero_init else nn.init.normal_(p, std=0.02 / math.sqrt(2 * c.n_layer))
            elif name == "lm_head.weight" and c.zero_init:
                p.zero_()
            elif name == "wte.weight" and c.embed_norm:
                nn.init.normal_(p, std=1.0)
            elif c.zero_init and p.dim() == 2 and name.startswith("h."):
                nn.init.uniform_(p, -(c.n_embd**-0.5), c.n_embd**-0.5)
            else:
                nn.init.normal_(p, std=0.02)

    @classmethod
    def from_weights(cls, config: GPTConfig, weights: dict[str, Tensor]) -> GPT:
        """Build a model around given tensors, named as in ``named_parameters``, without a second copy of them."""
        with torch.device("meta"):
            model = cls(config)
        model.load_state_dict(weights, strict=False, assign=True)
        if config.tied:
            model.lm_head.weight = model.wte.weight
        if config.position == "rotary":
            model.cos, model.sin = rotary_table(config.context, config.head_size)
        strays = [n for n, p in model.named_parameters() if p.is_meta]
        if strays:
            raise UserError(f"{len(strays)} weights were not given, {strays[0]} first; pass all of them")
        return model

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.wte.weight.device

    def parameter_count(self) -> int:
        """Count the weights, shared ones once."""
        return sum(p.numel() for p in self.parameters())

    def embed(self, ids: Tensor, start: int = 0) -> Tensor:
        """Return the stream [B, T, C] that enters block 0 for ids [B, T] at positions start, start+1, ..."""
        x = self.wte(ids)
        if self.config.position == "learned":
            x = x + self.wpe.weight[start : start + ids.shape[1]]
        return self.drop(self.embed_norm(x))

    def forward(
        self, ids: Tensor, cache: KVCache | None = None, tap: Tap | None = None, *, last_only: bool = False
    ) -> Tensor:
        """Map ids [B, T] to logits [B, T, V] (or [B, 1, V] with ``last_only``); T and the cache fit the context."""
        start = cache.length if cache is not None else 0
        end = start + ids.shape[1]
        if end > self.config.context:
            raise UserError(f"the model reads {self.config.context} tokens and {end} were given; pass fewer")
        rotary = (self.cos[start:end], self.sin[start:end]) if self.config.position == "rotary" else None
        x = self.embed(ids, start)
        if tap:
            tap("embedding", 0, x)
        for layer, block in enumerate(self.h):
            x = block(x, layer, rotary, cache, tap)
        if cache is not None:
            cache.advance(ids.shape[1])
        x = self.ln_f(x[:, -1:] if last_only else x)
        if tap:
            tap("ln_f", self.config.n_layer, x)
        return self.lm_head(x)
