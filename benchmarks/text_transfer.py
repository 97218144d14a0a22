"""Does pre-training help? The same task taught to a pre-trained model and to fresh weights, with 1 %, 10 %, all of the data.

Rerun: ``.venv/bin/python -m benchmarks.text_transfer DATA OUT --model MODEL [--task summarize] [--to de] [--steps 300]``;
needs matplotlib. Writes OUT/transfer.json, OUT/transfer.md and OUT/transfer.png; runs that are there already are not repeated.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from gpt_core import checkpoint
from gpt_core.start import Start
from gpt_core.text.models import load
from gpt_core.text.tasks import TaskConfig
from gpt_core.text.tasks_run import Answering, finetune, score
from gpt_core.train_config import TrainConfig

SHARES = (0.01, 0.1, 1.0)


def one(args: argparse.Namespace, share: float, scratch: bool) -> dict[str, Any]:
    """Teach and score one cell of the table."""
    name = f"{'scratch' if scratch else 'pretrained'}-{share:g}"
    folder, kept = args.out / name, args.out / f"{name}.json"
    if kept.is_file():
        return json.loads(kept.read_text("utf-8"))
    task = TaskConfig(task=args.task, to=args.to, share=share)
    config = TrainConfig(
        max_steps=args.steps, batch_size=args.batch_size, lr=0.01, lr_adamw=1e-3, seed=args.seed,
        eval_every=max(1, args.steps // 20), eval_windows=200, patience=4, keep="best",
    )  # fmt: skip
    best = finetune(args.data, load(args.model), task, config, Start(folder), scratch=scratch)
    model = checkpoint.load(folder)
    ways = [Answering(1), Answering(4), *([Answering(extract=True)] if args.task == "summarize" else [])]
    found = score(model, ways, data=args.data, limit=args.limit)
    row = {"share": share, "scratch": scratch, "validation": best, "steps": model.run["step"], **found}
    kept.write_text(json.dumps(row, indent=1) + "\n", encoding="utf-8")
    return row


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as Markdown: nats per target token, and each measure of each way of answering."""
    ways = list(rows[0]["scores"])
    lines = ["| data | begun from | nats/target token | " + " | ".join(ways) + " |", "|---" * (3 + len(ways)) + "|"]
    for row in rows:
        cells = [" / ".join(f"{v:.1f}" for v in row["scores"][w].values()) for w in ways]
        begun = "fresh weights" if row["scratch"] else "pre-trained"
        lines.append(f"| {row['share']:.0%} | {begun} | {row['validation']:.3f} | " + " | ".join(cells) + " |")
    return "\n".join(
        [*lines, "", f"{rows[0]['examples']} test examples, data fingerprint {rows[-1]['fingerprint'][:16]}"]
    )


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    """Nats per target token against the share of the data, one line for each beginning."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4))
    for scratch, label in ((False, "pre-trained"), (True, "fresh weights")):
        mine = [r for r in rows if r["scratch"] == scratch]
        axes.plot([100 * r["share"] for r in mine], [r["validation"] for r in mine], marker="o", label=label)
    axes.set(xscale="log", xlabel="% of the training examples", ylabel="validation nats per target token")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=150)


def main() -> None:
    """Fill the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--model", required=True)
    parser.add_argument("--task", default="translate", choices=("translate", "summarize"))
    parser.add_argument("--to", default="fr")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--limit", type=int, default=200, help="test examples that are answered")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    rows = [one(args, share, scratch) for share in SHARES for scratch in (False, True)]
    (args.out / "transfer.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    (args.out / "transfer.md").write_text(table(rows) + "\n", encoding="utf-8")
    plot(rows, args.out / "transfer.png")
    print(table(rows))


if __name__ == "__main__":
    main()
