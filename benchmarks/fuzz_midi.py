"""Fuzz the MIDI import: grammar-made files and mutants of them; nothing but a Score or one sentence may come out.

Rerun: ``.venv/bin/python -m benchmarks.fuzz_midi --count 1000000 --seconds 600 --seed 1 [--seeds FOLDER] [--keep FOLDER]``
Every mutant is read; every fourth that reads is written and read again and must come back equal.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import random
import resource
import struct
import time
import traceback
from pathlib import Path

from gpt_core.errors import UserError
from music_transformer.midi import read_midi, read_texts, write_midi

SLOW = 2.0  # CPU seconds for one small file: a hang in the making
MEMORY = 1 << 30
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


def mutate(data: bytes, other: bytes, rng: random.Random) -> bytes:
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
            data = data[:at] + rng.choice(TOKENS) + data[at:]
        elif how == 3:
            data = data[:at] + data[at + span :]
        elif how == 4:
            data = data[: at + span] + data[at : at + span] * rng.choice((1, 3, 50)) + data[at + span :]
        elif how == 5:
            data = data[:at] + other[rng.randrange(len(other) + 1) :]
        else:
            data = data[:at]
    return data


def try_one(data: bytes, deep: bool) -> str:
    """Read one file; raise AssertionError where what comes out is not sound."""
    try:
        score, report = read_midi(data)
    except UserError as error:
        assert "\n" not in str(error) and len(str(error)) < 400, "not one sentence"
        return "refused"
    assert score.notes and report.notes >= len(score.notes) and len(report.lines) < 40
    assert all(0 <= n.start < n.end < 50_000 and 0 <= n.pitch < 128 and 0 < n.velocity < 128 for n in score.notes)
    assert all(0 <= p.start < p.end < 50_100 for p in score.pedals)
    if deep:
        read_texts(data)
        written = write_midi(score)
        again, second = read_midi(written)
        same = again == score and write_midi(again) == written and not second.warnings
        # Five minutes of drums alone are a silence once the drums are left out, and cut by the second reading only.
        assert same or report.drums, "the round trip is no fixed point"
    return "read"


@dataclasses.dataclass
class Tally:
    """What came out so far; ``faults`` maps each distinct fault to the first file that showed it."""

    files: int = 0
    slowest: float = 0.0
    outcomes: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    faults: dict[str, bytes] = dataclasses.field(default_factory=dict)
    began: float = dataclasses.field(default_factory=time.process_time)

    def add(self, data: bytes) -> None:
        """Try one file."""
        before = time.process_time()
        try:
            self.outcomes[try_one(data, self.files % 4 == 0)] += 1
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            fault = f"{type(error).__name__} {error} ({Path(where.filename).name}:{where.lineno})"
            self.faults.setdefault(fault[:200], data)
        took = time.process_time() - before
        self.slowest, self.files = max(self.slowest, took), self.files + 1
        if took > SLOW:
            self.faults.setdefault(f"slow: {took:.0f} s", data)

    def text(self) -> str:
        """One line of figures."""
        spent = time.process_time() - self.began
        counts = ", ".join(f"{n:,} {what}" for what, n in sorted(self.outcomes.items()))
        return f"{self.files:,} files ({counts}) in {spent:.0f} CPU s, slowest {self.slowest:.2f} s, {len(self.faults)} faults"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=600.0, help="CPU seconds at most")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=Path, help="folder of MIDI files to mutate, besides the made ones")
    parser.add_argument("--keep", type=Path, help="folder for files that fail")
    args = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    fuzz(args)


def fuzz(args: argparse.Namespace) -> None:
    """Run until the count or the CPU time is used up, or Ctrl-C; print what came out and every distinct fault."""
    rng = random.Random(args.seed)
    pool = [grammatical(rng) for _ in range(200)]
    if args.seeds:
        found = sorted(p for p in args.seeds.rglob("*") if p.is_file() and 20 < p.stat().st_size < 2000)
        pool += [p.read_bytes() for p in found]
    tally = Tally()
    try:
        while tally.files < args.count and time.process_time() - tally.began < args.seconds:
            data = grammatical(rng) if rng.random() < 0.2 else mutate(rng.choice(pool), rng.choice(pool), rng)
            tally.add(data)
            if tally.files % 20_000 == 0:
                print(tally.text(), flush=True)
    except KeyboardInterrupt:
        print("stopped")
    print(f"seed {args.seed}: {tally.text()}")
    for i, (fault, data) in enumerate(tally.faults.items()):
        print(f"  {fault}: {data[:120].hex()}")
        if args.keep:
            args.keep.mkdir(parents=True, exist_ok=True)
            (args.keep / f"fault{i}.mid").write_bytes(data)


if __name__ == "__main__":
    main()
