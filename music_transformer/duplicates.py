"""Which pieces of a corpus are the same music: near-equal, transposed, slower or louder copies of one another."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from music_transformer.vocabulary import NOTE_OFF

GRAM = 12  # melodic intervals that make one fingerprint
SKETCH = 128  # fingerprints kept of each piece: the smallest ones, so equal music keeps equal ones
SAME = 0.5  # share of the smaller sketch that must return


def sketch(ids: np.ndarray) -> np.ndarray:
    """Fingerprint a piece: ``uint64[<= 128]``, the same when it is transposed, stretched or played louder.

    Each fingerprint is a hash of 12 successive pitch intervals between NOTE_ONs; the 128 smallest stand for the piece
    (the bottom-k sketch of Broder 1997).
    """
    intervals = np.diff(ids[ids < NOTE_OFF].astype(np.int64)) + 128
    if len(intervals) < GRAM:
        return np.zeros(0, np.uint64)
    value = np.zeros(len(intervals) - GRAM + 1, np.uint64)
    for k in range(GRAM):
        value = value * np.uint64(0x100000001B3) + intervals[k : k + len(value)].astype(np.uint64)
    return np.unique(_mix(value))[:SKETCH]


def _mix(x: np.ndarray) -> np.ndarray:
    """Spread the bits, so that the smallest values are a fair sample (the finalizer of splitmix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def same_music(sketches: Sequence[np.ndarray]) -> Iterator[tuple[int, int]]:
    """Yield the index pairs (i < j) of pieces whose sketches agree in at least half of the smaller one."""
    holders: dict[int, list[int]] = defaultdict(list)
    for j, marks in enumerate(sketches):
        shared: Counter[int] = Counter()
        for mark in marks.tolist():
            shared.update(holders[mark])
            holders[mark].append(j)
        for i, count in sorted(shared.items()):
            if count >= SAME * min(len(sketches[i]), len(marks)):
                yield i, j
