"""Fuzz what people can hand in; nothing but a sound result or one sentence may come out, soon and in little memory.

Rerun: ``.venv/bin/python -m benchmarks.fuzz KIND --count 100000 --seconds 600 --seed 1 [--seeds FOLDER] [--keep FOLDER]``
KIND: midi (files to import), ids (to decode), checkpoint, gpt2 and bpe (folders), api (requests to the app's routes).
The same seed makes the same cases. A fault is any other exception, a case of more than 2 s of CPU time, a need of more
than 1 GB beyond what the program starts with, a result that is not sound or no fixed point of its round trip.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import importlib
import random
import resource
import signal
import time
import traceback
from pathlib import Path
from typing import Any, Protocol

from gpt_core.errors import UserError

SLOW, HANG = 2.0, 20  # CPU seconds
STUCK = 300  # seconds by the clock: it waits for what does not come
MEMORY = 1 << 30
KINDS = {
    "midi": "fuzz_midi:Midi",
    "ids": "fuzz_ids:Ids",
    "checkpoint": "fuzz_folders:Checkpoints",
    "gpt2": "fuzz_folders:Gpt2Folders",
    "bpe": "fuzz_bpe:Tokenizers",
    "api": "fuzz_api:Requests",
}


class Kind(Protocol):
    """What a kind of case must do. It is made as ``Kind(rng, seeds)``."""

    def case(self, rng: random.Random) -> Any:
        """Make one case."""

    def try_one(self, case: Any, deep: bool) -> str:
        """Try it: a word for the outcome, or UserError; ``deep`` asks for the slower checks, too."""

    def show(self, case: Any) -> bytes:
        """What is kept of a case that fails."""


class Hang(Exception):
    """A case that ran for too long."""


@dataclasses.dataclass
class Tally:
    """What came out so far; ``faults`` maps each distinct fault to the first case that showed it."""

    kind: Kind
    cases: int = 0
    slowest: float = 0.0
    outcomes: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    faults: dict[str, Any] = dataclasses.field(default_factory=dict)
    began: float = dataclasses.field(default_factory=time.process_time)

    def add(self, case: Any) -> None:
        """Try one case."""
        before = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, HANG)
        signal.setitimer(signal.ITIMER_REAL, STUCK)
        try:
            self.outcomes[self._outcome(case)] += 1
        except Exception as error:
            self._keep(fault_text(error), case)
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        took = time.process_time() - before
        self.slowest, self.cases = max(self.slowest, took), self.cases + 1
        if took > SLOW:
            self._keep(f"slow: {took:.0f} s", case)

    def _outcome(self, case: Any) -> str:
        try:
            return self.kind.try_one(case, self.cases % 4 == 0)
        except UserError as error:
            text = str(error)
            assert text and "\n" not in text and len(text) < 1000 and text.isprintable(), f"no plain sentence: {text!r}"
            return "refused"

    def _keep(self, fault: str, case: Any) -> None:
        if fault not in self.faults:
            self.faults[fault] = case
            print(f"  FAULT at {self.cases}: {fault}", flush=True)

    def text(self) -> str:
        """One line of figures."""
        spent = time.process_time() - self.began
        counts = ", ".join(f"{n:,} {what}" for what, n in sorted(self.outcomes.items()))
        return f"{self.cases:,} cases ({counts}) in {spent:.0f} CPU s, slowest {self.slowest:.2f} s, {len(self.faults)} faults"


def fault_text(error: BaseException) -> str:
    """A fault in one line: what and where; equal for cases that fail alike."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if "/site-packages/" not in f.filename and "/lib/python" not in f.filename]
    places = " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in reversed(ours[-2:]))
    what = "" if isinstance(error, UserError) else " ".join(str(error).split())[:120]
    return f"{type(error).__name__} {what} ({places})"


def _hang(number: int, frame: Any) -> None:
    raise Hang(f"after {HANG} CPU s or {STUCK} s")


def limit_memory() -> None:
    """Allow 1 GB of address space beyond what is taken now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    top = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (top, top))


def fuzz(name: str, args: argparse.Namespace) -> Tally:
    """Run until the count or the CPU time is used up, or Ctrl-C or SIGTERM; print what came out and every distinct fault."""
    module, _, cls = KINDS[name].partition(":")
    rng = random.Random(args.seed)
    kind = getattr(importlib.import_module(f"benchmarks.{module}"), cls)(rng, args.seeds)
    limit_memory()
    signal.signal(signal.SIGPROF, _hang)
    signal.signal(signal.SIGALRM, _hang)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    tally = Tally(kind)
    try:
        while tally.cases < args.count and time.process_time() - tally.began < args.seconds:
            tally.add(kind.case(rng))
            if tally.cases % 10_000 == 0:
                print(tally.text(), flush=True)
    except KeyboardInterrupt:
        print("stopped")
    print(
        f"{name}, seed {args.seed}: {tally.text()}, {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MB at most"
    )
    for i, (fault, case) in enumerate(tally.faults.items()):
        shown = kind.show(case)
        print(f"  {fault}: {shown[:200]!r}")
        if args.keep:
            args.keep.mkdir(parents=True, exist_ok=True)
            (args.keep / f"{name}-seed{args.seed}-fault{i}").write_bytes(shown)
    return tally


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=600.0, help="CPU seconds at most")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=Path, help="midi: folder of files to mutate, besides the made ones")
    parser.add_argument("--keep", type=Path, help="folder for cases that fail")
    args = parser.parse_args()
    fuzz(args.kind, args)


if __name__ == "__main__":
    main()
