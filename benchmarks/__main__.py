"""``python -m benchmarks [NAME ...]``: run the benchmark scripts one after another; what is missing is skipped by name.

Those that read music want MT_DATA, a folder of MIDI files (100 of them, spread over it, are read), and MT_SHARDS, a corpus.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec


@dataclass(frozen=True)
class Script:
    """One script of this folder, the libraries it compares with, what it is told, and whether it needs a folder of MIDI files."""

    name: str
    peers: tuple[str, ...] = ()
    corpus: bool = False
    arguments: tuple[str, ...] = ()


SCRIPTS = (
    Script("decode", peers=("transformers",)),
    Script("peers"),  # names the absent ones itself: they live in an environment of their own
    Script("decode_quality"),
    Script("attention", peers=("playwright",)),
    Script("training", peers=("transformers",)),
    Script("stages", corpus=True),  # its peers live elsewhere too
    Script("codec", corpus=True, arguments=("--files=100",)),
    Script("midi_import", corpus=True, arguments=("--files=100",)),
)


def run(script: Script) -> int:
    """Run one script in a process of its own; returns its exit code."""
    print(f"\n# {script.name}\n", flush=True)
    for peer in script.peers:
        if find_spec(peer) is None:
            print(f"({peer} is not installed: skipped)", flush=True)
    folder = os.environ.get("MT_DATA")
    if script.corpus and not folder:
        print(f"({script.name} needs MIDI files: skipped; set MT_DATA to a folder of them)", flush=True)
        return 0
    arguments = [*([folder] if script.corpus and folder else []), *script.arguments]
    return subprocess.run([sys.executable, "-m", f"benchmarks.{script.name}", *arguments]).returncode


def main(asked: list[str]) -> int:
    """Run the scripts asked for, or all; returns 1 where one failed or is unknown."""
    known = {script.name: script for script in SCRIPTS}
    strange = [name for name in asked if name not in known]
    if strange:
        print(f"no benchmark is called {', '.join(strange)}; there are {', '.join(known)}", file=sys.stderr)
        return 1
    codes = [run(known[name]) for name in asked or known]  # all of them, also after one failed
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
