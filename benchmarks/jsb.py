"""JSB Chorales with the music model's core: note-wise negative log-likelihood, as in Music Transformer's table 3.

Layout: a chorale of N steps of a 16th note is BOS, then for each step its soprano, alto, tenor and bass as one id each (a MIDI
pitch, or REST where a voice is silent; a held note is said again at every step), then EOS: 4 N + 2 ids. The figure is the
mean of -log p in nats over all 4 N notes and rests of a split, EOS left out, each chorale scored in its own key from its
start; where one is longer than the window, every note is read with at least ``context - stride`` ids before it.

Rerun, one line per arm (DATA is Jsb16thSeparated.json; ``--resume`` goes on with a stopped run):
  .venv/bin/python -m benchmarks.jsb train DATA -o jsb-rotary --position rotary
  .venv/bin/python -m benchmarks.jsb train DATA -o jsb-relative --position relative
  .venv/bin/python -m benchmarks.jsb train DATA -o jsb-learned --position learned --no-embed-norm
  .venv/bin/python -m benchmarks.jsb evaluate DATA jsb-rotary jsb-relative jsb-learned
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gpt_core.checkpoint import load
from gpt_core.codec import CODEC_KINDS
from gpt_core.config import PRESETS, GPTConfig
from gpt_core.errors import UserError
from gpt_core.evaluate import Protocol, scored
from gpt_core.model import GPT
from gpt_core.options import add_flags, from_args
from gpt_core.progress import RunLog
from gpt_core.tokens import Shard
from gpt_core.train import train
from gpt_core.train_config import TrainConfig
from gpt_core.trainer import Data

REST, BOS, EOS, VOCAB_SIZE = 128, 129, 130, 131
VOICES = ("soprano", "alto", "tenor", "bass")
BAR = 64  # ids in a 4/4 bar: training rows start on a bar, as those of the evaluation do
COPIES = 8  # entries of a short chorale among the training rows; a longer one has more, in proportion
KEYS = range(-6, 6)  # semitones a training row is moved by

SHAPE = replace(PRESETS["music"], vocab_size=VOCAB_SIZE, n_layer=5, dropout=0.15)
RECIPE = TrainConfig(
    max_steps=1200, batch_size=8, crops="pieces", ema=0.998, weight_decay=0.05, eval_every=100, eval_windows=100_000
)  # fmt: skip


class ChoraleCodec:
    """Steps of four pitches (-1 = silent) <-> ids."""

    kind = "chorale"
    vocab_size = VOCAB_SIZE
    special_ids = {"bos": BOS, "eos": EOS}

    def encode(self, material: Sequence[Sequence[int]]) -> list[int]:
        """Steps -> ids, without BOS and EOS."""
        return [REST if pitch < 0 else pitch for step in material for pitch in step]

    def decode(self, ids: Sequence[int]) -> list[list[int]]:
        """Mirror of ``encode``; an incomplete last step is left out."""
        notes = [-1 if i == REST else int(i) for i in ids if i <= REST]
        return [notes[i : i + 4] for i in range(0, len(notes) - 3, 4)]

    def to_dict(self) -> dict[str, Any]:
        """The kind: there is nothing to set."""
        return {"kind": self.kind}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ChoraleCodec:
        """Mirror of ``to_dict``."""
        return cls()


def read(path: Path, split: str) -> list[np.ndarray]:
    """The chorales of a split (train, valid, test) as ids, BOS and EOS included."""
    try:
        pieces = json.loads(path.read_text("utf-8"))[split]
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{path} is not the chorales' JSON ({error}); give Jsb16thSeparated.json") from None
    return [np.array([BOS, *ChoraleCodec().encode(piece), EOS]) for piece in pieces]


def held_out(pieces: Sequence[np.ndarray]) -> Shard:
    """A shard to score: every note and rest, but neither BOS nor EOS."""
    shard = Shard.of([p.tolist() for p in pieces])
    return Shard(shard.ids, shard.offsets, (shard.ids <= REST).astype(np.uint8))


def rows(pieces: Sequence[np.ndarray], context: int) -> Shard:
    """Training rows of at most context+1 ids, each starting on a bar, so many per chorale that all notes are drawn alike."""
    out = []
    for piece in pieces:
        spare = max(0, len(piece) - context - 1)
        count = round(COPIES * max(1.0, len(piece) / (context + 1)))
        starts = np.ceil(np.linspace(0, spare, count) / BAR).astype(int) * BAR
        out += [piece[s : s + context + 1].tolist() for s in starts]
    return Shard.of(out)


def transposed(ids: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Move a row into another key."""
    return np.where(ids < REST, ids + int(rng.integers(KEYS[0], KEYS[-1] + 1)), ids)


