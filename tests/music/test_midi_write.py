"""Writing MIDI files: read back by us and by other people's readers, and the round trip as a fixed point."""

from __future__ import annotations

import io

import mido
import pretty_midi
import pytest
import symusic
from hypothesis import given, settings
from hypothesis import strategies as st

from gpt_core.errors import UserError
from music_transformer.midi import read_midi, read_texts, write_midi
from music_transformer.score import Note, Pedal, Tempo, TimeSignature, make_score
from tests.music.midi_bytes import SCALE, midi, tempo

CHANNELS = st.sampled_from([0, 1, 8, 10, 15])
TIMES = st.integers(0, 3000).map(lambda n: n / 100)
LENGTHS = st.integers(1, 400).map(lambda n: n / 100)
NOTES = st.lists(
    st.builds(
        lambda p, s, d, v, c: Note(p, s, s + d, v, c),
        st.integers(0, 127),
        TIMES,
        LENGTHS,
        st.integers(1, 127),
        CHANNELS,
    ),
    min_size=1,
    max_size=40,
)


def messages(data: bytes) -> list[list[mido.Message]]:
    return [list(t) for t in mido.MidiFile(file=io.BytesIO(data)).tracks]


def test_another_reader_finds_the_notes_the_pedal_and_the_piano():
    notes = [Note(60, 0.0, 0.25, 1), Note(64, 0.1, 1.37, 64), Note(67, 0.1, 2.0, 127)]
    data = write_midi(make_score(notes, [Pedal(0.05, 1.5)]))
    piece = pretty_midi.PrettyMIDI(io.BytesIO(data))
    (piano,) = piece.instruments
    assert piano.program == 0 and not piano.is_drum
    got = sorted((n.start, n.pitch, n.end, n.velocity) for n in piano.notes)
    for mine, theirs in zip(notes, got, strict=True):
        assert theirs == pytest.approx((mine.start, mine.pitch, mine.end, mine.velocity), abs=1e-9)
    assert [c.value for c in piano.control_changes] == [127, 0]
    assert [c.time for c in piano.control_changes] == pytest.approx([0.05, 1.5])
    file = mido.MidiFile(file=io.BytesIO(data))
    assert (file.type, file.ticks_per_beat) == (1, 500)  # 1 ms a tick: the 10 ms grid is met exactly


def test_legato_on_one_key_stays_six_notes_of_a_fifth_second():
    notes = [Note(60, i / 5, (i + 1) / 5, 64) for i in range(6)]
    data = write_midi(make_score(notes))
    (track,) = symusic.Score.from_midi(data, ttype="second").tracks
    assert [(n.start, n.duration) for n in track.notes] == [pytest.approx((i / 5, 0.2), abs=1e-6) for i in range(6)]
    piano = [m.type for m in messages(data)[1] if m.type.startswith("note")]
    assert piano == ["note_on", "note_off"] * 6  # on every shared tick the release comes first


def test_overlapping_notes_of_one_pitch_come_back_as_they_were():
    for ends in ((1.0, 1.5), (1.5, 1.0)):  # the second pair is nested: the tracks of one channel are two
        score = make_score([Note(60, 0.0, ends[0], 64), Note(60, 0.5, ends[1], 80)])
        assert read_midi(write_midi(score))[0].notes == score.notes


def test_tempo_and_time_signature_maps_are_kept():
    score = make_score(
        [Note(60, 0.0, 9.0, 64)],
        (),
        [Tempo(0.0, 90.0), Tempo(4.0, 60.0)],
        [TimeSignature(0.0, 3, 4), TimeSignature(4.0, 6, 8)],
    )
    again, _ = read_midi(write_midi(score))
    assert again.tempos == (Tempo(0.0, pytest.approx(90.0, abs=1e-4)), Tempo(pytest.approx(4.0), 60.0))
    assert [(s.numerator, s.denominator) for s in again.time_signatures] == [(3, 4), (6, 8)]
    assert [m.tempo for m in messages(write_midi(score))[0] if m.type == "set_tempo"] == [666667, 1000000]


