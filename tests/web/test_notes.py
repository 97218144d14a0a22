"""What the page draws: packed columns read back byte by byte, bar lines, live events equal to the saved take."""

from __future__ import annotations

import struct

import numpy as np

from music_transformer.midi import read_midi
from music_transformer.score import Note, Pedal, Tempo, TimeSignature, make_score
from music_transformer.web.live import LiveTake
from music_transformer.web.notes import bars, pack

from .conftest import SAMPLE


def unpack(data: bytes) -> list[tuple]:
    assert data[:4] == b"MTN1"
    (count,) = struct.unpack_from("<I", data, 4)
    floats = np.frombuffer(data, "<f4", 3 * count, 8).reshape(3, count)
    small = np.frombuffer(data, "u1", 3 * count, 8 + 12 * count).reshape(3, count)
    assert len(data) == 8 + 15 * count
    return list(zip(*floats.tolist(), *small.tolist(), strict=True))


def test_columns_of_a_pedalled_chord():
    score = make_score([Note(60, 0.0, 0.5, 80), Note(64, 1.0, 1.25, 20), Note(67, 2.0, 3.0, 127)], [Pedal(0.25, 2.0)])
    assert unpack(pack(score, 1.0)) == [
        (0.0, 0.5, 2.0, 60, 80, 0),
        (1.0, 1.25, 2.0, 64, 20, 1),
        (2.0, 3.0, 3.0, 67, 127, 1),
    ]
    assert [row[5] for row in unpack(pack(score, 1.0, 2.0))] == [0, 1, 0]
    assert unpack(pack(make_score([]), 0.0)) == []


def test_a_whole_piece_keeps_its_notes():
    score, _ = read_midi(SAMPLE)
    rows = unpack(pack(score, float("inf")))
    assert sorted((r[3], round(r[0], 3)) for r in rows) == sorted((n.pitch, round(n.start, 3)) for n in score.notes)
    assert all(r[5] == 0 and r[2] >= r[1] > r[0] for r in rows)


def test_bars_follow_tempo_and_signature():
    waltz = make_score([Note(60, 0, 5.9, 80)], (), [Tempo(0.0, 60.0)], [TimeSignature(0.0, 3, 4)])
    assert bars(waltz) == [0.0, 3.0]
    faster = make_score([Note(60, 0, 9.0, 80)], (), [Tempo(0.0, 60.0), Tempo(2.0, 120.0)])
    assert bars(faster) == [0.0, 3.0, 5.0, 7.0]  # two beats of 1 s and two of 0.5 s make the first bar
    assert bars(make_score([Note(60, 0, 3.0, 80)])) == [0.0, 2.0]
    assert len(bars(make_score([Note(60, 0, 1e6, 80)]))) == 5000


def test_live_events_carry_loudness_and_time_of_the_whole_piece():
    live = LiveTake(2, 10.0, [389, 356 + 20, 60])
    assert live.feed(64) == ["on", 2, 64, 10.0, 82]
    assert live.feed(256 + 99) is None and live.seconds == 11.0
    assert live.feed(128 + 64) == ["off", 2, 64, 11.0]
    assert live.feed(356) is None and live.feed(72) == ["on", 2, 72, 11.0, 2] and live.feed(390) is None
