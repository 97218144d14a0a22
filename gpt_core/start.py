"""Where a training run begins: from nothing, from its own last checkpoint, or from another model's weights."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gpt_core import checkpoint
from gpt_core.checkpoint import Checkpoint
from gpt_core.config import PRESETS, GPTConfig
from gpt_core.errors import UserError
from gpt_core.options import given


@dataclass(frozen=True)
class Start:
    """The folder a run writes and what it begins from; ``asked`` is what was asked of the model's shape by name."""

    out: Path
    resume: bool = False
    init_from: Path | None = None
    tensorboard: Path | None = None
    asked: Mapping[str, Any] = field(default_factory=dict)

    def check(self) -> None:
        """Refuse to write over a run, or to resume none."""
        if self.resume and not self.out.exists():
            raise UserError(f"--resume: {self.out} does not exist; leave --resume out to start a run")
        if not self.resume and self.out.exists() and any(self.out.iterdir()):
            raise UserError(f"{self.out} is not empty; pass --resume to go on with it, or another --out")

    def load(self) -> Checkpoint | None:
        """Load what the run begins from, None for fresh weights; UserError where another origin or shape was asked for."""
        source = self.out if self.resume else self.init_from
        if source is None:
            return None
        loaded = checkpoint.load(source)
        if self.resume and self.init_from and loaded.run.get("init_from") != str(self.init_from):
            raise UserError(
                f"--resume goes on with {self.out}'s own weights and --init-from {self.init_from} begins from others; "
                "give one of them"
            )
        for name, value in self.asked.items():
            if (own := getattr(loaded.config, name)) != value:
                raise UserError(
                    f"{name} {value} was asked for and {source} has {own}; a model keeps its shape: leave --preset and "
                    "the shape's options out, or start a new run"
                )
        return loaded

    def record(self, loaded: Checkpoint | None, data: dict[str, Any]) -> dict[str, Any]:
        """Return what run.json says of data and origin; UserError where a run would go on with other data than it had."""
        run: dict[str, Any] = {"data": data}
        origin = str(self.init_from) if self.init_from else None
        if self.resume and loaded:
            had = loaded.run.get("data")
            had = had if isinstance(had, dict) else {}
            if had.get("fingerprint", data.get("fingerprint")) != data.get("fingerprint"):
                raise UserError(
                    f"{self.out} has learned from {had.get('source')} (fingerprint {had['fingerprint'][:12]}) and these shards "
                    f"are of {data.get('source')} ({str(data.get('fingerprint'))[:12]}); give the same ones, or begin a run "
                    f"with --init-from {self.out}"
                )
            origin = loaded.run.get("init_from")
        if origin:
            run["init_from"] = origin
        return run


def asked_shape(args: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of GPTConfig that parsed flags name, those of a named preset included (not its vocabulary)."""
    preset = asdict(PRESETS[args.preset]) if args.preset else {}
    return {k: v for k, v in {**preset, **given(GPTConfig, args)}.items() if k != "vocab_size"}
