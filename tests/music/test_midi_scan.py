"""Many events at a time: the same tracks, notes and ids as one event after the other."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest

from music_transformer import midi_notes, midi_scan
from music_transformer.events import encode_array, encode_columns
from music_transformer.midi import read_columns, read_midi, write_midi
from music_transformer.midi_track import scan_track
from tests.music.midi_bytes import END, midi
from tests.music.scores import random_score


def delta(wait: int) -> bytes:
    """A variable-length number."""
    groups = [wait & 127]
    while wait := wait >> 7:
        groups.append(wait & 127 | 128)
    return bytes(reversed(groups))


def track(rng: random.Random, events: int) -> bytes:
    """A sound track of every kind of message, under running status as often as may be."""
    out, running = [], 0
    for _ in range(events):
        out.append(delta(rng.choice((0, 1, 50, 127, 128, 300, 16_383, 16_384, 200_000))))
        kind = rng.choices((0x80, 0x90, 0xA0, 0xB0, 0xC0, 0xD0, 0xE0, 0xFF, 0xF0), (9, 9, 1, 9, 0.1, 0.1, 1, 0.1, 0.1))[
            0
        ]
        data = [rng.randrange(60, 70), rng.randrange(128)]
        if kind == 0xB0:
            data[0] = rng.choice((1, 64, 64, 66, 67, 120, 121, 123))
        if kind == 0xFF:
            out.append(bytes((0xFF, rng.choice((1, 0x20, 0x51)), 3, *rng.randbytes(3))))
        elif kind == 0xF0:
            out.append(b"\xf0\x03ab\xf7")
        else:
            status = kind | rng.randrange(3)
            short = kind in (0xC0, 0xD0)
            out.append(b"" if status == running and rng.random() < 0.9 and not short else bytes((status,)))
            out.append(bytes(data[:1] if short else data))
            running = status
    return b"".join(out)


def as_lists(thing) -> dict:
    """A dataclass with its arrays as lists."""
    fields = ((f.name, getattr(thing, f.name)) for f in dataclasses.fields(thing))
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in fields}


@pytest.fixture
def eager(monkeypatch):
    """Even short tracks go the quick way."""
    monkeypatch.setattr(midi_scan, "LEAST_BYTES", 0)


def test_sound_tracks_are_scanned_alike(eager, monkeypatch):
    rng = random.Random(1)
    tracks = [track(rng, rng.choice((1, 5, 60, 400))) + END for _ in range(150)]
    wanted = [as_lists(scan_track(body, 480)) for body in tracks]
    left = []
    monkeypatch.setattr(midi_scan, "scan_track", lambda *args: left.append(args) or scan_track(*args))
    assert [as_lists(midi_scan.scan(body, 480)) for body in tracks] == wanted
    assert len(left) < 15  # the quick way was gone


def test_damaged_tracks_are_scanned_alike(eager):
    rng = random.Random(2)
    for _ in range(1500):
        body = bytearray(track(rng, rng.choice((3, 30, 150))) + END * rng.randrange(2))
        for _ in range(rng.randrange(4)):
            at = rng.randrange(len(body))
            body[at : at + rng.randrange(3)] = rng.randbytes(rng.randrange(3))
        division = rng.choice((1, 96, 480))
        assert as_lists(midi_scan.scan(bytes(body), division)) == as_lists(scan_track(bytes(body), division))


def test_tracks_of_little_but_other_messages_go_by_the_loop_at_once(monkeypatch):
    looks, look = [], midi_scan._closer_look
    monkeypatch.setattr(midi_scan, "_closer_look", lambda *args: looks.append(1) or look(*args))
    body = bytes.fromhex("00 ff 51 03 07 a1 20") * 20_000 + bytes.fromhex("00 90 3c 40 10 80 3c 40") + END
    assert as_lists(midi_scan.scan(body)) == as_lists(scan_track(body))
    assert len(looks) < 600  # each takes a thousand times as long as a step of the loop


def test_notes_are_paired_alike(monkeypatch):
    rng = random.Random(3)
    for _ in range(100):
        on = [(rng.randrange(400), rng.randrange(60, 64), rng.randrange(1, 128)) for _ in range(rng.randrange(1, 60))]
        off = [(tick + rng.randrange(80), pitch, 0) for tick, pitch, _ in on]
        events, tick = [], 0
        for at, pitch, velocity in sorted(on + off, key=lambda e: (e[0], e[2] == 0)):
            events.append(delta(at - tick) + bytes((0x90, pitch, velocity)))
            tick = at
        found = scan_track(b"".join(events) + END)
        quick = midi_notes.pair_tracks([found], 480, "")
        with monkeypatch.context() as patch:
            patch.setattr(midi_notes, "_pair_sound", lambda track: None)
            assert as_lists(midi_notes.pair_tracks([found], 480, "")) == as_lists(quick)
        assert len(quick.starts) == len(on) and quick.hanging == quick.orphans == 0


def test_columns_become_the_ids_of_the_score():
    rng = random.Random(4)
    for seed in range(40):
        data = write_midi(random_score(seed))
        ids = encode_columns(*read_columns(data))
        assert ids.dtype == np.uint16 and np.array_equal(ids, encode_array(read_midi(data)[0]))
    for _ in range(40):
        data = midi(track(rng, 300))
        assert np.array_equal(encode_columns(*read_columns(data)), encode_array(read_midi(data)[0]))
