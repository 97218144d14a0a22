"""Reading damaged MIDI files: salvage what is sound, say what was lost, refuse the rest in one sentence."""

from __future__ import annotations

import pytest

from gpt_core.errors import UserError
from music_transformer.midi import read_midi, read_texts
from tests.music.midi_bytes import END, SCALE, chunk, head, midi, tempo

GOOD = midi(SCALE)


def scale_of(data: bytes) -> tuple[str, ...]:
    """The file must give the whole scale at its times; return the warnings."""
    score, report = read_midi(data)
    assert [(n.pitch, n.start) for n in score.notes] == [
        (p, i / 2) for i, p in enumerate((60, 62, 64, 65, 67, 69, 71, 72))
    ]
    assert score.notes[-1].end == 4.0
    return report.warnings


def says(warnings: tuple[str, ...], *parts: str) -> None:
    for part in parts:
        assert any(part in line for line in warnings), (part, warnings)


@pytest.mark.parametrize("key", [b"\x08\x00", b"\x68\x00", b"\x0f\x42", b"\x00\x02"])
def test_an_invalid_key_signature_costs_nothing(key):
    says(scale_of(midi(b"\x00\xff\x59\x02" + key + SCALE)), "1 malformed tempo, time or key signature ignored.")


@pytest.mark.parametrize(
    "event",
    [b"\x00\xff\x00\x00", b"\x00\xff\x20\x00", b"\x00\xff\x51\x01\x07", b"\x00\xff\x54\x00", b"\x00\xff\x58\x00",
     b"\x00\xff\x58\x02\x00\x02", b"\x00\xff\x59\x01\x00", b"\x00\xff\x7f\x00", b"\x00\xff\x51\x03\x00\x00\x00"],
)  # fmt: skip
def test_short_and_senseless_meta_events_are_skipped(event):
    scale_of(midi(event + SCALE))


@pytest.mark.parametrize("status", [0xF1, 0xF2, 0xF3, 0xF4, 0xF5, 0xF6, 0xF8, 0xF9, 0xFA, 0xFB, 0xFC, 0xFD, 0xFE])
def test_stray_system_messages_are_skipped(status):
    data = {0xF1: b"\x01", 0xF2: b"\x01\x02", 0xF3: b"\x01"}.get(status, b"")
    says(scale_of(midi(b"\x00" + bytes((status,)) + data + SCALE)), "1 stray system message skipped.")


def test_data_bytes_above_127_are_cut_to_127():
    score, report = read_midi(midi(b"\x00\x90\x3c\xd0\x60\x80\x3c\x40\x00\xb0\x07\xff\x00\xc0\x9a" + SCALE))
    assert score.notes[0].velocity == 127 and len(score.notes) == 9
    says(report.warnings, "3 events with an impossible value")


def test_bytes_before_the_header_and_after_the_last_track():
    says(scale_of(b"MacBinary junk" + GOOD), "14 bytes of something else before the MIDI header")
    says(scale_of(GOOD + b"\x00"), "1 byte outside all tracks")
    scale_of(GOOD + b"\r\n<html>")


def test_riff_wrapper_is_opened():
    body = b"RMIDdata" + len(GOOD).to_bytes(4, "little") + GOOD
    says(scale_of(b"RIFF" + len(body).to_bytes(4, "little") + body), "RIFF container")


def test_last_byte_missing():
    says(scale_of(GOOD[:-1]), "cut short: 1 byte")


def test_end_mark_missing():
    says(scale_of(head(1) + chunk(SCALE)), "1 track without an end mark closed.")


@pytest.mark.parametrize("declared", [0, 1, 3, 65535])
def test_wrong_number_of_tracks(declared):
    says(scale_of(midi(b"", SCALE, declared=declared)), "file holds 2; all are read.")


@pytest.mark.parametrize("kind", [3, 29697])
def test_unknown_type(kind):
    says(scale_of(midi(SCALE, kind=kind)), f"unknown type {kind}")


@pytest.mark.parametrize("length", [0, 5, 60, 3000, 0xFFFFFFFF])
def test_wrong_track_lengths_are_mended_by_the_end_mark(length):
    data = head(2) + chunk(SCALE + END, length=length) + chunk(b"\x00\x91\x30\x40\x60\x81\x30\x40" + END)
    score, report = read_midi(data)
    assert len(score.notes) == 9 and score.notes[-1].end == 4.0
    says(report.warnings, "stated length was wrong")


def test_the_letters_of_a_track_mark_inside_a_text_are_no_track():
    assert scale_of(midi(b"\x00\xff\x01\x08MTrk\x00\x00\x00\x05" + SCALE)) == ()


def test_a_transfer_in_text_mode_is_undone():
    data = midi(SCALE, b"\x00\x91\x0a\x0a\x0a\x81\x0a\x0a" * 3, b"\x00\xff\x01\x02\x0a\x0a")
    broken = data.replace(b"\n", b"\r\n")
    assert len(broken) > len(data)
    assert read_midi(broken)[0] == read_midi(data)[0]
    says(read_midi(broken)[1].warnings, "text mode")


