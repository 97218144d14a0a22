"""Public bug reports of other programs about notes and pedals, tried on ours; the right values are written out by hand."""

from __future__ import annotations

import pytest

from music_transformer.events import NOTE_OFF, TIME_SHIFT, decode, encode, normalize
from music_transformer.midi import read_midi, write_midi
from music_transformer.score import Note, Pedal, make_score

FIVE = [Note(60, 0.2 * i, 0.2 * i + 0.1, 64) for i in range(5)]


def times(score) -> list[tuple[float, float]]:
    return [(n.start, n.end) for n in score.notes]


def test_a_key_struck_again_under_the_pedal_ends_the_earlier_note():
    """partitura PR 399: pedal extension ran a note through its own restrike."""
    score = make_score([Note(60, 0.0, 0.2, 64), Note(60, 0.5, 0.7, 64)], [Pedal(0.0, 1.0)])
    assert times(normalize(score)) == [(0.0, 0.5), (0.5, 1.0)]


def test_five_strikes_under_one_pedal():
    """onsets-and-frames PR 25: all of them rang to pedal-up."""
    score = make_score(FIVE, [Pedal(0.0, 1.5)])
    assert times(normalize(score)) == [(0.0, 0.2), (0.2, 0.4), (0.4, 0.6), (0.6, 0.8), (0.8, 1.5)]


def test_strikes_and_releases_of_a_key_alternate():
    """Magenta PR 648, 671: repeated notes of one pedal became a stack of copies."""
    ids = encode(make_score(FIVE, [Pedal(0.0, 1.5)]))
    assert [i for i in ids if i in (60, NOTE_OFF + 60)] == [60, NOTE_OFF + 60] * 5


def test_strikes_that_are_never_released_all_end():
    """Magenta 883: a chord smeared to the end of the file."""
    score = decode([*range(30, 80), TIME_SHIFT + 99])
    assert [(n.pitch, n.start, n.end) for n in score.notes] == [(p, 0.0, 1.0) for p in range(30, 80)]
    assert read_midi(write_midi(score))[0].notes == score.notes


def test_overlapping_notes_of_one_key_in_what_a_model_wrote():
    """musetree 82: strike, strike, release, release lost a note."""
    ids = [60, TIME_SHIFT + 9, 60, TIME_SHIFT + 9, NOTE_OFF + 60, TIME_SHIFT + 9, NOTE_OFF + 60]
    assert times(decode(ids)) == [(0.0, 0.2), (0.1, 0.3)]
    assert times(decode([60, 60, NOTE_OFF + 60, NOTE_OFF + 60])) == [(0.0, 0.01), (0.0, 0.01)]


@pytest.mark.parametrize("ids", [[NOTE_OFF + 60], [TIME_SHIFT] * 50, [NOTE_OFF + 60, 60, NOTE_OFF + 61], [390, 60]])
def test_badly_ordered_events_never_raise(ids):
    """pno-ai 18: the decoder trusted the model."""
    assert all(n.end > n.start for n in decode(ids).notes)


def test_the_pedal_is_in_the_notes_of_the_ids_and_by_itself_in_the_file():
    """Magenta 1691: encode and decode dropped the pedal without a word."""
    score = make_score([Note(60, 0.0, 0.2, 64)], [Pedal(0.0, 1.0)])
    assert times(decode(encode(score))) == [(0.0, 1.0)]
    again = read_midi(write_midi(score))[0]
    assert times(again) == [(0.0, 0.2)] and [(p.start, p.end) for p in again.pedals] == [(0.0, 1.0)]
