"""Meters against hand-made music and a slow honest count."""

from __future__ import annotations

import random

from music_transformer.meters import longest_repeat, measure, repeated_share
from music_transformer.score import Note, make_score


def test_longest_repeat_equals_the_slow_count():
    random.seed(1)
    for _ in range(200):
        symbols = [random.randrange(3) for _ in range(random.randrange(0, 30))]
        n = len(symbols)
        slow = max(
            (
                k
                for k in range(n)
                for i in range(n - k)
                for j in range(i + 1, n - k + 1)
                if symbols[i : i + k] == symbols[j : j + k]
            ),
            default=0,
        )
        assert longest_repeat(symbols) == slow, symbols


def test_repeated_share():
    assert repeated_share([1, 2, 3, 4], 2) == 0.0
    assert repeated_share([1, 1, 1, 1, 1], 2) == 0.75
    assert repeated_share([1], 2) == 0.0


def test_a_loop_shows_and_silence_does_not_divide_by_zero():
    loop = make_score(Note(60 + i % 4, 0.25 * i, 0.25 * i + 0.2, 80) for i in range(64))
    m = measure(loop)
    assert (m.notes, m.lowest, m.highest) == (64, 60, 63)
    assert m.longest_repeat == 59 and m.repeated > 0.9  # all but the first loop, whose first note has no wait before it
    assert m.density == round(64 / 15.95, 2)
    late = measure(loop, 8.0, 12.0)
    assert late.notes == 16 and late.repeated < m.repeated
    empty = measure(make_score([]))
    assert (empty.notes, empty.density, empty.lowest) == (0, 0.0, None) and empty.to_dict()["repeated"] == 0.0
