"""Transpose, stretch and crop."""

from __future__ import annotations

import pytest

from gpt_core.errors import UserError
from music_transformer.augment import crop, stretch, transpose
from music_transformer.score import Note, Pedal, Tempo, TimeSignature, make_score

SCORE = make_score(
    [Note(60, 0.0, 2.0, 64), Note(64, 1.0, 1.5, 70, 1), Note(67, 3.0, 6.0, 80)],
    [Pedal(0.5, 1.5), Pedal(2.5, 7.0)],
    [Tempo(0.0, 100.0), Tempo(3.5, 50.0)],
    [TimeSignature(0.0, 3, 4), TimeSignature(6.0, 4, 4)],
)


def test_transpose():
    assert [n.pitch for n in transpose(SCORE, -3).notes] == [57, 61, 64]
    assert transpose(transpose(SCORE, 5), -5) == SCORE
    with pytest.raises(UserError, match="pitch 130"):
        transpose(SCORE, 63)


def test_stretch_doubles_every_time_and_halves_the_tempo():
    slow = stretch(SCORE, 2)
    assert [(n.start, n.end) for n in slow.notes] == [(0, 4), (2, 3), (6, 12)]
    assert [(p.start, p.end) for p in slow.pedals] == [(1, 3), (5, 14)]
    assert slow.tempos == (Tempo(0, 50), Tempo(7, 25))
    assert [t.time for t in slow.time_signatures] == [0, 12]
    for factor in (0, -1, float("nan"), float("inf")):
        with pytest.raises(UserError, match="stretch factor"):
            stretch(SCORE, factor)


def test_crop_cuts_at_both_edges():
    part = crop(SCORE, 1.0, 4.0)
    assert part.notes == (Note(64, 0.0, 0.5, 70, 1), Note(67, 2.0, 3.0, 80))
    assert part.pedals == (Pedal(0.0, 0.5), Pedal(1.5, 3.0))
    assert part.tempos == (Tempo(0.0, 100.0), Tempo(2.5, 50.0))
    assert part.time_signatures == (TimeSignature(0.0, 3, 4),)
    assert crop(SCORE, 0, 10) == SCORE
    with pytest.raises(UserError, match="empty"):
        crop(SCORE, 2, 2)
