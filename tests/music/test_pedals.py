"""The pedal: what rings, for how long, on which channel."""

from __future__ import annotations

import pytest

from music_transformer.pedals import fold_pedals
from music_transformer.score import Note, Pedal, Tempo, make_score


def ends(notes, pedals):
    return [(n.pitch, n.start, n.end) for n in fold_pedals(make_score(notes, pedals)).notes]


@pytest.mark.parametrize(
    ("release", "pedal", "end"),
    [
        (1.0, (0.5, 3.0), 3.0),  # released under the pedal: rings to pedal-up
        (1.0, (1.0, 3.0), 3.0),  # the pedal goes down with the release
        (1.0, (0.5, 1.0), 1.0),  # the pedal comes up with the release
        (1.0, (1.1, 3.0), 1.0),  # too late
        (4.0, (0.5, 3.0), 4.0),  # still held when the pedal comes up
    ],
)
def test_release_under_the_pedal(release, pedal, end):
    assert ends([Note(60, 0.0, release, 64)], [Pedal(*pedal)]) == [(60, 0.0, end)]


def test_the_next_strike_of_the_key_ends_it():
    notes = [Note(60, 0.0, 0.5, 64), Note(62, 0.8, 0.9, 64), Note(60, 1.0, 1.5, 64)]
    assert ends(notes, [Pedal(0.0, 4.0)]) == [(60, 0.0, 1.0), (62, 0.8, 4.0), (60, 1.0, 4.0)]


def test_a_strike_under_the_pedal_ends_a_held_note_too():
    notes = [Note(60, 0.0, 3.0, 64), Note(60, 1.0, 1.5, 64)]
    assert ends(notes, [Pedal(0.9, 2.0)]) == [(60, 0.0, 1.0), (60, 1.0, 2.0)]
    assert ends(notes, [Pedal(1.2, 2.0)]) == [(60, 0.0, 3.0), (60, 1.0, 2.0)]


def test_two_strikes_of_a_key_at_one_instant_are_one_under_the_pedal():
    notes = [Note(60, 1.0, 1.2, 10), Note(60, 1.0, 1.5, 20)]
    assert ends(notes, [Pedal(0.0, 2.0)]) == [(60, 1.0, 2.0)]


def test_each_channel_has_its_own_pedal():
    notes = [Note(60, 0.0, 1.0, 64, 0), Note(64, 0.0, 1.0, 64, 1)]
    assert ends(notes, [Pedal(0.5, 2.0, 1)]) == [(60, 0.0, 1.0), (64, 0.0, 2.0)]


def test_overlapping_pedals_are_one():
    assert ends([Note(60, 0.0, 1.0, 64)], [Pedal(0.5, 2.0), Pedal(1.5, 3.0)]) == [(60, 0.0, 3.0)]
    assert ends([Note(60, 0.0, 1.0, 64)], [Pedal(0.5, 2.0), Pedal(2.0, 3.0)]) == [(60, 0.0, 2.0)]


def test_the_pedals_are_gone_and_the_maps_stay():
    score = fold_pedals(make_score([Note(60, 0, 1, 64)], [Pedal(0, 2)], [Tempo(0, 90)]))
    assert score.pedals == () and score.tempos == (Tempo(0, 90),)
    assert fold_pedals(score) == score
