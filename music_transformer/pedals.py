"""The sustain pedal made audible in note lengths: a note rings to pedal-up or to the next strike of its key."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from music_transformer.score import Columns, Note, Pedal, PedalColumns, Score, make_score


def columns(notes: Sequence[Note]) -> Columns:
    """Notes -> columns, sorted by (start, pitch); equal ones keep their order."""
    count = len(notes)
    cols = Columns(
        np.fromiter((n.pitch for n in notes), np.int64, count),
        np.fromiter((n.start for n in notes), np.float64, count),
        np.fromiter((n.end for n in notes), np.float64, count),
        np.fromiter((n.velocity for n in notes), np.int64, count),
        np.fromiter((n.channel for n in notes), np.int64, count),
    )
    order = np.lexsort((cols.pitch, cols.start))
    return Columns(*(c[order] for c in cols))


def pedal_columns(pedals: Sequence[Pedal]) -> PedalColumns:
    """Pedals -> columns, in the order they come in."""
    count = len(pedals)
    start = np.fromiter((p.start for p in pedals), np.float64, count)
    end = np.fromiter((p.end for p in pedals), np.float64, count)
    return PedalColumns(start, end, np.fromiter((p.channel for p in pedals), np.int64, count))


def fold(cols: Columns, pedals: Sequence[Pedal]) -> Columns:
    """Lengthen each note whose key is released under the pedal of its channel.

    It then ends when the pedal comes up. While the pedal is down a new strike of the key ends the earlier note; of two
    strikes of one key at one instant the later one in the list stays. Magenta's ``apply_sustain_control_changes`` does
    the same.
    """
    return fold_columns(cols, pedal_columns(pedals))


def fold_columns(cols: Columns, pedals: PedalColumns) -> Columns:
    """The same with the pedals as columns."""
    if not len(pedals.start) or not len(cols.pitch):
        return cols
    end = cols.end.copy()
    restrike = np.full(len(end), np.inf)
    for channel in set(pedals.channel.tolist()):
        here, pressed = np.flatnonzero(cols.channel == channel), pedals.channel == channel
        if not len(here):
            continue
        downs, ups = _intervals(pedals.start[pressed], pedals.end[pressed])
        end[here] = _release(cols.end[here], downs, ups)
        restrike[here] = _next_strike(cols.pitch[here], cols.start[here], downs, ups)
    end = np.minimum(end, restrike)
    keep = restrike > cols.start
    return Columns(*(c[keep] for c in cols._replace(end=end)))


def fold_pedals(score: Score) -> Score:
    """The same music without pedals: every note as long as it rings (see :func:`fold`)."""
    cols = fold(columns(score.notes), score.pedals)
    made = (Note(*row) for row in zip(*(c.tolist() for c in cols), strict=True))
    return dataclasses.replace(make_score(made), tempos=score.tempos, time_signatures=score.time_signatures)


def _intervals(starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pedals of one channel -> sorted disjoint (downs, ups); overlapping ones are joined."""
    order = np.argsort(starts, kind="stable")
    order = order[ends[order] > starts[order]]
    starts, ends = starts[order], ends[order]
    if not len(starts):
        return starts, ends
    reach = np.maximum.accumulate(ends)
    first = np.flatnonzero(np.append(True, starts[1:] >= reach[:-1]))
    return starts[first], reach[np.append(first[1:], len(starts)) - 1]


def _release(times: np.ndarray, downs: np.ndarray, ups: np.ndarray) -> np.ndarray:
    """For each time the pedal-up that follows where the pedal is down then, else the time itself."""
    if not len(downs):
        return times
    index = np.searchsorted(downs, times, side="right") - 1
    up = ups[np.maximum(index, 0)]
    return np.where((index >= 0) & (times < up), up, times)


def _next_strike(pitch: np.ndarray, start: np.ndarray, downs: np.ndarray, ups: np.ndarray) -> np.ndarray:
    """For each note the time of the first later strike of its key that falls under the pedal; inf if there is none."""
    count = len(pitch)
    order = np.argsort(pitch.astype(np.int16), kind="stable")
    p, s = pitch[order], start[order]
    under = _release(s, downs, ups) > s
    marks = np.where(under, np.arange(count), count)
    after = np.append(np.minimum.accumulate(marks[::-1])[::-1][1:], count)
    found = after < count
    same = found & (p[np.where(found, after, 0)] == p)
    out = np.empty(count)
    out[order] = np.where(same, s[np.where(same, after, 0)], np.inf)
    return out
