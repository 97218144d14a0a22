"""Train a music model: shards and transposition given to the core's one loop."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from gpt_core.config import GPTConfig
from gpt_core.evaluate import Protocol
from gpt_core.tokens import Shard, Transform
from gpt_core.train_config import TrainConfig
from music_transformer.events import EventCodec, transpose_ids


def transposer(semitones: int) -> Transform:
    """Return a transform that moves a row by -semitones..semitones, drawn anew each time."""

    def move(ids: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return transpose_ids(ids, int(rng.integers(-semitones, semitones + 1)))

    return move


def train_music(shards: Path, out: Path, shape: GPTConfig, config: TrainConfig, args: argparse.Namespace) -> float:
    """Train on ``shards`` into ``out``; returns the best validation nats per event (second half of each window)."""
    import torch

    from gpt_core.checkpoint import load
    from gpt_core.distributed import is_main
    from gpt_core.model import GPT
    from gpt_core.progress import RunLog
    from gpt_core.train import train
    from gpt_core.trainer import Data

    torch.manual_seed(config.seed)
    source = out if args.resume else args.init_from
    start = load(source) if source else None
    run: dict[str, Any] = {"data": _corpus_record(shards), "transpose": args.transpose}
    origin = args.init_from or (start.run.get("init_from") if start and args.resume else None)
    if origin:
        run["init_from"] = str(origin)
    model = start.model if start else GPT(shape)
    data = Data(
        Shard.open(shards, "train"), Shard.open(shards, "validation"),
        transposer(args.transpose) if args.transpose else None,
        Protocol(min_context=model.config.context // 2), run,
    )  # fmt: skip
    with RunLog(out if is_main() else None, tensorboard=args.tensorboard if is_main() else None) as log:
        log({"event": "model", "parameters": model.parameter_count(), "train_tokens": len(data.train.ids)})
        quiet = log if is_main() else (lambda row: None)
        return train(model, data, config, codec=EventCodec(), folder=out, resume=args.resume, log=quiet)


def _corpus_record(shards: Path) -> dict[str, Any]:
    path = shards / "meta.json"
    if not path.is_file():
        return {"shards": shards.name}
    meta = json.loads(path.read_text("utf-8"))
    return {k: meta[k] for k in ("source", "fingerprint", "splits") if k in meta}
