"""A small notation for entering a piece by code: pitch names and beats in, a performed Score out."""

from __future__ import annotations

import bisect
import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from music_transformer.score import Note, Pedal, Score, Tempo, TimeSignature, make_score

_STEPS = {"C": 0, "D": 2, "E": 4, "F": 5, "G": 7, "A": 9, "B": 11}


@dataclass(frozen=True)
class Key:
    """One written note: MIDI pitch, onset and length in quarter notes from the start, loudness 1-127."""

    pitch: int
    beat: float
    length: float
    velocity: float


def pitch(name: str) -> int:
    """Name -> MIDI number: "C4" is 60, "F#4" 66, "Bb3" 58."""
    step, accidentals, octave = name[0], name[1:-1], name[-1]
    return 12 * (int(octave) + 1) + _STEPS[step] + accidentals.count("#") - accidentals.count("b")


def pitches(names: str) -> list[int]:
    """Blank-separated names -> MIDI numbers."""
    return [pitch(n) for n in names.split()]


def line(text: str, beat: float, velocity: Callable[[float], float]) -> list[Key]:
    """Read one voice: "D5:1 G4:.5 -:1" is name (or several joined by +, or - for a rest), colon, quarter notes."""
    keys = []
    for word in text.split():
        names, length = word.split(":")
        if names != "-":
            keys += [Key(pitch(n), beat, float(length), velocity(beat)) for n in names.split("+")]
        beat += float(length)
    return keys


def arch(beat: float, first: float, last: float) -> float:
    """Rise from 0 to 1 and fall back to 0 over a phrase."""
    return math.sin(math.pi * min(1.0, max(0.0, (beat - first) / (last - first))))


def perform(
    keys: Iterable[Key],
    pedals: Sequence[tuple[float, float]],
    tempo: Callable[[float], float],
    meter: tuple[int, int],
    seed: int,
) -> Score:
    """Play written notes: ``tempo`` gives quarter notes a minute at a beat, read once per half beat.

    Every note lies up to 8 ms and 2 velocity steps off, as under a hand; ``pedals`` are (down, up) in beats.
    """
    keys = list(keys)
    clock = _Clock(tempo, max(k.beat + k.length for k in keys))
    hand = random.Random(seed)
    notes = []
    for k in sorted(keys, key=lambda k: (k.beat, k.pitch)):
        start = max(0.0, clock.seconds(k.beat) + hand.uniform(-0.008, 0.008))
        end = max(start + 0.05, clock.seconds(k.beat + k.length) - 0.02)
        notes.append(Note(k.pitch, start, end, min(127, max(1, round(k.velocity + hand.uniform(-2, 2))))))
    held = [Pedal(clock.seconds(down), clock.seconds(up)) for down, up in pedals]
    return make_score(notes, held, clock.tempos, [TimeSignature(0.0, *meter)])


class _Clock:
    """Beats -> seconds along a tempo that changes at every half beat where ``tempo`` does."""

    def __init__(self, tempo: Callable[[float], float], last: float) -> None:
        self.tempos: list[Tempo] = []
        self._beats: list[float] = []
        seconds = 0.0
        for half in range(math.ceil(2 * last) + 1):
            # MIDI keeps whole microseconds per quarter note.
            bpm = 60e6 / round(60e6 / tempo(half / 2))
            if not self.tempos or self.tempos[-1].bpm != bpm:
                self.tempos.append(Tempo(seconds, bpm))
                self._beats.append(half / 2)
            seconds += 30.0 / bpm

    def seconds(self, beat: float) -> float:
        i = bisect.bisect_right(self._beats, beat) - 1
        return self.tempos[i].time + (beat - self._beats[i]) * 60.0 / self.tempos[i].bpm
