"""Pieces to look at: the piano roll of each above the spectrogram of its sound, and a line of figures.

Rerun: ``.venv/bin/python -m benchmarks.pieces PIECE.mid ... -o OUT.png``; needs matplotlib. The sound is the one that
``--wav`` writes, through the soundfont found on the machine. Roll: pitch against time, colour = velocity. Spectrogram:
windows of 85 ms, 27 Hz to 8 kHz, dB below the loudest.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from music_transformer.audio import SAMPLE_RATE, render
from music_transformer.meters import measure
from music_transformer.midi import read_midi
from music_transformer.score import Score

WINDOW = 4096  # samples: 85 ms, of which the lowest A (27.5 Hz) fits in twice
FLOOR = -80.0  # dB


def spectrum(samples: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Levels in dB below the loudest [frequency, time] of Hann windows that overlap by half, from mono samples; Hz; seconds."""
    from matplotlib import mlab

    found = mlab.specgram(samples, NFFT=WINDOW, Fs=SAMPLE_RATE, noverlap=WINDOW // 2, mode="magnitude")
    levels, hertz, seconds = map(np.asarray, found)
    return np.maximum(20 * np.log10(levels / levels.max() + 1e-12), FLOOR), hertz, seconds


def figures(name: str, score: Score) -> dict[str, object]:
    """What is said of a piece in a line."""
    m = measure(score)
    sounding = sum(n.end - n.start for n in score.notes)
    return {
        "piece": name, "seconds": round(score.end, 1), "notes": m.notes, "notes_per_second": m.density,
        "lowest": m.lowest, "highest": m.highest, "keys_down": round(sounding / max(m.seconds, 0.01), 1),
        "longest_hold": round(max((n.end - n.start for n in score.notes), default=0.0), 1),
        "pitch_classes": len({n.pitch % 12 for n in score.notes}), "longest_repeat": m.longest_repeat,
    }  # fmt: skip


def draw(pieces: Sequence[tuple[str, Score]], out: Path, across: int = 2) -> None:
    """Draw all pieces into one PNG, ``across`` side by side."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = -(-len(pieces) // across)
    size = (7 * across, 3.4 * rows)
    figure, grid = pyplot.subplots(2 * rows, across, figsize=size, squeeze=False, height_ratios=[3, 2] * rows)
    for i in range(rows * across):
        upper, lower = (grid[2 * (i // across) + k][i % across] for k in (0, 1))
        if i >= len(pieces):
            upper.set_axis_off()
            lower.set_axis_off()
            continue
        name, score = pieces[i]
        roll(upper, name, score)
        sound(lower, score)
    figure.tight_layout(pad=0.4)
    figure.savefig(out, dpi=80)
    pyplot.close(figure)


def roll(axes: Any, name: str, score: Score) -> None:
    """Notes as lines, the louder the lighter."""
    from matplotlib import pyplot

    columns = (np.array([getattr(n, field) for n in score.notes]) for field in ("pitch", "start", "end", "velocity"))
    pitch, start, end, velocity = columns
    axes.hlines(pitch, start, end, colors=pyplot.get_cmap("viridis")(velocity / 127), linewidth=1.6)
    octaves = range(24, 109, 12)
    axes.set(ylim=(21, 108), xlim=(0, score.end), yticks=octaves, xticklabels=[])
    axes.set_yticklabels([f"C{p // 12 - 1}" for p in octaves], fontsize=6)
    axes.set_title(name, fontsize=8, loc="left")
    axes.grid(alpha=0.25, linewidth=0.5)


def sound(axes: Any, score: Score) -> None:
    """The spectrogram of what is heard."""
    levels, hertz, seconds = spectrum(render(score).mean(axis=1))
    kept = (hertz >= 20) & (hertz <= 8000)
    axes.pcolormesh(seconds, hertz[kept], levels[kept], cmap="magma", vmin=FLOOR, vmax=0, rasterized=True)
    axes.set(yscale="log", ylim=(27, 8000), xlim=(0, score.end))
    axes.tick_params(labelsize=6)


def main(argv: Sequence[str] | None = None) -> int:
    """Draw the picture and print a line for each piece."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pieces", type=Path, nargs="+", help="MIDI files")
    parser.add_argument("-o", "--out", type=Path, required=True, help="the PNG to write")
    parser.add_argument("--across", type=int, default=2, help="pieces side by side")
    args = parser.parse_args(argv)
    pieces = [(path.stem, read_midi(path)[0]) for path in args.pieces]
    for name, score in pieces:
        print(json.dumps(figures(name, score)))
    draw(pieces, args.out, args.across)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
