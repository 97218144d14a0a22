"""``music-transformer scorecard`` and ``quotes``: measure a model again, and find what a piece took from the training music."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from gpt_core.errors import UserError
from gpt_core.options import add_flags, from_args
from music_transformer.scorecard_config import Request, ScorecardConfig


def add_scorecard(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``scorecard``."""
    parser.add_argument(
        "shards", type=Path, help="a folder made by the corpus command, with train, validation and test"
    )
    parser.add_argument(
        "-o", "--out", type=Path, default=Path("scorecard"), help="the folder to write (default: scorecard)"
    )
    parser.add_argument(
        "--model", default="piano", help="a shipped model's name or a checkpoint folder (default: piano)"
    )
    parser.add_argument(
        "--beside", type=Path, nargs="+", default=[], help="JSON files with the figures of other models, to show beside"
    )
    add_flags(parser, ScorecardConfig)


def run_scorecard(args: argparse.Namespace) -> int:
    """Measure, with a line on standard error for each part; a stopped run goes on where it was."""
    from music_transformer.models import load
    from music_transformer.scorecard import make_scorecard

    config = from_args(ScorecardConfig, args)
    if not args.shards.is_dir():
        raise UserError(f"{args.shards} is not a folder; make shards with the corpus command")
    name = Path(args.model).name
    request = Request(load(args.model), name, args.shards, args.out, config, tuple(args.beside))
    make_scorecard(request, lambda line: print(line, file=sys.stderr, flush=True))
    print(f"{args.out / 'scorecard.md'}, .json, .png and {config.pieces} pieces beside them")
    return 0


def add_quotes(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``quotes``."""
    parser.add_argument("files", type=Path, nargs="+", help="MIDI files to look into")
    parser.add_argument("--shards", type=Path, required=True, help="the shards the model was trained on")
    parser.add_argument(
        "--index", type=Path, help="where the index of the training music is kept (default: quotes.npz in the shards)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, a line for each file")


def run_quotes(args: argparse.Namespace) -> int:
    """Say for each file which passage of it stands in the training music, in whatever key."""
    from gpt_core.tokens import Shard
    from music_transformer.events import encode_array
    from music_transformer.midi import read_midi
    from music_transformer.scorecard_parts import training_index

    pieces = [(file, read_midi(file)[0]) for file in args.files]
    index = training_index(args.shards, Shard.open(args.shards, "train"), args.index or args.shards / "quotes.npz")
    for file, score in pieces:
        found = index.longest(encode_array(score))
        row = {"file": str(file), "of": len(score.notes), **vars(found)}
        where = f", notes {found.at + 1} to {found.at + found.notes}, as in {found.source}" if found.source else ""
        print(json.dumps(row) if args.json else f"{file}: {found.notes} notes in a row of {len(score.notes)}{where}")
    return 0
