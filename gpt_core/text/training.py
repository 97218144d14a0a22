"""Train a text model: shards given to the core's one loop."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from gpt_core.config import GPTConfig
from gpt_core.distributed import is_main
from gpt_core.errors import UserError
from gpt_core.evaluate import Protocol
from gpt_core.footprint import check_memory
from gpt_core.model import GPT
from gpt_core.progress import RunLog
from gpt_core.start import Start
from gpt_core.text.corpus import RECORD, TextCodec, find_codec
from gpt_core.tokens import Shard
from gpt_core.train import train
from gpt_core.train_config import TrainConfig
from gpt_core.trainer import Data


def train_text(shards: Path, shape: GPTConfig, config: TrainConfig, start: Start) -> float:
    """Train on ``shards`` into ``start.out``; returns the best validation nats per token (second half of each window)."""
    start.check()
    if not (shards / RECORD).is_file():
        raise UserError(f"{shards} is no folder of shards (it has no {RECORD}); make one with gpt-core corpus")
    codec = find_codec(shards)
    loaded = start.load()
    if loaded and loaded.codec.to_dict() != codec.to_dict():
        raise UserError(
            f"{loaded.folder} has another tokenizer than the shards; build them with --tokenizer {loaded.folder}"
        )
    run_record = start.record(loaded, record_of(shards))
    shape = loaded.config if loaded else replace(shape, vocab_size=codec.vocab_size)
    memory = check_memory(shape, config)
    torch.manual_seed(config.seed)
    model = loaded.model if loaded else GPT(shape)
    data = Data(
        Shard.open(shards, "train"), Shard.open(shards, "validation"), None,
        Protocol(min_context=shape.context // 2), run_record,
    )  # fmt: skip
    return run(model, data, config, codec, start, also={"memory_gb": memory})


def run(
    model: GPT, data: Data, config: TrainConfig, codec: TextCodec, start: Start, *, also: dict[str, Any] | None = None
) -> float:
    """Give a model and its data to the core's loop, with a log beside the checkpoint; ``also`` goes into its first line."""
    out, board = (start.out, start.tensorboard) if is_main() else (None, None)
    with RunLog(out, tensorboard=board) as log:
        told = log if is_main() else (lambda row: None)
        size = {"parameters": model.parameter_count(), "train_tokens": len(data.train.ids)}
        told({"event": "model", **size, **(also or {})})
        return train(model, data, config, codec=codec, folder=start.out, resume=start.resume, log=told)


def record_of(shards: Path) -> dict[str, Any]:
    """What a checkpoint keeps of the corpus it was trained on."""
    path = shards / RECORD
    if not path.is_file():
        return {"shards": shards.name}
    meta = json.loads(path.read_text("utf-8"))
    return {k: meta[k] for k in ("source", "fingerprint", "splits", "task") if k in meta}
