"""Train a music model: shards and transposition given to the core's one loop."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from gpt_core.config import GPTConfig
from gpt_core.evaluate import Protocol
from gpt_core.start import Start
from gpt_core.tokens import Shard, Transform
from gpt_core.train_config import TrainConfig
from music_transformer.events import EventCodec, transpose_ids


def transposer(semitones: int) -> Transform:
    """Return a transform that moves a row by -semitones..semitones, drawn anew each time."""

    def move(ids: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return transpose_ids(ids, int(rng.integers(-semitones, semitones + 1)))

    return move


def train_music(shards: Path, shape: GPTConfig, config: TrainConfig, start: Start, *, transpose: int = 3) -> float:
    """Train on ``shards`` into ``start.out``; returns the best validation nats per event (second half of each window).

    ``transpose``: each row is moved by up to so many semitones. UserError for a start that can't be, and for a run that
    this machine has no memory for.
    """
    import torch

    from gpt_core.distributed import is_main
    from gpt_core.footprint import check_memory
    from gpt_core.model import GPT
    from gpt_core.progress import RunLog
    from gpt_core.train import train
    from gpt_core.trainer import Data

    start.check()
    loaded = start.load()
    run = {**start.record(loaded, _corpus_record(shards)), "transpose": transpose}
    memory = check_memory(loaded.config if loaded else shape, config)
    torch.manual_seed(config.seed)
    model = loaded.model if loaded else GPT(shape)
    data = Data(
        Shard.open(shards, "train"), Shard.open(shards, "validation"), transposer(transpose) if transpose else None,
        Protocol(min_context=model.config.context // 2), run,
    )  # fmt: skip
    out, board = (start.out, start.tensorboard) if is_main() else (None, None)
    with RunLog(out, tensorboard=board, unit="event") as log:
        told = log if is_main() else (lambda row: None)
        size = {"parameters": model.parameter_count(), "train_tokens": len(data.train.ids), "memory_gb": memory}
        told({"event": "model", **size})
        return train(model, data, config, codec=EventCodec(), folder=start.out, resume=start.resume, log=told)


def _corpus_record(shards: Path) -> dict[str, Any]:
    path = shards / "meta.json"
    if not path.is_file():
        return {"shards": shards.name}
    meta = json.loads(path.read_text("utf-8"))
    return {k: meta[k] for k in ("source", "fingerprint", "splits") if k in meta}
