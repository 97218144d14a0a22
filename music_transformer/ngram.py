"""An interpolated n-gram model with modified Kneser-Ney smoothing, on sorted arrays: the baseline a network has to beat."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from gpt_core.errors import UserError
from music_transformer.vocabulary import BOS, VOCAB_SIZE

_FALLBACK = np.array([0.0, 0.5, 1.0, 1.5])  # where a corpus is too small to estimate discounts from


@dataclass(frozen=True)
class _Level:
    """One order: its n-grams as packed integers with their counts, and what each history has to give to lower orders."""

    keys: np.ndarray  # int64, sorted; the newest id in the lowest bits
    counts: np.ndarray
    discounts: np.ndarray  # of counts 0, 1, 2, 3 and more
    histories: np.ndarray  # int64, sorted
    totals: np.ndarray  # per history: sum of counts
    spare: np.ndarray  # per history: sum of discounts

    def mixed(self, grams: np.ndarray, bits: int, lower: np.ndarray) -> np.ndarray:
        """Probabilities of ``grams``: what is left of their counts, and the history's spare mass spread as ``lower``."""
        at, known = _find(self.histories, grams >> bits)
        where, seen = _find(self.keys, grams)
        count = np.where(seen, self.counts[where], 0)
        kept = count - self.discounts[np.minimum(count, 3)]
        return np.where(known, (kept + self.spare[at] * lower) / self.totals[at], lower)


class NGram:
    """Counts of pieces of ids, and the nats they give to another piece (Chen & Goodman 1998, section 3).

    The first id of a piece (BOS) is context only, and stands in for all that would lie before it; so no history
    crosses a piece's border. Lower orders count in how many contexts an n-gram occurred. All probabilities of one
    history sum to 1 over the vocabulary.
    """

    def __init__(
        self, pieces: Iterable[np.ndarray], order: int = 5, vocab_size: int = VOCAB_SIZE, pad: int = BOS
    ) -> None:
        self.order, self.vocab_size, self.pad = order, vocab_size, pad
        self.bits = max(1, (vocab_size - 1).bit_length())
        if order < 1 or order * self.bits > 63:
            raise UserError(
                f"an n-gram of {order} ids does not fit into 63 bits; use an order from 1 to {63 // self.bits}"
            )
        packed = [self._pack(np.asarray(p)) for p in pieces if len(p) > 1]
        if not packed:
            raise UserError("there is no piece to count n-grams in; give at least one with two ids")
        keys, counts = np.unique(np.concatenate(packed), return_counts=True)
        del packed
        self._levels = [self._level(keys, counts)]
        for left in range(order - 1, 0, -1):
            keys, counts = np.unique(keys & ((1 << left * self.bits) - 1), return_counts=True)
            self._levels.append(self._level(keys, counts))

    def _pack(self, ids: np.ndarray) -> np.ndarray:
        """Return int64[T-1]: each id after the first with the order-1 ids before it."""
        line = np.concatenate((np.full(self.order - 1, self.pad, np.int64), ids[1:].astype(np.int64)))
        out = np.zeros(len(ids) - 1, np.int64)
        for k in range(self.order):
            out = (out << self.bits) | line[k : k + len(out)]
        return out

    def _level(self, keys: np.ndarray, counts: np.ndarray) -> _Level:
        discounts = _discounts(counts)
        histories, first = np.unique(keys >> self.bits, return_index=True)
        totals = np.add.reduceat(counts, first).astype(np.float64)
        spare = np.add.reduceat(discounts[np.minimum(counts, 3)], first)
        return _Level(keys, counts.astype(np.int32), discounts, histories, totals, spare)

    def nats(self, ids: np.ndarray) -> np.ndarray:
        """Return -log p of ids[1:] of one piece, float64[T-1]."""
        grams = self._pack(np.asarray(ids))
        p = np.full(len(grams), 1.0 / self.vocab_size)
        for length, level in enumerate(reversed(self._levels), 1):
            p = level.mixed(grams & ((1 << length * self.bits) - 1), self.bits, p)
        return -np.log(p)

    def sizes(self) -> list[int]:
        """How many different n-grams there are, of 1 id, of 2, ..."""
        return [len(level.keys) for level in reversed(self._levels)]


def _find(haystack: np.ndarray, needles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where each needle is in a sorted array (somewhere valid if it is not), and whether it is."""
    at = np.minimum(np.searchsorted(haystack, needles), len(haystack) - 1)
    return at, haystack[at] == needles


def _discounts(counts: np.ndarray) -> np.ndarray:
    """Return D(0), D(1), D(2), D(3+) from how many n-grams occurred once, twice, ... (Chen & Goodman 1998, equation 17)."""
    n1, n2, n3, n4 = (int((counts == c).sum()) for c in (1, 2, 3, 4))
    if not (n1 and n2 and n3 and n4):
        return _FALLBACK
    y = n1 / (n1 + 2 * n2)
    wished = np.array([0.0, 1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3])
    return np.clip(wished, 0.0, [0.0, 1.0, 2.0, 3.0])
