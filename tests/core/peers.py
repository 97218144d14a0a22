"""Models to compare with: Hugging Face's GPT-2 carrying our weights, and small models of every position scheme."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gpt_core.model import GPT, GPTConfig

SMALL = GPTConfig(vocab_size=61, context=16, n_layer=2, n_head=3, n_embd=24)
SCHEMES = {
    "learned": SMALL,
    "rotary": replace(SMALL, position="rotary", norm="rms", bias=False, tied=False, qk_norm=True, activation="relu2"),
    "relative": replace(SMALL, position="relative"),
    "relative, clipped": replace(SMALL, position="relative", max_distance=5),
    "none": replace(SMALL, position="none", activation="gelu"),
}


def small_model(scheme: str, seed: int = 0, **changes: object) -> GPT:
    """Return a model in eval mode whose random weights are large enough to prefer something."""
    torch.manual_seed(seed)
    model = GPT(replace(SCHEMES[scheme], **changes))
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn(p.shape) * 0.2)
    return model.eval()


def gpt2_twins(*, width: int = 48, heads: int = 3, layers: int = 3, context: int = 1024, seed: int = 0):
    """Return (ours, Hugging Face's) with the same random weights, attention sharpened eightfold."""
    import transformers

    torch.manual_seed(seed)
    shape = {"vocab_size": 211, "n_positions": context, "n_embd": width, "n_layer": layers, "n_head": heads}
    config = transformers.GPT2Config(**shape, initializer_range=0.05, attn_implementation="eager")
    theirs = transformers.GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for name, p in theirs.named_parameters():
            if p.dim() == 1:
                p.add_(torch.randn(p.shape) * 0.1)  # biases and norms that matter
            if name.endswith("c_attn.weight"):
                p.mul_(8)
    ours = GPT(GPTConfig(vocab_size=211, context=context, n_layer=layers, n_head=heads, n_embd=width)).eval()
    weights = {name.removeprefix("transformer."): p for name, p in theirs.state_dict().items()}
    ours.load_state_dict({name: _from_conv1d(name, p) for name, p in weights.items() if _wanted(name)})
    return ours, theirs


def _wanted(name: str) -> bool:
    return not name.endswith((".attn.bias", ".attn.masked_bias"))


def _from_conv1d(name: str, p: torch.Tensor) -> torch.Tensor:
    return p.T.contiguous() if name.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight")) else p


class Largest(TorchDispatchMode):
    """While active, note the size of the largest tensor any operation makes."""

    def __init__(self) -> None:
        super().__init__()
        self.numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for x in out if isinstance(out, tuple | list) else (out,):
            if isinstance(x, torch.Tensor):
                self.numel = max(self.numel, x.untyped_storage().nbytes() // x.element_size())
        return out


class ToyCodec:
    """Numbers are ids; stands in for the music and text codecs, which the core does not know."""

    kind = "toy"

    def __init__(self, size: int = 61) -> None:
        self.vocab_size = size
        self.special_ids: dict[str, int] = {}

    def encode(self, material: list[int]) -> list[int]:
        return list(material)

    def decode(self, ids: list[int]) -> list[int]:
        return list(ids)

    def to_dict(self) -> dict[str, object]:
        return {"kind": self.kind, "size": self.vocab_size}

    @classmethod
    def from_dict(cls, data: dict[str, object]) -> ToyCodec:
        return cls(int(data["size"]))  # type: ignore[call-overload]


# Shapes that decoding engines must know beyond the schemes: clipped distances, ReLU, widths and heads no vector divides.
_ENGINE_SHAPES = {
    **SCHEMES,
    "rotary": replace(SCHEMES["rotary"], embed_norm=True),
    "clipped": SCHEMES["relative, clipped"],
    "relu": replace(SMALL, activation="relu", bias=False),
    "odd width": replace(SMALL, n_embd=33, qk_norm=True),
    "wide heads": replace(SMALL, n_embd=88, n_head=2, position="rotary", norm="rms", tied=False),
}


def sharp_model(name: str, seed: int = 0) -> GPT:
    """Return a model in eval mode with a window of 40 and weights large enough that attention and logits are sharp."""
    torch.manual_seed(seed)
    model = GPT(replace(_ENGINE_SHAPES[name], context=40))
    with torch.no_grad():
        for n, p in model.named_parameters():
            p.add_(torch.randn(p.shape) * (1.5 / model.config.n_embd**0.5 if p.dim() > 1 else 0.2))
            if n.endswith("c_attn.weight"):
                p.mul_(2)
    return model.eval()
