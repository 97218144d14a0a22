"""Evaluate a music model: negative log-likelihood per event, per note and per second of held-out music."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpt_core.errors import UserError
from music_transformer.events import BOS, EOS, NOTE_OFF, STEPS_PER_SECOND, TIME_SHIFT, VELOCITY, encode
from music_transformer.midi import SUFFIXES, read_midi

if TYPE_CHECKING:
    from gpt_core.evaluate import Protocol
    from gpt_core.model import GPT
    from gpt_core.tokens import Shard


@dataclasses.dataclass
class Tally:
    """Sums over scored events; the rates follow. Notes and seconds are those of the scored events alone."""

    nats: float = 0.0
    events: int = 0
    notes: int = 0
    steps: int = 0

    def add(self, targets: np.ndarray, nats: np.ndarray) -> None:
        """Count one window's scored targets and their nats [N]."""
        self.nats += float(nats.sum())
        self.events += len(targets)
        self.notes += int((targets < NOTE_OFF).sum())
        shifts = targets[(targets >= TIME_SHIFT) & (targets < VELOCITY)]
        self.steps += int((shifts - TIME_SHIFT + 1).sum())

    def rates(self) -> dict[str, Any]:
        """Return nats per event, note and second, and what they were averaged over; a rate over nothing is None."""
        seconds = self.steps / STEPS_PER_SECOND
        return {
            "nats_per_event": self.nats / self.events if self.events else None,
            "nats_per_note": self.nats / self.notes if self.notes else None,
            "nats_per_second": self.nats / seconds if seconds else None,
            "events": self.events,
            "notes": self.notes,
            "seconds": seconds,
        }


def measure(model: GPT, shard: Shard, protocol: Protocol) -> dict[str, Any]:
    """Score a shard (pieces as BOS + ids + EOS) under a protocol; see :class:`gpt_core.evaluate.Protocol`."""
    from gpt_core.evaluate import scored

    tally = Tally()
    for targets, nats in scored(model, shard, protocol):
        tally.add(targets, nats)
    if not tally.events:
        raise UserError(
            f"no event has {protocol.min_context} events before it; pass a lower --min-context or longer pieces"
        )
    return tally.rates()


def evaluate_material(
    model: str, material: Sequence[Path], split: str, min_context: int = 0, limit: int | None = None
) -> dict[str, Any]:
    """Measure a model on MIDI files, folders of them, or one folder of shards; adds how it was measured."""
    from gpt_core.evaluate import Protocol
    from music_transformer.models import load

    piano = load(model, "auto")
    context = piano.config.context
    if not 0 <= min_context < context:
        raise UserError(f"--min-context is {min_context}; the model reads {context} events, so give 0 to {context - 1}")
    protocol = Protocol(context=context, stride=context // 2, min_context=min_context, limit=limit)
    rates = measure(piano.model, open_material(material, split), protocol)
    how = {"context": context, "stride": context // 2, "min_context": min_context, "windows": limit}
    return {**rates, "protocol": how, "model": model, "checkpoint": piano.sha}


def open_material(material: Sequence[Path], split: str) -> Shard:
    """Open shards, or encode MIDI files in the order given (those of a folder by name)."""
    from gpt_core.tokens import Shard

    if len(material) == 1 and (material[0] / f"{split}.bin").is_file():
        return Shard.open(material[0], split)
    return Shard.of([[BOS, *encode(read_midi(path)[0]), EOS] for path in _midi_files(material)])


def _midi_files(material: Sequence[Path]) -> Iterator[Path]:
    found = False
    for path in material:
        inside = sorted(p for p in path.rglob("*") if p.suffix.lower() in SUFFIXES) if path.is_dir() else [path]
        for file in inside:
            found = True
            yield file
    if not found:
        raise UserError(
            f"{material[0]} holds no MIDI file and no shards; give MIDI files or a folder made by the corpus command"
        )
