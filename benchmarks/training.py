"""Training speed: our loop, a plain nanoGPT-style loop and Hugging Face's model in a plain loop; Muon; relative attention.

python -m benchmarks.training [loops|optimizers|relative ...] [--width 256] [--batch 4] [--rounds 5] [--precision auto]

Every contestant is a process of its own that waits for its turn, since how the C library keeps memory is settled for a whole
process: each runs with our setting and, marked "default memory", without it. In each round each takes a few steps.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gpt_core.config import GPTConfig
from gpt_core.device import fast_bf16, keep_large_blocks

Step = Callable[[], Any]
PLAIN = "default memory"
PARTS = {
    "loops": ["ours", "ours, compiled", "nano", "hf", f"ours, {PLAIN}", f"nano, {PLAIN}", f"hf, {PLAIN}"],
    "optimizers": ["ours", "ours, muon"],
    "relative": ["sdpa", "relative", "naive skew", f"sdpa, {PLAIN}", f"relative, {PLAIN}", f"naive skew, {PLAIN}"],
}


def shape(args: argparse.Namespace) -> GPTConfig:
    """GPT-2's block for every contestant, so that all do the same sums."""
    heads = args.width // 64
    return GPTConfig(vocab_size=391, context=args.context, n_layer=args.layers, n_head=heads, n_embd=args.width)


