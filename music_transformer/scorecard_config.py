"""What a scorecard measures and how much of it; written down without loading torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpt_core.options import option

if TYPE_CHECKING:
    from gpt_core.checkpoint import Checkpoint

HELD_OUT = ("validation", "test")
Say = Callable[[str], None]


@dataclass(frozen=True)
class ScorecardConfig:
    """How much to measure. Scoring every window is most of the work: most of an hour of CPU time for 5 million parameters."""

    pieces: int = option(100, "pieces to generate, and excerpts of held-out music to compare with", low=3, high=10_000)
    seconds: float = option(60.0, "length of each piece and excerpt in seconds", low=1.0, high=3600.0)
    seed: int = option(1, "seed of the first piece; the others count on from it", low=0, high=2**31 - 1)
    windows: int = option(0, "score only so many windows of each split, evenly spread (0 = all: slow)", low=0)
    min_context: int = option(512, "score only events with at least so many before them", low=0)
    order: int = option(5, "the n-gram model to compare with looks at so many events (0 = leave it out)", low=0, high=7)


@dataclass(frozen=True)
class Request:
    """What is measured (a loaded model and its name), on which shards, where to, how much, and rows to show beside it."""

    piano: Checkpoint
    name: str
    shards: Path
    out: Path
    config: ScorecardConfig
    beside: tuple[Path, ...] = ()
