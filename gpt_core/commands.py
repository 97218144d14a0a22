"""A command made of verbs: each verb's module is imported when it is chosen, and mistakes end as one sentence."""

from __future__ import annotations

import argparse
import atexit
import gc
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from gpt_core.errors import UserError


class Verb(NamedTuple):
    """A row of the table: ``module`` holds ``add_<verb>(parser)`` and ``run_<verb>(args) -> int``; some stay for hours."""

    name: str
    module: str
    help: str
    stays: bool = False


@dataclass(frozen=True)
class Command:
    """The program's name, its one line, the package its modules lie in, and its verbs."""

    program: str
    description: str
    package: str
    verbs: tuple[Verb, ...]

    def main(self, argv: Sequence[str] | None = None) -> int:
        """Run one command line; returns the exit status: 0, 1 for bad input, 2 for bad usage, 130 after Ctrl-C."""
        args = list(sys.argv[1:] if argv is None else argv)
        if argv is None and args and not any(v.stays for v in self.verbs if v.name == args[0]):
            _hurry()
        try:
            status = self._run(args)
            sys.stdout.flush()
            return status
        except UserError as error:
            print(f"{self.program}: {error}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print(f"{self.program}: stopped", file=sys.stderr)
            return 130
        except BrokenPipeError:
            # The reader (head, less) has gone: nothing is wrong, but Python would complain while it closes stdout.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0

    def _run(self, argv: list[str]) -> int:
        chosen = next((v for v in self.verbs if argv and v.name == argv[0]), None)
        parser = self.parser(chosen)
        args = parser.parse_args(argv)
        if chosen is None:
            parser.print_help()
            return 2
        return self._function(chosen, "run")(args)

    def parser(self, chosen: Verb | None = None) -> argparse.ArgumentParser:
        """The parser with every verb's one line, and the flags of the chosen one."""
        parser = argparse.ArgumentParser(self.program, description=self.description)
        parser.add_argument("--version", action="version", version=f"%(prog)s {_version() if chosen is None else ''}")
        commands = parser.add_subparsers(dest="verb", metavar="COMMAND", title="commands")
        for verb in self.verbs:
            sub = commands.add_parser(verb.name, help=verb.help, description=verb.help[0].upper() + verb.help[1:] + ".")
            if verb == chosen:
                self._function(verb, "add")(sub)
        return parser

    def _function(self, verb: Verb, prefix: str) -> Callable[..., Any]:
        module = importlib.import_module(f"{self.package}.{verb.module}")
        return getattr(module, f"{prefix}_{verb.name.replace('-', '_')}")


def _hurry() -> None:
    """Collect garbage rarely, and not at the end: PyTorch's import makes a million objects that live as long as we do."""
    gc.set_threshold(100_000, 50, 100)
    atexit.register(gc.freeze)


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("music-transformer")
    except PackageNotFoundError:
        return "(not installed)"
