"""The n-gram baseline is a probability, and by hand."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.text_ngram import DISCOUNT, Trigram


def test_probabilities_sum_to_one():
    rng = np.random.default_rng(0)
    model = Trigram(rng.integers(0, 7, 200), 7)
    for a, b in ((0, 1), (3, 3), (6, 2)):
        p = [np.exp(-model.nats(np.array([a, b, w]))[-1]) for w in range(7)]
        assert sum(p) == pytest.approx(1)


def test_by_hand():
    model = Trigram(np.array([0, 1, 0, 1, 1]), 3)
    one = (3 + 1) / (5 + 3)  # id 1 stands 3 times among 5, each of the 3 ids counts once more
    two = (2 - DISCOUNT) / 2 + DISCOUNT * 1 / 2 * one  # 0 is followed twice, by 1 both times
    assert np.exp(-model.nats(np.array([0, 1])))[0] == pytest.approx(two)
    three = (1 - DISCOUNT) / 1 + DISCOUNT * 1 / 1 * two  # 1, 0 was followed once, by 1
    assert np.exp(-model.nats(np.array([1, 0, 1])))[1] == pytest.approx(three)
    assert np.exp(-model.nats(np.array([2, 2])))[0] == pytest.approx(1 / 8)  # never seen: the lowest level alone
