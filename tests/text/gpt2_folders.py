"""Hugging Face GPT-2 folders with random, sharpened weights, written by transformers itself."""

from __future__ import annotations

from pathlib import Path

import torch

from gpt_core.text.bpe import BPECodec
from gpt_core.text.bpe_files import write_tokenizer

# The four released architectures at small width: as many blocks and heads as the originals.
ARCHITECTURES = {
    "gpt2": {"n_layer": 12, "n_head": 12, "n_embd": 48},
    "gpt2-medium": {"n_layer": 24, "n_head": 16, "n_embd": 64},
    "gpt2-large": {"n_layer": 36, "n_head": 20, "n_embd": 80},
    "gpt2-xl": {"n_layer": 48, "n_head": 25, "n_embd": 100},
}


def small_codec() -> BPECodec:
    return BPECodec.train(["the cat sat on the mat and the dog sat on the log; " * 5], 270)


def hugging_face_model(codec: BPECodec | None = None, seed: int = 0, **shape: object):
    """A GPT2LMHeadModel whose attention is sharp and whose biases and norms matter."""
    import transformers

    torch.manual_seed(seed)
    shape = {"n_positions": 256, "n_ctx": 256, "vocab_size": codec.vocab_size if codec else 50257, **shape}
    config = transformers.GPT2Config(**shape, attn_implementation="eager", initializer_range=0.05)
    model = transformers.GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() == 1:
                p.add_(torch.randn(p.shape) * 0.1)
            if name.endswith("c_attn.weight"):
                p.mul_(
                    8 * (48 / config.n_embd) ** 0.5
                )  # scores spread alike at every width; wider ties would flip in fp32
            if name.endswith("wpe.weight"):
                p.mul_(10)  # so that greedy text does not fall into a loop at once
    return model


def write_folder(model, codec: BPECodec, folder: Path, *, kind: str = "safetensors", prefix: bool = True) -> Path:
    """Save as ``kind``: safetensors, sharded, bin, or old (a .bin of the original release: no prefix, masks inside)."""
    folder.mkdir(parents=True, exist_ok=True)
    if kind in ("safetensors", "sharded"):
        model.save_pretrained(folder, max_shard_size="100KB" if kind == "sharded" else "50GB")
    else:
        model.config.save_pretrained(folder)
        state = {n: p.clone() for n, p in model.state_dict().items() if n != "lm_head.weight"}
        if kind == "old":
            state = {n.removeprefix("transformer."): p for n, p in state.items()}
            state["h.0.attn.bias"] = torch.ones(1, 1, 256, 256).tril()
            state["h.0.attn.masked_bias"] = torch.tensor(-1e4)
        torch.save(state, folder / "pytorch_model.bin")
    write_tokenizer(codec, folder)
    return folder
