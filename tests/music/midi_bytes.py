"""MIDI files written byte by byte, independently of the code under test."""

from __future__ import annotations

import struct

END = b"\x00\xff\x2f\x00"
SCALE = b"".join(b"\x00\x90" + bytes((p, 100)) + b"\x60\x80" + bytes((p, 64)) for p in (60, 62, 64, 65, 67, 69, 71, 72))


def chunk(body: bytes, name: bytes = b"MTrk", length: int | None = None) -> bytes:
    """A chunk whose stated length may lie."""
    return name + struct.pack(">I", len(body) if length is None else length) + body


def midi(*tracks: bytes, kind: int | None = None, division: int = 96, declared: int | None = None) -> bytes:
    """A file of track bodies; each gets its end mark."""
    return head(len(tracks), kind, division, declared) + b"".join(chunk(t + END) for t in tracks)


def head(count: int, kind: int | None = None, division: int = 96, declared: int | None = None) -> bytes:
    """A header chunk."""
    kind = (count > 1) if kind is None else kind
    return b"MThd" + struct.pack(">IHHH", 6, kind, count if declared is None else declared, division)


def tempo(beat: int, wait: int = 0) -> bytes:
    """A tempo event, microseconds per beat."""
    return bytes((wait,)) + b"\xff\x51\x03" + beat.to_bytes(3, "big")
