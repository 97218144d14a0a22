"""TrainConfig: everything a training run obeys, written down without loading torch."""

from __future__ import annotations

from dataclasses import dataclass

from gpt_core.options import option


@dataclass(frozen=True)
class TrainConfig:
    """How to train; the model's shape is GPTConfig's, the material is the shards'."""

    max_steps: int = option(2000, "optimizer steps in all, those before a resume included", low=1)
    batch_size: int = option(8, "sequences per step, over all processes and accumulations", low=1)
    accumulate: int = option(1, "forward passes per step on each process; more = less memory", low=1)
    row_tokens: int = option(0, "tokens per training row (0 = the model's window)", low=0)
    crops: str = option(
        "stream",
        "stream = windows anywhere in the data, pieces = one piece (or its part) a row",
        choices=("stream", "pieces"),
    )
    optimizer: str = option(
        "muon", "muon = Muon for the blocks' matrices, AdamW for the rest", choices=("muon", "adamw")
    )
    lr: float = option(0.02, "peak learning rate of Muon's matrices", low=0.0, high=10.0)
    lr_adamw: float = option(3e-3, "peak learning rate of what AdamW trains", low=0.0, high=10.0)
    weight_decay: float = option(0.01, "decoupled weight decay of matrices", low=0.0, high=10.0)
    warmup_steps: int = option(50, "steps from 0 to the peak learning rate", low=0)
    decay: float = option(0.6, "share of the run, at its end, over which the rate falls", low=0.0, high=1.0)
    schedule: str = option("linear", "shape of the fall", choices=("linear", "cosine", "constant"))
    final_lr: float = option(0.02, "rate at the end, as a share of the peak", low=0.0, high=1.0)
    grad_clip: float = option(1.0, "largest gradient norm (0 = off)", low=0.0)
    ema: float = option(
        0.0, "keep an exponential average of the weights with this decay (0 = off)", low=0.0, high=0.99999
    )
    precision: str = option(
        "auto", "auto = bf16 autocast where the device is fast at it", choices=("auto", "fp32", "bf16")
    )
    compile: bool = option(False, "torch.compile the model")
    eval_every: int = option(250, "steps between evaluations on the validation split", low=1)
    eval_windows: int = option(64, "windows read at each evaluation", low=1)
    patience: int = option(0, "stop after this many evaluations without a better one (0 = never)", low=0)
    keep: str = option(
        "last",
        "weights of the checkpoint: last = the last step's, best = those of the best evaluation so far",
        choices=("last", "best"),
    )
    save_minutes: float = option(5.0, "minutes between checkpoints", low=0.0)
    log_every: int = option(20, "steps between log lines", low=1)
    seed: int = option(0, "seed of weights, batches and dropout", low=0, high=2**31 - 1)
    device: str = option("auto", "where to train", choices=("auto", "cpu", "cuda", "mps"))
