"""Decoding speed: every engine and Hugging Face's generate in paired rounds; growth, the loop's parts, and the first event.

python -m benchmarks.decode [engines|ceiling|growth|loop|start ...] [--models piano,gpt2] [--takes 1,8] [--tokens 64] [--rounds 5]
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace

import torch

from benchmarks.decode_memory import bandwidth
from gpt_core.config import PRESETS
from gpt_core.generate import CachedEngine, Engine, choose_engine, describe, generate
from gpt_core.model import GPT
from gpt_core.sampling import Sampling, generators_for

ENGINES = ("modules", "torch", "native", "native-bf16", "native-int8")
KINDS = {"fp32": "native", "bf16": "native-bf16", "int8": "native-int8"}  # how weights are stored, and its engine
PROMPT = 512  # tokens


def random_model(name: str, **changes: object) -> GPT:
    """A preset with random weights large enough for varied output. Speed does not depend on what the weights are."""
    torch.manual_seed(0)
    model = GPT(replace(PRESETS[name], **changes)).eval()
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() == 2:
                p.normal_(std=1.5 / p.shape[1] ** 0.5)
    return model


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


@torch.inference_mode()
def step_seconds(engine: Engine, prompt: torch.Tensor, takes: int, tokens: int) -> float:
    """Median time of one greedy step over ``tokens`` steps after the prompt."""
    column = engine.prefill(prompt, takes).argmax(-1)
    times = []
    for _ in range(tokens + 2):
        start = time.perf_counter()
        column = engine.step(column).argmax(-1)
        times.append(time.perf_counter() - start)
    return statistics.median(times[2:])


def hugging_face(model: GPT, takes: int, tokens: int) -> Callable[[], float] | None:
    """The time per step of transformers' generate with a cache, on a GPT-2 of the same shape; None if it is absent."""
    try:
        import transformers
    except ImportError:
        return None
    transformers.logging.set_verbosity_error()
    c = model.config
    special = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": 0}
    shape = {"n_layer": c.n_layer, "n_embd": c.n_embd, "n_head": c.n_head, "vocab_size": c.vocab_size}
    theirs = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_positions=c.context, **shape, **special)).eval()
    ids = torch.randint(1, c.vocab_size, (1, PROMPT)).expand(takes, -1)

    def run(n: int) -> float:
        asked = {"max_new_tokens": n, "min_new_tokens": n, "do_sample": False}
        with torch.inference_mode():
            return seconds(lambda: theirs.generate(ids, attention_mask=torch.ones_like(ids), **asked))

    run(2)
    return lambda: (run(tokens + 1) - run(1)) / tokens


def contestants(model: GPT, takes: int, tokens: int, wishes: list[str]) -> dict[str, Callable[[], float]]:
    """Seconds per step of each engine, as functions to call in turn."""
    prompt = torch.randint(1, model.config.vocab_size, (1, PROMPT), generator=torch.Generator().manual_seed(1))
    out: dict[str, Callable[[], float]] = {}
    theirs = hugging_face(model, takes, tokens)
    if theirs:
        out["Hugging Face generate"] = theirs
    for wish in wishes:
        engine = CachedEngine(model) if wish == "modules" else choose_engine(model, wish)
        label = "PyTorch modules" if wish == "modules" else describe(engine).removeprefix("engine: ")
        out[label] = lambda e=engine: step_seconds(e, prompt, takes, tokens)
    return out


def engines(args: argparse.Namespace) -> None:
    """Tokens per second, median of paired rounds, and as a multiple of Hugging Face in the same round."""
    print("| model | takes | engine | tokens/s | x Hugging Face |\n|---|---|---|---|---|")
    for name in args.models.split(","):
        model = random_model(name)
        for takes in map(int, args.takes.split(",")):
            runs = contestants(model, takes, args.tokens, args.engines.split(","))
            rounds = [{label: run() for label, run in runs.items()} for _ in range(args.rounds)]
            first = next(iter(runs))
            for label in runs:
                rate = takes / statistics.median(r[label] for r in rounds)
                ratio = statistics.median(r[first] / r[label] for r in rounds)
                print(f"| {name} | {takes} | {label} | {rate:,.0f} | {ratio:.1f} |", flush=True)


def bytes_a_step(model: GPT, kind: str, context: int, takes: int = 1, alike: int = 0) -> float:
    """What a step reads: all weights once but the token table, and the keys and values of each take, in fp32.

    Of ``context`` positions the first ``alike`` are stored once for all takes.
    """
    c = model.config
    matrices = sum(p.numel() for n, p in model.named_parameters() if n.startswith(("h.", "lm_head")) and p.dim() == 2)
    matrices += c.tied * c.vocab_size * c.n_embd
    positions = alike + takes * (context - alike)
    return matrices * {"fp32": 4, "bf16": 2, "int8": 1}[kind] + 2 * 4 * positions * c.n_layer * c.n_embd


def machine() -> str:
    """One line that says when and on what."""
    cores = f"{platform.machine()}, {os.cpu_count()} cores"
    return (
        f"{time.strftime('%Y-%m-%d %H:%M')}, {cores}, torch {torch.__version__} with {torch.get_num_threads()} threads"
    )


