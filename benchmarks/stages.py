"""The stages around the model, each against its peers in one run: MIDI file to ids, parsing, corpus, rendering, packing.

python -m benchmarks.stages FOLDER [--parts ids,parse,corpus,render,pack] [--files 100] [--python PEERS/bin/python]
python -m benchmarks.stages install      # an environment of its own for MidiTok, symusic, pretty_midi and mido

``ids`` and ``parse`` need only NumPy of us, so they run under the interpreter that has the peers.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.midi_files import spread

PEERS = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "music-transformer" / "midi-peers"
Work = Callable[[Path], Any]


def install() -> None:
    """Make the environment of the peers."""
    subprocess.run([sys.executable, "-m", "venv", str(PEERS)], check=True)
    packages = ["miditok", "symusic", "pretty_midi", "mido", "numpy"]
    subprocess.run([str(PEERS / "bin" / "python"), "-m", "pip", "install", "-q", *packages], check=True)


def our_ids(path: Path) -> int:
    from music_transformer.events import encode_columns
    from music_transformer.midi import read_columns

    return len(encode_columns(*read_columns(path)))


def our_ids_through_a_score(path: Path) -> int:
    from music_transformer.events import encode_array
    from music_transformer.midi import read_midi

    return len(encode_array(read_midi(path)[0]))


def miditok(pedal: bool) -> Work:
    """MidiTok's nearest to our events: MIDILike, 32 velocities; with the pedal, it lengthens notes as we do."""
    from miditok import MIDILike, TokenizerConfig
    from symusic import Score

    off = dict.fromkeys(("programs", "chords", "rests", "tempos", "time_signatures"), False)
    pedals = {"use_sustain_pedals": pedal, "sustain_pedal_duration": pedal}
    settings = {"num_velocities": 32, "pitch_range": (0, 127), "beat_res": {(0, 12): 50}}
    make = MIDILike(TokenizerConfig(**settings, **pedals, **{f"use_{k}": v for k, v in off.items()}))
    return lambda path: make(Score(str(path)))


def note_seq() -> Work:
    """Magenta's own encoder, on a 10 ms grid with 32 velocities."""
    import note_seq as ns
    from note_seq import performance_lib, sequences_lib

    def work(path: Path) -> int:
        rung = sequences_lib.apply_sustain_control_changes(ns.midi_file_to_note_sequence(str(path)))
        grid = sequences_lib.quantize_note_sequence_absolute(rung, 100)
        return len(performance_lib.Performance(grid, num_velocity_bins=32))

    return work


def parsed_by(library: str) -> Work:
    """Read a file and do nothing with it."""
    if library == "symusic":
        from symusic import Score

        return lambda path: Score(str(path))
    if library == "mido":
        from mido import MidiFile

        return lambda path: MidiFile(str(path))
    from pretty_midi import PrettyMIDI

    return lambda path: PrettyMIDI(str(path))


def our_parse(objects: bool) -> Work:
    from music_transformer.midi import read_columns, read_midi

    return read_midi if objects else read_columns


CONTESTS: dict[str, dict[str, Callable[[], Work]]] = {
    "ids": {
        "ours, by arrays": lambda: our_ids,
        "ours, by way of a Score": lambda: our_ids_through_a_score,
        "MidiTok, pedal folded": lambda: miditok(True),
        "MidiTok, pedal dropped": lambda: miditok(False),
        "note-seq, pedal folded": note_seq,
    },
    "parse": {
        "ours, arrays": lambda: our_parse(False),
        "ours, a Score": lambda: our_parse(True),
        "symusic": lambda: parsed_by("symusic"),
        "mido": lambda: parsed_by("mido"),
        "pretty_midi": lambda: parsed_by("pretty_midi"),
    },
}


