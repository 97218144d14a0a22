"""Meters that keep a piece honest: how much it repeats, how far it reaches, how dense it is. Pure functions of a Score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from music_transformer.score import Note, Score

GRAM = 8  # notes in a phrase, for the share of repeated phrases
_PRIME = (1 << 61) - 1
_BASE = 1_000_003


@dataclass(frozen=True)
class Meters:
    """Figures of one stretch of music.

    ``longest_repeat`` is the length, in notes, of the longest passage that is played twice note for note (pitches and
    the waits between strikes on a grid of 50 ms; the two may overlap); ``repeated`` the share of all phrases of 8 notes
    that were there before; ``density`` notes per second; ``lowest`` and ``highest`` MIDI pitches, None without notes.
    """

    notes: int
    seconds: float
    longest_repeat: int
    repeated: float
    density: float
    lowest: int | None
    highest: int | None

    def to_dict(self) -> dict[str, Any]:
        """As JSON types."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def measure(score: Score, start: float = 0.0, end: float | None = None) -> Meters:
    """Measure the notes struck from second ``start`` until before ``end`` (None: all that follow)."""
    notes = [n for n in score.notes if n.start >= start - 1e-6 and (end is None or n.start < end - 1e-6)]
    if not notes:
        return Meters(0, 0.0, 0, 0.0, 0.0, None, None)
    seconds = max(n.end for n in notes) - min(n.start for n in notes)
    symbols = _symbols(notes)
    return Meters(
        notes=len(notes),
        seconds=round(seconds, 2),
        longest_repeat=longest_repeat(symbols),
        repeated=round(repeated_share(symbols, GRAM), 4),
        density=round(len(notes) / max(seconds, 0.01), 2),
        lowest=min(n.pitch for n in notes),
        highest=max(n.pitch for n in notes),
    )


def _symbols(notes: Sequence[Note]) -> list[int]:
    """Each note as one number: its pitch, and how many 50 ms passed since the strike before."""
    waits = [0, *(round(20 * (b.start - a.start)) for a, b in pairwise(notes))]
    return [128 * wait + note.pitch for wait, note in zip(waits, notes, strict=True)]


def longest_repeat(symbols: Sequence[int]) -> int:
    """The length of the longest run of symbols that stands at two places, which may overlap."""
    low, high = 0, max(len(symbols) - 1, 0)
    while low < high:
        middle = (low + high + 1) // 2
        if _repeats(symbols, middle):
            low = middle
        else:
            high = middle - 1
    return low


def _repeats(symbols: Sequence[int], length: int) -> bool:
    """Whether some run of this length stands at two places: rolling hashes, each hit compared symbol by symbol."""
    seen: dict[int, list[int]] = {}
    top = pow(_BASE, length - 1, _PRIME)
    value = 0
    for i, symbol in enumerate(symbols):
        if i >= length:
            value = (value - symbols[i - length] * top) % _PRIME
        value = (value * _BASE + symbol) % _PRIME
        first = i - length + 1
        if first < 0:
            continue
        for other in seen.setdefault(value, []):
            if symbols[other : other + length] == symbols[first : first + length]:
                return True
        seen[value].append(first)
    return False


def repeated_share(symbols: Sequence[int], length: int) -> float:
    """The share of runs of ``length`` symbols that stood there before: 0 for all new, towards 1 for a loop."""
    runs = [tuple(symbols[i : i + length]) for i in range(len(symbols) - length + 1)]
    return 1 - len(set(runs)) / len(runs) if runs else 0.0
