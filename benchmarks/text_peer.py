"""The same budget through another loop: transformers' GPT2LMHeadModel, AdamW and nothing of ours but the shards.

Rerun: ``.venv/bin/python -m benchmarks.text_peer SHARDS OUT --steps N [--preset text] [--batch-size 8]``; compare OUT, imported
by ``gpt-core import-gpt2 OUT -o PEER``, with our own run of as many steps by ``python -m benchmarks.text SHARDS OURS PEER``.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import numpy as np
import torch
import transformers

from gpt_core.config import PRESETS
from gpt_core.text.bpe import BPECodec
from gpt_core.text.bpe_files import write_tokenizer
from gpt_core.text.corpus import find_codec
from gpt_core.tokens import Shard


def build(preset: str, vocab_size: int) -> transformers.GPT2LMHeadModel:
    """The preset's shape as Hugging Face's model with its own initialisation."""
    c = PRESETS[preset]
    config = transformers.GPT2Config(
        vocab_size=vocab_size, n_positions=c.context, n_embd=c.n_embd, n_layer=c.n_layer, n_head=c.n_head,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=vocab_size - 1, eos_token_id=vocab_size - 1,
    )  # fmt: skip
    return transformers.GPT2LMHeadModel(config)


def train(model: transformers.GPT2LMHeadModel, ids: np.ndarray, args: argparse.Namespace) -> None:
    """Plain AdamW with warm-up and cosine decay, as GPT-2 re-implementations do it."""
    rng, context = np.random.default_rng(args.seed), model.config.n_positions
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.95), weight_decay=0.1)
    warm = min(100, args.steps // 10 + 1)
    shape = lambda s: min(1.0, (s + 1) / warm) * (0.55 + 0.45 * math.cos(math.pi * s / args.steps))  # noqa: E731
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, shape)
    for step in range(args.steps):
        starts = rng.integers(len(ids) - context, size=args.batch_size)
        rows = torch.from_numpy(np.stack([ids[s : s + context] for s in starts]).astype(np.int64))
        loss = model(rows, labels=rows).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if step % 20 == 0:
            print(f"step {step}  loss {loss.item():.4f}", flush=True)
            with args.out.with_name(args.out.name + ".log.jsonl").open("a", encoding="utf-8") as log:
                log.write(json.dumps({"event": "step", "step": step, "loss": loss.item()}) + "\n")


def main() -> None:
    """Train and save in Hugging Face's layout."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shards", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--preset", default="text", choices=sorted(PRESETS))
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    codec = find_codec(args.shards)
    assert isinstance(codec, BPECodec)
    torch.manual_seed(args.seed)
    model = build(args.preset, codec.vocab_size)
    train(model, np.asarray(Shard.open(args.shards, "train").ids), args)
    model.save_pretrained(args.out)
    write_tokenizer(codec, args.out)


if __name__ == "__main__":
    main()
