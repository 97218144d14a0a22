"""Whatever bytes come: a sound Score or one sentence. Longer runs: benchmarks/fuzz.py; what they found stays here."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpt_core.errors import UserError
from music_transformer.midi import read_midi, read_texts, write_midi
from tests.music.midi_bytes import END, SCALE, chunk, head, midi, tempo

PEDAL = b"\x05\xb0\x40\x7f\x11\xb0\x40\x00\x00\xff\x58\x04\x03\x02\x18\x08\x00\xff\x01\x02ab"
BASE = midi(tempo(500_000) + PEDAL + SCALE, tempo(250_000, 90) + b"\x00\xf0\x03\x7e\x09\xf7\x00\xb1\x7b\x00" + SCALE)
EDITS = st.lists(
    st.tuples(
        st.integers(0, len(BASE)), st.integers(0, 6), st.binary(max_size=6) | st.sampled_from([b"MTrk", b"\xff" * 5])
    ),
    max_size=6,
)


def check(data: bytes) -> None:
    try:
        score, report = read_midi(data)
    except UserError as error:
        assert "\n" not in str(error)
        return
    assert all(0 <= n.start < n.end and 0 <= n.pitch < 128 and 0 < n.velocity < 128 for n in score.notes)
    assert all(0 <= p.start < p.end for p in score.pedals)
    written = write_midi(score)
    again, second = read_midi(written)
    same = again == score and write_midi(again) == written and not second.warnings
    assert same or report.drums


@settings(max_examples=150, deadline=None)
@given(EDITS)
def test_edited_files(edits):
    data = BASE
    for at, gone, new in edits:
        data = data[:at] + new + data[at + gone :]
    check(data)
    if b"MThd" in data:
        assert all(isinstance(t, str) for t in read_texts(data))


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=60), st.integers(0, 0xFFFF), st.integers(0, 3))
def test_any_bytes_as_a_track(body, division, kind):
    check(head(1, kind, division) + chunk(b"\x00\x90\x3c\x40" + body + END))


@pytest.mark.parametrize(
    "data",
    [
        # a beat of 16 s and one tick a beat: two seconds of a cut silence are less than a tick, and a note may not vanish
        midi(tempo(16_000_000) + SCALE, division=1),
        # a pedal that goes up two minutes after the last note
        midi(SCALE + b"\x00\xb0\x40\x7f\x81\xa0\x00\xb0\x40\x00"),
        # the same at 11 beats a minute and 480 ticks a beat: the latest moment allowed lies between two ticks
        midi(tempo(5_519_938) + SCALE + b"\x00\xb0\x40\x7f\x81\xa0\x00\xb0\x40\x00", division=480),
        # tracks whose lengths all lead to the end of the file
        head(3) + b"".join(b"MTrk" + (100 - 12 * i).to_bytes(4, "big") + END for i in range(9)),
        # a number that never ends
        midi(b"\x00\x90\x3c\x40" + b"\xff" * 50_000),
    ],
)
def test_found_cases(data):
    check(data)
