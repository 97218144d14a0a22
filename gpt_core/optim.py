"""Parameter groups, Muon and AdamW behind one step, and the learning-rate schedule."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gpt_core import distributed
from gpt_core.device import fast_bf16
from gpt_core.train_config import TrainConfig


def learning_rate_share(step: int, config: TrainConfig) -> float:
    """Return the share of the peak rate at ``step`` (0-based): warm-up, plateau, fall over the last ``decay``."""
    warm = min(1.0, (step + 1) / (config.warmup_steps + 1))
    start = config.max_steps * (1 - config.decay)
    if config.schedule == "constant" or step < start or config.decay == 0:
        return warm
    gone = min(1.0, (step - start) / (config.max_steps - start))
    shape = 1 - gone if config.schedule == "linear" else 0.5 * (1 + math.cos(math.pi * gone))
    return warm * max(config.final_lr, shape)


def orthogonalize(g: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the nearest semi-orthogonal matrix to g [m, n], by five quintic Newton-Schulz steps (Jordan et al. 2024).

    torch.optim.Muon does this in bfloat16 always, which a CPU without bf16 units does fifty times slower than float32.
    """
    x = g.to(dtype)
    tall = x.shape[0] > x.shape[1]
    x = x.T.contiguous() if tall else x
    x = x / (x.norm() + 1e-7)
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return (x.T if tall else x).to(g.dtype)


class Muon(torch.optim.Optimizer):
    """Momentum, orthogonalised, for 2-D weights (Jordan et al. 2024); c_attn's q, k and v parts each by themselves.

    With several processes each orthogonalises its share of the matrices and sends it to the others.
    """

    def __init__(
        self,
        params: Sequence[Tensor],
        lr: float,
        weight_decay: float,
        momentum: float = 0.95,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})
        self.dtype = dtype

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Update every parameter that has a gradient."""
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            updates = [self._direction(p, group["momentum"]) for p in params]
            owner = [i % distributed.world_size() for i in range(len(params))]
            for i, u in enumerate(updates):
                if owner[i] == distributed.rank():
                    updates[i] = self._orthogonal_parts(u)
            distributed.share(updates, owner)
            for p, u in zip(params, updates, strict=True):
                parts = self._parts(u)
                scale = max(1.0, (u.shape[0] / parts) / u.shape[1]) ** 0.5
                p.mul_(1 - group["lr"] * group["weight_decay"]).add_(u, alpha=-group["lr"] * scale)

    def _direction(self, p: Tensor, momentum: float) -> Tensor:
        state = self.state[p]
        if not state:
            state["momentum"] = torch.zeros_like(p)
        state["momentum"].lerp_(p.grad, 1 - momentum)  # type: ignore[arg-type]
        return p.grad.lerp(state["momentum"], momentum)  # type: ignore[union-attr,arg-type]

    @staticmethod
    def _parts(u: Tensor) -> int:
        return 3 if u.shape[0] == 3 * u.shape[1] else 1

    def _orthogonal_parts(self, u: Tensor) -> Tensor:
        return torch.cat([orthogonalize(part, self.dtype) for part in u.chunk(self._parts(u))])


class Optimizers:
    """The optimizers of one run, stepped, scheduled and saved as one."""

    def __init__(self, model: nn.Module, config: TrainConfig) -> None:
        self.config = config
        named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
        matrices = [p for n, p in named if p.dim() == 2 and ".h." in "." + n]
        small = [p for n, p in named if p.dim() < 2]
        rest = [p for n, p in named if p.dim() >= 2 and not (p.dim() == 2 and ".h." in "." + n)]
        decayed = {
            "params": rest + ([] if config.optimizer == "muon" else matrices),
            "weight_decay": config.weight_decay,
        }
        groups = [g for g in (decayed, {"params": small, "weight_decay": 0.0}) if g["params"]]
        self.all: list[torch.optim.Optimizer] = []
        if config.optimizer == "muon":
            decayed["weight_decay"] = 0.0
            dtype = torch.bfloat16 if config.precision != "fp32" and fast_bf16(matrices[0].device) else torch.float32
            self.all.append(Muon(matrices, lr=config.lr, weight_decay=config.weight_decay, dtype=dtype))
        self.all.append(torch.optim.AdamW(groups, lr=config.lr_adamw, betas=(0.9, 0.95), eps=1e-8, fused=True))
        self._peak = [[g["lr"] for g in o.param_groups] for o in self.all]

    def step(self, step: int) -> float:
        """Apply the gradients at the rate of ``step`` and clear them; returns the share of the peak rate."""
        share = learning_rate_share(step, self.config)
        for o, peaks in zip(self.all, self._peak, strict=True):
            for group, peak in zip(o.param_groups, peaks, strict=True):
                group["lr"] = peak * share
            o.step()
            o.zero_grad(set_to_none=True)
        return share

    def state_dict(self) -> list[dict[str, Any]]:
        """Everything needed to go on."""
        return [o.state_dict() for o in self.all]

    def load_state_dict(self, states: list[dict[str, Any]]) -> None:
        """Mirror of ``state_dict``."""
        for o, s in zip(self.all, states, strict=True):
            o.load_state_dict(s)
