"""Decoding beside llama.cpp and OpenVINO: paired rounds of single tokens after a prompt of 512, one take.

python -m benchmarks.peers [--models piano,music,gpt2] [--tokens 32] [--rounds 7]. The peers run in an environment of their own,
which python -m benchmarks.peers_install sets up; one that is not there is skipped by name.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.decode import PROMPT, bytes_a_step, machine, random_model, step_seconds
from benchmarks.decode_memory import bandwidth
from benchmarks.peers_install import peer_python, present
from gpt_core.config import PRESETS, GPTConfig
from gpt_core.generate import choose_engine, describe
from gpt_core.model import GPT

NATIVE = ("native", "native-bf16", "native-int8")
KINDS = {"llama.cpp": ("f32", "f16", "bf16", "q8_0"), "OpenVINO": ("f32", "f16", "bf16", "int8")}


class Worker:
    """A peer's process. Raises RuntimeError with the reason where it can't run."""

    def __init__(self, peer: str, kind: str, weights: Path) -> None:
        script = Path(__file__).with_name("peers_worker.py")
        command = [str(peer_python()), str(script), peer, kind, str(weights)]
        quiet = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "PYTHON"))}
        self.process = subprocess.Popen(command, env=environment, **quiet)
        self._answer()

    def _answer(self) -> Any:
        line = self.process.stdout.readline()
        reply = json.loads(line) if line else {"error": f"it ended with code {self.process.wait()}"}
        if "error" in reply:
            raise RuntimeError(reply["error"])
        return reply.get("answer")

    def ask(self, **order: Any) -> Any:
        """Send one order and return the answer."""
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        """End the process."""
        self.process.stdin.close()
        self.process.wait()


def gpt2_like(config: GPTConfig) -> GPT:
    """A GPT-2 of the same width, depth, heads, vocabulary and context: what the peers can run."""
    shape = {"n_layer": config.n_layer, "n_head": config.n_head, "n_embd": config.n_embd}
    torch.manual_seed(0)
    model = GPT(GPTConfig(vocab_size=config.vocab_size, context=config.context, **shape)).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.normal_(std=1.5 / p.shape[-1] ** 0.5) if p.dim() == 2 else p.add_(torch.randn_like(p) * 0.1)
    return model


def save_weights(model: GPT, path: Path) -> None:
    """Write the weights with what their shapes don't say, for the workers."""
    weights = {name: p.detach().numpy() for name, p in model.named_parameters()}
    np.savez(path, heads=np.array(model.config.n_head), layers=np.array(model.config.n_layer), **weights)


@torch.inference_mode()
def distance(worker: Worker, model: GPT) -> float:
    """How far the peer's logits are from the model's after a few ids, in units of the largest: that it runs this model."""
    ids = [int(i) * 37 % model.config.vocab_size for i in range(1, 9)]
    worker.ask(rewind=0)
    got, wanted = torch.tensor(worker.ask(logits=ids)), model(torch.tensor([ids]))[0, -1]
    return float((got - wanted).abs().max() / wanted.abs().max())


def peers_ready(model: GPT, folder: Path) -> dict[str, Worker]:
    """A process for each peer and kind that runs here, its prompt read."""
    weights, out = folder / "weights.npz", {}
    save_weights(model, weights)
    for peer, kinds in KINDS.items():
        if not present(peer):
            print(f"({peer} is not installed: skipped; python -m benchmarks.peers_install)", flush=True)
            continue
        for kind in kinds:
            try:
                worker = Worker(peer, kind, weights)
                off = distance(worker, model)
                worker.ask(rewind=0)
                worker.ask(logits=[i % model.config.vocab_size for i in range(PROMPT)])
                worker.ask(rewind=PROMPT)
            except RuntimeError as e:
                print(f"({peer} {kind}: skipped: {e})", flush=True)
                continue
            print(f"({peer} {kind}: logits within {off:.1e} of the model's)", flush=True)
            out[f"{peer} {kind}"] = worker
    return out


def their_step(worker: Worker, tokens: int) -> float:
    """Median seconds of a step after the prompt."""
    worker.ask(rewind=PROMPT)
    return statistics.median(worker.ask(steps=tokens + 2)[2:])


def contest(name: str, tokens: int, rounds: int) -> None:
    """One table: tokens a second and share of the memory's speed, medians over rounds in which all take turns."""
    with tempfile.TemporaryDirectory() as folder:
        workers = peers_ready(gpt2_like(PRESETS[name]), Path(folder))
        model = random_model(name)
        prompt = torch.randint(1, model.config.vocab_size, (1, PROMPT), generator=torch.Generator().manual_seed(1))
        runs: dict[str, Callable[[], float]] = {}
        for wish in NATIVE:
            engine = choose_engine(model, wish)
            runs[describe(engine).removeprefix("engine: ")] = lambda e=engine: step_seconds(e, prompt, 1, tokens)
        runs |= {label: lambda w=worker: their_step(w, tokens) for label, worker in workers.items()}
        results = [{label: run() for label, run in runs.items()} | {"read": bandwidth()} for _ in range(rounds)]
        for worker in workers.values():
            worker.close()
    native = list(runs)[: len(NATIVE)]
    context = PROMPT + tokens // 2
    sizes = dict(zip(native, (bytes_a_step(model, kind, context) for kind in ("fp32", "bf16", "int8")), strict=True))
    speed = statistics.median(r["read"] for r in results)
    print(f"\nmemory read at {speed / 1e9:.1f} GB/s\n")
    print("| model | engine | tokens/s | native fp32 : this | native bf16 : this | share of the memory's speed |")
    print("|---|---|---|---|---|---|")
    for label in runs:
        ratios = (statistics.median(r[label] / r[mine] for r in results) for mine in native[:2])
        share = statistics.median(sizes[label] / r[label] / r["read"] for r in results) if label in sizes else None
        cells = f"{1 / statistics.median(r[label] for r in results):,.0f} | " + " | ".join(f"{x:.2f}" for x in ratios)
        print(f"| {name} | {label} | {cells} | {'' if share is None else f'{share:.2f}'} |", flush=True)


def main(argv: list[str]) -> None:
    """Measure each model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="piano,music,gpt2")
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args(argv)
    print(machine(), flush=True)
    for name in args.models.split(","):
        start = time.perf_counter()
        contest(name, args.tokens, args.rounds)
        print(f"({time.perf_counter() - start:.0f} s)\n", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
