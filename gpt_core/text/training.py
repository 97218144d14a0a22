"""Train a text model: shards given to the core's one loop."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from gpt_core import checkpoint
from gpt_core.config import GPTConfig
from gpt_core.distributed import is_main
from gpt_core.errors import UserError
from gpt_core.evaluate import Protocol
from gpt_core.model import GPT
from gpt_core.progress import RunLog
from gpt_core.text.corpus import RECORD, TextCodec, find_codec
from gpt_core.tokens import Shard
from gpt_core.train import train
from gpt_core.train_config import TrainConfig
from gpt_core.trainer import Data


@dataclass(frozen=True)
class Start:
    """Where a run begins: from nothing, from its own last checkpoint, or from another model's weights."""

    out: Path
    resume: bool = False
    init_from: Path | None = None
    tensorboard: Path | None = None

    def check(self) -> None:
        """Refuse to write over a run, or to resume none."""
        if self.resume and not self.out.exists():
            raise UserError(f"--resume: {self.out} does not exist; leave --resume out to start a run")
        if not self.resume and self.out.exists() and any(self.out.iterdir()):
            raise UserError(f"{self.out} is not empty; pass --resume to go on with it, or another --out")

    def model(self, shape: GPTConfig, codec: TextCodec) -> GPT:
        """Build or load the model; a loaded one must have the shards' tokenizer."""
        source = self.out if self.resume else self.init_from
        if source is None:
            return GPT(replace(shape, vocab_size=codec.vocab_size))
        loaded = checkpoint.load(source)
        if loaded.codec.to_dict() != codec.to_dict():
            raise UserError(f"{source} has another tokenizer than the shards; build them with --tokenizer {source}")
        return loaded.model


def train_text(shards: Path, shape: GPTConfig, config: TrainConfig, start: Start) -> float:
    """Train on ``shards`` into ``start.out``; returns the best validation nats per token (second half of each window)."""
    start.check()
    torch.manual_seed(config.seed)
    if not (shards / RECORD).is_file():
        raise UserError(f"{shards} is no folder of shards (it has no {RECORD}); make one with gpt-core corpus")
    codec = find_codec(shards)
    model = start.model(shape, codec)
    data = Data(
        Shard.open(shards, "train"), Shard.open(shards, "validation"), None,
        Protocol(min_context=model.config.context // 2), {"data": record_of(shards)},
    )  # fmt: skip
    return run(model, data, config, codec, start)


def run(
    model: GPT, data: Data, config: TrainConfig, codec: TextCodec, start: Start, *, also: dict[str, Any] | None = None
) -> float:
    """Give a model and its data to the core's loop, with a log beside the checkpoint; ``also`` goes into its first line."""
    if start.init_from:
        data.run["init_from"] = str(start.init_from)
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
