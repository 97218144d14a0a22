"""What rounding costs in nats, whether greedy ids are equal, what prompt-lookup could save, and peak memory of the programs.

python -m benchmarks.decode_quality [rounding|greedy|lookup|memory ...] [--shards FOLDER] [--model piano] [--windows 96]

The shards are what ``music-transformer corpus`` writes; without them (and without MT_SHARDS) only greedy and memory run.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from benchmarks.decode import machine, step_seconds
from gpt_core.generate import CachedEngine, choose_engine, generate
from gpt_core.model import GPT
from gpt_core.sampling import Sampling, generators_for
from gpt_core.tokens import Shard
from music_transformer import models
from music_transformer.compose_config import DEFAULT_PRESET, PRESETS
from music_transformer.grammar import Grammar
from music_transformer.samples import sample_names, sample_path
from music_transformer.vocabulary import BOS

KINDS = ("native", "native-bf16", "native-int8")
ROWS = 8


def heads(shard: Shard, length: int, count: int) -> torch.Tensor:
    """``count`` windows of ``length`` ids [N, length], spread evenly over the split, none across a border of pieces."""
    starts = [o for i in range(len(shard)) for o in range(shard.offsets[i], shard.offsets[i + 1] - length + 1, length)]
    chosen = [starts[int(i * len(starts) / count)] for i in range(min(count, len(starts)))]
    return torch.stack([torch.from_numpy(shard.ids[s : s + length].astype("int64")) for s in chosen])


@torch.inference_mode()
def nats(model: GPT, windows: torch.Tensor, wish: str) -> torch.Tensor:
    """Nats of each window's ids but the first, read one at a time by the engine as in decoding: [N]."""
    engine, sums = choose_engine(model, wish), []
    for rows in windows.split(ROWS):
        logits, total = engine.prefill(rows[:, :1], len(rows)), torch.zeros(len(rows), dtype=torch.float64)
        for n in range(1, rows.shape[1]):
            total += F.cross_entropy(logits, rows[:, n], reduction="none")
            logits = engine.step(rows[:, n])
        sums.append(total / (rows.shape[1] - 1))
    return torch.cat(sums)


def rounding(args: argparse.Namespace) -> None:
    """Nats per event of each kind of stored weights, and the paired difference to fp32 with its standard error."""
    model = models.load(args.model, "cpu").model
    windows = heads(Shard.open(args.shards, "validation"), model.config.context, args.windows)
    print(f"{len(windows)} windows of {model.config.context} events, {args.model}, validation\n")
    print("| weights | nats per event | difference to fp32 |\n|---|---|---|")
    exact = nats(model, windows, KINDS[0])
    for wish in KINDS:
        mine = exact if wish == KINDS[0] else nats(model, windows, wish)
        gap = mine - exact
        error = float(gap.std() / len(gap) ** 0.5)
        print(f"| {wish} | {mine.mean():.5f} | {gap.mean():+.5f} ± {error:.5f} |", flush=True)


def greedy_prompt(model: GPT, args: argparse.Namespace) -> torch.Tensor:
    if args.shards:
        return heads(Shard.open(args.shards, "validation"), 512, 1)
    return torch.randint(0, model.config.vocab_size, (1, 512), generator=torch.Generator().manual_seed(1))


def greedy(args: argparse.Namespace) -> None:
    """2,000 greedy ids after 512 by each engine; the first place where one leaves the modules' path."""
    checkpoint = models.load(args.model, "cpu")
    model, prompt = checkpoint.model, greedy_prompt(checkpoint.model, args)

    def ids(engine: Any) -> list[int]:
        asked = {"max_new_tokens": args.greedy, "sampling": Sampling(temperature=0.0), "engine": engine}
        return [int(c) for c in generate(model, prompt, **asked)]

    wanted = ids(CachedEngine(model))
    print(f"{args.model}, {len(wanted)} greedy ids after {prompt.shape[1]}, {len(set(wanted))} different ones\n")
    for wish in ("torch", *KINDS):
        got = ids(wish)
        first = next((i for i, (a, b) in enumerate(zip(got, wanted, strict=True)) if a != b), None)
        print(f"- {wish}: {'the same ids' if first is None else f'the first {first} ids are the same'}", flush=True)


def guess(ids: list[int], at: int, seen: dict[tuple[int, ...], int], shortest: int, most: int) -> list[int]:
    """What followed the last time the latest ``shortest`` ids stood there, ``most`` ids of it."""
    before = seen.get(tuple(ids[at - shortest : at]))
    return [] if before is None else ids[before : min(before + most, at)]


def replay(ids: list[int], begin: int, shortest: int, most: int, cost: Callable[[int], float]) -> tuple[float, float]:
    """Ids per pass, and time per id in units of a plain step, had the ids from ``begin`` on been found by lookup.

    A guess is right where it names the id that was drawn, so the ids stay as they are: distribution and seed too.
    """
    seen: dict[tuple[int, ...], int] = {}
    at, passes, spent, known = begin, 0, 0.0, shortest
    while at < len(ids):
        for end in range(known, at):
            seen[tuple(ids[end - shortest : end])] = end
        known = max(known, at)
        drafted = guess(ids, at, seen, shortest, most)
        right = 0
        while right < len(drafted) and at + right < len(ids) and drafted[right] == ids[at + right]:
            right += 1
        at, passes, spent = at + right + 1, passes + 1, spent + cost(1 + len(drafted))
    made = at - begin
    return made / passes, spent / made


