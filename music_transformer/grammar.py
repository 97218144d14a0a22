"""Which event may follow: a filter for the generation loop that lets only playable piano music through.

The filter keeps the state of each take and reads only the ids that are new since its last call.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpt_core.errors import UserError
from gpt_core.options import check, option
from music_transformer.vocabulary import (
    EOS,
    MAX_SHIFT,
    NOTE_OFF,
    NOTE_ON,
    PAD,
    STEPS_PER_SECOND,
    TIME_SHIFT,
    VELOCITY,
    VOCAB_SIZE,
)

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class GrammarConfig:
    """The bounds of what may be played; all times in seconds."""

    max_hold: float = option(8.0, "longest a note may be held, in seconds", low=0.05, high=60.0)
    max_silence: float = option(3.0, "longest rest, in seconds", low=0.05, high=60.0)
    max_wait: float = option(60.0, "longest time without a new note, in seconds", low=0.05, high=60.0)
    max_keys: int = option(128, "most keys that may sound at once", low=1, high=128)
    lowest: int = option(21, "lowest pitch that may be struck (21 is a piano's lowest A)", low=0, high=127)
    highest: int = option(108, "highest pitch that may be struck (108 is a piano's highest C)", low=0, high=127)
    seconds: float | None = option(None, "length of the new part; then what sounds is closed", low=0.0, high=36000.0)
    min_seconds: float | None = option(None, "no end of the piece before; none = not before --seconds", low=0.0)

    def __post_init__(self) -> None:
        """Refuse bounds that leave nothing to play."""
        check(self)
        if self.lowest > self.highest:
            raise UserError(f"--lowest is {self.lowest} and --highest is {self.highest}; the lowest must not be above")


class Grammar:
    """A filter ``(ids int[B, T], logits [B, 391]) -> logits`` with what may not follow at minus infinity.

    No NOTE_OFF of a silent key nor at the instant of its strike, no second NOTE_ON of a sounding key, at one instant
    offs before ons, VELOCITY only before a NOTE_ON, no hold, rest or wait beyond the bounds, EOS only after a new note and
    when nothing sounds; where ``max_keys`` sound, none is struck until one is released. When the asked seconds are over,
    what sounds is closed and EOS follows. The first ``prompt_length`` ids are taken as they are, however odd; the seconds
    count from their end.
    """

    def __init__(self, config: GrammarConfig | None = None, *, prompt_length: int = 0) -> None:
        self.config = config or GrammarConfig()
        self.prompt_length = prompt_length
        self._forget(0)

    def _forget(self, takes: int) -> None:
        import torch  # late: the settings above are read for --help too

        self._blocked = np.ones((takes, VOCAB_SIZE), bool)
        self._mask = torch.from_numpy(self._blocked)
        self._takes = [_Take(self.config, row) for row in self._blocked]
        self._seen = np.zeros((takes, 0), np.int64)
        self._length = self._address = 0
        self._last: list[int] = []

    def __call__(self, ids: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        """Return ``logits`` with every id that may not follow at minus infinity; UserError for another vocabulary."""
        if logits.shape[-1] != VOCAB_SIZE:
            raise UserError(f"the grammar knows {VOCAB_SIZE} events but the model has {logits.shape[-1]} ids")
        if not self._read_one(ids):
            self._read(ids.cpu().numpy())
            self._address = ids.data_ptr()
        for take in self._takes:
            take.mark()
        mask = self._mask if logits.is_cpu else self._mask.to(logits.device)
        return logits.masked_fill(mask, -math.inf)

    def _read_one(self, ids: torch.Tensor) -> bool:
        """Take in one new column the quick way; False unless the ids are the known ones in place, and one more."""
        if ids.shape[1] != self._length + 1 or self._length == 0 or ids.data_ptr() != self._address:
            return False
        pairs = ids[:, -2:].tolist()
        if [before for before, _ in pairs] != self._last:
            return False
        self._advance([new for _, new in pairs])
        return True

    def _read(self, ids: np.ndarray) -> None:
        """Take in the new columns; start afresh where the history is not the one known."""
        takes, length = ids.shape
        known = self._length
        if takes != len(self._takes) or length < known or (ids[:, :known] != self._seen[:, :known]).any():
            self._forget(takes)
        for column in range(self._length, length):
            self._advance(ids[:, column].tolist())

    def _advance(self, column: list[int]) -> None:
        if self._length == self._seen.shape[1]:
            self._seen = np.concatenate((self._seen, np.zeros((len(column), self._length + 64), np.int64)), axis=1)
        self._seen[:, self._length] = self._last = column
        self._length += 1
        for take, id in zip(self._takes, column, strict=True):
            take.take(id)
            if self._length == self.prompt_length:
                take.start_counting()


class _Take:
    """The keyboard of one take after the ids so far, in steps; ``mark`` writes what may not follow into its row."""

    def __init__(self, config: GrammarConfig, row: np.ndarray) -> None:
        self.row = row
        self.max_hold = round(config.max_hold * STEPS_PER_SECOND)
        self.max_silence = round(config.max_silence * STEPS_PER_SECOND)
        self.max_wait = round(config.max_wait * STEPS_PER_SECOND)
        self.length = math.inf if config.seconds is None else round(config.seconds * STEPS_PER_SECOND)
        least = config.min_seconds if config.min_seconds is not None else config.seconds or 0.0
        self.least = min(round(least * STEPS_PER_SECOND), self.length)
        self.no_on = np.ones(128, bool)
        self.no_on[config.lowest : config.highest + 1] = False
        self.keys = config.highest - config.lowest + 1
        self.max_keys = config.max_keys
        self.unplayable = self.no_on.copy()
        self.no_off = np.ones(128, bool)
        self.struck: dict[int, list[int]] = {}  # pitch -> steps at which its sounding notes were struck
        self.oldest = 0  # the earliest of them, while anything sounds
        self.now = self.origin = self.silent_since = self.last_strike = 0
        self.ons_begun = self.after_velocity = self.ended = self.played = False

    def start_counting(self) -> None:
        """Here the prompt ends and the new part begins."""
        self.origin = self.last_strike = self.now
        self.played = False

    def take(self, id: int) -> None:
        """Follow one id, allowed or not, the way ``decode`` does."""
        if self.ended:
            return
        self.after_velocity = VELOCITY <= id < PAD
        if id < NOTE_OFF:
            self._strike(id)
        elif id < TIME_SHIFT:
            self._release(id - NOTE_OFF)
        elif id < VELOCITY:
            self._wait(id - TIME_SHIFT + 1)
        elif id == EOS:
            self.ended = True

    def _strike(self, pitch: int) -> None:
        if not self.struck:
            self.oldest = self.now
        self.struck.setdefault(pitch, []).append(self.now)
        self.last_strike = self.now
        self.no_on[pitch] = self.ons_begun = self.played = True

    def _release(self, pitch: int) -> None:
        strikes = self.struck.get(pitch)
        if not strikes:
            return
        first = strikes.pop(0)
        if strikes:
            self.no_off[pitch] = strikes[0] == self.now
        else:
            del self.struck[pitch]
            self.no_on[pitch] = self.unplayable[pitch]
            self.no_off[pitch] = True
        if not self.struck:
            self.silent_since = self.now
        elif first == self.oldest:
            self.oldest = min(s[0] for s in self.struck.values())

    def _wait(self, steps: int) -> None:
        self.now += steps
        self.ons_begun = False
        for pitch in self.struck:
            self.no_off[pitch] = False

    def mark(self) -> None:
        """Write True into the row for every id that may not follow."""
        row = self.row
        row[:] = True
        left = self.length - (self.now - self.origin)
        if self.ended or (left <= 0 and not self.struck):
            row[EOS] = False
        elif left <= 0:
            self._close(self.struck)
        elif self.after_velocity and not self._keyboard_is_full():
            row[NOTE_ON:NOTE_OFF] = self.no_on
        else:
            self._play(left)

    def _keyboard_is_full(self) -> bool:
        sounding = len(self.struck)
        return sounding >= self.max_keys or (sounding >= self.keys and bool(self.no_on.all()))

    def _play(self, left: float) -> None:
        row = self.row
        patience = self.oldest + self.max_hold if self.struck else self.silent_since + self.max_silence
        limit = min(patience - self.now, left, MAX_SHIFT)
        if limit <= 0 and self.struck:
            self._close({p: s for p, s in self.struck.items() if s[0] + self.max_hold <= self.now})
            return
        full = self._keyboard_is_full()
        if not full:
            limit = min(limit, self.last_strike + self.max_wait - self.now)
        row[NOTE_ON:NOTE_OFF] = full or self.no_on
        row[VELOCITY:PAD] = full
        if not self.ons_begun:
            row[NOTE_OFF:TIME_SHIFT] = self.no_off
        if limit > 0:
            row[TIME_SHIFT : TIME_SHIFT + int(limit)] = False
        row[EOS] = bool(self.struck) or not self.played or self.now - self.origin < self.least

    def _close(self, struck: dict[int, list[int]]) -> None:
        """Leave only the NOTE_OFFs of ``struck``; where all of them were struck just now, one step of waiting."""
        for pitch, strikes in struck.items():
            self.row[NOTE_OFF + pitch] = strikes[0] == self.now
        if all(strikes[0] == self.now for strikes in struck.values()):
            self.row[TIME_SHIFT] = False
