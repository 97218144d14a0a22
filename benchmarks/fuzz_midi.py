"""MIDI files for ``benchmarks.fuzz``: made by a grammar, parts right more often than not, and mutants of such files.

Every one is read; every fourth that reads is written and read again and must come back equal.
"""

from __future__ import annotations

import random
import struct
from pathlib import Path

from music_transformer.midi import read_midi, read_texts, write_midi

TOKENS = (
    b"MThd", b"MTrk", b"RIFF", b"\r\n", b"\x00\xff\x2f\x00", b"\xff\xff\xff\x7f", b"\x8f\xff\xff\xff\x50", b"\xff\x51\x03",
    b"\x00\x00\x00\x06", b"\xff\xff\xff\xff", b"\x7f\xff", b"\xe7\x28", b"\x80\x00", b"\xf0\x84\x00", b"\xb0\x40\x7f",
    b"\x99\x24\x40", b"\xff\x59\x02\x08\x00", b"\xff\x58\x04\x00\xff\x18\x08", b"\xf4", b"\xfe", b"\x00",
)  # fmt: skip


def number(rng: random.Random) -> bytes:
    """A wait: mostly small, at times at the edge of what the format allows or beyond."""
    value = rng.choice((0, 0, 0, 1, rng.randrange(128), rng.randrange(1 << 14), rng.randrange(1 << 28), (1 << 28) - 1))
    groups = [value & 127]
    while value := value >> 7:
        groups.append(value & 127 | 128)
    return bytes((0x80,)) * rng.choice((0,) * 30 + (1, 4, 9)) + bytes(reversed(groups))


def event(rng: random.Random) -> bytes:
    """One event, rarely one that no standard knows."""
    kind = rng.random()
    if kind < 0.55:
        status = (
            bytes((rng.choice((0x80, 0x90, 0x90)) | rng.choice((0, 0, 0, 1, 9, 15)),)) if rng.random() < 0.7 else b""
        )
        return status + bytes((rng.choice((60, 61, rng.randrange(128))), rng.choice((0, 64, 127))))
    if kind < 0.7:
        return bytes(
            (0xB0 | rng.choice((0, 0, 9)), rng.choice((64, 64, 66, 120, 121, 123)), rng.choice((0, 63, 64, 127)))
        )
    if kind < 0.85:
        body = rng.randbytes(rng.choice((0, 1, 2, 3, 4, 5)))
        return (
            b"\xff" + bytes((rng.choice((0, 1, 3, 5, 0x20, 0x2F, 0x51, 0x51, 0x54, 0x58, 0x59, 0x7F)),)) + _long(body)
        )
    if kind < 0.9:
        return rng.choice((b"\xf0", b"\xf7")) + _long(rng.randbytes(rng.randrange(9)))
    return bytes((rng.choice((0xA0, 0xC0, 0xD0, 0xE0, 0xF1, 0xF2, 0xF5, 0xF8, 0xFE)),)) + rng.randbytes(
        rng.randrange(3)
    )


def _long(body: bytes) -> bytes:
    return bytes((len(body),)) + body


def grammatical(rng: random.Random) -> bytes:
    """A whole file whose parts are right more often than not."""
    tracks = []
    for _ in range(rng.choice((0, 1, 1, 2, 3, 20))):
        body = b"".join(number(rng) + event(rng) for _ in range(rng.choice((0, 3, 12, 40))))
        body += b"\x00\xff\x2f\x00" * (rng.random() < 0.9)
        length = len(body) if rng.random() < 0.9 else rng.choice((0, 3, len(body) - 1, len(body) + 5, 0xFFFFFFFF))
        tracks.append(rng.choice((b"MTrk",) * 20 + (b"MXrk",)) + struct.pack(">I", max(0, length)) + body)
    division = rng.choice((1, 24, 96, 96, 480, 480, 32767, 0, 0x8000, 0xFFFF, 0xE728, 0xE364, rng.randrange(65536)))
    kind, count = rng.choice((0, 1, 1, 1, 2, 3, 65535)), rng.choice((len(tracks), len(tracks), rng.randrange(65536)))
    return (
        b"MThd"
        + struct.pack(">IHHH", rng.choice((6,) * 20 + (0, 8, 0xFFFFFFFF)), kind, count, division)
        + b"".join(tracks)
    )


def mutate(data: bytes, other: bytes, rng: random.Random, tokens: tuple[bytes, ...] = TOKENS) -> bytes:
    """One to four small changes: bits, bytes, tokens, cuts, repeats, splices."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(data) + 1)
        span = rng.choice((1, 1, 4, rng.randrange(64)))
        how = rng.randrange(7)
        if how == 0 and at < len(data):
            data = data[:at] + bytes((data[at] ^ 1 << rng.randrange(8),)) + data[at + 1 :]
        elif how == 1:
            data = data[:at] + rng.randbytes(span) + data[at + span :]
        elif how == 2:
            data = data[:at] + rng.choice(tokens) + data[at:]
        elif how == 3:
            data = data[:at] + data[at + span :]
        elif how == 4:
            data = data[: at + span] + data[at : at + span] * rng.choice((1, 3, 50)) + data[at + span :]
        elif how == 5:
            data = data[:at] + other[rng.randrange(len(other) + 1) :]
        else:
            data = data[:at]
    return data


class Midi:
    """Files to import. A folder of ``seeds`` adds its small files to what is mutated."""

    def __init__(self, rng: random.Random, seeds: Path | None) -> None:
        self.pool = [grammatical(rng) for _ in range(200)]
        if seeds:
            found = sorted(p for p in seeds.rglob("*") if p.is_file() and 20 < p.stat().st_size < 2000)
            self.pool += [p.read_bytes() for p in found]

    def case(self, rng: random.Random) -> bytes:
        """A fifth made anew, the others mutants."""
        return grammatical(rng) if rng.random() < 0.2 else mutate(rng.choice(self.pool), rng.choice(self.pool), rng)

    def try_one(self, case: bytes, deep: bool) -> str:
        """Read it; AssertionError where what comes out is not sound."""
        score, report = read_midi(case)
        assert score.notes and report.notes >= len(score.notes) and len(report.lines) < 40
        assert all(0 <= n.start < n.end < 50_000 and 0 <= n.pitch < 128 and 0 < n.velocity < 128 for n in score.notes)
        assert all(0 <= p.start < p.end < 50_100 for p in score.pedals)
        if deep:
            read_texts(case)
            written = write_midi(score)
            again, second = read_midi(written)
            same = again == score and write_midi(again) == written and not second.warnings
            # Five minutes of drums alone are a silence once the drums are left out, and cut by the second reading only.
            assert same or report.drums, "the round trip is no fixed point"
        return "read"

    def show(self, case: bytes) -> bytes:
        """The file."""
        return case
