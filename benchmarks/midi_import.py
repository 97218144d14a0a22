"""MIDI import against the verdicts on odd files, and note for note against mido, symusic and pretty_midi.

Rerun: ``.venv/bin/python -m benchmarks.midi_import ODDMIDI_FOLDER [MORE_FOLDERS ...] [--files N]``
"""

from __future__ import annotations

import argparse
import collections
import csv
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from benchmarks.midi_files import spread
from gpt_core.errors import UserError
from music_transformer.midi import inspect_midi
from music_transformer.midi_clock import Clock, Grid, read_grid
from music_transformer.midi_container import Container, open_container
from music_transformer.midi_notes import Notes, pair_tracks
from music_transformer.midi_report import Findings
from music_transformer.midi_timeline import merge

Row = tuple[int, int, int, int]  # pitch, start and end in ticks, velocity


@dataclass
class Ours:
    """Our reading of a file, in ticks, drums included."""

    box: Container
    notes: Notes
    clock: Clock
    found: Findings
    rows: list[Row]


def ours(path: Path) -> Ours:
    box = open_container(path.read_bytes(), path.name)
    grid: Grid = read_grid(box.division)
    notes = pair_tracks(box.tracks, grid.ticks_per_beat, path.name)
    found = Findings(box, grid)
    line = merge(box.tracks, notes, grid, found)
    columns = (c.tolist() for c in (notes.starts, notes.ends, notes.keys, notes.velocities))
    rows = [(k & 127, s, e, v) for s, e, k, v in zip(*columns, strict=True)]
    return Ours(box, notes, Clock(grid.ticks_per_beat, line.tempos), found, rows)


def by_mido(path: Path, clock: Clock) -> Iterator[Row]:
    """Mido gives messages; paired here first in, first out within each track."""
    import mido

    for track in mido.MidiFile(path).tracks:
        tick = 0
        waiting: dict[tuple[int, int], list[tuple[int, int]]] = collections.defaultdict(list)
        for m in track:
            tick += m.time
            if m.type == "note_on" and m.velocity:
                waiting[m.channel, m.note].append((tick, m.velocity))
            elif m.type in ("note_on", "note_off") and waiting[m.channel, m.note]:
                start, velocity = waiting[m.channel, m.note].pop(0)
                yield m.note, start, tick, velocity


def by_symusic(path: Path, clock: Clock) -> Iterator[Row]:
    import symusic

    for track in symusic.Score(str(path), ttype="tick").tracks:
        for n in track.notes:
            yield n.pitch, n.start, n.start + n.duration, n.velocity


def by_pretty_midi(path: Path, clock: Clock) -> Iterator[Row]:
    """pretty_midi gives seconds; put back on the ticks of the whole file's tempo map."""
    import pretty_midi

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        notes = [n for i in pretty_midi.PrettyMIDI(str(path)).instruments for n in i.notes]
    starts, ends = (clock.nearest_ticks([getattr(n, w) for n in notes]).tolist() for w in ("start", "end"))
    for n, start, end in zip(notes, starts, ends, strict=True):
        yield n.pitch, start, end, n.velocity


def difference(mine: list[Row], theirs: list[Row]) -> str:
    """The first thing that differs by more than a tick: notes (their number), onsets, velocities or lengths."""
    if len(mine) != len(theirs):
        return "notes"
    for name, fields in (("onsets", (0, 1)), ("velocities", (0, 1, 3)), ("lengths", (0, 1, 2))):
        a, b = (sorted(tuple(row[f] for f in fields) for row in rows) for rows in (mine, theirs))
        if any(
            x[0] != y[0] or max(abs(p - q) for p, q in zip(x, y, strict=True)) > 1 for x, y in zip(a, b, strict=True)
        ):
            return name
    return "equal"


