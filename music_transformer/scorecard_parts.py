"""The parts of a scorecard, each measured by one method and returned as JSON types."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from music_transformer.augment import crop
from music_transformer.compose import Composition
from music_transformer.compose_config import ComposeConfig
from music_transformer.events import EOS, decode, encode_array, normalize
from music_transformer.memorisation import TrainingIndex
from music_transformer.midi import read_midi
from music_transformer.overlap import compare
from music_transformer.score import Score
from music_transformer.scorecard_config import HELD_OUT, Request, Say
from music_transformer.statistics import FAULTS, Features, features, find_faults

if TYPE_CHECKING:
    from gpt_core.tokens import Shard


class Measurements:
    """One request's parts; what several of them need is made once."""

    def __init__(self, request: Request, splits: dict[str, Shard], say: Say) -> None:
        self.request, self.splits, self.say = request, splits, say
        self.config = request.config

    def likelihood(self) -> dict[str, Any]:
        """The model's nats per event, note and second on both held-out splits."""
        from gpt_core.evaluate import Protocol
        from music_transformer.evaluation import measure

        c, model = self.config, self.request.piano.model
        context = model.config.context
        protocol = Protocol(context, max(1, context // 2), c.min_context, c.windows or None)
        return {split: measure(model, self.splits[split], protocol) for split in HELD_OUT}

    def baselines(self) -> dict[str, Any]:
        """The same of uniform guessing and of an n-gram model of the train split, over all pieces."""
        from music_transformer.baselines import count_ngrams, ngram_rates, uniform_rates

        least = self.config.min_context
        out = {"uniform": {s: uniform_rates(self.splits[s], least) for s in HELD_OUT}}
        if self.config.order:
            grams = count_ngrams(self.splits["train"], self.config.order)
            out[f"{self.config.order}-gram"] = {s: ngram_rates(grams, self.splits[s], least) for s in HELD_OUT}
        return out

    def generate(self) -> list[dict[str, Any]]:
        """Write the pieces as MIDI files, one per seed, at the default settings; those already there are kept."""
        rows = []
        folder = self.request.out / "pieces"
        folder.mkdir(exist_ok=True)
        for i, seed in enumerate(self._seeds):
            rows.append(self._piece(seed, self._file(seed)))
            if (i + 1) % 10 == 0:
                self.say(f"  {i + 1} of {self.config.pieces} pieces")
        return rows

    @property
    def _seeds(self) -> range:
        return range(self.config.seed, self.config.seed + self.config.pieces)

    def _file(self, seed: int) -> Path:
        return self.request.out / "pieces" / f"{seed:04}.mid"

    def _piece(self, seed: int, path: Path) -> dict[str, Any]:
        made = {"seed": seed, "seconds": self.config.seconds, "checkpoint": self.request.piano.sha}
        record = path.with_suffix(".json")
        if path.is_file() and record.is_file():
            kept = json.loads(record.read_text("utf-8"))
            if made.items() <= kept.items():
                return kept
        config = ComposeConfig(seconds=self.config.seconds, seed=seed)
        composition = Composition(self.request.piano, None, config, model_name=self.request.name)
        for _ in composition.steps():
            pass
        (take,) = composition.takes()
        path.write_bytes(take.midi())
        row = {**made, "events": len(take.ids), "notes": len(take.new.notes), "end": round(take.new.end, 2),
               "ended": bool(take.ids) and take.ids[-1] == EOS}  # fmt: skip
        record.write_text(json.dumps(row) + "\n", encoding="utf-8")
        return row

    @cached_property
    def pieces(self) -> list[Score]:
        """The generated pieces, read back from their files."""
        return [normalize(read_midi(self._file(seed))[0]) for seed in self._seeds]

    @cached_property
    def excerpts(self) -> list[Score]:
        """Twice as many excerpts of held-out pieces, one piece each while they last, cut anywhere; the same every time."""
        rng = np.random.default_rng(0)
        everything = [(s, i) for s in HELD_OUT for i in range(len(self.splits[s]))]
        turns = [everything[i] for i in rng.permutation(len(everything))]
        return [self._excerpt(turns[k % len(turns)], rng) for k in range(2 * self.config.pieces)]

    def _excerpt(self, place: tuple[str, int], rng: np.random.Generator) -> Score:
        split, i = place
        score = decode(self.splits[split].piece(i))
        start = float(rng.random()) * max(0.0, score.end - self.config.seconds)
        return normalize(crop(score, start, start + self.config.seconds))

    def faults(self) -> dict[str, Any]:
        """Per piece what is wrong with it, and the shares among the pieces and among excerpts of real music."""
        found = {
            who: [find_faults(s, encode_array(s)) for s in scores]
            for who, scores in (("pieces", self.pieces), ("real", self.excerpts[: self.config.pieces]))
        }
        shares = {w: {f: float(np.mean([getattr(x, f) for x in xs])) for f in FAULTS} for w, xs in found.items()}
        each = [{"seed": s, **dataclasses.asdict(f)} for s, f in zip(self._seeds, found["pieces"], strict=True)]
        return {"shares": shares, "each": each}

    def likeness(self) -> dict[str, Any]:
        """Features of the pieces against real excerpts, and of other real excerpts against these: what likeness means."""
        half = self.config.pieces
        real, other = _measured(self.excerpts[:half]), _measured(self.excerpts[half:])
        return {"pieces": compare(_measured(self.pieces), real), "real": compare(other, real)}

    def quotations(self) -> dict[str, Any]:
        """The longest passage of each piece that the training music has too, and the same of held-out excerpts."""
        index = training_index(self.request.shards, self.splits["train"], self.request.out / "training-index.npz")
        rows: dict[str, list[dict[str, Any]]] = {}
        for who, scores in (("pieces", self.pieces), ("real", self.excerpts[: self.config.pieces])):
            rows[who] = [{**vars(index.longest(ids)), "of": len(s.notes)} for s in scores for ids in [encode_array(s)]]
        for seed, row in zip(self._seeds, rows["pieces"], strict=True):
            row["seed"] = seed
        spread = {who: _quantiles([r["notes"] for r in found]) for who, found in rows.items()}
        return {"spread": spread, "each": rows["pieces"], "real": [r["notes"] for r in rows["real"]]}


def _measured(scores: Sequence[Score]) -> list[Features]:
    return [f for s in scores if (f := features(s)) is not None]


def _quantiles(lengths: Sequence[int]) -> dict[str, float]:
    low, middle, high = np.quantile(lengths, [0.1, 0.5, 0.9])
    return {"tenth": float(low), "median": float(middle), "ninetieth": float(high), "longest": max(lengths)}


def training_index(shards: Path, train: Shard, file: Path) -> TrainingIndex:
    """Load the index of a train split from ``file``, or build it and keep it there."""
    fingerprint = train.fingerprint()
    if file.is_file():
        index = TrainingIndex.load(file)
        if index.fingerprint == fingerprint:
            return index
    names = _piece_names(shards, len(train))
    index = TrainingIndex.build((train.piece(i) for i in range(len(train))), names, fingerprint)
    file.parent.mkdir(parents=True, exist_ok=True)
    index.save(file)
    return index


def _piece_names(shards: Path, count: int) -> list[str]:
    """The file names of the train split's pieces (each stands there once, or once for each stretched copy), or numbers."""
    try:
        pieces = json.loads((shards / "meta.json").read_text("utf-8"))["pieces"]
        names = [p["file"] for p in pieces if p["split"] == "train"]
    except (OSError, ValueError, KeyError, TypeError):
        names = []
    copies = count // len(names) if names else 0
    if not copies or count % len(names):
        return [f"piece {i + 1}" for i in range(count)]
    return [names[i // copies] for i in range(count)]
