"""What a music model has to beat: uniform guessing and a smoothed n-gram model, by the music model's own measures.

Rerun: ``.venv/bin/python -m benchmarks.music_baselines SHARDS [--order 5] [--min-context 512]``; SHARDS is a folder made by
``music-transformer corpus``. An LSTM of equal size is in ``benchmarks.music_lstm``.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path

from gpt_core.tokens import Shard
from music_transformer.baselines import count_ngrams, ngram_rates, uniform_rates


def main() -> None:
    """Print one JSON line per model and split."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shards", type=Path)
    parser.add_argument("--order", type=int, nargs="+", default=[5])
    parser.add_argument(
        "--min-context", type=int, default=0, help="score only events with at least this many before them"
    )
    args = parser.parse_args()
    held = {split: Shard.open(args.shards, split) for split in ("validation", "test")}
    for split, shard in held.items():
        print(json.dumps({"model": "uniform", "split": split, **uniform_rates(shard, args.min_context)}), flush=True)
    for order in args.order:
        start = time.monotonic()
        model = count_ngrams(Shard.open(args.shards, "train"), order)
        facts = {"seconds_to_count": round(time.monotonic() - start, 1), "sizes": model.sizes()}
        for split, shard in held.items():
            rates = ngram_rates(model, shard, args.min_context)
            print(json.dumps({"model": f"{order}-gram", "split": split, **rates, **facts}), flush=True)
    print(json.dumps({"peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}))


if __name__ == "__main__":
    main()
