"""Event ids as they come -> what the page draws and plays at once: strikes and releases with their seconds."""

from __future__ import annotations

from typing import Any

from music_transformer.vocabulary import (
    DEFAULT_BIN,
    NOTE_OFF,
    PAD,
    STEPS_PER_SECOND,
    TIME_SHIFT,
    VELOCITY,
    bin_velocity,
)


class LiveTake:
    """Follows the new ids of one take. Times are seconds of the whole piece; ``join`` is where the new part starts."""

    def __init__(self, index: int, join: float, prompt_ids: list[int]) -> None:
        self.index = index
        self.join = join
        self.steps = 0
        self.bin = DEFAULT_BIN
        for id in prompt_ids:
            if VELOCITY <= id < PAD:
                self.bin = id - VELOCITY

    @property
    def seconds(self) -> float:
        """Where in the whole piece the take has arrived."""
        return self.join + self.steps / STEPS_PER_SECOND

    def feed(self, id: int) -> list[Any] | None:
        """One id -> ``["on", take, pitch, seconds, velocity]``, ``["off", take, pitch, seconds]``, or None."""
        if id < NOTE_OFF:
            return ["on", self.index, id, round(self.seconds, 3), bin_velocity(self.bin)]
        if id < TIME_SHIFT:
            return ["off", self.index, id - NOTE_OFF, round(self.seconds, 3)]
        if id < VELOCITY:
            self.steps += id - TIME_SHIFT + 1
        elif id < PAD:
            self.bin = id - VELOCITY
        return None
