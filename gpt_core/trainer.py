"""One training run's state: data, model, optimizers, counters; a step, an evaluation, what to keep and what to save."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gpt_core import distributed
from gpt_core.device import choose_device, fast_bf16
from gpt_core.errors import UserError
from gpt_core.evaluate import Protocol, nats_per_token
from gpt_core.model import GPT
from gpt_core.optim import Optimizers
from gpt_core.tokens import IGNORE, Batches, Shard, Transform
from gpt_core.train_config import TrainConfig

_OTHER_RUN = "trainer.pt is of a run with another model or other settings; resume with those, or start with --init-from"


@dataclass(frozen=True)
class Data:
    """What a run reads: a train split, a validation split, and what to do to each training row."""

    train: Shard
    validation: Shard
    transform: Transform | None = None
    protocol: Protocol = field(default_factory=Protocol)
    run: dict[str, Any] = field(default_factory=dict)


class Trainer:
    """One run: model, optimizers, step counter; ``train`` drives it."""

    def __init__(self, model: GPT, data: Data, config: TrainConfig) -> None:
        self.device = choose_device(config.device)
        self.model = model.to(self.device).train()
        self.config, self.data = config, data
        self.optimizers = Optimizers(self.model, config)
        self.step = self.tokens = 0
        self.best = float("inf")
        self.since_best = 0
        self.history: list[dict[str, Any]] = []
        self.average = {n: p.detach().clone() for n, p in model.named_parameters()} if config.ema else {}
        self.kept: dict[str, Tensor] = {}
        self.forward: Callable[[Tensor], Tensor] = torch.compile(model) if config.compile else model
        self.batches = Batches(
            data.train, config.row_tokens or model.config.context, config.seed, config.crops, data.transform
        )
        self._check()

    def _check(self) -> None:
        c, world = self.config, distributed.world_size()
        if c.batch_size % (world * c.accumulate):
            raise UserError(
                f"--batch-size is {c.batch_size} but {world} processes x {c.accumulate} accumulations share it; "
                f"make it a multiple of {world * c.accumulate}"
            )
        if self.batches.context > self.model.config.context:
            raise UserError(
                f"--row-tokens is {self.batches.context:,} but the model reads {self.model.config.context:,} tokens"
            )
        if c.crops == "stream" and len(self.data.train.ids) <= self.batches.context:
            raise UserError(
                f"the train split has {len(self.data.train.ids):,} tokens and a row needs {self.batches.context + 1:,}; "
                "add material, lower --row-tokens or use --crops pieces"
            )

    def _autocast(self) -> contextlib.AbstractContextManager[Any]:
        c = self.config
        use = c.precision == "bf16" or (c.precision == "auto" and fast_bf16(self.device))
        return torch.autocast(self.device.type, torch.bfloat16) if use else contextlib.nullcontext()

    def one_step(self) -> dict[str, float]:
        """Draw, forward, backward, update; returns the loss in nats per token, the gradient norm and the rate."""
        c, world = self.config, distributed.world_size()
        per = c.batch_size // (world * c.accumulate)
        first = distributed.rank() * per * c.accumulate
        if self.model.config.dropout:
            torch.manual_seed(hash((c.seed, self.step, distributed.rank())) % 2**63)
        micro = [
            self.batches.rows(self.step, range(first + a * per, first + (a + 1) * per)) for a in range(c.accumulate)
        ]
        count = distributed.total(torch.tensor([float(sum((y != IGNORE).sum() for _, y in micro))])).clamp(min=1)
        loss_sum = torch.zeros(1)
        for x, y in micro:
            with self._autocast():
                logits = self.forward(x.to(self.device))
            loss = F.cross_entropy(
                logits.float().flatten(0, 1), y.to(self.device).flatten(), ignore_index=IGNORE, reduction="sum"
            )
            (loss / count.item()).backward()
            loss_sum += loss.detach().cpu()
        params = [p for p in self.model.parameters() if p.grad is not None]
        distributed.sum_gradients(params)
        norm = nn.utils.clip_grad_norm_(params, c.grad_clip or float("inf"))
        share = self.optimizers.step(self.step)
        self._update_average()
        self.step, self.tokens = self.step + 1, self.tokens + int(count)
        mean = float(distributed.total(loss_sum) / count)
        if mean != mean:
            raise UserError(f"the loss is not a number at step {self.step}; lower --lr or --lr-adamw and resume")
        return {"loss": mean, "grad_norm": float(norm), "lr_share": share}

    def _update_average(self) -> None:
        if not self.average:
            return
        decay = min(self.config.ema, (1 + self.step) / (10 + self.step))
        with torch.no_grad():
            for n, p in self.model.named_parameters():
                self.average[n].lerp_(p, 1 - decay)

    @contextlib.contextmanager
    def borrowed(self, weights: dict[str, Tensor]) -> Iterator[None]:
        """Use other weights (none: the model's own) for the time of the block."""
        mine = self._copied() if weights else {}
        self._copy(weights)
        try:
            yield
        finally:
            self._copy(mine)

    def _copied(self) -> dict[str, Tensor]:
        return {n: p.detach().clone() for n, p in self.model.named_parameters()}

    def _copy(self, weights: dict[str, Tensor]) -> None:
        with torch.no_grad():
            for n, p in self.model.named_parameters():
                if n in weights:
                    p.copy_(weights[n])

    def evaluate(self) -> float:
        """Return validation nats per token of the weights (or of their average); ``keep`` = best keeps the best ones."""
        protocol = dataclasses.replace(self.data.protocol, limit=self.config.eval_windows)
        with self.borrowed(self.average):
            nats = nats_per_token(self.model, self.data.validation, protocol)
            if self.config.keep == "best" and nats < self.best:
                self.kept = self._copied()
            return nats

    def state(self) -> dict[str, Any]:
        """Everything a resumed run needs besides the weights."""
        return {
            "optimizers": self.optimizers.state_dict(), "step": self.step, "best": self.best,
            "since_best": self.since_best, "history": self.history, "average": self.average, "kept": self.kept,
            "tokens": self.tokens, "weights": self._copied(),
        }  # fmt: skip

    def load_state(self, state: dict[str, Any]) -> None:
        """Mirror of ``state``; raises UserError where it is another run's."""
        mine = {n: p.shape for n, p in self.model.named_parameters()}
        if {n: p.shape for n, p in state["weights"].items()} != mine or bool(state["average"]) != bool(self.average):
            raise UserError(_OTHER_RUN)
        try:
            self.optimizers.load_state_dict(state["optimizers"])
        except (ValueError, KeyError) as e:
            raise UserError(_OTHER_RUN) from e
        self._copy(state["weights"])
        self.average, self.kept = state["average"], state.get("kept", {})
        before = state["step"] * self.config.batch_size * self.batches.context  # version 0.1.0 did not count
        self.tokens = state.get("tokens", before)
        self.step, self.best, self.since_best = state["step"], state["best"], state["since_best"]
        self.history = state["history"]
