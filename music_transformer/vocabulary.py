"""The table of events: which id means what (Oore et al. 2018, in Magenta's order), and what follows from it alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gpt_core.errors import UserError


@dataclass(frozen=True)
class EventKind:
    """One row of the vocabulary: ``count`` ids from ``first`` on; the first one's value is ``low``."""

    name: str
    first: int
    count: int
    low: int = 0


VOCAB = (
    EventKind("NOTE_ON", 0, 128),
    EventKind("NOTE_OFF", 128, 128),
    EventKind("TIME_SHIFT", 256, 100, low=1),  # in steps of 10 ms
    EventKind("VELOCITY", 356, 32),  # bins of 4
    EventKind("PAD", 388, 1),
    EventKind("BOS", 389, 1),
    EventKind("EOS", 390, 1),
)
NOTE_ON, NOTE_OFF, TIME_SHIFT, VELOCITY, PAD, BOS, EOS = (kind.first for kind in VOCAB)
VOCAB_SIZE = VOCAB[-1].first + VOCAB[-1].count
STEPS_PER_SECOND = 100
MAX_SHIFT = VOCAB[2].count
DEFAULT_BIN = 15  # velocity 62, for notes before any VELOCITY


class Event(NamedTuple):
    """An id in words: the kind's name and its value (pitch, steps, bin; 0 for the special ones)."""

    name: str
    value: int


EVENTS = tuple(Event(k.name, k.low + i) for k in VOCAB for i in range(k.count))


def velocity_bin(velocity: Any) -> Any:
    """Velocity 1-127 (a number or an array) -> bin 0-31."""
    return (velocity - 1) // 4


def bin_velocity(bin: Any) -> Any:
    """Bin 0-31 -> the velocity at its centre, 2-126."""
    return 4 * bin + 2


def as_ids(ids: Sequence[int] | np.ndarray) -> np.ndarray:
    """Anything list-like -> ``int64[T]``; UserError where a value is no id of the vocabulary."""
    try:
        array = np.asarray(ids)
        if array.dtype.kind == "c":
            raise TypeError
        with np.errstate(invalid="ignore"):  # NaN and infinity: told apart below
            whole = array.astype(np.int64)
    except (TypeError, ValueError, OverflowError):
        raise UserError("ids must be one flat list of whole numbers") from None
    if whole.ndim != 1 or (whole.size and not np.array_equal(whole, array)):
        raise UserError("ids must be one flat list of whole numbers")
    strange = np.flatnonzero((whole < 0) | (whole >= VOCAB_SIZE))
    if len(strange):
        at = int(strange[0])
        raise UserError(f"id {whole[at]} at position {at} is not in the vocabulary; ids go from 0 to {VOCAB_SIZE - 1}")
    return whole


def transpose_ids(ids: np.ndarray, semitones: int) -> np.ndarray:
    """Move every pitch by ``semitones``; unchanged if a pitch would leave 0..127. Same shape and type as given."""
    pitched = ids < TIME_SHIFT
    pitch = ids[pitched].astype(np.int64) % 128 + semitones
    if pitch.size and (pitch.min() < 0 or pitch.max() > 127):
        return ids
    out = ids.copy()
    out[pitched] = ids[pitched].astype(np.int64) + semitones
    return out


def one_hot(ids: Sequence[int] | np.ndarray) -> np.ndarray:
    """Ids -> ``bool[T, 391]``, one True a row."""
    array = as_ids(ids)
    out = np.zeros((len(array), VOCAB_SIZE), bool)
    out[np.arange(len(array)), array] = True
    return out


def from_one_hot(rows: np.ndarray) -> list[int]:
    """Mirror of :func:`one_hot`; UserError where a row has not exactly one True."""
    if rows.ndim != 2 or rows.shape[1] != VOCAB_SIZE:
        raise UserError(f"a one-hot array must be T x {VOCAB_SIZE}; this one is {' x '.join(map(str, rows.shape))}")
    bad = np.flatnonzero((rows != 0).sum(1) != 1)
    if len(bad):
        raise UserError(
            f"row {bad[0]} of the one-hot array has {int((rows[bad[0]] != 0).sum())} ones; each row needs 1"
        )
    return rows.argmax(1).tolist()


def describe(id: int) -> str:
    """An id in words: ``NOTE_ON 60``, ``TIME_SHIFT 500 ms``, ``VELOCITY 78``, ``EOS``."""
    name, value = EVENTS[int(as_ids([id])[0])]
    if name == "TIME_SHIFT":
        return f"{name} {value * 1000 // STEPS_PER_SECOND} ms"
    if name == "VELOCITY":
        return f"{name} {bin_velocity(value)}"
    return f"{name} {value}" if id < PAD else name
