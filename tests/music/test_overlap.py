"""Overlaps of sets whose histograms are drawn by hand."""

from __future__ import annotations

import numpy as np
import pytest

from gpt_core.errors import UserError
from music_transformer.overlap import compare, distances_between, distances_within, overlap_area
from music_transformer.statistics import NAMES, Features


def test_overlap_area_by_hand():
    a, b = np.array([0.0, 0.0, 1.0, 4.0]), np.array([1.0, 1.0, 3.0, 4.0])
    # four bins of width 1 from 0 to 4, the last closed: a has 2 1 0 1, b has 0 2 0 2 quarters
    assert overlap_area(a, b, bins=4) == pytest.approx((0 + 1 + 0 + 1) / 4)
    assert overlap_area(a, a) == 1.0 and overlap_area(a, a + 100) == 0.0
    assert overlap_area(np.ones(3), np.ones(5)) == 1.0
    assert overlap_area(np.repeat(a, 3), b, bins=4) == overlap_area(a, b, bins=4)  # sizes don't matter


def test_distances_by_hand():
    x, y = np.array([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]]), np.array([[0.0, 0.0], [0.0, 2.0]])
    assert sorted(distances_within(x)) == pytest.approx([1.0, np.sqrt(18), 5.0])
    assert distances_between(x, y).tolist() == pytest.approx([0, 2, 5, np.sqrt(13), 1, 1])


def piece(value: float, classes=(1.0, *[0.0] * 11)) -> Features:
    return Features(value, value, value, value, tuple(classes), (1.0, *[0.0] * 7))


def test_a_set_compared_with_itself_and_with_another():
    real = [piece(v) for v in (1.0, 2.0, 3.0, 4.0)]
    same = compare(real, real)
    assert set(same) == set(NAMES) and all(row["overlap"] == pytest.approx(1.0) for row in same.values())
    assert same["polyphony"]["real"] == {"mean": 2.5, "spread": pytest.approx(np.sqrt(1.25))}
    far = compare([piece(v, (0.25, 0.75, *[0.0] * 10)) for v in (101.0, 102.0, 103.0)], real)
    assert far["polyphony"]["overlap"] == far["polyphony"]["distances"] == 0.0
    assert far["pitch_classes"]["overlap"] == pytest.approx(0.25)
    assert far["pitch_classes"]["pieces"]["mean"][:2] == [0.25, 0.75]
    assert far["inter_onsets"]["overlap"] == 1.0


def test_two_pieces_are_no_set():
    with pytest.raises(UserError, match="2 pieces and 4 excerpts"):
        compare([piece(1.0)] * 2, [piece(1.0)] * 4)
