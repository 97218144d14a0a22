"""What follows from the table alone: one-hot rows, transposition, words."""

from __future__ import annotations

import numpy as np
import pytest

from gpt_core.errors import UserError
from music_transformer.vocabulary import VOCAB_SIZE, as_ids, describe, from_one_hot, one_hot, transpose_ids


def test_one_hot_both_ways():
    ids = [0, 390, 256, 256, 127]
    rows = one_hot(ids)
    assert rows.shape == (5, 391) and rows.dtype == bool
    assert rows.sum() == 5 and all(rows[t, id] for t, id in enumerate(ids))
    assert from_one_hot(rows) == ids
    assert from_one_hot(one_hot([])) == []


@pytest.mark.parametrize(
    ("rows", "words"),
    [(np.zeros((2, 391)), "row 0 .* has 0 ones"), (np.ones((1, 391)), "391 ones"), (np.zeros((2, 388)), "2 x 388")],
)
def test_what_is_not_one_hot_is_refused(rows, words):
    with pytest.raises(UserError, match=words):
        from_one_hot(rows)


def test_transposing_moves_ons_and_offs_and_nothing_else():
    ids = np.array([389, 360, 60, 265, 188, 390], np.uint16)
    assert transpose_ids(ids, 3).tolist() == [389, 360, 63, 265, 191, 390]
    assert transpose_ids(ids, -60).tolist() == [389, 360, 0, 265, 128, 390]
    assert transpose_ids(ids, 3).dtype == np.uint16
    assert ids.tolist() == [389, 360, 60, 265, 188, 390]


@pytest.mark.parametrize("semitones", [-61, 68, 200])
def test_transposing_out_of_range_changes_nothing(semitones):
    ids = np.array([60, 188])
    assert transpose_ids(ids, semitones).tolist() == [60, 188]


def test_every_id_has_words_of_its_own():
    assert len({describe(i) for i in range(VOCAB_SIZE)}) == 391


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("odd", [[1 + 2j], [60.5], [float("nan")], [float("inf")], ["60"], [[60]], [2**70], [None], {}])
def test_what_is_no_list_of_ids_is_one_sentence(odd):
    with pytest.raises(UserError, match="flat list of whole numbers"):
        transpose_ids(as_ids(odd), 0)
