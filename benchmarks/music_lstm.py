"""An LSTM of the transformer's size, trained by the same loop on the same rows: the baseline of its own time.

Rerun: ``.venv/bin/python -m benchmarks.music_lstm train SHARDS -o LSTM --like piano [--max-steps N --batch-size 4 --resume ...]``,
then ``.venv/bin/python -m benchmarks.music_lstm evaluate SHARDS LSTM --json lstm.json``, whose file the scorecard shows with
``--beside lstm.json``. "Equal budget" is the same number of rows of the same length: give ``--max-steps``, ``--batch-size`` and
``--decay`` of the transformer's run.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from gpt_core.config import PRESETS, GPTConfig
from gpt_core.errors import UserError
from gpt_core.evaluate import Protocol
from gpt_core.model import GPT
from gpt_core.options import add_flags, from_args
from gpt_core.progress import RunLog
from gpt_core.tokens import Shard
from gpt_core.train import train
from gpt_core.train_config import TrainConfig
from gpt_core.trainer import Data
from music_transformer.evaluation import measure
from music_transformer.events import EventCodec
from music_transformer.training import transposer

# Muon is for the transformer's matrices; an LSTM is trained by AdamW throughout.
RECIPE = TrainConfig(optimizer="adamw", lr_adamw=2e-3, weight_decay=0.01, batch_size=4)


@dataclass(frozen=True)
class LSTMConfig:
    """The shape; ``context`` is the length of rows and windows, as of a transformer."""

    vocab_size: int = 391
    context: int = 1024
    n_layer: int = 3
    n_embd: int = 320
    dropout: float = 0.0


class LSTM(nn.Module):
    """Embedding, layers of LSTM, head: ids [B, T] -> logits [B, T, V], each row from an empty memory."""

    def __init__(self, config: LSTMConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.n_embd)
        self.lstm = nn.LSTM(
            config.n_embd, config.n_embd, config.n_layer, batch_first=True,
            dropout=config.dropout if config.n_layer > 1 else 0.0,
        )  # fmt: skip
        self.drop = nn.Dropout(config.dropout)
        self.head = nn.Linear(config.n_embd, config.vocab_size)
        for layer in range(config.n_layer):  # remember at first (Jozefowicz et al. 2015): the forget gate's bias is 1
            with torch.no_grad():
                getattr(self.lstm, f"bias_ih_l{layer}")[config.n_embd : 2 * config.n_embd] = 1.0

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.head.weight.device

    def parameter_count(self) -> int:
        """Count the weights."""
        return sum(p.numel() for p in self.parameters())

    def forward(self, ids: Tensor) -> Tensor:
        """Map ids [B, T] to logits [B, T, V]."""
        y, _ = self.lstm(self.drop(self.embedding(ids)))
        return self.head(self.drop(y))


def parameters(shape: GPTConfig) -> int:
    """How many weights a transformer of this shape has."""
    with torch.device("meta"):
        return GPT(shape).parameter_count()


def same_size(target: int, base: LSTMConfig) -> LSTMConfig:
    """Return ``base`` in the width, a multiple of 8, whose number of weights comes closest to ``target``."""

    def count(width: int) -> int:
        v, n = base.vocab_size, base.n_layer
        return v * width + n * (8 * width * width + 8 * width) + (width + 1) * v

    best = min(range(8, 4097, 8), key=lambda width: abs(count(width) - target))
    return replace(base, n_embd=best)


def load(folder: Path) -> LSTM:
    """Read a trained one; UserError where the folder holds none."""
    try:
        model = LSTM(LSTMConfig(**json.loads((folder / "config.json").read_text("utf-8"))))
        model.load_state_dict(load_file(folder / "model.safetensors"))
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        raise UserError(f"{folder} holds no LSTM that can be read ({type(error).__name__})") from None
    return model.eval()


def run_train(args: argparse.Namespace) -> None:
    """Train into a checkpoint folder."""
    config = from_args(TrainConfig, args, RECIPE)
    if args.out.exists() and not args.resume:
        raise UserError(f"{args.out} exists; pass --resume to go on with it, or another --out")
    torch.manual_seed(config.seed)
    like = PRESETS[args.like]
    shape = same_size(parameters(like), LSTMConfig(context=like.context, n_layer=args.layers, dropout=args.dropout))
    model: Any = LSTM(shape)  # the loop asks of a model no more than this one has
    data = Data(
        Shard.open(args.shards, "train"), Shard.open(args.shards, "validation"),
        transposer(args.transpose) if args.transpose else None, Protocol(min_context=shape.context // 2),
    )  # fmt: skip
    with RunLog(args.out) as log:
        log({"event": "model", "parameters": model.parameter_count(), "width": shape.n_embd})
        best = train(model, data, config, codec=EventCodec(), folder=args.out, resume=args.resume, log=log)
    print(f"best validation: {best:.4f} nats/event; checkpoint in {args.out}")


def run_evaluate(args: argparse.Namespace) -> None:
    """Write the row that the scorecard shows beside its own."""
    model: Any = load(args.model)
    context = model.config.context
    protocol = Protocol(context, context // 2, min(args.min_context, context - 1), args.windows or None)
    rates = {split: measure(model, Shard.open(args.shards, split), protocol) for split in ("validation", "test")}
    row = {"model": f"LSTM, {model.parameter_count():,}", **rates}
    args.json.write_text(json.dumps(row, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(row))


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    learn = verbs.add_parser("train")
    learn.add_argument("shards", type=Path)
    learn.add_argument("-o", "--out", type=Path, required=True)
    learn.add_argument("--like", choices=sorted(PRESETS), default="pop", help="the transformer whose size to match")
    learn.add_argument("--layers", type=int, default=3)
    learn.add_argument("--dropout", type=float, default=0.0)
    learn.add_argument("--transpose", type=int, default=3, help="move each row by up to this many semitones")
    learn.add_argument("--resume", action="store_true")
    add_flags(learn, TrainConfig)
    learn.set_defaults(run=run_train)
    score = verbs.add_parser("evaluate")
    score.add_argument("shards", type=Path)
    score.add_argument("model", type=Path)
    score.add_argument("--min-context", type=int, default=512)
    score.add_argument("--windows", type=int, default=0, help="read only this many windows (0 = all)")
    score.add_argument("--json", type=Path, required=True, help="the file to write")
    score.set_defaults(run=run_evaluate)
    args = parser.parse_args(argv)
    try:
        args.run(args)
    except UserError as error:
        print(f"music_lstm: {error}")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
