"""Ticks <-> seconds through a tempo map, exactly: integer microseconds, divided once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

DEFAULT_BEAT = 500_000  # microseconds per quarter note where a file names no tempo: 120 a minute
LONGEST_BEAT = 0xFFFFFF  # three bytes
LAST_TICK = 1 << 38  # keeps ticks x microseconds within 64 bits
ASSUMED_TICKS = 480  # per beat, where the header says 0


@dataclass(frozen=True, slots=True)
class Grid:
    """What a header's division means: ``fixed_beat`` (microseconds) where ticks are parts of a film frame."""

    ticks_per_beat: int
    fixed_beat: int | None = None
    frame_rate: str = ""
    assumed: bool = False


def read_grid(division: int) -> Grid:
    """Read the header's division. Film time (SMPTE) ignores tempo: a "beat" is then a second; 29 is 30/1.001 frames."""
    if division < 0x8000:
        return Grid(division or ASSUMED_TICKS, assumed=not division)
    frames, parts = 256 - (division >> 8), division & 0xFF
    if not parts:
        return Grid(ASSUMED_TICKS, assumed=True)
    if frames == 29:
        return Grid(30 * parts, 1_001_000, "29.97")
    return Grid(frames * parts, 1_000_000, str(frames))


class Clock:
    """A tempo map over ticks. ``ticks[i]`` starts a stretch in which a beat takes ``beats[i]`` microseconds.

    Seconds come from one division of exact integers, so the same moment on a finer grid of ticks
    is the very same float: a piece written with a multiple of its ticks per beat reads back equal.
    """

    def __init__(self, ticks_per_beat: int, tempos: Iterable[tuple[int, int]] = ()):
        self.ticks_per_beat = ticks_per_beat
        self.ticks: list[int] = [0]
        self.beats: list[int] = [DEFAULT_BEAT]
        self._sums: list[int] = [0]
        for tick, beat in tempos:
            self.add(tick, beat)

    def add(self, tick: int, beat: int) -> None:
        """Append a tempo (microseconds per beat) from ``tick`` on; ticks must not go back, the last on a tick wins."""
        if tick == self.ticks[-1]:
            self.beats[-1] = beat
            if len(self.beats) > 1 and self.beats[-2] == beat:
                del self.ticks[-1], self.beats[-1], self._sums[-1]
        elif beat != self.beats[-1]:
            self._sums.append(self._sums[-1] + (tick - self.ticks[-1]) * self.beats[-1])
            self.ticks.append(tick)
            self.beats.append(beat)

    def add_at(self, seconds: float, beat: int) -> None:
        """As ``add``, at the tick nearest to ``seconds`` by the map so far."""
        past = seconds - self._sums[-1] / self._scale
        self.add(self.ticks[-1] + max(0, round(past * self._scale / self.beats[-1])), beat)

    @property
    def _scale(self) -> int:
        return self.ticks_per_beat * 1_000_000

    def seconds(self, ticks: Sequence[int] | npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Ticks -> seconds."""
        at = np.asarray(ticks, dtype=np.int64)
        if len(self.ticks) == 1:
            return at * self.beats[0] / self._scale
        starts = np.asarray(self.ticks, dtype=np.int64)
        i = np.searchsorted(starts, at, side="right") - 1
        return (np.asarray(self._sums)[i] + (at - starts[i]) * np.asarray(self.beats)[i]) / self._scale

    def nearest_ticks(self, seconds: Sequence[float] | npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """Seconds -> the nearest tick; never negative."""
        at = np.maximum(np.asarray(seconds, dtype=np.float64), 0.0)
        starts = np.asarray(self._sums, dtype=np.float64) / self._scale
        i = np.searchsorted(starts, at, side="right") - 1
        ticks_a_second = self._scale / np.asarray(self.beats, dtype=np.float64)
        return np.asarray(self.ticks)[i] + np.floor((at - starts[i]) * ticks_a_second[i] + 0.5).astype(np.int64)
