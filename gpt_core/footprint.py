"""How much memory a training run will take, told before it starts; one that no machine of this size can hold is refused.

The parameters are counted exactly. What the forward pass keeps for the backward pass was measured on the shapes of
``PRESETS`` (what autograd saves, in bytes a block, position and width); benchmarks/training.md has estimates beside peaks.
"""

from __future__ import annotations

import math
import os
from pathlib import Path

import psutil
import torch

from gpt_core import distributed
from gpt_core.config import GPTConfig
from gpt_core.device import choose_device, fast_bf16
from gpt_core.errors import UserError
from gpt_core.train_config import TrainConfig

PROCESS = 350e6  # bytes of PyTorch and Python themselves
BACKWARD = 1.3  # what the backward pass needs at once, over what was kept for it
KEPT = {"fp32": 80, "bf16": 52}  # bytes a block, position and width
LOGITS = {"fp32": 12, "bf16": 14}  # bytes a position and id: logits, their softmax, the gradient
# Bytes a block, head and pair of positions: attention with dropout, or with relative positions, keeps a matrix.
PAIRS_DROPOUT, PAIRS_RELATIVE = 12.6, {"fp32": 2.7, "bf16": 1.0}


def parameters(shape: GPTConfig) -> int:
    """Count the numbers in a GPT of this shape without building it."""
    c = shape.n_embd
    norm = 0 if shape.norm == "rms" else c * (1 + shape.bias)
    block = 12 * c * c + 9 * c * shape.bias + 2 * norm
    if shape.position == "relative":
        block += shape.distances * c
    places = shape.context * c if shape.position == "learned" else 0
    return shape.vocab_size * c * (1 if shape.tied else 2) + places + shape.n_layer * block + norm


def training_bytes(shape: GPTConfig, config: TrainConfig, rows: int, precision: str) -> float:
    """Estimate the peak of one process that takes ``rows`` rows at a time, in bytes; precision is fp32 or bf16."""
    tokens = config.row_tokens or shape.context
    copies = 4 + (config.ema > 0) + (config.keep == "best")  # weights, gradients, two of the optimizer
    fixed = parameters(shape) * (4.0 * copies + (2 if precision == "bf16" else 0))
    if shape.dropout:
        pairs = PAIRS_DROPOUT
    else:
        pairs = PAIRS_RELATIVE[precision] if shape.position == "relative" else 0.0
    row = tokens * (shape.n_layer * shape.n_embd * KEPT[precision] + shape.vocab_size * LOGITS[precision])
    return PROCESS + fixed + BACKWARD * rows * (row + pairs * shape.n_layer * shape.n_head * tokens * tokens)


def check_memory(shape: GPTConfig, config: TrainConfig) -> float:
    """Return the estimated peak in GB of all processes on this machine; UserError where it is more than there is."""
    device = choose_device(config.device)
    bf16 = config.precision == "bf16" or (config.precision == "auto" and fast_bf16(device))
    rows = math.ceil(config.batch_size / (distributed.world_size() * config.accumulate))
    here = int(os.environ.get("LOCAL_WORLD_SIZE", "1")) if device.type != "cuda" else 1
    need = here * training_bytes(shape, config, rows, "bf16" if bf16 else "fp32") / 1e9
    there = total_memory(device) / 1e9
    if need > there:
        who = f"{here} processes" if here > 1 else "training"
        where = "this GPU" if device.type == "cuda" else "this machine"
        tokens = config.row_tokens or shape.context
        raise UserError(
            f"{who} would need about {need:,.1f} GB ({parameters(shape):,} parameters, {rows:,} rows of {tokens:,} tokens at a "
            f"time) and {where} has {there:,.1f} GB; "
            "give a smaller --batch-size, more --accumulate, shorter --row-tokens or a smaller model"
        )
    return round(need, 1)


def total_memory(device: torch.device) -> float:
    """Return how many bytes the device has: a GPU's own, or the machine's (its container's) and what it may swap."""
    if device.type == "cuda":
        return float(torch.cuda.get_device_properties(device).total_memory)
    machine = float(psutil.virtual_memory().total + psutil.swap_memory().total)
    try:
        return min(machine, float(Path("/sys/fs/cgroup/memory.max").read_text("ascii")))
    except (OSError, ValueError):  # no container with a limit of its own
        return machine
