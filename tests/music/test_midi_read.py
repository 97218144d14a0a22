"""Reading sound MIDI files: seconds, channels, pedal, maps; every expected number worked out by hand."""

from __future__ import annotations

import pytest

from gpt_core.errors import UserError
from music_transformer.midi import inspect_midi, read_midi, read_texts
from music_transformer.score import Note, Pedal, Tempo, TimeSignature
from tests.music.midi_bytes import END, SCALE, chunk, head, midi, tempo


def spans(data: bytes) -> list[tuple[int, float, float]]:
    return [(n.pitch, n.start, n.end) for n in read_midi(data)[0].notes]


def test_scale_without_tempo_or_pedal_keeps_all_eight_notes():
    # 96 ticks a beat, 120 beats a minute by default: a note of 96 ticks is half a second
    score, report = read_midi(midi(SCALE))
    assert [(n.pitch, n.start, n.end, n.velocity, n.channel) for n in score.notes] == [
        (p, i / 2, i / 2 + 0.5, 100, 0) for i, p in enumerate((60, 62, 64, 65, 67, 69, 71, 72))
    ]
    assert score.pedals == () and score.tempos == (Tempo(0.0, 120.0),) and score.ticks_per_beat == 96
    assert (report.notes, report.end_seconds, report.warnings) == (8, 4.0, ())


def test_tempo_events_outside_the_first_track_set_the_speed():
    # a beat at 120, then 60 a minute: ticks 0-96 last 0.5 s, ticks 96-192 last 1 s
    notes = b"\x00\x90\x3c\x40\x81\x40\x80\x3c\x40"
    score, report = read_midi(midi(b"", notes, b"" + tempo(500_000) + tempo(1_000_000, 96)))
    assert [(n.start, n.end) for n in score.notes] == [(0.0, 1.5)]
    assert score.tempos == (Tempo(0.0, 120.0), Tempo(0.5, 60.0))
    assert "2 tempo events outside the first track obeyed." in report.lines


def test_running_status_and_note_on_with_velocity_0():
    assert spans(midi(b"\x00\x90\x3c\x40\x60\x3c\x00\x00\x3e\x40\x60\x3e\x00")) == [(60, 0.0, 0.5), (62, 0.5, 1.0)]


@pytest.mark.parametrize(
    "between", [b"\x00\xff\x01\x02hi", b"\x00\xf0\x03\x7e\x09\xf7", b"\x00\xf8", b"\x00\xf2\x01\x02"]
)
def test_running_status_goes_on_after_meta_and_system_events(between):
    assert spans(midi(b"\x00\x90\x3c\x40" + between + b"\x60\x3c\x00")) == [(60, 0.0, 0.5)]


def test_overlapping_notes_of_one_pitch_end_first_in_first_out():
    # on at 0 and .5, off at 1 and 1.5
    assert spans(midi(b"\x00\x90\x3c\x40\x60\x3c\x50\x60\x3c\x00\x60\x3c\x00")) == [(60, 0.0, 1.0), (60, 0.5, 1.5)]


def test_tracks_of_one_channel_do_not_end_each_others_notes():
    long, short = b"\x00\x90\x3c\x40\x83\x60\x80\x3c\x40", b"\x60\x90\x3c\x50\x60\x80\x3c\x40"
    assert spans(midi(long, short)) == [(60, 0.0, 2.5), (60, 0.5, 1.0)]


def test_note_of_no_length_lasts_one_tick_and_leaves_the_next_alone():
    data = midi(b"\x00\x90\x3c\x40\x00\x80\x3c\x40\x00\x90\x3c\x40\x60\x80\x3c\x40")
    assert spans(data) == [(60, 0.0, 0.5 / 96), (60, 0.0, 0.5)]
    assert "1 note of no length made as short as can be." in read_midi(data)[1].warnings


def test_note_never_released_ends_where_struck_again_or_where_the_music_stops():
    data = midi(b"\x00\x90\x3c\x40\x60\x3c\x40\x60\x3e\x40\x60\x3e\x00")
    assert spans(data) == [(60, 0.0, 0.5), (60, 0.5, 1.5), (62, 1.0, 1.5)]
    assert any(line.startswith("2 notes never released") for line in read_midi(data)[1].warnings)


def test_note_never_released_ends_at_all_notes_off_or_after_eight_beats():
    # strike at 0; all notes off (CC 123) at beat 2; another note at beats 20-21
    tail = b"\x8d\x40\x90\x40\x40\x60\x40\x00"
    assert spans(midi(b"\x00\x90\x3c\x40\x81\x40\xb0\x7b\x00" + tail))[0] == (60, 0.0, 1.0)
    assert spans(midi(b"\x00\x90\x3c\x40" + tail))[0] == (60, 0.0, 4.0)


def test_drums_are_left_out_and_counted():
    data = midi(b"\x00\x99\x24\x40\x60\x89\x24\x40" + SCALE)
    score, report = read_midi(data)
    assert len(score.notes) == 8 and report.notes == 9 and report.drums == 1
    assert "1 drum note (channel 10) left out." in report.lines


