"""How well a text model predicts held-out text: perplexity and bits per byte, beside an n-gram model and a compressor.

Rerun: ``.venv/bin/python -m benchmarks.text SHARDS [MODEL ...] [--texts FILE ...] [--windows N]``; SHARDS is a folder made by
``gpt-core corpus``, whose validation split is scored; MODEL is a shipped name or a checkpoint folder. The n-gram model is
learned from the same train split with the same tokens. ``--texts`` scores further files, such as WikiText-2's.
"""

from __future__ import annotations

import argparse
import lzma
from pathlib import Path

import numpy as np

from benchmarks.text_ngram import Trigram
from gpt_core.evaluate import Protocol
from gpt_core.text.corpus import find_codec
from gpt_core.text.evaluation import evaluate_text, material
from gpt_core.text.metrics import bits_per_byte, perplexity
from gpt_core.text.models import load
from gpt_core.tokens import Shard


def ngram_row(shards: Path) -> tuple[float, float]:
    """Perplexity and bits per byte of the trigram on the validation split."""
    codec, train, held = find_codec(shards), Shard.open(shards, "train"), Shard.open(shards, "validation")
    size = np.array([len(codec.token_bytes(i)) for i in range(codec.vocab_size)])
    model = Trigram(np.asarray(train.ids), codec.vocab_size)
    nats, tokens, n_bytes = 0.0, 0, 0
    for n in range(len(held)):
        ids = held.piece(n)
        nats += float(model.nats(ids).sum())
        tokens, n_bytes = tokens + len(ids) - 1, n_bytes + int(size[ids[1:]].sum())
    return perplexity(nats, tokens), bits_per_byte(nats, n_bytes)


def compressed(shards: Path) -> float:
    """Bits per byte of xz on the whole validation text, which it meets for the first time."""
    codec, held = find_codec(shards), Shard.open(shards, "validation")
    raw = "".join(codec.decode(held.piece(n)) for n in range(len(held))).encode()
    return 8 * len(lzma.compress(raw, preset=9 | lzma.PRESET_EXTREME)) / len(raw)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shards", type=Path)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--texts", nargs="*", type=Path, default=[])
    parser.add_argument("--windows", type=int, help="read only this many windows of each model")
    args = parser.parse_args()
    print(
        f"validation split of {args.shards.name}, fingerprint {Shard.open(args.shards, 'validation').fingerprint()}\n"
    )
    print("| what | on | perplexity | bits/byte |\n|---|---|---|---|")
    print(f"| xz -9e | {args.shards.name} | | {compressed(args.shards):.3f} |")
    print("| trigram, interpolated | {} | {:.1f} | {:.3f} |".format(args.shards.name, *ngram_row(args.shards)))
    for name in args.models:
        model = load(name)
        for source in (args.shards, *args.texts):
            found = evaluate_text(model, material(model, [source], "validation"), Protocol(limit=args.windows))
            print(f"| {name} | {source.name} | {found['perplexity']:.1f} | {found['bits_per_byte']:.3f} |", flush=True)


if __name__ == "__main__":
    main()
