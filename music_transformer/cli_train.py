"""``music-transformer train`` and ``evaluate``: shards -> a checkpoint, and how good a checkpoint is."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from gpt_core.config import PRESETS, GPTConfig
from gpt_core.options import add_flags, from_args
from gpt_core.train_config import TrainConfig


def add_train(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``train``."""
    parser.add_argument("shards", type=Path, help="a folder made by the corpus command")
    parser.add_argument("-o", "--out", type=Path, required=True, help="the checkpoint folder to write")
    parser.add_argument("--preset", choices=sorted(PRESETS), help="the model's shape (default: piano)")
    parser.add_argument("--resume", action="store_true", help="go on with the run whose checkpoint is in --out")
    parser.add_argument(
        "--init-from", type=Path, help="start from the weights of this checkpoint, with a fresh optimizer"
    )
    parser.add_argument(
        "--transpose", type=int, default=3, help="transpose each row by up to this many semitones (default: 3)"
    )
    parser.add_argument("--tensorboard", type=Path, help="also log to this TensorBoard folder")
    add_flags(parser, TrainConfig)
    add_flags(parser, GPTConfig, skip=("vocab_size",))


def run_train(args: argparse.Namespace) -> int:
    """Train, and print the best validation figure."""
    config = from_args(TrainConfig, args)
    shape = from_args(GPTConfig, args, PRESETS[args.preset or "piano"])
    from gpt_core.distributed import is_main
    from gpt_core.start import Start, asked_shape
    from music_transformer.training import train_music

    start = Start(args.out, args.resume, args.init_from, args.tensorboard, asked_shape(args))
    best = train_music(args.shards, shape, config, start, transpose=args.transpose)
    if is_main():
        print(f"best validation: {best:.4f} nats/event; checkpoint in {args.out}")
    return 0


def add_evaluate(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``evaluate``."""
    parser.add_argument(
        "material", nargs="+", type=Path, help="MIDI files, folders of MIDI files, or one folder of shards"
    )
    parser.add_argument(
        "--model", default="piano", help="a shipped model's name or a checkpoint folder (default: piano)"
    )
    parser.add_argument("--split", default="validation", help="which split of the shards (default: validation)")
    parser.add_argument(
        "--min-context", type=int, default=0, help="score only events with at least this many before them"
    )
    parser.add_argument("--windows", type=int, help="read only this many windows, evenly spread")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run_evaluate(args: argparse.Namespace) -> int:
    """Print nats per event, per note and per second."""
    from music_transformer.evaluation import evaluate_material

    result = evaluate_material(args.model, args.material, args.split, args.min_context, args.windows)
    if args.json:
        print(json.dumps(result))
    else:
        print(f"{result['nats_per_event']:.4f} nats/event  {result['nats_per_note']:.4f} nats/note  ", end="")
        print(f"{result['nats_per_second']:.4f} nats/second")
        print(
            f"{result['events']:,} events scored, {result['notes']:,} notes, {result['seconds']:,.0f} seconds",
            file=sys.stderr,
        )
    return 0