def test_texts_go_to_the_first_track_whatever_they_say():
    texts = ["seed 1", "\u00c9tude \u65e5\u672c", "line\nline", "x" * 300]
    data = write_midi(make_score([Note(60, 0.0, 1.0, 64)]), texts=texts)
    assert read_texts(data) == texts
    assert sum(m.type == "text" for m in messages(data)[0]) == 4


def test_equal_scores_give_equal_bytes_and_the_file_holds_them(tmp_path):
    score = make_score([Note(60, 0.0, 1.0, 64)], [Pedal(0.0, 2.0)])
    assert write_midi(score) == write_midi(score, tmp_path / "out.mid") == (tmp_path / "out.mid").read_bytes()
    assert [p.name for p in tmp_path.iterdir()] == ["out.mid"]
    with pytest.raises(UserError, match="cannot be written"):
        write_midi(score, tmp_path / "no folder" / "out.mid")


def test_nothing_is_ever_written_to_the_drum_channel():
    score = make_score([Note(60, 0.0, 1.0, 64, 9), Note(62, 0.0, 1.0, 64, 25)], [Pedal(0.0, 1.0, 9)])
    channels = {m.channel for t in messages(write_midi(score)) for m in t if not m.is_meta}
    assert channels == {0}


def test_an_empty_score_is_a_valid_file():
    assert mido.MidiFile(file=io.BytesIO(write_midi(make_score([])))).length == 0


def test_a_slow_tempo_gets_ticks_fine_enough_for_the_grid():
    notes = [Note(60, i / 100, i / 100 + 0.01, 64) for i in range(0, 300, 7)]
    score = make_score(notes, (), [Tempo(0.0, 7.3)])
    for mine, back in zip(score.notes, read_midi(write_midi(score))[0].notes, strict=True):
        assert back.start == pytest.approx(mine.start, abs=0.001) and back.end == pytest.approx(mine.end, abs=0.001)


def test_a_silence_too_long_for_one_wait_is_written_in_parts():
    score = make_score([Note(60, 0.0, 0.1, 64), Note(60, 250.0, 250.1, 64)], (), [Tempo(0.0, 6000.0)])
    assert read_midi(write_midi(score))[0].notes[1].start == pytest.approx(250.0, abs=0.001)


@pytest.mark.parametrize("division", [1, 24, 96, 120, 384, 479, 480, 1024, 32767, 0xE250, 0xE728, 0xE364])
def test_import_export_import_is_a_fixed_point_for_every_division(division):
    pedal = b"\x05\xb0\x40\x7f\x11\xb0\x40\x00\x00\xb0\x40\x7f"
    data = midi(tempo(487_321) + SCALE, tempo(600_000, 7) + tempo(16_000_000, 100), pedal + SCALE, division=division)
    score, _ = read_midi(data)
    again, report = read_midi(write_midi(score))
    assert again == score and report.warnings == ()
    assert write_midi(again) == write_midi(score)


@settings(max_examples=60, deadline=None)
@given(NOTES, st.lists(st.builds(lambda s, d, c: Pedal(s, s + d, c), TIMES, LENGTHS, CHANNELS), max_size=6))
def test_a_score_survives_the_trip(notes, pedals):
    score = make_score(notes, pedals)
    first, report = read_midi(write_midi(score))
    assert report.warnings == () and len(first.notes) == len(score.notes)
    for mine, back in zip(sorted(score.notes, key=str), sorted(first.notes, key=str), strict=True):
        assert (back.pitch, back.velocity, back.channel) == (mine.pitch, mine.velocity, mine.channel)
        assert (back.start, back.end) == (pytest.approx(mine.start, abs=1e-9), pytest.approx(mine.end, abs=1e-9))
    second, _ = read_midi(write_midi(first))
    assert second == first and write_midi(second) == write_midi(first)
