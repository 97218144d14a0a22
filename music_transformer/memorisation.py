"""Does a piece quote its training data? The longest passage it shares with the training set, in any key.

A piece is a line of symbols, one for each step from a note to the next: the pitch interval, and a coarse class of the wait
between the strikes. So a match is found in any key, and at slightly other speeds; loudness and note lengths don't count.
Notes struck within 30 ms of one another count as a chord and are read from low to high.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gpt_core.errors import UserError
from music_transformer.vocabulary import NOTE_OFF, TIME_SHIFT, VELOCITY

WAITS = (3, 8, 16, 32, 64, 128)  # where the classes of waits begin, in steps of 10 ms; below 30 ms: together
_CLASSES = 8
_BITS, _PACKED = 11, 5  # bits of a symbol; symbols that fit into one integer


def symbols(ids: np.ndarray) -> np.ndarray:
    """Ids of a piece -> ``uint16[notes - 1]``: (interval + 128) * 8 + class of the wait. Always above 0."""
    ids = np.asarray(ids, np.int64)
    waits = np.where((ids >= TIME_SHIFT) & (ids < VELOCITY), ids - TIME_SHIFT + 1, 0)
    struck = ids < NOTE_OFF
    pitch, time = ids[struck], np.cumsum(waits)[struck]
    chord = np.cumsum(np.diff(time, prepend=0) >= WAITS[0])
    order = np.lexsort((pitch, chord))
    pitch = pitch[order]  # within a chord only: ``chord`` itself never falls and is as it was
    wait = np.diff(time[np.searchsorted(chord, chord)])  # from the first strike of one chord to that of the next
    return ((np.diff(pitch) + 128) * _CLASSES + np.searchsorted(WAITS, wait, side="right")).astype(np.uint16)


@dataclass(frozen=True)
class Match:
    """``notes`` in a row, from note ``at`` of the piece and from note ``source_at`` of the training piece ``source``."""

    notes: int
    at: int = 0
    source: str = ""
    source_at: int = 0


@dataclass(frozen=True)
class TrainingIndex:
    """A suffix array over the symbols of all training pieces, with 0 between two; ``starts`` says where each begins."""

    text: np.ndarray  # uint16[N + 1], the last one 0
    suffixes: np.ndarray  # int32[N]
    starts: np.ndarray  # int64[pieces]
    names: tuple[str, ...]
    fingerprint: str = ""

    @classmethod
    def build(cls, pieces: Iterable[np.ndarray], names: Sequence[str], fingerprint: str = "") -> TrainingIndex:
        """Index pieces of ids (6 million notes: half a minute, under 1 GB)."""
        lines = [symbols(ids) for ids in pieces]
        if len(lines) != len(names) or not any(map(len, lines)):
            raise UserError(
                f"{len(lines)} pieces and {len(names)} names given; an index needs one name per piece, and notes"
            )
        starts = np.concatenate(([0], np.cumsum([len(line) + 1 for line in lines])[:-1])).astype(np.int64)
        text = np.concatenate([np.append(line, np.uint16(0)) for line in lines])
        return cls(np.append(text, np.uint16(0)), suffix_array(text), starts, tuple(names), fingerprint)

    def save(self, path: Path) -> None:
        """Write the index as one .npz file, whole or not at all."""
        scratch = path.with_suffix(".tmp.npz")
        np.savez(
            scratch, text=self.text, suffixes=self.suffixes, starts=self.starts,
            names=np.array(self.names), fingerprint=np.array(self.fingerprint),
        )  # fmt: skip
        scratch.replace(path)

    @classmethod
    def load(cls, path: Path) -> TrainingIndex:
        """Mirror of :meth:`save`; UserError where the file is no index."""
        try:
            with np.load(path, allow_pickle=False) as f:
                names = tuple(f["names"].tolist())
                return cls(f["text"], f["suffixes"], f["starts"], names, str(f["fingerprint"]))
        except (OSError, ValueError, KeyError, EOFError) as error:
            raise UserError(f"{path} is not an index of training music ({error}); build it again") from None

    def longest(self, ids: np.ndarray) -> Match:
        """Return the longest passage of a piece that some training piece has too; 1 note if there is none."""
        line = np.append(symbols(ids), np.uint16(0)).astype(np.int64)
        at = np.arange(len(line) - 1)
        low, high = np.zeros(len(at), np.int64), np.full(len(at), len(self.suffixes))
        best, depth = Match(min(1, int((np.asarray(ids) < NOTE_OFF).sum()))), 0
        while len(at):
            wanted = line[at + depth]  # 0 at the piece's end is wanted by nobody
            low = self._bisect(low, high, depth, wanted)
            high = self._bisect(low, high, depth, wanted + 1)
            alive = (low < high) & (wanted > 0)
            at, low, high, depth = at[alive], low[alive], high[alive], depth + 1
            if len(at):
                best = self._match(depth + 1, int(at[0]), int(self.suffixes[low[0]]))
        return best

    def _bisect(self, low: np.ndarray, high: np.ndarray, depth: int, wanted: np.ndarray) -> np.ndarray:
        """Of each range of suffixes, equal in their first ``depth`` symbols, the first whose next is >= ``wanted``."""
        low, high = low.copy(), high.copy()
        while (open_ := low < high).any():
            middle = (low + high) // 2
            suffix = self.suffixes[np.minimum(middle, len(self.suffixes) - 1)].astype(np.int64)
            smaller = self.text[np.minimum(suffix + depth, len(self.text) - 1)] < wanted
            low = np.where(open_ & smaller, middle + 1, low)
            high = np.where(open_ & ~smaller, middle, high)
        return low

    def _match(self, notes: int, at: int, place: int) -> Match:
        piece = int(np.searchsorted(self.starts, place, side="right")) - 1
        return Match(notes, at, self.names[piece], place - int(self.starts[piece]))


def suffix_array(text: np.ndarray) -> np.ndarray:
    """Return the starts of all suffixes of ``uint16[N]`` in sorted order, by prefix doubling (Manber & Myers 1993)."""
    n = len(text)
    padded = np.concatenate((text.astype(np.int64) + 1, np.zeros(_PACKED, np.int64)))  # the end sorts before everything
    key = np.zeros(n, np.int64)
    for k in range(_PACKED):
        key = (key << _BITS) | padded[k : k + n]
    length = _PACKED
    while True:
        order = np.argsort(key)
        ordered = key[order]
        rank = np.empty(n, np.int64)
        rank[order] = np.cumsum(np.diff(ordered, prepend=ordered[0]) != 0)
        if rank[order[-1]] == n - 1 or length >= n:
            return order.astype(np.int32)
        behind = np.zeros(n, np.int64)
        behind[: n - length] = rank[length:] + 1
        key = rank * (n + 1) + behind
        length *= 2