def nll(model: GPT, pieces: Sequence[np.ndarray], stride: int) -> dict[str, float]:
    """Mean nats over all notes, and over those of each voice."""
    context = model.config.context
    by_voice = np.zeros((4, 2))
    for piece in pieces:
        nats = [n for _, n in scored(model, held_out([piece]), Protocol(context=context, stride=stride))]
        line = np.concatenate(nats).reshape(-1, 4)
        by_voice += np.stack([line.sum(0), np.full(4, len(line))], 1)
    total, count = by_voice.sum(0)
    voices = {v: float(a / b) for v, (a, b) in zip(VOICES, by_voice, strict=True)}
    return {"nats_per_note": float(total / count), "notes": int(count), **voices}


def without_attention_dropout(model: GPT) -> GPT:
    """Keep dropout on the residual branches and the embedding only: with it a CPU has no fused attention."""
    for block in model.h:
        block.attn.config = replace(model.config, dropout=0.0)  # type: ignore[union-attr,assignment]
    return model


def run_train(args: argparse.Namespace) -> None:
    """Train one arm into a checkpoint folder."""
    config, shape = from_args(TrainConfig, args, RECIPE), from_args(GPTConfig, args, SHAPE)
    torch.manual_seed(config.seed)
    model = without_attention_dropout(GPT(shape))
    if args.out.exists() and not args.resume:
        raise UserError(f"{args.out} exists; pass --resume to go on with it, or another --out")
    data = Data(
        rows(read(args.data, "train"), shape.context), held_out(read(args.data, "valid")),
        None if args.no_transpose else transposed,
        Protocol(context=shape.context, stride=shape.context // 2), {"data": args.data.name},
    )  # fmt: skip
    with RunLog(args.out) as log:
        log({"event": "model", "parameters": model.parameter_count(), "rows": len(data.train)})
        best = train(model, data, config, codec=ChoraleCodec(), folder=args.out, resume=args.resume, log=log)
    print(f"best validation: {best:.4f} nats/note; checkpoint in {args.out}")


def run_evaluate(args: argparse.Namespace) -> None:
    """Print one JSON line per model and split."""
    for folder in args.models:
        piano = load(folder)
        how = {"model": folder.name, "steps": piano.run.get("step"), "position": piano.config.position}
        for split in ("valid", "test"):
            found = nll(piano.model, read(args.data, split), args.stride or piano.config.context // 2)
            print(json.dumps({**how, "split": split, **found}), flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line."""
    CODEC_KINDS["chorale"] = "benchmarks.jsb:ChoraleCodec"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    learn = verbs.add_parser("train", help="train one arm (defaults: RECIPE and SHAPE of this file)")
    learn.add_argument("data", type=Path)
    learn.add_argument("-o", "--out", type=Path, required=True)
    learn.add_argument("--resume", action="store_true")
    learn.add_argument("--no-transpose", action="store_true", help="leave every chorale in its own key")
    add_flags(learn, TrainConfig)
    add_flags(learn, GPTConfig, skip=("vocab_size",))
    learn.set_defaults(run=run_train)
    score = verbs.add_parser("evaluate", help="score checkpoints on the validation and the test split")
    score.add_argument("data", type=Path)
    score.add_argument("models", type=Path, nargs="+")
    score.add_argument("--stride", type=int, default=0, help="ids a window moves on (0 = half the window)")
    score.set_defaults(run=run_evaluate)
    args = parser.parse_args(argv)
    try:
        args.run(args)
    except UserError as error:
        print(f"jsb: {error}")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
