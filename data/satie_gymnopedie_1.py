"""E. Satie, Gymnopédie no. 1 (1888): the first 16 bars."""

from __future__ import annotations

from notation import Key, arch, line, perform

from music_transformer.score import Score

_BASS_AND_CHORD = ("G2:3", "-:1 B3+D4+F#4:2"), ("D2:3", "-:1 A3+C#4+F#4:2")
# Bar 9 holds F#4 under chords that strike the same key, so the melody's own note ends at the first of them.
_MELODY = """
-:12  -:1 F#5:1 A5:1  G5:1 F#5:1 C#5:1  B4:1 C#5:1 D5:1  A4:3
F#4:1 -:11            -:1 F#5:1 A5:1  G5:1 F#5:1 C#5:1  B4:1 C#5:1 D5:1  A4:3
"""
_BARS = 16


def score() -> Score:
    """Return the performed piece."""
    keys: list[Key] = []
    for bar in range(_BARS):
        bass, chord = _BASS_AND_CHORD[bar % 2]
        keys += line(bass, 3.0 * bar, lambda beat: 44 + 4 * arch(beat, 0, 48))
        keys += line(chord, 3.0 * bar, lambda beat: 36 + 4 * arch(beat, 0, 48))
    keys += line(_MELODY, 0.0, lambda beat: 58 + 8 * arch((beat - 12) % 24, 0, 13))
    pedals = [(3.0 * bar + 0.08, 3.0 * bar + 2.95) for bar in range(_BARS)]
    return perform(keys, pedals, _tempo, (3, 4), seed=1888)


def _tempo(beat: float) -> float:
    return 74 + 2 * arch(beat % 12, 0, 12) - (5 if beat % 12 >= 11 else 0) - 8 * max(0.0, (beat - 45) / 3)
