"""The n-gram baseline is modified Kneser-Ney: a probability, equal to a slow dictionary version, and by hand."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from gpt_core.errors import UserError
from music_transformer.ngram import NGram

BOS, V = 4, 5
PIECES = [np.concatenate(([BOS], np.random.default_rng(s).choice(4, 60, p=[0.5, 0.3, 0.15, 0.05]))) for s in range(3)]


def slow(pieces, order, history, word):
    """p(word | history) by the definition: tuples in dictionaries, each order interpolated with the next lower one."""
    grams = defaultdict(int)
    for piece in pieces:
        line = [BOS] * (order - 1) + list(piece[1:])
        for i in range(order - 1, len(line)):
            grams[tuple(line[i - order + 1 : i + 1])] += 1
    levels = [dict(grams)]
    for _ in range(order - 1):
        kinds = defaultdict(set)
        for gram in levels[-1]:
            kinds[gram[1:]].add(gram[0])
        levels.append({gram: len(left) for gram, left in kinds.items()})

    def p(level):
        if level == order:
            return 1 / V
        counts = levels[level]
        n = [sum(c == k for c in counts.values()) for k in range(5)]
        d = [0, 0.5, 1.0, 1.5]
        if all(n[1:]):
            y = n[1] / (n[1] + 2 * n[2])
            d = [0, *(min(max(k - (k + 1) * y * n[k + 1] / n[k], 0), k) for k in (1, 2, 3))]
        before = tuple(history[level:])
        follow = {g[-1]: c for g, c in counts.items() if g[:-1] == before}
        if not follow:
            return p(level + 1)
        spare = sum(d[min(c, 3)] for c in follow.values())
        mine = follow.get(word, 0)
        return (mine - d[min(mine, 3)] + spare * p(level + 1)) / sum(follow.values())

    return p(0)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_equal_to_the_definition_and_sums_to_one(order):
    model = NGram(PIECES, order, V, BOS)
    for history in ([0, 1, 0], [3, 3, 3], [1, 2, 0], [0, 3, 2]):
        piece = [BOS, *history]
        fast = np.exp([-model.nats(np.array([*piece, w]))[-1] for w in range(V)])
        padded = ([BOS] * order + history)[len(history) + 1 :] if order > 1 else []
        assert fast.sum() == pytest.approx(1, abs=1e-12)
        assert fast == pytest.approx([slow(PIECES, order, padded, w) for w in range(V)], abs=1e-12)


def test_by_hand():
    """Two different ids, each followed by the other; too little to estimate, so the fixed discounts apply."""
    model = NGram([np.array([BOS, 0, 1, 0, 1])], 2, V, BOS)
    # Different bigrams: BOS 0, 0 1, 1 0. As continuations 0 counts 2 (after BOS, after 1), 1 counts 1 (after 0).
    zero, one = (2 - 1.0 + 1.5 / V) / 3, (1 - 0.5 + 1.5 / V) / 3
    first = 1 - 0.5 + 0.5 * zero  # BOS was followed once, by 0
    second = (2 - 1.0 + 1.0 * one) / 2  # 0 was followed twice, by 1 both times
    assert np.exp(-model.nats(np.array([BOS, 0, 1]))) == pytest.approx([first, second])
    assert np.exp(-model.nats(np.array([BOS, 3, 1])))[1] == pytest.approx(one)  # nothing ever followed 3
    assert model.sizes() == [2, 3]


def test_no_history_crosses_a_piece():
    model = NGram([np.array([BOS, 0, 1]), np.array([BOS, 2, 3])], 3, V, BOS)
    assert model.sizes() == [4, 4, 4]  # BOS BOS 0, BOS 0 1, BOS BOS 2, BOS 2 3 and their ends
    assert model.nats(PIECES[0])[5:9] == pytest.approx(model.nats(PIECES[0][:10])[5:9])


def test_what_cannot_be_counted_is_refused():
    with pytest.raises(UserError, match="order from 1 to 7"):
        NGram(PIECES, 8, 391)
    with pytest.raises(UserError, match="no piece to count"):
        NGram([np.array([BOS])], 2, V)
