"""``gpt-core corpus``, ``train`` and ``evaluate``: texts -> shards -> a checkpoint, and how good it is."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from gpt_core.config import PRESETS, GPTConfig
from gpt_core.options import add_flags, from_args
from gpt_core.text.corpus import CorpusConfig, build_corpus
from gpt_core.train_config import TrainConfig


def add_corpus(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``corpus``."""
    parser.add_argument("source", type=Path, help="a text file, or a folder of .txt and .md files")
    parser.add_argument("-o", "--out", type=Path, required=True, help="the folder of shards to write")
    add_flags(parser, CorpusConfig)


def run_corpus(args: argparse.Namespace) -> int:
    """Build the shards, then say what they hold and what was left out."""
    record = build_corpus(args.source, args.out, from_args(CorpusConfig, args))
    for split, size in record["splits"].items():
        print(f"{split}: {size['pieces']:,} documents, {size['tokens']:,} tokens, {size['bytes']:,} bytes")
    for row in record["failed"]:
        print(f"left out {row['file']}: {row['error']}", file=sys.stderr)
    return 0


def add_train(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``train``."""
    parser.add_argument("shards", type=Path, help="a folder made by the corpus command")
    parser.add_argument("-o", "--out", type=Path, required=True, help="the checkpoint folder to write")
    parser.add_argument("--preset", choices=sorted(PRESETS), help="the model's shape (default: text)")
    parser.add_argument("--resume", action="store_true", help="go on with the run whose checkpoint is in --out")
    parser.add_argument("--init-from", type=Path, help="start from this checkpoint's weights, with a fresh optimizer")
    parser.add_argument("--tensorboard", type=Path, help="also log to this TensorBoard folder")
    add_flags(parser, TrainConfig)
    add_flags(parser, GPTConfig, skip=("vocab_size",))


def run_train(args: argparse.Namespace) -> int:
    """Train, and print the best validation figure."""
    config = from_args(TrainConfig, args)
    shape = from_args(GPTConfig, args, PRESETS[args.preset or "text"])
    from gpt_core.start import Start, asked_shape
    from gpt_core.text.training import train_text

    start = Start(args.out, args.resume, args.init_from, args.tensorboard, asked_shape(args))
    best = train_text(args.shards, shape, config, start)
    print(f"best validation: {best:.4f} nats/token; checkpoint in {args.out}")
    return 0


def add_evaluate(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``evaluate``."""
    parser.add_argument("material", nargs="+", type=Path, help="text files, folders of them, or one folder of shards")
    parser.add_argument("--model", default="text", help="a shipped model's name or a checkpoint folder (default: text)")
    parser.add_argument("--split", default="validation", help="which split of the shards (default: validation)")
    parser.add_argument(
        "--stride", type=int, default=0, help="tokens between windows (default: half the model's window)"
    )
    parser.add_argument(
        "--min-context", type=int, default=0, help="score only tokens with at least this many before them"
    )
    parser.add_argument("--windows", type=int, help="read only this many windows, evenly spread")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run_evaluate(args: argparse.Namespace) -> int:
    """Print nats per token, perplexity and bits per byte."""
    from gpt_core.evaluate import Protocol
    from gpt_core.text.evaluation import evaluate_text, material
    from gpt_core.text.models import load

    model = load(args.model)
    protocol = Protocol(stride=args.stride, min_context=args.min_context, limit=args.windows)
    result = evaluate_text(model, material(model, args.material, args.split), protocol)
    if args.json:
        print(json.dumps(result))
    else:
        print(f"{result['nats_per_token']:.4f} nats/token  perplexity {result['perplexity']:.2f}  ", end="")
        print(f"{result['bits_per_byte']:.4f} bits/byte")
        print(f"{result['tokens']:,} tokens scored, {result['bytes']:,} bytes", file=sys.stderr)
    return 0
