"""Copies of music are found when they are transposed, stretched or louder; other music is not one."""

from __future__ import annotations

import numpy as np

from music_transformer.augment import crop, stretch, transpose
from music_transformer.duplicates import same_music, sketch
from music_transformer.events import encode_array
from music_transformer.score import Note, Score, make_score
from tests.music.scores import random_score


def melody(seed: int, notes: int = 200) -> Score:
    """One voice with clear gaps, so that stretching changes no order."""
    pitches = np.random.default_rng(seed).integers(50, 70, notes).tolist()
    return make_score(Note(p, 0.3 * k, 0.3 * k + 0.2, 64) for k, p in enumerate(pitches))


def sketches(*scores: Score) -> list[np.ndarray]:
    return [sketch(encode_array(s)) for s in scores]


def test_transposed_stretched_and_louder_copies_are_the_same_music():
    piece = melody(1)
    loud = make_score(Note(n.pitch, n.start, n.end, 100) for n in piece.notes)
    copies = [transpose(piece, 5), stretch(piece, 1.05), loud]
    assert list(same_music(sketches(piece, *copies))) == [(i, j) for j in range(4) for i in range(j)]


def test_most_of_a_piece_is_the_same_music_and_another_piece_is_not():
    piece = melody(1)
    part = crop(piece, 6.0, piece.end)
    assert list(same_music(sketches(piece, melody(2), part, random_score(4, 200)))) == [(0, 2)]


def test_a_piece_too_short_to_know_is_nobodys_copy():
    short = melody(1, notes=12)
    assert list(same_music(sketches(short, short))) == []