def cause(library: str, what: str, it: Ours) -> str:
    """Why a library reads a file otherwise, as far as the file tells."""
    if what == "equal":
        return ""
    if len(it.box.tracks) > it.box.declared:
        return "tracks beyond the announced number"
    if it.box.division >= 0x8000:
        return "film time (SMPTE)"
    if library == "pretty_midi" and what in ("onsets", "lengths") and it.found.tempos_elsewhere:
        return "tempo events outside the first track"
    if it.notes.hanging:
        return "notes never released"
    if it.notes.instant:
        return "notes of no length"
    if any(t.clipped or t.jumps or t.stray or t.broken for t in it.box.tracks):
        return "damaged bytes"
    if overlapping(it):
        return "a key struck again before its release"
    return "UNEXPLAINED"


def overlapping(it: Ours) -> bool:
    last: dict[int, int] = {}
    for start, end, key in sorted(zip(it.notes.starts, it.notes.ends, it.notes.keys, strict=True)):
        if last.get(key, 0) > start:
            return True
        last[key] = max(last.get(key, 0), end)
    return False


LIBRARIES: dict[str, Callable[[Path, Clock], Iterator[Row]]] = {
    "mido": by_mido,
    "symusic": by_symusic,
    "pretty_midi": by_pretty_midi,
}


def differential(files: list[Path]) -> None:
    """Print, per library, how many files it reads as we do, and what explains the others."""
    table: dict[tuple[str, str, str], list[str]] = collections.defaultdict(list)
    libraries = {name: read for name, read in LIBRARIES.items() if find_spec(name)}
    for name in LIBRARIES.keys() - libraries.keys():
        print(f"({name} is not installed: skipped)")
    for path in files:
        try:
            it = ours(path)
        except UserError:
            continue
        for library, read in libraries.items():
            try:
                theirs = list(read(path, it.clock))
            except Exception as error:
                table[library, "refuses", type(error).__name__].append(path.name)
                continue
            what = difference(it.rows, theirs)
            table[library, what, cause(library, what, it)].append(path.name)
    for (library, what, why), names in sorted(table.items()):
        print(f"| {library} | {what} | {why} | {len(names)} | {'' if what == 'equal' else ', '.join(names[:3])} |")


def verdicts(folder: Path) -> None:
    """Print, per verdict of INDEX.tsv, how many files come out as it says, and every one that does not."""
    counts: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0])
    slowest = (0.0, "")
    for row in csv.DictReader((folder / "INDEX.tsv").open(encoding="utf-8"), delimiter="\t"):
        began = time.perf_counter()
        try:
            report = inspect_midi(folder / row["path"])
            got: tuple[int, float] | str = (report.notes, round(report.end_seconds, 3))
        except UserError as error:
            got = str(error)
        slowest = max(slowest, (time.perf_counter() - began, row["path"]))
        met = as_indexed(row, got)
        counts[row["verdict"]][not met] += 1
        if not met:
            print(f"  {row['verdict']} {row['path']}: {row['notes_lo_hi']} notes, end {row['note_end_s']}; got {got}")
    for verdict, (met, missed) in sorted(counts.items()):
        print(f"| {verdict} | {met + missed} | {met} | {missed} |")
    print(f"slowest: {slowest[0]:.2f} s, {slowest[1]}")


def as_indexed(row: dict[str, str], got: tuple[int, float] | str) -> bool:
    """Whether a result is what the index says; ends count for the ACCEPT rows, to half a second."""
    low, high = map(int, row["notes_lo_hi"].split(".."))
    if row["verdict"] in ("EMPTY", "REJECT"):
        return isinstance(got, str)
    if isinstance(got, str) or not low <= got[0] <= high:
        return False
    return not row["verdict"].startswith("ACCEPT") or abs(got[1] - float(row["note_end_s"])) <= 0.5


def main(argv: list[str]) -> None:
    """Print both tables; the first only for a folder with an INDEX.tsv."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--files", type=int, help="compare only this many of each folder, evenly spread")
    args = parser.parse_args(argv)
    for folder in args.folders:
        if (folder / "INDEX.tsv").is_file():
            verdicts(folder)
    files = sorted(f for folder in args.folders for f in spread(folder, args.files))
    print(f"{len(files)} files")
    differential(files)


if __name__ == "__main__":
    main(sys.argv[1:])
