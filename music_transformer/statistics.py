"""What can be counted in one piece: faults that an ear hears at once, and the features that sets of pieces are compared by."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from music_transformer.score import Note, Score

STUCK_SECONDS, SILENCE_SECONDS = 8.0, 4.0  # longer than this is a fault
LOOP_EVENTS, LOOP_TIMES = 50, 3  # a passage of more events than this, so many times in a row, is a loop
LOWEST, HIGHEST = 21, 108  # the keys of a piano
INTER_ONSET_EDGES = (0, 3, 6, 12, 25, 50, 100, 200)  # in steps of 10 ms; the last bin is open
_JITTER = 1e-6  # seconds that rounding may add to a length


@dataclass(frozen=True)
class Faults:
    """What is wrong with one piece; a ``loop`` is the length in events of a passage played three times in a row, else 0."""

    notes: int
    longest_note: float
    longest_silence: float
    loop: int
    out_of_range: int
    zero_length: int

    @property
    def stuck(self) -> bool:
        """A note is held for more than 8 s."""
        return self.longest_note > STUCK_SECONDS + _JITTER

    @property
    def silent(self) -> bool:
        """Nothing sounds for more than 4 s, or there is no note at all."""
        return not self.notes or self.longest_silence > SILENCE_SECONDS + _JITTER

    @property
    def looping(self) -> bool:
        """More than 50 events come three times in a row, exactly."""
        return self.loop > 0

    @property
    def broken(self) -> bool:
        """A note lies outside the piano's keys, or lasts no time."""
        return self.out_of_range + self.zero_length > 0


FAULTS = {
    "stuck": "a note held for more than 8 s",
    "silent": "more than 4 s without sound",
    "looping": "more than 50 events three times in a row",
    "broken": "a note outside the piano or of no length",
}


def find_faults(score: Score, ids: Sequence[int] | np.ndarray) -> Faults:
    """Look for faults in a piece; ``ids`` are its events (loops are exact repeats of these)."""
    return Faults(
        notes=len(score.notes),
        longest_note=max((n.end - n.start for n in score.notes), default=0.0),
        longest_silence=longest_silence(score.notes),
        loop=find_loop(np.asarray(ids)),
        out_of_range=sum(not (LOWEST <= n.pitch <= HIGHEST and 1 <= n.velocity <= 127) for n in score.notes),
        zero_length=sum(n.end <= n.start for n in score.notes),
    )


def longest_silence(notes: Sequence[Note]) -> float:
    """Longest time, from second 0 to the last release, in which no note sounds."""
    reached = longest = 0.0
    for note in sorted(notes, key=lambda n: n.start):
        longest = max(longest, note.start - reached)
        reached = max(reached, note.end)
    return longest


def find_loop(ids: np.ndarray, more_than: int = LOOP_EVENTS, times: int = LOOP_TIMES) -> int:
    """Length of the shortest passage of more than ``more_than`` events that stands ``times`` times in a row; 0 for none."""
    for period in range(more_than + 1, len(ids) // times + 1):
        if _longest_run(ids[:-period] == ids[period:]) >= (times - 1) * period:
            return period
    return 0


def _longest_run(true: np.ndarray) -> int:
    breaks = np.flatnonzero(~true)
    edges = np.concatenate(([-1], breaks, [len(true)]))
    return int(np.diff(edges).max()) - 1


@dataclass(frozen=True)
class Features:
    """Figures of one piece: pitch-class entropy in bits, notes per second, standard deviation of the velocities, mean
    number of keys sounding while any does; and two distributions: pitch classes C to B, waits between strikes.
    """

    pitch_class_entropy: float
    note_density: float
    velocity_spread: float
    polyphony: float
    pitch_classes: tuple[float, ...]
    inter_onsets: tuple[float, ...]


NAMES = tuple(f.name for f in dataclasses.fields(Features))


def features(score: Score) -> Features | None:
    """Measure a piece whose pedal is folded into its notes; None with fewer than two notes."""
    if len(score.notes) < 2:
        return None
    pitch, start, end, velocity = (
        np.array([getattr(n, name) for n in score.notes]) for name in ("pitch", "start", "end", "velocity")
    )
    classes = np.bincount(pitch % 12, minlength=12) / len(pitch)
    used = classes[classes > 0]
    waits = np.diff(np.floor(100 * np.sort(start) + 0.5).astype(int))
    bins = np.searchsorted(INTER_ONSET_EDGES, waits, side="right") - 1
    span = float(end.max() - start.min())
    return Features(
        pitch_class_entropy=float(-(used * np.log2(used)).sum()) + 0.0,  # no minus before a zero
        note_density=len(pitch) / max(span, 0.01),
        velocity_spread=float(velocity.std()),
        polyphony=float((end - start).sum() / max(_sounding(score.notes), 1e-9)),
        pitch_classes=tuple(classes.tolist()),
        inter_onsets=tuple((np.bincount(bins, minlength=len(INTER_ONSET_EDGES)) / len(waits)).tolist()),
    )


def _sounding(notes: Sequence[Note]) -> float:
    """Seconds in which at least one note sounds."""
    reached, total = float("-inf"), 0.0
    for note in sorted(notes, key=lambda n: n.start):
        total += max(0.0, note.end - max(note.start, reached))
        reached = max(reached, note.end)
    return total
