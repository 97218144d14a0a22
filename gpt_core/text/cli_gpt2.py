"""``gpt-core import-gpt2`` and ``export-gpt2``: Hugging Face's layout <-> a checkpoint."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def add_import_gpt2(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``import-gpt2``."""
    parser.add_argument("source", help="a folder with config.json and weights, or a hub id such as gpt2")
    parser.add_argument("-o", "--out", type=Path, required=True, help="the checkpoint folder to write")
    parser.add_argument("--tokenizer", type=Path, help="the tokenizer's folder, where the source has none")


def run_import_gpt2(args: argparse.Namespace) -> int:
    """Import, and say what came out."""
    from gpt_core.text.gpt2 import import_gpt2

    import_gpt2(args.source, args.out, tokenizer=args.tokenizer, say=lambda line: print(line, file=sys.stderr))
    print(f"checkpoint in {args.out}; try: gpt-core complete --model {args.out} 'Once upon a time'")
    return 0


def add_export_gpt2(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``export-gpt2``."""
    parser.add_argument("model", help="a shipped model's name or a checkpoint folder")
    parser.add_argument("-o", "--out", type=Path, required=True, help="the folder to write")


def run_export_gpt2(args: argparse.Namespace) -> int:
    """Export, and say where to."""
    from gpt_core.text.gpt2 import export_gpt2
    from gpt_core.text.models import find

    export_gpt2(find(args.model), args.out)
    print(f"Hugging Face folder in {args.out}")
    return 0