def composed(model: GPT, count: int, length: int) -> list[list[int]]:
    """Pieces by the model from nothing at the settings a user gets, BOS in front."""
    out = []
    for seed in range(count):
        asked = {"sampling": PRESETS[DEFAULT_PRESET], "generators": generators_for(seed, 1)}
        stream = generate(
            model, torch.tensor([[BOS]]), max_new_tokens=length, filters=[Grammar(prompt_length=1)], **asked
        )
        out.append([BOS, *(int(c) for c in stream)])
    return out


def prices(model: GPT, context: int) -> dict[int, float]:
    """What one pass over k ids costs in plain steps: k takes that share all but the last ids read the same memory."""
    prompt, engine = torch.randint(1, 380, (1, context)), choose_engine(model)
    times: dict[int, list[float]] = {k: [] for k in (1, 2, 3, 5, 9)}
    for _ in range(7):
        for k in times:
            times[k].append(step_seconds(engine, prompt, k, 16))
    one = statistics.median(times[1])
    return {k: statistics.median(t) / one for k, t in times.items()}


def lookup(args: argparse.Namespace) -> None:
    """The best that prompt-lookup could do: real and composed pieces replayed, at the measured price of a pass."""
    model = models.load(args.model, "cpu").model
    price = prices(model, 512)
    print("price of a pass over k ids, in plain steps: " + ", ".join(f"{k}: {p:.2f}" for k, p in price.items()) + "\n")
    shard = Shard.open(args.shards, "validation")
    pieces = {"MAESTRO": [shard.piece(i)[:4096].tolist() for i in range(0, len(shard), 8)]}
    pieces["composed"] = composed(model, args.pieces, 1000)
    print("| pieces | ids matched | ids guessed | ids per pass | plain steps an id costs |\n|---|---|---|---|---|")
    for name, rows in pieces.items():
        for shortest in (2, 3, 4, 6, 8):
            for most in (1, 2, 4, 8):
                done = [replay(r, min(256, len(r) // 2), shortest, most, lambda k: _at(price, k)) for r in rows]
                each, cost = (statistics.mean(d[i] for d in done) for i in (0, 1))
                print(f"| {name} | {shortest} | {most} | {each:.3f} | {cost:.3f} |", flush=True)


def _at(price: dict[int, float], k: int) -> float:
    """The price for any k, by a straight line between the measured ones."""
    low = max(n for n in price if n <= k)
    high = min((n for n in price if n >= k), default=low)
    return price[low] if low == high else price[low] + (price[high] - price[low]) * (k - low) / (high - low)


def peak(pid: int) -> float:
    """Highest resident memory of a running process so far, in MB (Linux)."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(encoding="ascii"))
    return int(found[1]) / 1024 if found else float("nan")


_CONTINUE = """
import resource, sys
from music_transformer.cli import main
code = main(sys.argv[1:])
print(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f}")
"""


def memory(args: argparse.Namespace) -> None:
    """Peak resident memory of ``continue`` with 1 and 8 takes; of the app when it is up and after one continuation."""
    from benchmarks.load_app import ask

    sample = str(sample_path(sample_names()[0]))
    with tempfile.TemporaryDirectory() as folder:
        for takes in (1, 8):
            order = ["continue", sample, "-o", f"{folder}/out.mid", "--takes", str(takes), "--seed", "1", "--quiet"]
            done = subprocess.run([sys.executable, "-c", _CONTINUE, *order], capture_output=True, text=True, check=True)
            print(f"- continue, {takes} takes of 20 s: {re.findall('peak ([0-9]+)', done.stdout)[0]} MB", flush=True)
        command = [
            sys.executable,
            "-m",
            "music_transformer",
            "serve",
            "--port",
            "0",
            "--no-open-browser",
            "--folder",
            folder,
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as app:
            assert app.stdout is not None
            url = app.stdout.readline().split(" at ")[1].split()[0]
            print(f"- serve, once it answers: {peak(app.pid):.0f} MB", flush=True)
            ask(url, 0, 20.0)
            print(f"- serve, after a continuation of 20 s: {peak(app.pid):.0f} MB", flush=True)
            app.terminate()


PARTS: dict[str, Callable[[argparse.Namespace], None]] = {
    "rounding": rounding,
    "greedy": greedy,
    "lookup": lookup,
    "memory": memory,
}


def main(argv: list[str]) -> None:
    """Run the parts asked for, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], default=[])
    parser.add_argument("--shards", default=os.environ.get("MT_SHARDS"))
    parser.add_argument("--model", default=models.DEFAULT)
    parser.add_argument("--windows", type=int, default=96)
    parser.add_argument("--greedy", type=int, default=2000)
    parser.add_argument("--pieces", type=int, default=12)
    args = parser.parse_args(argv)
    print(machine(), flush=True)
    for part in args.parts or PARTS:
        print(f"\n## {part}\n", flush=True)
        if part in ("rounding", "lookup") and not args.shards:
            print(f"({part} needs shards of a corpus: skipped; give --shards or MT_SHARDS)")
            continue
        PARTS[part](args)


if __name__ == "__main__":
    main(sys.argv[1:])
