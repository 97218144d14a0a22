"""``music-transformer inspect``, ``encode`` and ``decode``: look at a MIDI file the way the model does."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpt_core.errors import UserError

if TYPE_CHECKING:
    import numpy as np


def add_inspect(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``inspect``."""
    parser.add_argument("file", help="a MIDI file")
    parser.add_argument("--json", action="store_true", help="print JSON: ok, notes, end_seconds, report, error")


def run_inspect(args: argparse.Namespace) -> int:
    """Print the import report; status 1 with one sentence where the file is no music."""
    from music_transformer.midi import inspect_midi

    try:
        found: dict[str, Any] = {"ok": True, **inspect_midi(args.file).to_dict(), "error": None}
    except UserError as error:
        if not args.json:
            raise
        found = {"ok": False, "notes": 0, "end_seconds": 0.0, "report": [], "error": str(error)}
    print(json.dumps(found, ensure_ascii=False) if args.json else "\n".join(found["report"]))
    return 0 if found["ok"] else 1


def add_encode(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``encode``."""
    parser.add_argument("file", help="a MIDI file")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print the ids as one JSON list")
    shape.add_argument("--events", action="store_true", help="print one event a line, in words")
    shape.add_argument(
        "--one-hot", type=Path, metavar="NPZ", help="write one_hot (bool, events x 391) and ids to a file"
    )


def run_encode(args: argparse.Namespace) -> int:
    """Print the ids of a file, separated by spaces, or in the shape that was asked for."""
    from music_transformer.events import describe, encode, one_hot
    from music_transformer.midi import read_midi

    score, report = read_midi(args.file)
    ids = encode(score)
    if args.one_hot:
        _write_npz(args.one_hot, one_hot=one_hot(ids), ids=ids)
    elif args.events:
        print("\n".join(describe(i) for i in ids))
    else:
        print(json.dumps(ids) if args.json else " ".join(map(str, ids)))
    for line in report.warnings:
        print(line, file=sys.stderr)
    return 0


def _write_npz(path: Path, **arrays: Any) -> None:
    import numpy as np

    try:
        with path.open("wb") as sink:
            np.savez_compressed(sink, **arrays)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}") from None


def add_decode(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``decode``."""
    parser.add_argument(
        "ids", metavar="IDS.json", help="a JSON list of ids, an .npz of encode --one-hot, or - for stdin"
    )
    parser.add_argument("-o", "--out", type=Path, required=True, help="the MIDI file to write")


def run_decode(args: argparse.Namespace) -> int:
    """Write the MIDI file that a list of ids stands for."""
    from music_transformer.events import decode
    from music_transformer.midi import write_midi

    score = decode(_read_ids(args.ids))
    write_midi(score, args.out)
    print(f"{args.out}: {len(score.notes):,} notes, {score.end:.2f} seconds")
    return 0


def _read_ids(source: str) -> list[int]:
    if source.lower().endswith(".npz"):
        return _read_one_hot(Path(source))
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
        ids = json.loads(text)
    except OSError as error:
        raise UserError(f"{source} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise UserError(f"{source} is not JSON; give a list of ids such as [356, 60, 265, 188]") from None
    if not isinstance(ids, list) or not all(type(i) is int for i in ids):
        raise UserError(f"{source} is not a list of whole numbers; give ids such as [356, 60, 265, 188]")
    return ids


def _read_one_hot(path: Path) -> list[int]:
    import zipfile

    import numpy as np

    from music_transformer.events import from_one_hot

    try:
        with np.load(path, allow_pickle=False) as arrays:
            rows: np.ndarray = arrays["one_hot"]
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or 'it is not an .npz file'}") from None
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile):
        raise UserError(f"{path} holds no array named one_hot; make one with encode --one-hot") from None
    return from_one_hot(rows)
