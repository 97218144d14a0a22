"""Note, Pedal, their Columns, Tempo, TimeSignature and Score: a piece of music, frozen, in seconds."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


@dataclass(frozen=True, slots=True)
class Note:
    """One struck key. ``start`` and ``end`` in seconds, ``end > start``; ``pitch`` 0-127, ``velocity`` 1-127."""

    pitch: int
    start: float
    end: float
    velocity: int
    channel: int = 0


class Columns(NamedTuple):
    """Notes as arrays of one length, sorted by (start, pitch): seconds as float64, the rest as int64."""

    pitch: np.ndarray
    start: np.ndarray
    end: np.ndarray
    velocity: np.ndarray
    channel: np.ndarray


@dataclass(frozen=True, slots=True)
class Pedal:
    """The sustain pedal held down from ``start`` to ``end`` (seconds) on one MIDI channel."""

    start: float
    end: float
    channel: int = 0


class PedalColumns(NamedTuple):
    """Pedals as arrays of one length, sorted by (start, channel): seconds as float64, channels as int64."""

    start: np.ndarray
    end: np.ndarray
    channel: np.ndarray


@dataclass(frozen=True, slots=True)
class Tempo:
    """From ``time`` (seconds) on, quarter notes per minute."""

    time: float
    bpm: float


@dataclass(frozen=True, slots=True)
class TimeSignature:
    """From ``time`` (seconds) on, e.g. 3/4."""

    time: float
    numerator: int
    denominator: int


@dataclass(frozen=True, slots=True)
class Score:
    """A piece: notes sorted by (start, pitch, end), pedals, and the tempo and time-signature maps of its source.

    Build one with :func:`make_score`, which sorts. The maps matter for bar lines and for writing; all times are seconds.
    ``ticks_per_beat`` is the grid of the file it came from (0: none), so that writing meets the very same moments.
    """

    notes: tuple[Note, ...] = ()
    pedals: tuple[Pedal, ...] = ()
    tempos: tuple[Tempo, ...] = ()
    time_signatures: tuple[TimeSignature, ...] = ()
    ticks_per_beat: int = dataclasses.field(default=0, compare=False)

    @property
    def end(self) -> float:
        """When the last note is released, in seconds; 0 for an empty piece."""
        return max((n.end for n in self.notes), default=0.0)


def note_order(note: Note) -> tuple[float, int, float, int]:
    """Return the sort key of a note within a Score."""
    return (note.start, note.pitch, note.end, note.channel)


def make_score(
    notes: Iterable[Note],
    pedals: Iterable[Pedal] = (),
    tempos: Iterable[Tempo] = (),
    time_signatures: Iterable[TimeSignature] = (),
) -> Score:
    """Sort everything by time and freeze it."""
    return Score(
        tuple(sorted(notes, key=note_order)),
        tuple(sorted(pedals, key=lambda p: (p.start, p.channel))),
        tuple(sorted(tempos, key=lambda t: t.time)),
        tuple(sorted(time_signatures, key=lambda t: t.time)),
    )


def shift(score: Score, seconds: float) -> Score:
    """Move everything later by ``seconds`` (earlier if negative)."""
    return Score(
        tuple(dataclasses.replace(n, start=n.start + seconds, end=n.end + seconds) for n in score.notes),
        tuple(dataclasses.replace(p, start=p.start + seconds, end=p.end + seconds) for p in score.pedals),
        tuple(dataclasses.replace(t, time=t.time + seconds) for t in score.tempos),
        tuple(dataclasses.replace(t, time=t.time + seconds) for t in score.time_signatures),
        score.ticks_per_beat,
    )
