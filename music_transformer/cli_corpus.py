"""``music-transformer corpus``: a folder of MIDI files -> shards to train on."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from gpt_core.options import add_flags, from_args


def add_corpus(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``corpus``."""
    from music_transformer.corpus import CorpusConfig

    parser.add_argument("source", help="a folder of MIDI files, or the name of a public corpus: maestro, pop909")
    parser.add_argument("-o", "--out", type=Path, required=True, help="the folder to write the shards to")
    add_flags(parser, CorpusConfig)


def run_corpus(args: argparse.Namespace) -> int:
    """Build the shards, then say on standard output what they hold and what was left out."""
    from music_transformer.corpus import CorpusConfig, build_corpus
    from music_transformer.downloads import RECIPES, fetch

    folder = fetch(args.source) if args.source in RECIPES else Path(args.source)
    record = build_corpus(folder, args.out, from_args(CorpusConfig, args), progress=sys.stderr.isatty())
    for split, size in record["splits"].items():
        pieces = f"{size['pieces']:,} piece{'' if size['pieces'] == 1 else 's'}"
        print(f"{split}: {pieces}, {size['tokens']:,} tokens, {size['hours']:.1f} hours")
    for split in ("train", "validation"):
        if not record["splits"][split]["pieces"]:
            wish = f"--validation {record['settings']['validation']:g} and --test {record['settings']['test']:g}"
            print(f"note: no piece is for {split}, which training needs, at {wish}", file=sys.stderr)
    left_out = len(record["duplicates"]) + len(record["failed"])
    if left_out:
        print(f"left out: {left_out:,}, each named on standard error")
    for row in record["duplicates"]:
        print(f"left out {row['file']}: the same music as {row['same_as']} ({row['same_as_split']})", file=sys.stderr)
    for row in record["failed"]:
        print(f"left out {row['file']}: {row['error']}", file=sys.stderr)
    return 0
