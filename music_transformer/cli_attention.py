"""``music-transformer attention``: what a note of a MIDI file attended to, as a picture, numbers or a page."""

from __future__ import annotations

import argparse
from pathlib import Path

from gpt_core.edges import EdgeRule
from gpt_core.errors import UserError
from gpt_core.options import add_flags, from_args
from music_transformer.arc_query import ArcQuery

SUFFIXES = (".svg", ".png", ".json", ".html")


def add_attention(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``attention``."""
    parser.add_argument("file", type=Path, help="the MIDI file to look into")
    parser.add_argument("-o", "--out", type=Path, required=True, help=f"what to write: {', '.join(SUFFIXES)}")
    parser.add_argument("--at", type=float, help="look from the note struck nearest to this second (default: the last)")
    parser.add_argument(
        "--head", type=int, action="append", help="only this head, counted from 0; repeat for several (default: all)"
    )
    parser.add_argument(
        "--model", default="piano", help="a shipped model's name or a checkpoint folder (default: piano)"
    )
    parser.add_argument(
        "--device", default="auto", choices=("auto", "cpu", "cuda", "mps"), help="where to compute (default: auto)"
    )
    add_flags(parser, ArcQuery)
    add_flags(parser, EdgeRule)


def run_attention(args: argparse.Namespace) -> int:
    """Read the piece, answer the question, save it, and say in a line what was found."""
    if args.out.suffix.lower() not in SUFFIXES:
        raise UserError(f"-o {args.out}: the file must end in one of {', '.join(SUFFIXES)}")
    if args.at is not None and not 0 <= args.at < float("inf"):
        raise UserError(f"--at is {args.at:g} seconds; give 0 or more")
    query = from_args(ArcQuery, args, ArcQuery(heads=tuple(args.head or ()), rule=from_args(EdgeRule, args)))
    from music_transformer.midi import read_midi

    score, _ = read_midi(args.file)
    from music_transformer.arc_export import CAUTION, summary
    from music_transformer.arcs import attention
    from music_transformer.models import load

    found = attention(load(args.model, args.device), score, at=args.at, query=query)
    found.save(args.out)
    print(f"{args.out}: {summary(found)}\n{found.view.reach()} {CAUTION}")
    return 0
