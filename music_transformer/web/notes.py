"""A piece's notes as packed bytes for the page: 40,000 notes are 600 kB and need no parsing."""

from __future__ import annotations

import struct

import numpy as np

from music_transformer.pedals import columns, fold
from music_transformer.score import Score

MAGIC = b"MTN1"


def pack(score: Score, join: float) -> bytes:
    """Score -> ``MTN1``, u32 count, f32 start, f32 end (the key), f32 ring (the pedal), u8 pitch, velocity, part.

    Little endian, each column whole, notes by (start, pitch). ``part`` is 1 for notes struck from ``join`` on, else 0.
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
        (rung.start >= join - 1e-6).astype("u1"),
    ]
    return MAGIC + struct.pack("<I", count) + b"".join(part.tobytes() for part in parts)
