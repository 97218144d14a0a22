"""F. Chopin, Prelude in A major, op. 28 no. 7 (1839): all 16 bars."""

from __future__ import annotations

from notation import Key, arch, line, perform

from music_transformer.score import Score

# Beat 0 is the upbeat; bars begin at beats 1, 4, 7 ... Each phrase is two bars: turn, three chords, upbeat.
_RIGHT = """
E4:1 C#5:.75 D5:.25 E4+G#4+B4:1 E4+G#4+B4:1 E4+G#4+B4:2
D5+F#5:1 C5+D#5:.75 C#5+E5:.25 C#5+A5:1 C#5+A5:1 C#5+A5:2
E4+C#5:1 C#4+A#4:.75 D4+B4:.25 F#4+D5:1 F#4+D5:1 F#4+D5:2
D4+G#4:1 D4+G#4:.75 C#4+A4:.25 C#4+E4+C#5:1 C#4+E4+C#5:1 C#4+E4+C#5:2
E4:1 G#4+C#5:.75 D5:.25 E4+G#4+B4:1 E4+G#4+B4:1 E4+G#4+B4:2
D5+F#5:1 C5+D#5:.75 C#5+E5:.25 A4+C#5+A5+C#6:1 A4+C#5+A5+C#6:1 A#4+C#5+E5+A#5+C#6:2
A#4+C#5:1 A#4+C#5:.75 B4+D5:.25 B4+F#5:1 A4+F#5:1 G#4+F#5:2
D4+G#4:1 D4+B4:.75 C#4+A4:.25 C#5+A5:1 C#5+A5:1 C#5+A5:3
"""
_LEFT = """
-:1 E2:1 E3+D4:1 E3+D4:1 E3+D4:2
-:1 A2:1 A3+E4:1 A3+E4:1 A3+E4:2
-:1 E2:1 E3+B3:1 E3+B3:1 E3+B3:2
-:1 A1:1 E3+A3:1 E3+A3:1 E3+A3:2
-:1 E2:1 E3+D4:1 E3+D4:1 E3+D4:2
-:1 A2:1 A3+E4:1 A3+E4:1 F#3+C#4+E4+F#4:2
-:1 B1:1 F#3+D4:1 F#3+B3+D4:1 E3+B3+D4:2
-:1 A1:1 E3+A3+E4:1 A3+E4:1 A3+E4:3
"""


def score() -> Score:
    """Return the performed piece."""
    right = [_sing(k) for k in line(_RIGHT, 0.0, _loudness)]
    left = line(_LEFT, 0.0, lambda beat: _loudness(beat) - 10)
    phrases = [6.0 * i + 1 for i in range(8)]
    pedals = [(p + 0.1, p + 4.9) for p in phrases[:-1]] + [(phrases[-1] + 0.1, phrases[-1] + 6.0)]
    # Bars 12 to 14 change harmony within the phrase.
    pedals = [p for p in pedals if p[0] not in (31.1, 37.1)]
    pedals += [(31.1, 33.9), (34.05, 35.9), (37.1, 38.9), (39.05, 39.95), (40.05, 41.9)]
    return perform([*right, *left], pedals, _tempo, (3, 4), seed=287)


def _sing(key: Key) -> Key:
    """Let the upper notes of the right hand sing over the others."""
    return Key(key.pitch, key.beat, key.length, key.velocity + (4 if key.pitch >= 69 else -6))


def _loudness(beat: float) -> float:
    return 46 + 8 * arch(beat % 6, 0, 6) + 22 * arch(beat, 20, 42)


def _tempo(beat: float) -> float:
    lean = -7 if beat % 6 < 1 else 0  # wait on each upbeat
    swell = -16 if 33 <= beat < 36 else 0  # the wide chord of bar 12
    close = -4 * max(0.0, beat - 42)
    return max(40.0, 76 + lean + swell + close + 3 * arch(beat % 6, 0, 6))
