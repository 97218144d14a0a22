"""A piece's notes as packed bytes for the page: 40,000 notes are 600 kB and need no parsing."""

from __future__ import annotations

import struct

import numpy as np

from music_transformer.pedals import columns, fold
from music_transformer.score import Score

MAGIC = b"MTN1"


def pack(score: Score, join: float, until: float | None = None) -> bytes:
    """Score -> ``MTN1``, u32 count, f32 start, f32 end (the key), f32 ring (the pedal), u8 pitch, velocity, part.

    Little endian, each column whole, notes by (start, pitch). ``part`` is 1 for notes struck from ``join`` on and, where
    given, before ``until``, else 0.
    """
    cols = columns(score.notes)
    rung = fold(cols, score.pedals)
    key_end = {
        (c, p, s): e
        for c, p, s, e in zip(*(x.tolist() for x in (cols.channel, cols.pitch, cols.start, cols.end)), strict=True)
    }
    ends = [key_end[k] for k in zip(*(x.tolist() for x in (rung.channel, rung.pitch, rung.start)), strict=True)]
    count = len(rung.pitch)
    parts = [
        rung.start.astype("<f4"),
        np.minimum(np.array(ends, np.float64), rung.end).astype("<f4"),
        rung.end.astype("<f4"),
        rung.pitch.astype("u1"),
        rung.velocity.astype("u1"),
        ((rung.start >= join - 1e-6) & (rung.start < (np.inf if until is None else until))).astype("u1"),
    ]
    return MAGIC + struct.pack("<I", count) + b"".join(part.tobytes() for part in parts)


def bars(score: Score, most: int = 5000) -> list[float]:
    """Where bars begin, in seconds, by the tempo map and time signatures (4/4 at 120 where none are given)."""
    out: list[float] = []
    now = 0.0
    while now < score.end and len(out) < most:
        out.append(round(now, 4))
        meter = next((t for t in reversed(score.time_signatures) if t.time <= now + 1e-6), None)
        now = _after(score, now, 4 * meter.numerator / meter.denominator if meter else 4.0)
    return out


def _after(score: Score, now: float, quarters: float) -> float:
    """The moment so many quarter notes after ``now``, through every tempo on the way."""
    while True:
        bpm = next((t.bpm for t in reversed(score.tempos) if t.time <= now + 1e-6), 120.0)
        change = next((t.time for t in score.tempos if t.time > now + 1e-6), float("inf"))
        end = now + quarters * 60 / bpm
        if end <= change:
            return end
        quarters -= (change - now) * bpm / 60
        now = change