def contest(name: str, files: list[Path], rounds: int) -> None:
    """Each file by each contestant in turn; notes per second over all files, and the median ratio to the first."""
    from music_transformer.midi import read_columns

    works: dict[str, Work] = {}
    for label, make in CONTESTS[name].items():
        try:
            works[label] = make()
        except ImportError as error:
            print(f"({label}: {error}; skipped)")
    notes = sum(len(read_columns(path)[0].pitch) for path in files)
    spent: dict[str, list[float]] = {label: [] for label in works}
    for path in files:
        for label, work in works.items():
            tries = []
            for _ in range(rounds):
                start = time.perf_counter()
                work(path)
                tries.append(time.perf_counter() - start)
            spent[label].append(min(tries))
    print(f"\n{len(files)} files, {notes:,} notes, the better of {rounds} tries each\n")
    print("| | notes/s | ms a file | the first is faster, median of files |\n|---|---|---|---|")
    first = spent[next(iter(works))]
    for label, times in spent.items():
        ratio = statistics.median(t / f for t, f in zip(times, first, strict=True))
        print(
            f"| {label} | {notes / sum(times):,.0f} | {1e3 * sum(times) / len(files):.2f} | {ratio:.2f} |", flush=True
        )


def corpus(files: list[Path]) -> None:
    """Files to shards, all cores: seconds, and how much of it is the copy search and writing."""
    from music_transformer.corpus import CorpusConfig, build_corpus

    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "midi"
        source.mkdir()
        for path in files:
            (source / path.name).symlink_to(path.resolve())
        for workers in (1, os.cpu_count() or 1):
            start = time.perf_counter()
            record = build_corpus(source, Path(folder) / f"shards-{workers}", CorpusConfig(workers=workers))
            seconds = time.perf_counter() - start
            tokens = sum(s["tokens"] for s in record["splits"].values())
            print(
                f"{len(files)} files, {tokens:,} ids, {workers} processes: {seconds:.1f} s, {tokens / seconds:,.0f} ids/s"
            )


def render_speed(files: list[Path]) -> None:
    """Times real time of our sound, as the product chooses it."""
    from music_transformer.audio import render, sound_line
    from music_transformer.augment import crop
    from music_transformer.midi import read_midi

    print(sound_line())
    for path in files[:5]:
        score = crop(read_midi(path)[0], 0, 60)
        start = time.perf_counter()
        render(score)
        seconds = time.perf_counter() - start
        print(
            f"{score.end:.0f} s of music, {len(score.notes)} notes: {seconds:.2f} s, {score.end / seconds:.0f} x real time"
        )


def pack_speed(files: list[Path]) -> None:
    """Seconds to pack one layer of 8 heads x 2,048 tokens and, beside it, to make its whole matrix of weights."""
    import torch

    from gpt_core.attention import pack_layer, rows, trace
    from gpt_core.config import GPTConfig
    from gpt_core.model import GPT

    torch.manual_seed(0)
    model = GPT(GPTConfig(vocab_size=391, context=2048, n_layer=1, n_head=8, n_embd=512, position="rotary")).eval()
    seen = trace(model, torch.randint(0, 388, (2048,)))
    for label, work in (("packed", lambda: pack_layer(seen, 0)), ("dense", lambda: rows(seen, 0, range(2048)))):
        times = []
        for _ in range(5):
            start = time.perf_counter()
            work()
            times.append(time.perf_counter() - start)
        print(f"{label}: {statistics.median(times):.2f} s a layer (8 heads x 2,048 tokens), least {min(times):.2f}")


OTHERS = {"corpus": corpus, "render": render_speed, "pack": pack_speed}


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="MIDI files, or the word install")
    parser.add_argument("--parts", default=",".join([*CONTESTS, *OTHERS]))
    parser.add_argument("--files", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument(
        "--python", type=Path, default=PEERS / "bin" / "python", help="an interpreter that has the peers"
    )
    args = parser.parse_args(argv)
    if str(args.folder) == "install":
        install()
        return
    files = spread(args.folder, args.files)
    warnings.simplefilter("ignore")
    parts = args.parts.split(",")
    print(
        f"{time.strftime('%Y-%m-%d %H:%M')}, {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        flush=True,
    )
    elsewhere = [p for p in parts if p in CONTESTS]
    if elsewhere and args.python.exists() and Path(sys.prefix) != args.python.parents[1]:
        command = [str(args.python), "-m", "benchmarks.stages", str(args.folder), f"--parts={','.join(elsewhere)}"]
        subprocess.run(
            [*command, f"--files={args.files}", f"--rounds={args.rounds}", f"--python={args.python}"], check=True
        )
        parts = [p for p in parts if p not in elsewhere]
    for part in parts:
        print(f"\n## {part}\n", flush=True)
        if part in CONTESTS:
            contest(part, files, args.rounds)
        else:
            OTHERS[part](files)


if __name__ == "__main__":
    main(sys.argv[1:])
