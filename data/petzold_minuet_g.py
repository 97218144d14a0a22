"""C. Petzold, Minuet in G major, BWV Anh. 114 (Notebook for Anna Magdalena Bach, 1725): the first 16 bars."""

from __future__ import annotations

from notation import arch, line, perform

from music_transformer.score import Score

_RIGHT = """
D5:1 G4:.5 A4:.5 B4:.5 C5:.5   D5:1 G4:1 G4:1   E5:1 C5:.5 D5:.5 E5:.5 F#5:.5   G5:1 G4:1 G4:1
C5:1 D5:.5 C5:.5 B4:.5 A4:.5   B4:1 C5:.5 B4:.5 A4:.5 G4:.5   F#4:1 G4:.5 A4:.5 B4:.5 G4:.5   A4:3
D5:1 G4:.5 A4:.5 B4:.5 C5:.5   D5:1 G4:1 G4:1   E5:1 C5:.5 D5:.5 E5:.5 F#5:.5   G5:1 G4:1 G4:1
C5:1 D5:.5 C5:.5 B4:.5 A4:.5   B4:1 C5:.5 B4:.5 A4:.5 G4:.5   A4:1 B4:.5 A4:.5 G4:.5 F#4:.5   G4:3
"""
_LEFT = """
G3+B3+D4:2 A3:1   B3:3   C4:3   B3:3   A3:3   G3:3   D4:1 B3:1 G3:1   D4:1 D3:.5 C4:.5 B3:.5 A3:.5
B3:2 A3:1   G3:1 B3:1 G3:1   C4:3   B3:1 C4:.5 B3:.5 A3:.5 G3:.5   A3:2 F#3:1   G3:2 B3:1   C4:1 D4:1 D3:1   G3:2 G2:1
"""


def score() -> Score:
    """Return the performed piece."""
    right = line(_RIGHT, 0.0, lambda beat: _loudness(beat) + 8)
    left = line(_LEFT, 0.0, _loudness)
    pedals = [(3.0 * bar + 0.05, 3.0 * bar + 0.9) for bar in (0, 2, 4, 8, 10, 12)] + [(45.05, 48.0)]
    return perform([*right, *left], pedals, _tempo, (3, 4), seed=114)


def _loudness(beat: float) -> float:
    strong = 5 if beat % 3 == 0 else 0
    return 50 + strong + 10 * arch(beat % 24, 0, 24) + (4 if beat >= 24 else 0)


def _tempo(beat: float) -> float:
    return 126 + 4 * arch(beat % 24, 0, 24) - (12 if 22 <= beat < 24 else 0) - 14 * max(0.0, (beat - 42) / 6)
