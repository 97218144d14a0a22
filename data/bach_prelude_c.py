"""J. S. Bach, Prelude in C major, BWV 846 (Well-Tempered Clavier I, 1722): all 35 bars."""

from __future__ import annotations

from notation import Key, arch, perform, pitches

from music_transformer.score import Score

# Bars 1-32 break one five-note chord each, twice: bass, tenor, then the upper three.
_CHORDS = """
C4 E4 G4 C5 E5 | C4 D4 A4 D5 F5 | B3 D4 G4 D5 F5 | C4 E4 G4 C5 E5 | C4 E4 A4 E5 A5 | C4 D4 F#4 A4 D5
B3 D4 G4 D5 G5 | B3 C4 E4 G4 C5 | A3 C4 E4 G4 C5 | D3 A3 D4 F#4 C5 | G3 B3 D4 G4 B4 | G3 Bb3 E4 G4 C#5
F3 A3 D4 A4 D5 | F3 Ab3 D4 F4 B4 | E3 G3 C4 G4 C5 | E3 F3 A3 C4 F4 | D3 F3 A3 C4 F4 | G2 D3 G3 B3 F4
C3 E3 G3 C4 E4 | C3 G3 Bb3 C4 E4 | F2 F3 A3 C4 E4 | F#2 C3 A3 C4 Eb4 | Ab2 F3 B3 C4 D4 | G2 F3 G3 B3 D4
G2 E3 G3 C4 E4 | G2 D3 G3 C4 F4 | G2 D3 G3 B3 F4 | G2 Eb3 A3 C4 F#4 | G2 E3 G3 C4 G4 | G2 D3 G3 C4 F4
G2 D3 G3 B3 F4 | C2 C3 G3 Bb3 E4
"""
_CLOSE = (
    "C2 C3 F3 A3 C4 F4 C4 A3 C4 A3 F3 A3 F3 D3 F3 D3",
    "C2 B2 G4 B4 D5 F5 D5 B4 D5 B4 G4 B4 D4 F4 E4 D4",
)
_FINAL = "C2 C3 E4 G4 C5"


def score() -> Score:
    """Return the performed piece."""
    keys: list[Key] = []
    chords = [c for row in _CHORDS.strip().splitlines() for c in row.split("|")]
    for bar, chord in enumerate(chords):
        bass, tenor, *upper = pitches(chord)
        for beat in (4.0 * bar, 4.0 * bar + 2.0):
            loud = _loudness(beat)
            keys += [Key(bass, beat, 2.0, loud + 5), Key(tenor, beat + 0.25, 1.75, loud)]
            for i, p in enumerate(upper * 2):
                keys.append(Key(p, beat + 0.5 + 0.25 * i, 0.25, loud + (3 if p == upper[-1] else -2)))
    for bar, text in enumerate(_CLOSE, start=32):
        bass, tenor, *upper = pitches(text)
        loud = _loudness(4.0 * bar)
        keys += [Key(bass, 4.0 * bar, 4.0, loud + 4), Key(tenor, 4.0 * bar + 0.25, 3.75, loud)]
        keys += [Key(p, 4.0 * bar + 0.5 + 0.25 * i, 0.25, loud + 2 - i / 2) for i, p in enumerate(upper)]
    keys += [Key(p, 136.0 + 0.08 * i, 4.0 - 0.08 * i, 50 + i) for i, p in enumerate(pitches(_FINAL))]
    pedals = [(2.0 * half + 0.1, 2.0 * half + 1.95) for half in range(68)] + [(136.1, 140.0)]
    return perform(keys, pedals, _tempo, (4, 4), seed=846)


def _loudness(beat: float) -> float:
    """Two long arches: up to bar 15 at the turn to the low register, and up to the diminished chord of bar 28."""
    return 50 + 14 * arch(beat, 0, 76) + 20 * arch(beat, 76, 140)


def _tempo(beat: float) -> float:
    bar = beat / 4
    breath = 2.5 * arch(beat % 16, 0, 16) - 1.5  # a little forward within four bars
    broaden = 18 * max(0.0, (bar - 32) / 3) ** 2
    return 69 + breath - broaden
