"""Score <-> event ids: the codec of the music model (Oore et al. 2018; Huang et al. 2018).

Time is counted in steps of 10 ms from the start of the piece: ``floor(100 t + 0.5)``, so nothing drifts. A velocity
v is kept as its bin ``(v - 1) // 4`` and comes back as the bin's centre ``4 bin + 2``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from gpt_core.errors import UserError
from music_transformer.pedals import columns, fold, fold_columns
from music_transformer.score import Columns, Note, PedalColumns, Score, make_score, note_order
from music_transformer.vocabulary import (
    BOS,
    DEFAULT_BIN,
    EOS,
    MAX_SHIFT,
    NOTE_OFF,
    NOTE_ON,
    PAD,
    STEPS_PER_SECOND,
    TIME_SHIFT,
    VELOCITY,
    VOCAB,
    VOCAB_SIZE,
    as_ids,
    bin_velocity,
    describe,
    from_one_hot,
    one_hot,
    transpose_ids,
    velocity_bin,
)

__all__ = [
    "BOS",
    "EOS",
    "NOTE_OFF",
    "NOTE_ON",
    "PAD",
    "TIME_SHIFT",
    "VELOCITY",
    "VOCAB",
    "VOCAB_SIZE",
    "EventCodec",
    "decode",
    "describe",
    "encode",
    "encode_array",
    "encode_columns",
    "from_one_hot",
    "normalize",
    "one_hot",
    "token_notes",
    "transpose_ids",
]


class _Grid(NamedTuple):
    """Notes on the 10 ms grid as int64 arrays, sorted by (on, pitch); within a pitch ``off`` never falls."""

    pitch: np.ndarray
    on: np.ndarray
    off: np.ndarray
    bin: np.ndarray


def steps(seconds: np.ndarray) -> np.ndarray:
    """Seconds -> whole steps of 10 ms, halves upward; what lies before 0 goes to 0."""
    return np.maximum(np.floor(seconds * STEPS_PER_SECOND + 0.5), 0).astype(np.int64)


def _grid(cols: Columns) -> _Grid:
    on = steps(cols.start)
    off = np.maximum(steps(cols.end), on + 1)
    order = _order(on * 128 + cols.pitch)
    pitch, on = cols.pitch[order], on[order]
    return _Grid(pitch, on, _first_in_first_out(pitch, off[order]), velocity_bin(cols.velocity[order]))


def _order(keys: np.ndarray) -> np.ndarray:
    """A stable argsort of int64 keys, none negative. Sorting the places with the keys is quicker where both fit."""
    bits = len(keys).bit_length()
    if len(keys) and keys.max() < 1 << (62 - bits):
        return np.sort(keys << bits | np.arange(len(keys))) & ((1 << bits) - 1)
    return np.argsort(keys, kind="stable")


def _first_in_first_out(pitch: np.ndarray, off: np.ndarray) -> np.ndarray:
    """Hand each pitch's releases to its strikes in order: the first one struck is the first one released."""
    by_strike = np.argsort(pitch.astype(np.uint8), kind="stable")
    by_release = np.lexsort((off, pitch))
    paired = np.empty_like(off)
    paired[by_strike] = off[by_release]
    return paired


def _score_grid(score: Score) -> _Grid:
    return _grid(fold(columns(score.notes), score.pedals))


def normalize(score: Score) -> Score:
    """Return what of a score the ids can hold; ``decode(encode(score))`` equals it.

    Pedals are folded into the notes, times lie on the 10 ms grid (a note lasts at least one step), velocities at the
    centre of their bin, everything on channel 0; of overlapping notes of one pitch the first struck ends first. Tempo
    and time signature are not part of the events.
    """
    g = _score_grid(score)
    start, end = g.on / STEPS_PER_SECOND, g.off / STEPS_PER_SECOND
    rows = zip(*(c.tolist() for c in (g.pitch, start, end, bin_velocity(g.bin))), strict=True)
    return make_score(Note(*row) for row in rows)


def encode(score: Score) -> list[int]:
    """Score -> ids, without BOS and EOS."""
    return encode_array(score).tolist()


def encode_array(score: Score) -> np.ndarray:
    """Score -> ids as ``uint16[T]``: the array form of :func:`encode`."""
    return _grid_ids(_score_grid(score))


def encode_columns(notes: Columns, pedals: PedalColumns) -> np.ndarray:
    """Notes and pedals as columns -> the ids that :func:`encode_array` gives for the same Score."""
    return _grid_ids(_grid(fold_columns(notes, pedals)))