def test_a_track_cut_in_the_middle_keeps_its_notes_and_the_other_tracks():
    other = b"\x00\x91\x30\x40\x60\x81\x30\x40"
    data = midi(other, SCALE)[:-39]
    score, report = read_midi(data)
    assert [n.pitch for n in score.notes] == [48, 60, 62, 64, 65]
    says(report.warnings, "cut short: 39 bytes", "what follows in it is lost")


def test_meta_and_system_events_that_run_over_the_end():
    for event in (b"\x00\xff\x01\x84\x00abc", b"\x00\xf0\x84\x00abc", b"\x00\xff\x7f\xff\xff\xff\x7f"):
        says(scale_of(head(1) + chunk(SCALE + event)), "Track 1 cannot be read beyond 0:04")


def test_corrupt_wait_between_notes():
    # -48 as an unsigned number of 32 bits, five bytes long; and the largest of four bytes
    for wait in (b"\x8f\xff\xff\xff\x50", b"\xff\xff\xff\x7f"):
        data = midi(b"\x00\x90\x3c\x40\x60\x80\x3c\x40" + wait + b"\x90\x3e\x40\x60\x80\x3e\x40")
        score, report = read_midi(data)
        assert [(n.pitch, n.start, n.end) for n in score.notes] == [(60, 0.0, 0.5), (62, 0.5, 1.0)]
        says(report.warnings, "1 corrupt wait dropped in track 1 from 0:01 on")


def test_a_silence_of_an_hour_is_cut_to_two_seconds_in_all_tracks():
    # 7200 beats at 120 a minute, by two waits of 3600
    hour = b"\x95\x8c\x00" + b"\xff\x01\x00" + b"\x95\x8c\x00"
    first = SCALE[:8] + hour + b"\x90\x3e\x40\x60\x80\x3e\x40"
    second = b"\x00\x91\x30\x40\x60\x81\x30\x40" + hour + b"\x91\x32\x40\x60\x81\x32\x40"
    score, report = read_midi(midi(first, second))
    assert [(n.pitch, n.start) for n in score.notes] == [(48, 0.0), (60, 0.0), (50, 2.5), (62, 2.5)]
    says(report.warnings, "A silence of 1:00:00 at 0:01 cut to 2 seconds.")


def test_a_long_wait_after_the_last_note_is_nothing_to_report():
    assert scale_of(midi(SCALE + b"\xff\xff\xff\x7f\xff\x01\x00")) == ()


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (b"", "it is empty"),
        (b"<!DOCTYPE html><html>", "web page"),
        (b"PK\x03\x04rest", "zip archive"),
        (b"ID3\x04", "MP3"),
        (b"RIFF\x00\x00\x00\x00WAVEfmt ", "WAV"),
        (b"not a midi file", "no header chunk"),
        (b"MTrk" * 9, "no header chunk"),
    ],
)
def test_what_is_no_midi_is_named(data, part):
    with pytest.raises(UserError, match="is not a MIDI file: .*" + part) as caught:
        read_midi(data)
    assert "\n" not in str(caught.value)


NOTHING = [midi(), midi(b""), midi(b"\x00\x80\x3c\x40"), midi(b"\x00\x3c\x40"), midi(tempo(500_000)), head(9)]
NOTHING += [b"MThd", b"MThd\x00\x00\x00\x06\x00", head(1) + chunk(SCALE, b"MXrk")]


@pytest.mark.parametrize("data", NOTHING)
def test_no_notes_is_one_sentence(data):
    with pytest.raises(UserError, match="has no notes"):
        read_midi(data)
    assert isinstance(read_texts(data), list)


def test_a_whole_life_of_beats_is_refused():
    wait = b"\xbe\x40\x90\x3c\x40\x60\x80\x3c\x40" * 1000  # 83 beats each: 1000 waits of 41.5 s, then 5 times that
    assert read_midi(midi(wait))[1].end_seconds > 40_000
    with pytest.raises(UserError, match="pieces up to 12 hours"):
        read_midi(midi(tempo(2_500_000) + wait))


def test_66000_notes():
    score, report = read_midi(midi(b"\x00\x90" + (b"\x3c\x40\x01\x3c\x00\x01" * 66_000)[:-1]))
    assert len(score.notes) == 66_000 and report.warnings == ()
    assert score.notes[-1].end == pytest.approx((2 * 66_000 - 1) / 192)


def test_too_many_notes_and_too_large_files_are_refused(monkeypatch):
    monkeypatch.setattr("music_transformer.midi_notes.MOST_NOTES", 7)
    with pytest.raises(UserError, match="more than 7 notes"):
        read_midi(GOOD)
    with pytest.raises(UserError, match="more than 7 pedal events"):
        read_midi(midi(b"\x00\xb0\x40\x7f" * 8 + SCALE[:8]))
    with pytest.raises(UserError, match="larger than 4 MB"):
        read_midi(GOOD + bytes(5 << 20))
