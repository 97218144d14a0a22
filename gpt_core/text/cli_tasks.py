"""``gpt-core finetune``, ``apply`` and ``score``: teach a task, use it, measure it."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from gpt_core.options import add_flags, from_args
from gpt_core.text.tasks import TaskConfig
from gpt_core.train_config import TrainConfig

# Fine-tuning moves weights that are already good by few examples: smaller steps than pre-training's, and no over-fitting.
_GENTLE = TrainConfig(lr=0.01, lr_adamw=1e-3, batch_size=32, max_steps=1000, keep="best")


def add_finetune(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``finetune``."""
    parser.add_argument("data", type=Path, help="a TSV of pairs, a .jsonl, or a folder of train, dev and test.jsonl")
    parser.add_argument(
        "-o", "--out", type=Path, required=True, help="the checkpoint folder to write; its data go beside it"
    )
    parser.add_argument(
        "--model", default="text", help="the model to teach: a name or a checkpoint folder (default: text)"
    )
    parser.add_argument(
        "--scratch", action="store_true", help="take only the model's shape and tokenizer, with fresh weights"
    )
    parser.add_argument("--resume", action="store_true", help="go on with the run whose checkpoint is in --out")
    parser.add_argument("--tensorboard", type=Path, help="also log to this TensorBoard folder")
    add_flags(parser, TaskConfig)
    add_flags(parser, TrainConfig, skip=("crops", "row_tokens"))


def run_finetune(args: argparse.Namespace) -> int:
    """Teach, and print the best validation figure."""
    task, config = from_args(TaskConfig, args), from_args(TrainConfig, args, _GENTLE)
    from gpt_core.start import Start
    from gpt_core.text.models import load
    from gpt_core.text.tasks_run import finetune

    start = Start(args.out, args.resume, None, args.tensorboard)
    best = finetune(args.data, load(args.model), task, config, start, scratch=args.scratch)
    print(f"best validation: {best:.4f} nats per target token; checkpoint in {args.out}")
    return 0


def add_apply(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``apply``."""
    parser.add_argument("text", nargs="+", help="the texts; a single - reads standard input, one text a line")
    parser.add_argument("--model", required=True, help="a checkpoint made by finetune")
    parser.add_argument("--beams", type=int, default=1, help="answers kept in the search; 1 is greedy (default: 1)")
    parser.add_argument("--max-new", type=int, default=64, help="tokens of an answer at most (default: 64)")
    parser.add_argument(
        "--extract", action="store_true", help="summaries: answer with the likeliest of the text's own sentences"
    )


def run_apply(args: argparse.Namespace) -> int:
    """Print one answer a line."""
    from gpt_core.text.models import load
    from gpt_core.text.tasks_run import Answering, answer

    texts = [line.rstrip("\n") for line in sys.stdin] if args.text == ["-"] else args.text
    told = lambda line: print(f"note: {line}", file=sys.stderr)  # noqa: E731
    for line in answer(load(args.model), texts, Answering(args.beams, args.max_new, args.extract), notice=told):
        print(" ".join(line.split()))
    return 0


def add_score(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``score``."""
    parser.add_argument("model", help="a checkpoint made by finetune; its held-out data lie beside it")
    parser.add_argument("--data", type=Path, help="the data it was taught with: adds the dictionary baseline")
    parser.add_argument(
        "--beams", type=int, default=4, help="also score a search with so many beams; 1: greedy alone (default: 4)"
    )
    parser.add_argument("--max-new", type=int, default=64, help="tokens of an answer at most (default: 64)")
    parser.add_argument("--limit", type=int, help="score only the first so many examples")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run_score(args: argparse.Namespace) -> int:
    """Print one line per way of answering."""
    from gpt_core.text.models import load
    from gpt_core.text.tasks_run import Answering, score, task_of

    model = load(args.model)
    ways = [Answering(b, args.max_new) for b in dict.fromkeys((1, args.beams))]
    if task_of(model).task == "summarize":
        ways.append(Answering(extract=True))
    result = score(model, ways, data=args.data, limit=args.limit)
    if args.json:
        print(json.dumps(result))
        return 0
    for name, row in result["scores"].items():
        print(f"{name:<18}  " + "  ".join(f"{k} {v:.1f}" for k, v in row.items()))
    print(f"{result['examples']:,} examples, data {result['fingerprint'][:16]}", file=sys.stderr)
    return 0
