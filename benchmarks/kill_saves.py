"""Kill a program with SIGKILL at random moments while it saves checkpoints; the last good one must always load.

Rerun: ``.venv/bin/python -m benchmarks.kill_saves [--kills 200] [--seed 1] [--width 96] [--folder FOLDER]``
A child saves one step after the other and tells each that is done. After each kill the folder must load, whole and
unmixed, as the last step told or the one after it, weights, record and trainer state alike; then the next child goes on.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import os
import random
import shutil
import signal
import struct
import tempfile
import time
from pathlib import Path

import torch

from gpt_core import checkpoint
from gpt_core.config import GPTConfig
from gpt_core.model import GPT
from music_transformer.events import EventCodec


def small(width: int) -> GPT:
    """A model of 48 width^2 weights and some."""
    return GPT(GPTConfig(vocab_size=391, context=64, n_layer=4, n_head=4, n_embd=width, position="rotary"))


def save_one(folder: Path, model: GPT, step: int) -> None:
    """Save the model, all of whose weights are then ``step``, with a trainer state of that step."""
    with torch.no_grad():
        for p in model.parameters():
            p.fill_(step)
    state = {"step": step, "moments": torch.full((64, 64), float(step))}
    checkpoint.save(folder, model, EventCodec(), {"step": step}, trainer_state=state)


def save_on(folder: Path, model: GPT, first: int, out: int) -> None:
    """Save step after step for ever, telling the beginning and the end of each by eight bytes on ``out``."""
    for step in itertools.count(first):
        os.write(out, struct.pack("<q", -step))
        save_one(folder, model, step)
        os.write(out, struct.pack("<q", step))


def kill_one(folder: Path, model: GPT, told: int, wait: float) -> int:
    """Let a child save from step ``told`` + 1 on, kill it ``wait`` seconds after it began; the last step that it told."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(reader)
            save_on(folder, model, told + 1, writer)
        finally:
            os._exit(1)  # not reached, but by an error
    os.close(writer)
    os.read(reader, 8)
    time.sleep(wait)
    os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, f"the child ended by itself: {status}"
    with os.fdopen(reader, "rb") as file:
        steps = [s for (s,) in struct.iter_unpack("<q", file.read())]
    return max([told, *steps])


def survived(folder: Path, told: int) -> int:
    """Load what a kill has left; AssertionError where it is not whole or older than the last step told."""
    loaded = checkpoint.load(folder)
    step = loaded.run["step"]
    assert step in (told, told + 1), f"step {told} was saved and step {step} is there"
    assert all(bool((p == step).all()) for p in loaded.model.parameters()), "weights of another step"
    state = checkpoint.load_trainer(folder)
    assert state["step"] == step and bool((state["moments"] == step).all()), "the trainer is of another step"
    return step


def traces(folder: Path) -> str:
    """Where the kill fell, by what it left beside the folder."""
    names = [p.name for p in folder.parent.iterdir()]
    if not folder.exists():
        return "between the two renames"
    if any(".new-" in n for n in names):
        return "in the middle of writing"
    return "while the old one was removed" if any(".old" in n for n in names) else "between two saves"


def run(folder: Path, kills: int, seed: int, width: int) -> collections.Counter[str]:
    """Kill so many times; returns how often it fell where."""
    rng = random.Random(seed)
    model = small(width)
    where: collections.Counter[str] = collections.Counter()
    lasts = []
    for step in range(5):
        begun = time.perf_counter()
        save_one(folder, model, step)
        lasts.append(time.perf_counter() - begun)
    for _ in range(kills):
        told = kill_one(folder, model, step, rng.uniform(0.0, 2 * sorted(lasts)[2]))
        where[traces(folder)] += 1
        step = survived(folder, told)
        for litter in folder.parent.glob(f".{folder.name}.new-*"):
            shutil.rmtree(litter)
    return where


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--width", type=int, default=96)
    parser.add_argument("--folder", type=Path, help="where to save; none = a temporary folder")
    args = parser.parse_args()
    torch.set_num_threads(1)  # a forked child has no threads to compute with
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory(dir=args.folder) as place:
        where = run(Path(place) / "piece", args.kills, args.seed, args.width)
        size = sum(f.stat().st_size for f in (Path(place) / "piece").iterdir()) / 1e6
    took = time.perf_counter() - begun
    print(
        f"{args.kills} kills, {size:.1f} MB a save, seed {args.seed}, {took:.0f} s: the last good checkpoint loaded every time"
    )
    for place_, count in where.most_common():
        print(f"  {count:4} {place_}")


if __name__ == "__main__":
    main()