class PlainBlock(nn.Module):
    """GPT-2's block as one writes it down: LayerNorm, fused attention, GELU."""

    def __init__(self, c: GPTConfig) -> None:
        super().__init__()
        self.n_head = c.n_head
        self.ln_1, self.ln_2 = nn.LayerNorm(c.n_embd), nn.LayerNorm(c.n_embd)
        self.qkv, self.out = nn.Linear(c.n_embd, 3 * c.n_embd), nn.Linear(c.n_embd, c.n_embd)
        self.up, self.down = nn.Linear(c.n_embd, 4 * c.n_embd), nn.Linear(4 * c.n_embd, c.n_embd)

    def forward(self, x: Tensor) -> Tensor:
        """Map the stream [B, T, C] to the stream."""
        b, t, c = x.shape
        q, k, v = (u.view(b, t, self.n_head, -1).transpose(1, 2) for u in self.qkv(self.ln_1(x)).split(c, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, c)
        x = x + self.out(y)
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class PlainGPT(nn.Module):
    """Embeddings, blocks, tied head; returns the mean loss."""

    def __init__(self, c: GPTConfig) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(c.vocab_size, c.n_embd), nn.Embedding(c.context, c.n_embd)
        self.blocks = nn.Sequential(*(PlainBlock(c) for _ in range(c.n_layer)))
        self.ln_f = nn.LayerNorm(c.n_embd)
        self.apply(self._small)

    @staticmethod
    def _small(m: nn.Module) -> None:
        if isinstance(m, nn.Linear | nn.Embedding):
            nn.init.normal_(m.weight, std=0.02)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the loss of the ids x [B, T] with the targets y."""
        h = self.wte(x) + self.wpe.weight[: x.shape[1]]
        logits = F.linear(self.ln_f(self.blocks(h)), self.wte.weight)
        return F.cross_entropy(logits.flatten(0, 1).float(), y.flatten())


def plain_loop(loss_of: Callable[[Tensor, Tensor], Tensor], model: nn.Module, data: np.ndarray, args: Any) -> Step:
    """Random crops, loss, gradients clipped at 1, fused AdamW; the rate follows a cosine."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95), weight_decay=0.01, fused=True)
    cast = torch.autocast("cpu", torch.bfloat16) if args.precision == "bf16" else contextlib.nullcontext()
    rng, done = np.random.default_rng(0), 0

    def step() -> None:
        nonlocal done
        starts = rng.integers(0, len(data) - args.context - 1, args.batch)
        rows = torch.from_numpy(np.stack([data[s : s + args.context + 1] for s in starts]).astype(np.int64))
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * 0.5 * (1 + math.cos(math.pi * min(done / 2000, 1)))
        with cast:
            loss = loss_of(rows[:, :-1].contiguous(), rows[:, 1:].contiguous())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        done += 1

    return step


def hugging_face(config: GPTConfig, data: np.ndarray, args: Any) -> Step:
    """The GPT-2 of transformers with its fused attention; labels are the inputs, which it shifts itself."""
    import transformers

    shape: dict[str, Any] = {
        "n_layer": config.n_layer,
        "n_embd": config.n_embd,
        "n_head": config.n_head,
        "n_positions": config.context,
    }
    off: dict[str, Any] = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    special: dict[str, Any] = {"bos_token_id": None, "eos_token_id": None}
    theirs = transformers.GPT2Config(vocab_size=config.vocab_size, use_cache=False, **shape, **off, **special)
    model = transformers.GPT2LMHeadModel._from_config(theirs, attn_implementation="sdpa").train()
    return plain_loop(lambda x, y: model(input_ids=x, labels=x).loss, model, data, args)


def ours(config: GPTConfig, folder: Path, args: Any, kind: str) -> Step:
    """One step of our trainer, its data loader and learning-rate schedule included."""
    from gpt_core.model import GPT
    from gpt_core.tokens import Shard
    from gpt_core.train_config import TrainConfig
    from gpt_core.trainer import Data, Trainer

    shard = Shard.open(folder, "train")
    optimizer, compiled = "muon" if kind.endswith("muon") else "adamw", kind.endswith("compiled")
    settings = TrainConfig(
        batch_size=args.batch, optimizer=optimizer, precision=args.precision, device="cpu", compile=compiled
    )
    return Trainer(GPT(config), Data(shard, shard), settings).one_step


def naive_skew(self: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention with the skewing of Huang et al. (2018) written down plainly: pad, reshape, slice, mask, softmax."""
    b, h, t, d = q.shape
    by_distance = q @ self.rel[:, :t].flip(1).mT
    relative = F.pad(by_distance, (1, 0)).reshape(b, h, t + 1, t)[:, :, 1:]
    scores = (q @ k.mT + relative) / math.sqrt(d)
    future = torch.ones(t, t, dtype=torch.bool).triu(1)
    return scores.masked_fill(future, float("-inf")).softmax(-1) @ v


def contestant(name: str, args: Any) -> Step:
    """What one contestant does in a step."""
    kind, config, folder = name.removesuffix(f", {PLAIN}"), shape(args), Path(args.folder)
    if kind == name:
        keep_large_blocks()
    torch.manual_seed(0)
    data = np.memmap(folder / "plain.bin", np.uint16, "r")
    if kind == "nano":
        model = PlainGPT(config)
        return plain_loop(model, model, data, args)
    if kind == "hf":
        return hugging_face(config, data, args)
    if kind in ("relative", "naive skew"):
        config = replace(config, position="relative")
    if kind == "naive skew":
        from gpt_core.model import SelfAttention

        SelfAttention.attend = naive_skew  # type: ignore[method-assign]
    return ours(config, folder, args, kind)


def work(name: str, args: Any) -> None:
    """Take ``--steps`` steps each time a line comes in; answer with the seconds they took."""
    step = contestant(name, args)
    for _ in sys.stdin:
        start = time.perf_counter()
        for _ in range(args.steps):
            step()
        print(time.perf_counter() - start, flush=True)


def write_data(folder: Path) -> None:
    """A million random ids, as a shard of ours and as a plain file."""
    from gpt_core.tokens import ShardWriter

    ids = np.random.default_rng(0).integers(0, 388, 1_000_000).astype(np.uint16)
    ids.tofile(folder / "plain.bin")
    writer = ShardWriter(folder, "train", 391)
    writer.add(ids)
    writer.close()


def compare(names: list[str], args: Any) -> None:
    """Print tokens per second, the median of paired rounds after one to warm up, and the ratio to the first contestant."""
    if not find_spec("transformers") and any(name.startswith("hf") for name in names):
        print("(transformers is not installed: skipped)\n")
        names = [name for name in names if not name.startswith("hf")]
    asked = [f"--{k}={v}" for k, v in vars(args).items() if k not in ("parts", "worker", "rounds")]
    tokens, pipe = args.steps * args.batch * args.context, subprocess.PIPE
    with contextlib.ExitStack() as stack:
        workers: dict[str, Any] = {}
        for name in names:
            command = [sys.executable, "-m", "benchmarks.training", "--worker", name, *asked]
            workers[name] = stack.enter_context(subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True))

        def turn(name: str) -> float:
            process = workers[name]
            process.stdin.write("\n")
            process.stdin.flush()
            return float(process.stdout.readline() or sys.exit(f"{name} ended; its own words stand above"))

        rounds = [{name: turn(name) for name in names} for _ in range(args.rounds + 1)][1:]
        for process in workers.values():
            process.stdin.close()
    print("| | tokens/s | x the first, median of rounds | least, most |\n|---|---|---|---|")
    for name in names:
        rate = tokens / statistics.median(r[name] for r in rounds)
        ratios = sorted(r[names[0]] / r[name] for r in rounds)
        print(
            f"| {name} | {rate:,.0f} | {statistics.median(ratios):.2f} | {ratios[0]:.2f}, {ratios[-1]:.2f} |",
            flush=True,
        )


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], default=[])
    for name, value in {"width": 256, "layers": 6, "context": 1024, "batch": 4, "steps": 1, "rounds": 5}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument(
        "--precision", choices=("auto", "fp32", "bf16"), default="auto", help="auto: what train would choose"
    )
    parser.add_argument("--folder", default="", help=argparse.SUPPRESS)
    parser.add_argument("--worker", default="", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.precision == "auto":
        args.precision = "bf16" if fast_bf16(torch.device("cpu")) else "fp32"
    if args.worker:
        work(args.worker, args)
        return
    print(
        f"{time.strftime('%Y-%m-%d %H:%M')}, {platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}, ",
        end="",
    )
    print(
        f"{args.precision}, {args.layers} layers x {args.width}, {args.batch} x {args.context} tokens a step",
        flush=True,
    )
    with tempfile.TemporaryDirectory() as folder:
        write_data(Path(folder))
        args.folder = folder
        for part in args.parts or PARTS:
            print(f"\n## {part}\n", flush=True)
            compare(PARTS[part], args)


if __name__ == "__main__":
    main(sys.argv[1:])
