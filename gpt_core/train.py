"""THE training loop: batches in, a trained checkpoint out; it resumes exactly where it stopped."""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from gpt_core import checkpoint, distributed
from gpt_core.codec import Codec
from gpt_core.device import choose_device, keep_large_blocks
from gpt_core.model import GPT
from gpt_core.train_config import TrainConfig
from gpt_core.trainer import Data, Trainer

Log = Callable[[dict[str, Any]], None]


def train(
    model: GPT, data: Data, config: TrainConfig, *, codec: Codec, folder: Path, resume: bool = False, log: Log = print
) -> float:
    """Train until max_steps (or patience) and keep ``folder`` a loadable checkpoint; returns the best validation nats.

    Batches depend on (seed, step) alone and all state is saved, so stopping (Ctrl-C included) and resuming gives the run
    that was not stopped, bit for bit on one machine.
    """
    keep_large_blocks()
    with distributed.process_group(choose_device(config.device)):
        trainer = Trainer(model, data, config)
        if resume:
            trainer.load_state(checkpoint.load_trainer(folder))
        try:
            with _interrupts_wait() as asked:
                _loop(trainer, codec, folder, log, asked)
        except KeyboardInterrupt:
            log({"event": "stopped", "step": trainer.step, "folder": str(folder)})
        _save(trainer, codec, folder)
        return trainer.best


@contextlib.contextmanager
def _interrupts_wait() -> Iterator[list[int]]:
    """Collect interrupts instead of raising them amid an update; only a second Ctrl-C is raised at once."""
    asked: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and number in asked:
            raise KeyboardInterrupt
        asked.append(number)

    if threading.current_thread() is not threading.main_thread():  # only the main thread is told of signals
        yield asked
        return
    before = {s: signal.signal(s, note) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for s, handler in before.items():
            signal.signal(s, handler)


def _loop(trainer: Trainer, codec: Codec, folder: Path, log: Log, asked: list[int]) -> None:
    c = trainer.config
    saved = lap = time.monotonic()
    lap_step, lap_tokens = trainer.step, trainer.tokens
    while trainer.step < c.max_steps:
        if distributed.total(torch.tensor([float(len(asked))])).item():  # all processes stop at the same step
            raise KeyboardInterrupt
        row: dict[str, Any] = trainer.one_step()
        now = time.monotonic()
        if trainer.step % c.log_every == 0:
            speed = (trainer.tokens - lap_tokens) / (now - lap)
            left = (c.max_steps - trainer.step) * (now - lap) / (trainer.step - lap_step)
            lap, lap_step, lap_tokens = now, trainer.step, trainer.tokens
            log({"event": "step", "step": trainer.step, **row, "tokens_per_second": speed, "seconds_left": left})
        if trainer.step % c.eval_every == 0 or trainer.step == c.max_steps:
            if _note_evaluation(trainer, log):
                log({"event": "early stop", "step": trainer.step, "best": trainer.best})
                return
            lap, lap_step, lap_tokens = time.monotonic(), trainer.step, trainer.tokens
        if now - saved > c.save_minutes * 60:
            _save(trainer, codec, folder)
            saved = time.monotonic()


def _note_evaluation(trainer: Trainer, log: Log) -> bool:
    nats = trainer.evaluate()
    trainer.history.append({"step": trainer.step, "validation": nats})
    trainer.since_best = 0 if nats < trainer.best else trainer.since_best + 1
    trainer.best = min(nats, trainer.best)
    log({"event": "validation", "step": trainer.step, "validation": nats, "best": trainer.best})
    return 0 < trainer.config.patience <= trainer.since_best


def _save(trainer: Trainer, codec: Codec, folder: Path) -> None:
    if not distributed.is_main():
        distributed.barrier()
        return
    run = {
        **trainer.data.run, "step": trainer.step, "tokens_seen": trainer.tokens,
        "best_validation": trainer.best, "history": trainer.history, "train_config": dataclasses.asdict(trainer.config),
    }  # fmt: skip
    state = trainer.state()  # before other weights take the weights' place
    with trainer.borrowed(trainer.kept or trainer.average):
        checkpoint.save(folder, trainer.model, codec, run, trainer_state=state)
    distributed.barrier()
