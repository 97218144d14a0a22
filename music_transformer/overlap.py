"""How alike two sets of pieces are, feature by feature: overlapped areas of distributions (Yang & Lerch 2020, section 3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpt_core.errors import UserError
from music_transformer.statistics import NAMES, Features

BINS = 12


def overlap_area(a: np.ndarray, b: np.ndarray, bins: int = BINS) -> float:
    """Area under both histograms of two samples, 0 to 1, on ``bins`` equal bins from their common least to greatest."""
    low, high = min(a.min(), b.min()), max(a.max(), b.max())
    if low == high:
        return 1.0
    p, q = (np.histogram(x, bins, (low, high))[0] / len(x) for x in (a, b))
    return float(np.minimum(p, q).sum())


def distances_within(x: np.ndarray) -> np.ndarray:
    """Euclidean distances of all pairs of rows of [N, D]: N (N-1) / 2 of them."""
    i, j = np.triu_indices(len(x), 1)
    return np.linalg.norm(x[i] - x[j], axis=1)


def distances_between(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Euclidean distances of every row of [N, D] to every row of [M, D]."""
    return np.linalg.norm(x[:, None] - y[None], axis=2).ravel()


def compare(pieces: Sequence[Features], real: Sequence[Features]) -> dict[str, dict[str, Any]]:
    """For every feature: both sets' means and spreads, and two overlaps with the real set.

    ``overlap`` is of the values (of distributions: of the two mean distributions); ``distances`` is MGEval's: of the
    distances between the sets with those within the real one. 1 = not to be told apart by this feature.
    """
    if min(len(pieces), len(real)) < 3:
        raise UserError(f"{len(pieces)} pieces and {len(real)} excerpts can't be compared; give at least 3 of each")
    return {name: _row(_column(pieces, name), _column(real, name)) for name in NAMES}


def _column(pieces: Sequence[Features], name: str) -> np.ndarray:
    return np.array([np.atleast_1d(getattr(p, name)) for p in pieces])


def _row(x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    single = x.shape[1] == 1
    area = overlap_area(x[:, 0], y[:, 0]) if single else float(np.minimum(x.mean(0), y.mean(0)).sum())
    row: dict[str, Any] = {"overlap": area, "distances": overlap_area(distances_between(x, y), distances_within(y))}
    for who, values in (("pieces", x), ("real", y)):
        row[who] = {"mean": _plain(values.mean(0)), "spread": _plain(values.std(0))}
    return row


def _plain(values: np.ndarray) -> float | list[float]:
    return float(values[0]) if len(values) == 1 else values.tolist()
