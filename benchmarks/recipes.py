"""Which recipe learns most from the same minutes: the pop preset with one thing changed, each arm for equal wall time.

python -m benchmarks.recipes SHARDS -o FOLDER [--minutes 5] [--arms base relative ...] [--at-once 2] [--windows 320]

An arm first runs a few steps to learn its speed (and to fill the compiler's cache), which sets how many steps its minutes hold;
then it trains with a schedule of exactly that many, one thread each, ``--at-once`` arms side by side. At the end each is
scored on the validation split by ``music-transformer evaluate``: the same windows for all, all events of which the preset has
at least 512 before them; a model with a shorter window sees fewer of those. An arm that is done is not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

ARMS: dict[str, tuple[str, ...]] = {
    "base": (),  # rotary, 6 blocks of width 192, Muon, rows of 1,024, moved by up to 3 semitones, no dropout
    "base, another seed": ("--seed", "1"),
    "learned positions": ("--position", "learned", "--no-embed-norm"),
    "relative positions": ("--position", "relative"),
    "no positions": ("--position", "none"),
    "width 128, 13 blocks": ("--n-embd", "128", "--n-layer", "13"),  # as many weights in the blocks
    "width 256, 3 blocks": ("--n-embd", "256", "--n-layer", "3"),
    "width 256, 6 blocks": ("--n-embd", "256"),
    "width 128, 6 blocks": ("--n-embd", "128"),
    "3 heads of 64": ("--n-head", "3"),
    "AdamW 0.001": ("--optimizer", "adamw", "--lr-adamw", "0.001"),
    "AdamW 0.003": ("--optimizer", "adamw", "--lr-adamw", "0.003"),
    "Muon 0.01": ("--lr", "0.01"),
    "context 512": ("--context", "512", "--batch-size", "8"),
    "context 2,048": ("--context", "2048", "--batch-size", "2"),
    "not transposed": ("--transpose", "0"),
    "transposed by up to 6": ("--transpose", "6"),
    "dropout 0.1": ("--dropout", "0.1"),
    "rows begin with a piece": ("--crops", "pieces"),
    "average of weights 0.995": ("--ema", "0.995"),
    "8 rows a step": ("--batch-size", "8"),
}
BASE = ("--preset", "pop", "--batch-size", "4", "--warmup-steps", "50", "--decay", "0.6", "--eval-windows", "4")
PROBE_STEPS = 60
PROBE_SKIPPED = 30  # steps in which a compiler works and memory is first touched


def command(args: argparse.Namespace, arm: str, out: Path, steps: int) -> list[str]:
    """One training run; no evaluation before its end."""
    line = [sys.executable, "-m", "music_transformer", "train", str(args.shards), "-o", str(out), *BASE, *ARMS[arm]]
    if args.compile:
        line.append("--compile")
    return [*line, "--max-steps", str(steps), "--eval-every", str(steps), "--log-every", "10", "--save-minutes", "60"]


def run(line: Sequence[str], log: Path) -> None:
    """Run a command on one thread, what it says into a file; SystemExit where it fails."""
    with open(log, "a", encoding="utf-8") as file:
        env = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        code = subprocess.run(line, stdout=file, stderr=subprocess.STDOUT, env=env).returncode
    if code:
        raise SystemExit(f"{' '.join(line)} failed; see {log}")


def step_rows(folder: Path) -> list[dict[str, Any]]:
    """What a run wrote about its steps."""
    log = folder.with_name(folder.name + ".log.jsonl")
    rows = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    return [r for r in rows if r["event"] == "step"]


def seconds_a_step(folder: Path) -> float:
    """Median over the lines of a probe, the first steps left out; a line stands for ten steps."""
    rows = [r for r in step_rows(folder) if r["step"] > PROBE_SKIPPED]
    return median(b["time"] - a["time"] for a, b in pairwise(rows)) / 10


def evaluated(args: argparse.Namespace, folder: Path) -> float:
    """Nats per event on the validation split."""
    line = [sys.executable, "-m", "music_transformer", "evaluate", str(args.shards), "--model", str(folder), "--json"]
    context = json.loads((folder / "config.json").read_text("utf-8"))["context"]
    line += ["--min-context", str(context // 2), "--windows", str(max(1, args.windows * 1024 // context))]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(line, capture_output=True, text=True, env=env)
    if done.returncode:
        raise SystemExit(done.stderr)
    return float(json.loads(done.stdout)["nats_per_event"])


def one(args: argparse.Namespace, arm: str) -> dict[str, Any]:
    """Probe, train and score an arm, or read what it scored before."""
    name = "".join(c if c.isalnum() else "-" for c in arm)
    folder, row_file, log = args.out / name, args.out / f"{name}.json", args.out / f"{name}.txt"
    if row_file.is_file():
        return json.loads(row_file.read_text("utf-8"))
    probe = args.out / f"{name}-probe"
    run(command(args, arm, probe, PROBE_STEPS), log)
    steps = max(1, round(args.minutes * 60 / seconds_a_step(probe)))
    run(command(args, arm, folder, steps), log)
    rows = step_rows(folder)
    config = json.loads((folder / "run.json").read_text("utf-8"))
    row = {
        "arm": arm, "steps": steps, "events": config["tokens_seen"], "minutes": round((rows[-1]["time"] - rows[0]["time"]) / 60, 2),
        "nats_per_event": evaluated(args, folder),
    }  # fmt: skip
    row_file.write_text(json.dumps(row) + "\n", encoding="utf-8")
    print(json.dumps(row), flush=True)
    return row


def main(argv: Sequence[str] | None = None) -> int:
    """Run the arms asked for and print a table, best first."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shards", type=Path)
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=5.0, help="training time of an arm")
    parser.add_argument("--arms", nargs="+", choices=sorted(ARMS), default=list(ARMS), metavar="ARM")
    parser.add_argument("--at-once", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--windows", type=int, default=320, help="windows of 1,024 that each is scored on")
    parser.add_argument("--compile", action="store_true", help="torch.compile every arm (its minutes begin afterwards)")
    args = parser.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(args.at_once) as pool:
        found = list(pool.map(lambda arm: one(args, arm), args.arms))
    print("\n| arm | steps | events | minutes | nats/event |\n|---|---|---|---|---|")
    for r in sorted(found, key=lambda r: r["nats_per_event"]):
        print(f"| {r['arm']} | {r['steps']:,} | {r['events']:,} | {r['minutes']} | {r['nats_per_event']:.3f} |")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
