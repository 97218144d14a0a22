"""Score in, Score out: the same music higher, slower, or only a stretch of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from gpt_core.errors import UserError
from music_transformer.score import Score, Tempo, TimeSignature, make_score

Mark = TypeVar("Mark", Tempo, TimeSignature)


def transpose(score: Score, semitones: int) -> Score:
    """Move every note by ``semitones``; UserError if one would leave the MIDI range 0-127."""
    moved = [replace(n, pitch=n.pitch + semitones) for n in score.notes]
    outside = [n.pitch for n in moved if not 0 <= n.pitch <= 127]
    if outside:
        raise UserError(
            f"moved by {semitones} semitones a note would have pitch {outside[0]}; pitches go from 0 to 127"
        )
    return make_score(moved, score.pedals, score.tempos, score.time_signatures)


def stretch(score: Score, factor: float) -> Score:
    """Multiply every time by ``factor`` (2 = twice as slow), tempo marks included; UserError unless it is positive."""
    if not 0 < factor < float("inf"):
        raise UserError(f"the stretch factor is {factor}; it must be above 0")
    return Score(
        tuple(replace(n, start=n.start * factor, end=n.end * factor) for n in score.notes),
        tuple(replace(p, start=p.start * factor, end=p.end * factor) for p in score.pedals),
        tuple(replace(t, time=t.time * factor, bpm=t.bpm / factor) for t in score.tempos),
        tuple(replace(t, time=t.time * factor) for t in score.time_signatures),
    )


def crop(score: Score, start: float, end: float) -> Score:
    """Keep what sounds from ``start`` to ``end`` (seconds), cut at both edges and moved so that ``start`` is 0.

    A note struck before ``start`` is left out, one held beyond ``end`` is released there, a pedal held across an edge
    is cut at it; the tempo and the time signature in force at ``start`` are kept.
    """
    if not start < end:
        raise UserError(f"a crop from {start} s to {end} s is empty; the end must lie after the start")
    notes = [
        replace(n, start=n.start - start, end=min(n.end, end) - start) for n in score.notes if start <= n.start < end
    ]
    pedals = [
        replace(p, start=max(p.start, start) - start, end=min(p.end, end) - start)
        for p in score.pedals
        if p.start < end and p.end > start
    ]
    return make_score(notes, pedals, _map_from(score.tempos, start, end), _map_from(score.time_signatures, start, end))


def _map_from(marks: tuple[Mark, ...], start: float, end: float) -> list[Mark]:
    """Marks between ``start`` and ``end``, led by the one in force at ``start``, on the cropped clock."""
    before = [m for m in marks if m.time <= start]
    within = [m for m in marks if start < m.time < end]
    return [replace(m, time=max(m.time - start, 0.0)) for m in before[-1:] + within]