def test_only_drums_can_be_inspected_but_not_played():
    data = midi(b"\x00\x99\x24\x40\x60\x89\x24\x40")
    assert inspect_midi(data).drums == 1
    with pytest.raises(UserError, match="only drums"):
        read_midi(data)


def test_pedal_is_down_from_64_on_and_per_channel():
    events = b"\x00\xb0\x40\x3f\x60\xb0\x40\x40\x00\xb1\x40\x7f\x60\xb0\x40\x3f\x60\xb1\x40\x00"
    score, _ = read_midi(midi(b"\x00\x90\x3c\x40" + events + b"\x60\x80\x3c\x40"))
    assert score.pedals == (Pedal(0.5, 1.0, 0), Pedal(0.5, 1.5, 1))


def test_pedal_never_released_goes_up_with_the_last_note():
    score, report = read_midi(midi(b"\x00\xb0\x40\x7f" + SCALE))
    assert score.pedals == (Pedal(0.0, 4.0, 0),)
    assert "The sustain pedal is never released; it goes up with the last note." in report.warnings


def test_key_held_past_the_pedal_keeps_its_own_end():
    # pedal .5-1, key 0.25-1.5: the note's end is the key's release
    data = midi(b"\x30\x90\x3c\x40\x30\xb0\x40\x7f\x60\xb0\x40\x00\x60\x80\x3c\x40")
    assert spans(data) == [(60, 0.25, 1.5)]


def test_reset_all_controllers_lifts_the_pedal():
    score, _ = read_midi(midi(b"\x00\xb0\x40\x7f\x60\xb0\x79\x00" + SCALE))
    assert score.pedals == (Pedal(0.0, 0.5, 0),)


def test_time_signatures_are_kept():
    meter = b"\x00\xff\x58\x04\x06\x03\x24\x08"
    score, _ = read_midi(midi(b"\x00\xff\x58\x04\x03\x02\x18\x08" + SCALE[:8] + meter + SCALE))
    assert score.time_signatures == (TimeSignature(0.0, 3, 4), TimeSignature(0.5, 6, 8))


@pytest.mark.parametrize(
    ("division", "seconds"),
    [(0xE728, 96 / 1000), (0xE850, 96 / 1920), (0xE364, 96 * 1001 / 3_000_000)],  # 25 x 40, 24 x 80, 29.97 x 100
)
def test_film_time_keeps_the_clock_whatever_tempo_says(division, seconds):
    score, report = read_midi(midi(tempo(1_000_000) + SCALE, division=division))
    assert score.notes[-1].end == pytest.approx(8 * seconds, abs=1e-9)
    assert any("film frames" in line for line in report.lines)


def test_division_0_is_a_stated_guess():
    score, report = read_midi(midi(SCALE, division=0))
    assert score.notes[-1].end == pytest.approx(8 * 96 / 480 / 2)
    assert any("no ticks per beat" in line for line in report.warnings)


def test_independent_sequences_follow_one_another_each_at_its_own_speed():
    slow = tempo(1_000_000) + b"\x00\x90\x3c\x40\x50\x80\x3c\x40"  # 80 ticks: the next starts on the beat, at 1 s
    plain = b"\x00\x90\x3e\x40\x60\x80\x3e\x40"
    data = midi(slow, plain, kind=2)
    assert spans(data) == [(60, 0.0, 80 / 96), (62, 1.0, 1.5)]
    assert any("2 independent sequences" in line for line in read_midi(data)[1].lines)


def test_texts_of_any_bytes():
    assert read_texts(midi("\u65e5\u672c".encode().join((b"\x00\xff\x01\x06", b"")) + b"\x00\xff\x03\x03na\xef")) == [
        "\u65e5\u672c",
        "na\u00ef",
    ]


def test_a_file_has_one_line_that_sums_it_up():
    assert read_midi(midi(SCALE))[1].summary() == "8 notes, 0:04"


def test_many_tracks_and_channels_become_one_part():
    other = b"\x00\x92\x30\x40\x60\x82\x30\x40"
    score, report = read_midi(midi(SCALE, other))
    assert score.notes[0] == Note(48, 0.0, 0.5, 64, 2)
    assert report.lines[0] == "9 notes in 0:04, 2 tracks on 2 channels merged into one piano part."


def test_paths_with_odd_names(tmp_path):
    for name in ("UPPER.MID", "\u00c9tude \u65e5\u672c.kar", "no suffix"):
        (tmp_path / name).write_bytes(midi(SCALE))
        assert len(read_midi(tmp_path / name)[0].notes) == len(read_midi(str(tmp_path / name))[0].notes) == 8


def test_missing_files_and_folders_are_refused_by_name(tmp_path):
    with pytest.raises(UserError, match=r"nowhere\.mid cannot be read"):
        read_midi(tmp_path / "nowhere.mid")
    with pytest.raises(UserError, match="is not a file"):
        read_midi(tmp_path)


def test_alien_chunks_and_longer_headers_are_passed_over():
    long_head = head(1)[:4] + b"\x00\x00\x00\x08" + head(1)[8:] + b"\x00\x00"
    assert len(spans(long_head + chunk(b"whatever", b"Junk") + chunk(SCALE + END))) == 8
