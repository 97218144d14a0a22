"""Training logs: one JSON line per event in a file, one short line on the screen, TensorBoard where it is wished."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any, TextIO


class RunLog:
    """A callable that takes the loop's events; use it as a context manager, so that its files are closed."""

    def __init__(
        self,
        folder: Path | None,
        *,
        tensorboard: Path | None = None,
        screen: TextIO | None = None,
        unit: str = "token",
    ) -> None:
        self.unit = unit  # what one id of this model is called
        self.screen = screen if screen is not None else sys.stderr
        self.file = None
        if folder is not None:
            folder.parent.mkdir(parents=True, exist_ok=True)
            # Beside the checkpoint folder, which is replaced as a whole at every save.
            self.file = open(folder.with_name(folder.name + ".log.jsonl"), "a", encoding="utf-8")  # noqa: SIM115
        self.board = None
        if tensorboard is not None:
            from torch.utils.tensorboard import SummaryWriter

            self.board = SummaryWriter(str(tensorboard))

    def __enter__(self) -> RunLog:
        return self

    def __exit__(self, *_: object) -> None:
        if self.file:
            self.file.close()
        if self.board:
            self.board.close()

    def __call__(self, row: dict[str, Any]) -> None:
        """Write one event of the loop everywhere."""
        if self.file:
            self.file.write(json.dumps({"time": round(time.time(), 1), **row}) + "\n")
            self.file.flush()
        if self.board and "step" in row:
            for name, value in row.items():
                if isinstance(value, float):
                    self.board.add_scalar(name, value, row["step"])
        print(line(row, self.unit), file=self.screen, flush=True)


def line(row: dict[str, Any], unit: str = "token") -> str:
    """Return an event as one short line for people."""
    if row["event"] == "step":
        return (
            f"step {row['step']}  loss {row['loss']:.4f}  {row['tokens_per_second']:,.0f} {unit}s/s  "
            f"{clock(row['seconds_left'])} left"
        )
    if row["event"] == "validation":
        return f"step {row['step']}  validation {row['validation']:.4f} nats/{unit}  (best {row['best']:.4f})"
    if row["event"] == "model":
        words = {
            "parameters": "{:,} parameters", "train_tokens": f"{{:,}} {unit}s to learn from",
            "memory_gb": "about {:,} GB of memory",
        }  # fmt: skip
        return "  ".join(
            ["model", *(words[k].format(v) if k in words else f"{k} {v}" for k, v in row.items() if k != "event")]
        )
    return "  ".join([row["event"], *(f"{k} {v}" for k, v in row.items() if k != "event")])


def clock(seconds: float) -> str:
    """Return 3725 as ``1:02:05``."""
    minutes, s = divmod(round(seconds), 60)
    hours, m = divmod(minutes, 60)
    return f"{hours}:{m:02}:{s:02}" if hours else f"{m}:{s:02}"
