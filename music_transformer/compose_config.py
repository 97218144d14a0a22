"""What to compose: its settings, the named moods of the sampler, and what a checkpoint says of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpt_core.config import ENGINES
from gpt_core.errors import UserError
from gpt_core.options import option
from gpt_core.sampling import Sampling
from music_transformer.grammar import GrammarConfig

if TYPE_CHECKING:
    from gpt_core.checkpoint import Checkpoint

# How adventurous: named settings of the sampler.
PRESETS: dict[str, Sampling] = {
    "calm": Sampling(temperature=0.9, top_p=0.92),
    "balanced": Sampling(temperature=1.0, top_p=0.97),
    "wild": Sampling(temperature=1.1, top_p=0.99),
}
DEFAULT_PRESET = "balanced"
EVENTS_PER_SECOND = 150  # densest music expected; a stream that is denser ends early rather than never


@dataclass(frozen=True)
class ComposeConfig:
    """What to compose; how the events are drawn is Sampling's."""

    seconds: float = option(20.0, "length of the new part in seconds", low=0.1, high=3600.0)
    takes: int = option(1, "how many different continuations", low=1, high=64)
    seed: int | None = option(None, "same seed, same music; none = a new one each time", low=0, high=2**53)
    at: float | None = option(None, "continue from this second of the piece; none = from its end", low=0.0)
    max_hold: float | None = option(
        None, "longest a note may be held, in seconds; none = as the model's checkpoint says, or 8", low=0.05, high=60.0
    )
    max_wait: float = option(2.0, "longest time without a new note, in seconds", low=0.05, high=60.0)
    max_silence: float = option(3.0, "longest rest, in seconds", low=0.05, high=60.0)
    max_keys: int = option(24, "most keys that may sound at once, held by the pedal or not", low=1, high=128)
    min_seconds: float | None = option(None, "the piece may end by itself from here on; none = not early", low=0.0)
    engine: str = option("auto", "what computes: native needs a C++ compiler once", choices=ENGINES)
    until: float | None = option(
        None, "rewrite --at to this second only, and keep what follows; none = all is new", low=0.0
    )
    max_events: int | None = option(None, "end after so many events, however short; none = no such limit", low=1)


def usual_hold(piano: Checkpoint) -> float:
    """Seconds that a note may be held where nobody says: ``generation.max_hold`` of the checkpoint's run.json, else 8."""
    own = piano.run.get("generation")
    hold = own.get("max_hold") if isinstance(own, dict) else None
    if hold is None:
        return GrammarConfig.max_hold
    if isinstance(hold, bool) or not isinstance(hold, int | float) or not 0.05 <= hold <= 60:
        raise UserError(
            f"{piano.folder / 'run.json'}: generation.max_hold is {hold!r:.40}; it must be 0.05 to 60 seconds"
        )
    return float(hold)
