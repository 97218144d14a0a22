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
from gpt_core.errors import UserError
from gpt_core.model import GPT
from gpt_core.train_config import TrainConfig
from gpt_core.trainer import Data, Trainer

Log = Callable[[dict[str, Any]], None]
_FREE = ("device", "log_every", "save_minutes", "compile")  # may change in a run without changing what it is
_PATIENCE = 10.0  # seconds that a step may take to end after it was asked to


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
            _take_up(trainer, folder, log)
            if trainer.step >= config.max_steps:
                log({"event": "nothing to do", "step": trainer.step, "max_steps": config.max_steps})
                return trainer.best
        try:
            with _interrupts_wait() as asked:
                _loop(trainer, codec, folder, log, asked)
        except KeyboardInterrupt:
            log({"event": "stopped", "step": trainer.step, "folder": str(folder)})
        _save(trainer, codec, folder)
        return trainer.best


def _take_up(trainer: Trainer, folder: Path, log: Log) -> None:
    """Load the run's state; settings that differ from those it had are told, and recorded in run.json under ``resumed``."""
    run = checkpoint.read_run(folder)
    had, now = _settings(run, run.get("train_config")), _settings(trainer.data.run, dataclasses.asdict(trainer.config))
    changed = {k: [had[k], now[k]] for k in had if k in now and had[k] != now[k]}
    for name in changed:
        if name == "optimizer" or (name == "ema" and not (had[name] and now[name])):
            raise UserError(
                f"--{name} is {now[name]} and the run in {folder} has {had[name]}; "
                f"resume with that, or start with --init-from {folder}"
            )
    trainer.load_state(checkpoint.load_trainer(folder))
    earlier = run.get("resumed", [])
    if changed and trainer.step < trainer.config.max_steps:
        earlier = [*earlier, {"step": trainer.step, "changed": changed}]
        log({"event": "resumed", "step": trainer.step, **{k: f"{a} -> {b}" for k, (a, b) in changed.items()}})
    if earlier:
        trainer.data.run["resumed"] = earlier


def _settings(run: dict[str, Any], config: Any) -> dict[str, Any]:
    """What fixes a run: its settings that matter to the result, and the plain values recorded beside them."""
    plain = {k: v for k, v in run.items() if isinstance(v, int | float | str)}
    return {**plain, **{k: v for k, v in config.items() if k not in _FREE}} if isinstance(config, dict) else plain


@contextlib.contextmanager
def _interrupts_wait() -> Iterator[list[int]]:
    """Collect interrupts instead of raising them amid an update; a second Ctrl-C is raised, and any after ten seconds."""
    asked: list[int] = []
    first = 0.0

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal first
        if asked and ((number == signal.SIGINT and number in asked) or time.monotonic() - first > _PATIENCE):
            raise KeyboardInterrupt
        first = first or time.monotonic()
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