def ceiling(args: argparse.Namespace) -> None:
    """The share of the memory's speed that a step of one take reaches: bytes it must read, in the same round as reads."""
    print(
        "| model | weights | tokens/s | GB/s | share of the memory's speed | lowest and highest round |\n|---|---|---|---|---|---|"
    )
    for name in args.models.split(","):
        model = random_model(name)
        prompt = torch.randint(1, model.config.vocab_size, (1, PROMPT))
        engines = {kind: choose_engine(model, wish) for kind, wish in KINDS.items()}
        rounds: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
        for _ in range(args.rounds):
            for kind, engine in engines.items():
                before, step = bandwidth(2), step_seconds(engine, prompt, 1, args.tokens)
                rounds[kind].append((step, max(before, bandwidth(2))))
        for kind, pairs in rounds.items():
            read = bytes_a_step(model, kind, PROMPT + args.tokens // 2)
            shares = sorted(read / step / speed for step, speed in pairs)
            step = statistics.median(p[0] for p in pairs)
            cells = f"{1 / step:,.1f} | {read / step / 1e9:.1f} | {statistics.median(shares):.2f}"
            print(f"| {name} | {kind} | {cells} | {shares[0]:.2f} to {shares[-1]:.2f} |", flush=True)


def growth(args: argparse.Namespace) -> None:
    """Step time against the context read so far and the number of takes, beside the bytes a step must read."""
    speed = bandwidth()
    print(f"memory bandwidth {speed / 1e9:.1f} GB/s\n")
    print(
        "| model | context | takes | ms/step | tokens/s | MB read/step | share of bandwidth |\n|---|---|---|---|---|---|---|"
    )
    for name in args.models.split(","):
        model = random_model(name, context=2048)
        engine = choose_engine(model, args.engine)
        for context, takes in [(256, 1), (512, 1), (1024, 1), (2000, 1), (1024, 2), (1024, 4), (1024, 8)]:
            prompt = torch.randint(1, model.config.vocab_size, (1, context - args.tokens))
            step = min(step_seconds(engine, prompt, takes, args.tokens) for _ in range(2))
            alike = len(prompt[0]) // 32 * 32 if takes > 1 else 0  # what all takes have read is stored and read once
            read = bytes_a_step(model, "fp32", context, takes, alike)
            share = read / step / speed
            cells = f"{step * 1e3:.2f} | {takes / step:,.0f} | {read / 1e6:,.1f} | {share:.2f}"
            print(f"| {name} | {context} | {takes} | {cells} |", flush=True)


class Watch:
    """Wraps functions and sums up the seconds spent in each."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}

    def on(self, name: str, function: Callable) -> Callable:
        """Return the function, watched."""

        def run(*given: object) -> object:
            start = time.perf_counter()
            result = function(*given)
            self.spent[name] = self.spent.get(name, 0.0) + time.perf_counter() - start
            return result

        return run


def parts_of_a_step(model: GPT, takes: int, wish: str, sampling: Sampling, tokens: int = 400) -> list[float]:
    """Seconds per step in the engine, in the grammar, and in all."""
    from music_transformer.grammar import Grammar

    watch, engine = Watch(), choose_engine(model, wish)
    engine.step = watch.on("step", engine.step)  # type: ignore[method-assign]
    rules = [watch.on("grammar", Grammar(prompt_length=1))]
    asked = {"takes": takes, "generators": generators_for(0, takes), "engine": engine, "filters": rules}
    stream = generate(model, torch.tensor([[389]]), max_new_tokens=tokens, sampling=sampling, **asked)
    whole = seconds(lambda: list(stream))
    return [x / tokens for x in (watch.spent["step"], watch.spent["grammar"], whole)]


def loop(args: argparse.Namespace) -> None:
    """Where the time of a token goes in the whole loop with the grammar of music: microseconds per step."""
    model = random_model("piano")
    print(
        "| takes | engine step | grammar | temperature, top-p | draw and the rest | tokens/s |\n|---|---|---|---|---|---|"
    )
    for takes in map(int, args.takes.split(",")):
        step, rules, whole = parts_of_a_step(model, takes, args.engine, Sampling())
        plain = whole - step - rules
        step, rules, whole = parts_of_a_step(model, takes, args.engine, Sampling(temperature=0.97, top_p=0.96))
        cells = " | ".join(f"{1e6 * x:.0f}" for x in (step, rules, whole - step - rules - plain, plain))
        print(f"| {takes} | {cells} | {takes / whole:,.0f} |", flush=True)


_START = """
import sys, time; t = time.perf_counter()
import torch; a = time.perf_counter()
from gpt_core import checkpoint; from gpt_core.generate import generate, choose_engine; b = time.perf_counter()
m = checkpoint.load(sys.argv[1]).model; c = time.perf_counter()
e = choose_engine(m); d = time.perf_counter()
next(generate(m, torch.tensor([[389]]), max_new_tokens=2, engine=e)); f = time.perf_counter()
print(*(round(1e3 * x) for x in (a - t, b - a, c - b, d - c, f - d)))
"""


def start(args: argparse.Namespace) -> None:
    """Milliseconds from the start of a process to its first event; the library of the native step is there already."""
    from music_transformer.models import find

    print(
        "| import torch | import the rest | load the checkpoint | engine | first event | whole process |\n|---|---|---|---|---|---|"
    )
    command = [sys.executable, "-c", _START, str(find(args.checkpoint))]
    for _ in range(args.rounds):
        begin = time.perf_counter()
        parts = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        print(f"| {' | '.join(parts)} | {1e3 * (time.perf_counter() - begin):.0f} |", flush=True)


PARTS: dict[str, Callable[[argparse.Namespace], None]] = {
    "engines": engines,
    "ceiling": ceiling,
    "growth": growth,
    "loop": loop,
    "start": start,
}


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], default=[])
    parser.add_argument("--models", default="piano,gpt2")
    parser.add_argument("--takes", default="1,8")
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--engines", default=",".join(ENGINES), help="for the part engines")
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--checkpoint", default="piano", help="a model's name or folder, for the start")
    args = parser.parse_args(argv)
    print(machine(), flush=True)
    for part in args.parts or PARTS:
        print(f"\n## {part}\n", flush=True)
        PARTS[part](args)


if __name__ == "__main__":
    main(sys.argv[1:])