def _grid_ids(g: _Grid) -> np.ndarray:
    count = len(g.pitch)
    event = np.concatenate((g.pitch + NOTE_OFF, g.pitch + NOTE_ON))
    step = np.concatenate((g.off, g.on))
    order = _order(step * 256 + (event ^ 128))  # at one instant offs first, each by pitch
    event, step = event[order], step[order]
    bins = np.concatenate((g.bin, g.bin))[order]
    speaks = _bin_changes(event < NOTE_OFF, bins)
    wait = np.diff(step, prepend=0)
    shifts = -(-wait // MAX_SHIFT)
    last = np.cumsum(shifts + speaks + 1) - 1  # where each note event goes
    out = np.full(last[-1] + 1 if count else 0, TIME_SHIFT + MAX_SHIFT - 1, np.uint16)
    out[last] = event
    out[last[speaks] - 1] = VELOCITY + bins[speaks]
    waits = wait > 0
    rest = (wait - (shifts - 1) * MAX_SHIFT)[waits]
    out[(last - speaks - 1)[waits]] = TIME_SHIFT + rest - 1
    return out


def _bin_changes(is_on: np.ndarray, bins: np.ndarray) -> np.ndarray:
    """Where a NOTE_ON's velocity bin differs from the NOTE_ON before (the first always does)."""
    changes = np.zeros(len(bins), bool)
    changes[is_on] = np.diff(bins[is_on], prepend=-1) != 0
    return changes


class _Walk:
    """One pass over ids: each id's step, and notes as [pitch, on, off, bin, index of ON, index of OFF or -1]."""

    def __init__(self, ids: list[int]) -> None:
        self.notes: list[list[int]] = []
        self.step: list[int] = []
        self.now, self.bin = 0, DEFAULT_BIN
        self.sounding: dict[int, deque[list[int]]] = {}
        for index, id in enumerate(ids):
            if id == EOS:
                break
            self._take(index, id)
            self.step.append(self.now)
        self.step += [self.now] * (len(ids) - len(self.step))
        for waiting in self.sounding.values():
            for note in waiting:
                note[2] = max(self.now, note[1] + 1)

    def _take(self, index: int, id: int) -> None:
        if id < NOTE_OFF:
            note = [id, self.now, -1, self.bin, index, -1]
            self.notes.append(note)
            self.sounding.setdefault(id, deque()).append(note)
        elif id < TIME_SHIFT:
            waiting = self.sounding.get(id - NOTE_OFF)
            if waiting:
                note = waiting.popleft()
                note[2], note[5] = max(self.now, note[1] + 1), index
        elif id < VELOCITY:
            self.now += id - TIME_SHIFT + 1
        elif id < PAD:
            self.bin = id - VELOCITY


def _as_note(row: list[int]) -> Note:
    pitch, on, off, bin = row[:4]
    return Note(pitch, on / STEPS_PER_SECOND, off / STEPS_PER_SECOND, bin_velocity(bin))


def decode(ids: Sequence[int] | np.ndarray) -> Score:
    """Ids -> Score; any ids of the vocabulary in any order give a sound piece.

    A NOTE_OFF ends the earliest note of its pitch that still sounds, one for a silent key is passed over; every note
    lasts at least one step; what still sounds at the end is closed there. EOS ends the piece; PAD and BOS are silent.
    """
    return make_score(_as_note(row) for row in _Walk(as_ids(ids).tolist()).notes)


def token_notes(ids: Sequence[int] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For every id the note it belongs to and when it acts.

    Returns ``(note_index int64[T], seconds float64[T])``: the index counts in ``decode(ids).notes``, -1 for none. A
    VELOCITY belongs to the next NOTE_ON if no other VELOCITY comes between; a TIME_SHIFT acts when it is over.
    """
    array = as_ids(ids)
    walk = _Walk(array.tolist())
    order = sorted(range(len(walk.notes)), key=lambda i: note_order(_as_note(walk.notes[i])))
    note = np.full(len(array), -1, np.int64)
    for rank, i in enumerate(order):
        on, off = walk.notes[i][4:]
        note[on] = rank
        if off >= 0:
            note[off] = rank
    speakers = np.flatnonzero(((array < NOTE_OFF) & (note >= 0)) | ((array >= VELOCITY) & (array < PAD)))
    for this, following in pairwise(speakers):
        if array[this] >= VELOCITY:
            note[this] = note[following] if array[following] < NOTE_OFF else -1
    return note, np.array(walk.step, np.float64) / STEPS_PER_SECOND


class EventCodec:
    """The codec of the music model: Score <-> ids. It has no settings; its file holds the whole vocabulary."""

    kind = "music-events"

    @property
    def vocab_size(self) -> int:
        """How many ids there are: 391."""
        return VOCAB_SIZE

    @property
    def special_ids(self) -> dict[str, int]:
        """PAD fills, BOS opens a piece, EOS ends it."""
        return {"pad": PAD, "bos": BOS, "eos": EOS}

    def encode(self, material: Score) -> list[int]:
        """Score -> ids, without BOS and EOS."""
        return encode(material)

    def decode(self, ids: Sequence[int] | np.ndarray) -> Score:
        """Ids -> Score; never raises on ids of the vocabulary."""
        return decode(ids)

    def to_dict(self) -> dict[str, Any]:
        """The kind, the grid and the whole table, as JSON types."""
        return {
            "kind": self.kind,
            "steps_per_second": STEPS_PER_SECOND,
            "vocabulary": [asdict(kind) for kind in VOCAB],
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> EventCodec:
        """Mirror of :meth:`to_dict`; UserError for any other vocabulary than this version's."""
        if data != cls().to_dict():
            raise UserError(
                f"the checkpoint's event vocabulary is not this version's (0 to {VOCAB_SIZE - 1}); update one of them"
            )
        return cls()
