"""Training curves of one run or several: loss of the steps (smoothed) and validation, against tokens or events seen.

Rerun: ``.venv/bin/python -m benchmarks.curves OUT.png NAME=RUN.log.jsonl ... --step-tokens 4096``; needs matplotlib. The logs are
those that ``train`` writes beside its checkpoint; --step-tokens is the number of tokens of one step, --begun the steps that the
weights a run began from (``--init-from``) had seen before.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np


def read(path: Path, event: str, value: str) -> tuple[np.ndarray, np.ndarray]:
    """Steps and values of one kind of line; where a run was resumed from an older save, the later line counts."""
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    found = {int(r["step"]): float(r[value]) for r in rows if r["event"] == event}
    steps = sorted(found)
    return np.array(steps), np.array([found[s] for s in steps])


def smooth(values: np.ndarray, over: int = 10) -> np.ndarray:
    """Mean of each value and up to ``over`` - 1 before it."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(0, ends - over)
    return (sums[ends] - sums[starts]) / (ends - starts)


def plot(runs: Iterable[tuple[str, Path]], step_tokens: int, unit: str, out: Path, begun: int = 0) -> None:
    """Draw every run in a colour of its own: a line for its steps, dots for its evaluations."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.2))
    for name, path in runs:
        steps, losses = read(path, "step", "loss")
        (line,) = axes.plot((steps + begun) * step_tokens / 1e6, smooth(losses), label=name)
        steps, nats = read(path, "validation", "validation")
        axes.plot((steps + begun) * step_tokens / 1e6, nats, "o", color=line.get_color(), markersize=5)
    axes.set(xlabel=f"million {unit} seen", ylabel=f"nats per {unit.rstrip('s')}")
    axes.set_ylim(top=min(axes.get_ylim()[1], 6.5))
    axes.grid(alpha=0.3)
    axes.legend()
    axes.set_title("line: training steps (mean of 10 lines of the log); dots: validation", fontsize=9)
    figure.tight_layout()
    figure.savefig(out, dpi=130)


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("runs", nargs="+", help="NAME=LOG")
    parser.add_argument("--step-tokens", type=int, required=True)
    parser.add_argument("--begun", type=int, default=0)
    parser.add_argument("--unit", default="tokens")
    args = parser.parse_args(arguments)
    runs = [(name, Path(path)) for name, _, path in (r.partition("=") for r in args.runs)]
    plot(runs, args.step_tokens, args.unit, args.out, args.begun)


if __name__ == "__main__":
    main()
