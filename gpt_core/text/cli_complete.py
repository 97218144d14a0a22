"""``gpt-core complete``, ``next`` and ``tokens``: a text goes on, and what the model thought on the way."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING

from gpt_core.errors import UserError
from gpt_core.options import add_flags, from_args
from gpt_core.text.complete import CompleteConfig, Piece, TextSampling

if TYPE_CHECKING:
    from gpt_core.checkpoint import Checkpoint

_MODEL = "a shipped model's name or a checkpoint folder (default: text)"


def add_complete(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``complete``."""
    parser.add_argument(
        "prompt", nargs="?", default="", help="the beginning; - reads standard input; none: from nothing"
    )
    parser.add_argument("--model", default="text", help=_MODEL)
    parser.add_argument("--device", default="cpu", choices=("auto", "cpu", "cuda", "mps"), help="where (default: cpu)")
    parser.add_argument("--stop", action="append", default=[], help="end before this string; may be given again")
    parser.add_argument("--interactive", action="store_true", help="ask for one prompt after the other")
    parser.add_argument("--json", action="store_true", help="print one JSON object per take")
    add_flags(parser, CompleteConfig)
    add_flags(parser, TextSampling)


def run_complete(args: argparse.Namespace) -> int:
    """Write the text as it comes; several takes follow each other, each under a line with its number."""
    config, sampling = from_args(CompleteConfig, args), from_args(TextSampling, args)
    if args.interactive and (args.prompt or args.json):
        raise UserError("--interactive asks for its prompts; leave out the prompt and --json")
    from gpt_core.text.models import load

    model = load(args.model, args.device)
    if args.interactive:
        return _interactive(model, config, sampling, args.stop)
    prompt = sys.stdin.read() if args.prompt == "-" else args.prompt
    _write(model, prompt, config, sampling, args)
    return 0


def _write(
    model: Checkpoint, prompt: str, config: CompleteConfig, sampling: TextSampling, args: argparse.Namespace
) -> None:
    from gpt_core.text.complete import complete, stream

    if not args.json and config.takes == 1:
        pieces = stream(model, prompt, config, sampling, stop=args.stop, notice=_tell)  # refuses before it prints
        print(prompt, end="", flush=True)
        _print(pieces)
        if sys.stderr.isatty():
            _tell(_engine(model, config))
        return
    for done in complete(model, prompt, config, sampling, stop=args.stop, notice=_tell):
        if args.json:
            print(json.dumps({"prompt": prompt, **asdict(done), "seed": config.seed}))
        else:
            print(f"=== take {done.take + 1} ({done.finished}) ===\n{prompt}{done.text}")


def _print(pieces: Iterable[Piece]) -> None:
    told = ""
    for piece in pieces:
        print(piece.text, end="", flush=True)
        told += piece.text
    print()
    if not told:
        _tell("the model ended the text at once; try another --seed, or --past-end")


def _engine(model: Checkpoint, config: CompleteConfig) -> str:
    from gpt_core.generate import choose_engine, describe

    return describe(choose_engine(model.model, config.engine))


def _tell(line: str) -> None:
    print(f"note: {line}", file=sys.stderr)


def _interactive(model: Checkpoint, config: CompleteConfig, sampling: TextSampling, stop: list[str]) -> int:
    """Ask until the input ends; each further prompt draws from the next seed, so that none repeats the one before."""
    from dataclasses import replace

    from gpt_core.text.complete import complete, stream

    turn = 0
    while True:
        print("prompt> ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        if not line:
            print(file=sys.stderr)
            return 0
        prompt = line.rstrip("\n")
        turned = replace(config, seed=config.seed + turn)
        if config.takes == 1:
            pieces = stream(model, prompt, turned, sampling, stop=stop, notice=_tell)
            print(f"=== 1 ===\n{prompt}", end="", flush=True)
            _print(pieces)
        else:
            for done in complete(model, prompt, turned, sampling, stop=stop, notice=_tell):
                print(f"=== {done.take + 1} ===\n{prompt}{done.text}", flush=True)
        turn += 1


def add_next(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``next``."""
    parser.add_argument("text", help="the text so far; an empty one asks how a text begins")
    parser.add_argument("--model", default="text", help=_MODEL)
    parser.add_argument("--top", type=int, default=10, help="how many tokens (default: 10)")
    parser.add_argument("--surprise", action="store_true", help="also show each token's nats and rank")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_flags(parser, TextSampling)


def run_next(args: argparse.Namespace) -> int:
    """Print a table of candidates: probability over the whole vocabulary, and after the settings (- where left out)."""
    sampling = from_args(TextSampling, args)
    from gpt_core.text.complete import context_ids
    from gpt_core.text.explore import next_tokens, text_surprises
    from gpt_core.text.models import load

    model = load(args.model)
    if not 1 <= args.top <= model.codec.vocab_size:
        raise UserError(f"--top is {args.top}; give 1 to {model.codec.vocab_size}, the model's vocabulary")
    ids = context_ids(model, args.text)
    found = next_tokens(model, ids, sampling, args.top)
    read = text_surprises(model, ids) if args.surprise else []
    if args.json:
        print(json.dumps({"next": [c.to_dict() for c in found], "surprise": [s.to_dict() for s in read]}))
        return 0
    for s in read:
        print(f"{s.chip.id:>6}  {s.chip.label:<16}  {s.nats:7.3f} nats  rank {s.rank}")
    for c in found:
        drawn = f"{c.drawn:7.2%}" if c.kept else "      -"
        print(f"{c.rank:>3}  {c.chip.id:>6}  {c.chip.label:<16}  {c.probability:7.2%}  {drawn}")
    return 0


def add_tokens(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``tokens``."""
    parser.add_argument("text", help="the text")
    parser.add_argument("--model", default="text", help=_MODEL)
    parser.add_argument("--special", action="store_true", help="read <|endoftext|> as the end token")


def run_tokens(args: argparse.Namespace) -> int:
    """Print one token a line: its id, what it is, its legible text."""
    from gpt_core.text.explore import chip
    from gpt_core.text.models import load

    codec = load(args.model).codec
    for i in codec.encode(args.text, special=args.special):
        c = chip(codec, i)
        print(f"{c.id:>6}  {c.kind:<7}  {c.label}")
    return 0
