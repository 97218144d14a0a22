"""An interpolated trigram with absolute discounting (Ney, Essen & Kneser 1994), by sorted arrays: the baseline to beat."""

from __future__ import annotations

import numpy as np

DISCOUNT = 0.75


class Trigram:
    """Counts of a stream of ids in ``range(vocab_size)``, and the nats they give to another."""

    def __init__(self, ids: np.ndarray, vocab_size: int) -> None:
        a = ids.astype(np.int64)
        self.size = vocab_size
        self.one = (np.bincount(a, minlength=vocab_size) + 1) / (len(a) + vocab_size)
        self.two = _Level(a[:-1], a[1:], vocab_size)
        self.three = _Level(a[:-2] * vocab_size + a[1:-1], a[2:], vocab_size)

    def nats(self, ids: np.ndarray) -> np.ndarray:
        """Return -log p of ids[1:], each after at most two before it."""
        a = np.asarray(ids, dtype=np.int64)
        p = self.two.mixed(a[:-1], a[1:], self.one[a[1:]])
        if len(a) > 2:
            p[1:] = self.three.mixed(a[:-2] * self.size + a[1:-1], a[2:], p[1:])
        return -np.log(p)


class _Level:
    """How often each id follows each history."""

    def __init__(self, history: np.ndarray, follows: np.ndarray, size: int) -> None:
        self.size = size
        self.pairs, self.counts = np.unique(history * size + follows, return_counts=True)
        self.histories, first = np.unique(self.pairs // size, return_index=True)
        self.kinds = np.diff(np.append(first, len(self.pairs)))  # different followers of a history
        self.totals = np.add.reduceat(self.counts, first)

    def mixed(self, history: np.ndarray, follows: np.ndarray, lower: np.ndarray) -> np.ndarray:
        """Discount what was counted and give the rest to ``lower``; an unknown history is ``lower`` alone."""
        at = np.minimum(np.searchsorted(self.histories, history), len(self.histories) - 1)
        known = self.histories[at] == history
        pair = history * self.size + follows
        where = np.minimum(np.searchsorted(self.pairs, pair), len(self.pairs) - 1)
        count = np.where(self.pairs[where] == pair, self.counts[where], 0)
        total, kinds = self.totals[at], self.kinds[at]
        p = np.maximum(count - DISCOUNT, 0) / total + DISCOUNT * kinds / total * lower
        return np.where(known, p, lower)
