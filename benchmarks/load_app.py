"""Load on the app: visitors at once through the API, each answer compared with its single-visitor answer; waiting; memory.

python -m benchmarks.load_app [--visitors 8] [--rounds 5] [--seconds 5] [--repeats 3] [--model piano]
"""

from __future__ import annotations

import argparse
import concurrent.futures
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
from gradio_client import Client, handle_file
from gradio_client.exceptions import AppError

from music_transformer.samples import sample_names, sample_path


def ask(url: str, seed: int, seconds: float) -> tuple[bytes, float]:
    """One visitor's continuation of one of the samples (or the sentence that refuses it), and how long it took."""
    client = Client(url, verbose=False)
    prompt = sample_path(sample_names()[seed % len(sample_names())])
    begun = time.perf_counter()
    try:
        files, _ = client.predict(file=handle_file(str(prompt)), seconds=seconds, seed=seed, api_name="/continue")
        answer = Path(files[0]).read_bytes()
    except AppError as error:  # a continuation of nothing but rests is refused: so it must be each time
        answer = str(error).encode()
    return answer, time.perf_counter() - begun


def megabytes(process: psutil.Process) -> float:
    return process.memory_info().rss / 1e6


def load(url: str, process: psutil.Process, args: argparse.Namespace) -> None:
    """Print the figures."""
    seeds = range(args.visitors * args.rounds)
    alone = {seed: ask(url, seed, args.seconds) for seed in seeds}
    memory = [megabytes(process)]
    equal, waits = 0, []
    with concurrent.futures.ThreadPoolExecutor(args.visitors) as pool:
        for _ in range(args.repeats):
            for start in range(0, len(seeds), args.visitors):
                group = seeds[start : start + args.visitors]
                for seed, (data, took) in zip(group, pool.map(lambda s: ask(url, s, args.seconds), group), strict=True):
                    equal += data == alone[seed][0]
                    waits.append(took)
            memory.append(megabytes(process))
    single = statistics.median(took for _, took in alone.values())
    print(f"- {equal} of {len(waits)} answers equal their single-visitor answer byte for byte")
    print(
        f"- {args.seconds:g} s of music: alone {single:.1f} s; {args.visitors} at once, median {statistics.median(waits):.1f} s,"
    )
    print(f"  longest {max(waits):.1f} s")
    print(f"- memory of the server after each {len(seeds)} answers: {', '.join(f'{m:.0f}' for m in memory)} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--visitors", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--repeats", type=int, default=3, help="of all rounds, to see whether memory grows")
    parser.add_argument("--model", default="piano")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "music_transformer", "serve", "--port", "0", "--no-open-browser"]
        command += ["--model", args.model, "--folder", folder]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        url = process.stdout.readline().split(" at ")[1].split()[0]
        print(
            f"{time.strftime('%Y-%m-%d')}, {platform.machine()}, {psutil.cpu_count()} cores, `{' '.join(sys.argv[1:])}`\n"
        )
        try:
            load(url, psutil.Process(process.pid), args)
        finally:
            process.terminate()
            process.wait(30)


if __name__ == "__main__":
    main()
