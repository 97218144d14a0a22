"""The event codec on whole corpora: how far a round trip moves notes, and how many notes it takes a second.

Rerun: ``.venv/bin/python -m benchmarks.codec FOLDER_OF_MIDI [--every N] [--files N]``; --every 10 decodes only each tenth
file id by id (all files go through the encoder and its grid), --files 100 reads 100 files spread over the folder.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.midi_files import spread
from gpt_core.errors import UserError
from music_transformer.events import decode, encode_array, normalize
from music_transformer.midi import read_midi
from music_transformer.pedals import fold_pedals
from music_transformer.score import Note, Score


@dataclass
class Totals:
    """Sums and maxima over a corpus; seconds by step."""

    files: int = 0
    refused: int = 0
    notes: int = 0
    ids: int = 0
    decoded: int = 0
    onset: float = 0.0
    length: float = 0.0
    wrong_bins: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(("read", "encode", "decode"), 0.0))

    def time(self, step: str, work: Callable[..., Any], *args: Any) -> Any:
        """Do the work and add its CPU seconds, which other programs on the machine disturb little."""
        start = time.process_time()
        done = work(*args)
        self.seconds[step] += time.process_time() - start
        return done


def by_pitch(notes: tuple[Note, ...]) -> np.ndarray:
    """(pitch, start, end, velocity) rows; the order of ends within a pitch is first struck, first released."""
    rows = np.array([(n.pitch, n.start, n.end, n.velocity) for n in notes]).reshape(-1, 4)
    rows = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
    rows[:, 2] = rows[np.lexsort((rows[:, 2], rows[:, 0])), 2]
    return rows


def bins(rows: np.ndarray) -> np.ndarray:
    """Velocity bins by pitch and 10 ms step; of strikes that fall together the softest first."""
    bin = (rows[:, 3] - 1) // 4
    return bin[np.lexsort((bin, np.floor(100 * rows[:, 1] + 0.5), rows[:, 0]))]


def compare(score: Score, back: Score, totals: Totals) -> None:
    """Add how far the notes that came back lie from those that ring in the score."""
    before, after = by_pitch(fold_pedals(score).notes), by_pitch(back.notes)
    assert before.shape == after.shape and (before[:, 0] == after[:, 0]).all(), "notes were lost or moved"
    long = before[:, 2] - before[:, 1] >= 0.01  # a shorter note is lengthened to one step on purpose
    totals.onset = max(totals.onset, float(np.abs(before[:, 1] - after[:, 1]).max(initial=0)))
    totals.length = max(totals.length, float(np.abs(before[long, 2] - after[long, 2]).max(initial=0)))
    totals.wrong_bins += int((bins(before) != bins(after)).sum())


def run(paths: list[Path], every: int) -> Totals:
    """One pass over the files."""
    totals = Totals()
    for k, path in enumerate(paths):
        try:
            score, _ = totals.time("read", read_midi, path)
        except UserError:
            totals.refused += 1
            continue
        ids = totals.time("encode", encode_array, score)
        back = normalize(score)
        if k % every == 0:
            assert totals.time("decode", decode, ids) == back, path
            totals.decoded += len(back.notes)
        compare(score, back, totals)
        totals.files += 1
        totals.notes += len(score.notes)
        totals.ids += len(ids)
    return totals


def main() -> None:
    """Print one table row a figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--files", type=int, help="read only this many")
    args = parser.parse_args()
    paths = spread(args.folder, args.files)
    t = run(paths, args.every)
    print(f"files {t.files:,} (refused {t.refused}), notes {t.notes:,}, ids {t.ids:,}")
    print(f"largest onset error {t.onset * 1000:.3f} ms, largest end error {t.length * 1000:.3f} ms")
    print(f"velocities outside their bin {t.wrong_bins}; decode(ids) == normalize(score) on {t.decoded:,} notes")
    for step, notes in (("read", t.notes), ("encode", t.notes), ("decode", t.decoded)):
        print(f"{step}: {notes / max(t.seconds[step], 1e-9):,.0f} notes a CPU second")


if __name__ == "__main__":
    main()
