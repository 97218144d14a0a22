"""Faults and features of scores small enough to work out on paper."""

from __future__ import annotations

import math

import numpy as np
import pytest

from music_transformer.score import Note, Score, make_score
from music_transformer.statistics import Features, features, find_faults, find_loop, longest_silence


def faults(*notes: Note, ids=()):
    return find_faults(make_score(notes), ids)


def test_a_sound_piece_has_no_fault():
    found = faults(Note(60, 0.0, 8.0, 64), Note(64, 11.9, 12.0, 64))  # held 8 s exactly, then 3.9 s of rest
    assert (found.notes, found.longest_note, found.longest_silence) == (2, 8.0, pytest.approx(3.9))
    assert not (found.stuck or found.silent or found.looping or found.broken)


def test_a_stuck_note_and_a_silence():
    found = faults(Note(60, 0.0, 8.01, 64), Note(62, 12.02, 13.0, 64))
    assert found.stuck and found.silent and found.longest_silence == pytest.approx(4.01)


def test_silence_counts_from_second_0_and_under_held_notes_there_is_none():
    assert longest_silence([Note(60, 4.5, 5.0, 64)]) == 4.5
    assert longest_silence([Note(60, 0.0, 7.0, 64), Note(62, 1.0, 2.0, 64), Note(64, 7.5, 8.0, 64)]) == 0.5
    assert find_faults(Score(), []).silent  # nothing at all is silence


@pytest.mark.parametrize(
    ("note", "out", "zero"),
    [(Note(20, 0, 1, 64), 1, 0), (Note(109, 0, 1, 64), 1, 0), (Note(60, 0, 1, 0), 1, 0), (Note(60, 1, 1, 64), 0, 1)],
)
def test_notes_that_cannot_be_played(note, out, zero):
    found = faults(note, Note(21, 0, 1, 1), Note(108, 0, 1, 127))
    assert (found.out_of_range, found.zero_length, found.broken) == (out, zero, True)
    assert not faults(Note(21, 0, 1, 1), Note(108, 0, 1, 127)).broken


def test_loops_are_more_than_50_events_three_times():
    part = np.arange(51)
    assert find_loop(np.concatenate([[7], part, part, part, [9]])) == 51
    assert find_loop(np.concatenate([part, part, np.arange(100, 300)])) == 0
    assert find_loop(np.concatenate([part, part, part[:-1], np.arange(100, 300)])) == 0
    short = np.arange(50)
    assert find_loop(np.concatenate([short, short, short])) == 0
    assert find_loop(np.tile(np.arange(20), 9)) == 60  # 20 events nine times are 60 events three times
    assert find_loop(np.tile(np.arange(20), 8)) == 0
    assert find_loop(np.random.default_rng(0).integers(0, 390, 2000)) == 0


def test_features_by_hand():
    # C4 and E4 together for a second, then C5 and C5 again, half a second each, the second overlapping nothing.
    piece = make_score([Note(60, 0.0, 1.0, 40), Note(64, 0.0, 1.0, 60), Note(72, 1.5, 2.0, 80), Note(72, 2.0, 2.5, 60)])
    found = features(piece)
    assert found is not None
    assert found.pitch_class_entropy == pytest.approx(-(0.75 * math.log2(0.75) + 0.25 * math.log2(0.25)))
    assert found.note_density == pytest.approx(4 / 2.5)
    assert found.velocity_spread == pytest.approx(math.sqrt((20**2 + 0 + 20**2 + 0) / 4))
    assert found.polyphony == pytest.approx((1 + 1 + 0.5 + 0.5) / (1 + 0.5 + 0.5))
    assert found.pitch_classes == (0.75, 0, 0, 0, 0.25, *[0] * 7)
    # waits: 0 (below 30 ms), 1.5 s (1 to 2 s), 0.5 s (0.5 to 1 s)
    assert found.inter_onsets == pytest.approx((1 / 3, 0, 0, 0, 0, 1 / 3, 1 / 3, 0))


def test_waits_fall_into_the_bin_that_begins_with_them():
    starts = [0.0, 0.02, 0.05, 2.05, 2.30]  # waits 20 ms, 30 ms, 2 s, 250 ms, however floats round
    found = features(make_score(Note(60, s, s + 0.01, 64) for s in starts))
    assert found is not None
    assert found.inter_onsets == (0.25, 0.25, 0, 0, 0.25, 0, 0, 0.25)


def test_a_single_pitch_has_no_entropy_and_a_single_note_no_features():
    alike = features(make_score([Note(60, 0, 1, 64), Note(72, 1, 2, 64)]))
    assert isinstance(alike, Features) and math.copysign(1, alike.pitch_class_entropy) == 1.0
    assert alike.pitch_class_entropy == 0.0 and alike.velocity_spread == 0.0
    assert features(make_score([Note(60, 0, 1, 64)])) is None
