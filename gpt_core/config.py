"""GPTConfig and PRESETS: the shape of a model, written down without loading torch."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpt_core.errors import UserError
from gpt_core.options import check, option

# What may be asked of gpt_core.generate.choose_engine; here, so that a command's --help can list it without PyTorch.
ENGINES = ("auto", "torch", "native", "native-bf16", "native-int8")


@dataclass(frozen=True)
class GPTConfig:
    """Everything that fixes a decoder's parameters; GPT-2's own names where GPT-2 has one.

    The defaults are GPT-2's block (Radford et al. 2019): pre-LayerNorm, biases, tanh-GELU, learned positions, tied head.
    """

    vocab_size: int = option(50257, "number of token ids", low=1, high=2_000_000)
    context: int = option(1024, "window in tokens (n_positions)", low=1, high=1_048_576)
    n_layer: int = option(12, "number of blocks", low=1, high=1000)
    n_head: int = option(12, "attention heads per block", low=1, high=1024)
    n_embd: int = option(768, "width of the residual stream", low=1, high=65_536)
    position: str = option("learned", "how positions enter", choices=("learned", "rotary", "relative", "none"))
    max_distance: int = option(0, "relative positions: farther keys share one embedding (0 = context)", low=0)
    norm: str = option("layer", "layer = LayerNorm with weights, rms = RMSNorm without", choices=("layer", "rms"))
    activation: str = option("gelu_tanh", "MLP non-linearity", choices=("gelu_tanh", "gelu", "relu", "relu2"))
    bias: bool = option(True, "biases in the linear layers and norms")
    tied: bool = option(True, "the output head shares the token embedding")
    qk_norm: bool = option(False, "RMS-normalise queries and keys (before rotation)")
    embed_norm: bool = option(False, "normalise the embedding before the first block")
    zero_init: bool = option(False, "output projections and head start at zero")
    dropout: float = option(0.0, "dropout on attention, residual branches and embedding", low=0.0, high=0.95)
    norm_eps: float = option(1e-5, "epsilon of the norms", low=0.0, high=1.0)

    def __post_init__(self) -> None:
        """Refuse shapes that cannot be built."""
        check(self)
        if self.n_embd % self.n_head:
            raise UserError(f"n_embd is {self.n_embd} and n_head is {self.n_head}; n_embd must be a multiple of n_head")
        if self.position == "rotary" and self.head_size % 2:
            raise UserError(f"rotary positions need an even head size; n_embd / n_head is {self.head_size}")

    @property
    def head_size(self) -> int:
        """Width of one head, ``n_embd / n_head``."""
        return self.n_embd // self.n_head

    @property
    def distances(self) -> int:
        """How many relative distances have an embedding of their own."""
        return min(self.max_distance or self.context, self.context)


def _gpt2(n_layer: int, n_head: int, n_embd: int) -> GPTConfig:
    return GPTConfig(n_layer=n_layer, n_head=n_head, n_embd=n_embd)


# Our own sizes: rotary positions, normed queries and keys, squared ReLU, no biases, untied head, zero-initialised outputs.
_OURS = GPTConfig(
    vocab_size=391, context=1024, n_layer=6, n_head=4, n_embd=256, position="rotary", norm="rms", activation="relu2",
    bias=False, tied=False, qk_norm=True, embed_norm=True, zero_init=True,
)  # fmt: skip

PRESETS: dict[str, GPTConfig] = {
    "gpt2": _gpt2(12, 12, 768),
    "gpt2-medium": _gpt2(24, 16, 1024),
    "gpt2-large": _gpt2(36, 20, 1280),
    "gpt2-xl": _gpt2(48, 25, 1600),
    "piano": _OURS,  # the shipped models' shapes by their names
    "pop": replace(_OURS, n_embd=192),
    "music": _OURS,
    "music-small": replace(_OURS, n_layer=4, n_embd=128),
    "music-large": replace(_OURS, n_layer=8, n_head=6, n_embd=384),
    "music-2048": replace(_OURS, context=2048),
    "music-learned": replace(_OURS, position="learned", embed_norm=False, qk_norm=False),
    "music-relative": replace(_OURS, position="relative", qk_norm=False),
    # GPT-2's block exactly, at a size that two CPU cores teach whole sentences in an hour.
    "text": GPTConfig(vocab_size=4096, context=512, n_layer=6, n_head=3, n_embd=192),
    # The articles' Transformer-Decoder for Wikipedia summarization: 6 identical blocks, segments of up to 4,000 tokens.
    "transformer-decoder": GPTConfig(vocab_size=50257, context=4096, n_layer=6, n_head=8, n_embd=512),
}
