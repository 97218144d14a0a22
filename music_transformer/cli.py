"""The command ``music-transformer``: a table of verbs, each in a module that is imported when it is chosen."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gpt_core.errors import UserError


class Verb(NamedTuple):
    """A row of the table: ``module`` holds ``add_<verb>(parser)`` and ``run_<verb>(args) -> int``."""

    name: str
    module: str
    help: str


VERBS = (
    Verb("inspect", "cli_files", "say what a MIDI file holds and what had to be repaired"),
    Verb("encode", "cli_files", "MIDI file -> event ids"),
    Verb("decode", "cli_files", "event ids -> MIDI file"),
    Verb("receipt", "cli_compose", "show how a generated file was made"),
    Verb("continue", "cli_compose", "continue a MIDI file"),
    Verb("generate", "cli_compose", "write a piece from nothing"),
    Verb("render", "cli_compose", "MIDI file -> sound file"),
    Verb("evaluate", "cli_train", "measure a model on MIDI files or shards"),
    Verb("corpus", "cli_corpus", "folder of MIDI files -> shards to train on"),
    Verb("train", "cli_train", "train a model on shards"),
    Verb("attention", "cli_attention", "show what a note attends to"),
    Verb("scorecard", "cli_scorecard", "measure a model in every way and write the report"),
    Verb("serve", "cli_serve", "open the app in the browser"),
)
PROGRAM = "music-transformer"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; returns the exit status: 0, 1 for bad input, 2 for bad usage, 130 after Ctrl-C."""
    args = list(sys.argv[1:] if argv is None else argv)
    try:
        status = _run(args)
        sys.stdout.flush()
        return status
    except UserError as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{PROGRAM}: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader (head, less) has gone: nothing is wrong, but Python would complain while it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _run(argv: list[str]) -> int:
    verbs = {verb.name: verb for verb in VERBS if _exists(verb)}
    chosen = verbs.get(argv[0]) if argv else None
    parser = build_parser(list(verbs.values()), chosen)
    args = parser.parse_args(argv)
    if chosen is None:
        parser.print_help()
        return 2
    return _function(chosen, "run")(args)


def build_parser(verbs: Sequence[Verb], chosen: Verb | None = None) -> argparse.ArgumentParser:
    """The parser with every verb's one line, and the flags of the chosen one."""
    parser = argparse.ArgumentParser(PROGRAM, description="A transformer that continues your piano MIDI, on your CPU.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {'' if chosen else _version()}")
    commands = parser.add_subparsers(dest="verb", metavar="COMMAND", title="commands")
    for verb in verbs:
        sub = commands.add_parser(verb.name, help=verb.help, description=verb.help[0].upper() + verb.help[1:] + ".")
        if verb == chosen:
            _function(verb, "add")(sub)
    return parser


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("music-transformer")
    except PackageNotFoundError:
        return "(not installed)"


def _exists(verb: Verb) -> bool:
    return importlib.util.find_spec(f"music_transformer.{verb.module}") is not None


def _function(verb: Verb, prefix: str) -> Callable[[Any], Any]:
    module = importlib.import_module(f"music_transformer.{verb.module}")
    return getattr(module, f"{prefix}_{verb.name}")
