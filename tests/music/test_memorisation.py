"""The longest passage shared with a training set: equal to a brute-force search, in any key, and not fooled."""

from __future__ import annotations

import numpy as np
import pytest

from gpt_core.errors import UserError
from music_transformer.augment import stretch, transpose
from music_transformer.events import encode_array
from music_transformer.memorisation import Match, TrainingIndex, suffix_array, symbols
from music_transformer.score import Note, Score, make_score
from tests.music.scores import random_score


def melody(pitches, step=0.3) -> Score:
    return make_score(Note(p, step * k, step * k + 0.1, 64) for k, p in enumerate(pitches))


def drawn(seed: int, notes: int, few: int = 3) -> Score:
    """A melody of few pitches and waits, so that chance matches are long."""
    rng = np.random.default_rng(seed)
    time = np.cumsum(rng.choice([0.1, 0.2], notes))
    return make_score(
        Note(int(60 + p), t, t + 0.05, 64) for p, t in zip(rng.integers(0, few, notes), time, strict=True)
    )


def index_of(*scores: Score) -> TrainingIndex:
    return TrainingIndex.build([encode_array(s) for s in scores], [f"piece {i}" for i in range(len(scores))])


def brute_force(piece: np.ndarray, training: list[np.ndarray]) -> int:
    """Longest common run of symbols, by the table of all pairs."""
    longest = 0
    for other in training:
        runs = np.zeros(len(other) + 1, int)
        for symbol in piece:
            runs[1:] = np.where(other == symbol, runs[:-1] + 1, 0)
            longest = max(longest, int(runs.max()))
    return longest


@pytest.mark.parametrize("seed", range(12))
def test_equal_to_brute_force(seed):
    training = [drawn(100 * seed + i, 150 + i) for i in range(4)] + [random_score(seed, 120)]
    piece = drawn(7 + 1000 * seed, 140)
    found = index_of(*training).longest(encode_array(piece))
    lines = [symbols(encode_array(s)) for s in training]
    mine = symbols(encode_array(piece))
    assert found.notes == brute_force(mine, lines) + 1 > 4
    source = lines[int(found.source.split()[1])]
    run = found.notes - 1
    assert np.array_equal(mine[found.at : found.at + run], source[found.source_at : found.source_at + run])


def test_symbols_by_hand():
    # 60; 64 and 67 together 300 ms later, struck in falling order 20 ms apart; 60 after 40 ms more
    score = make_score([Note(60, 0, 1, 64), Note(67, 0.3, 1, 64), Note(64, 0.32, 1, 64), Note(60, 0.36, 1, 64)])
    intervals = [(4, 3), (3, 0), (-7, 1)]  # 30 steps: 16 to 31 = class 3; together; from 0.30 to 0.36: 3 to 7 = class 1
    assert symbols(encode_array(score)).tolist() == [(i + 128) * 8 + c for i, c in intervals]
    assert symbols(encode_array(melody([60]))).tolist() == symbols(encode_array(Score())).tolist() == []


def test_a_quotation_is_found_in_another_key_and_a_little_slower():
    rng = np.random.default_rng(5)
    whole = melody(rng.integers(40, 80, 200).tolist())
    index = index_of(melody(rng.integers(40, 80, 300).tolist()), whole)
    quoted = make_score([Note(100, 0.0, 0.1, 64), *transpose(stretch(excerpt(whole, 50, 90), 1.02), 7).notes])
    found = index.longest(encode_array(quoted))
    assert found == Match(40, 1, "piece 1", 50)


def excerpt(score: Score, first: int, last: int) -> Score:
    return make_score(score.notes[first:last])


def test_other_rhythm_or_melody_is_no_quotation():
    pitches = np.random.default_rng(1).integers(40, 80, 100).tolist()
    index = index_of(melody(pitches))
    assert index.longest(encode_array(melody(pitches))).notes == 100
    assert index.longest(encode_array(melody(pitches, step=1.3))).notes == 1
    assert index.longest(encode_array(melody(pitches[::-1]))).notes < 10
    assert index.longest(encode_array(Score())) == Match(0)


def test_no_match_runs_from_one_piece_into_the_next():
    a, b = melody([60, 62, 65, 69]), melody([50, 57, 58, 64])
    both = melody([60, 62, 65, 69, 50, 57, 58, 64])
    assert index_of(a, b).longest(encode_array(both)).notes == 4


def test_suffixes_are_sorted():
    rng = np.random.default_rng(3)
    for text in (rng.integers(0, 3, 200), np.zeros(40, int), np.tile([1, 2, 0], 30)):
        found = suffix_array(text.astype(np.uint16))
        assert found.tolist() == sorted(range(len(text)), key=lambda i: text[i:].tolist())


def test_saved_and_loaded_it_is_the_same(tmp_path):
    index = TrainingIndex.build([encode_array(melody([60, 64, 67, 72]))], ["scale"], "abc")
    index.save(tmp_path / "index.npz")
    again = TrainingIndex.load(tmp_path / "index.npz")
    assert again.names == ("scale",) and again.fingerprint == "abc"
    assert again.longest(encode_array(melody([62, 66, 69, 74]))) == Match(4, 0, "scale", 0)
    (tmp_path / "broken.npz").write_bytes(b"no zip")
    with pytest.raises(UserError, match="not an index"):
        TrainingIndex.load(tmp_path / "broken.npz")


def test_an_index_of_nothing_is_refused():
    with pytest.raises(UserError, match="and notes"):
        index_of(Score())
