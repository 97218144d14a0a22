"""``music-transformer continue``, ``generate``, ``render`` and ``receipt``."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from gpt_core.errors import UserError
from gpt_core.options import add_flags, from_args
from gpt_core.sampling import Sampling
from music_transformer.compose import Composition, Take, recreate, refuse_silence
from music_transformer.compose_config import DEFAULT_PRESET, PRESETS, ComposeConfig
from music_transformer.midi import read_midi, read_texts, write_midi
from music_transformer.receipts import Receipt, find_receipt

if TYPE_CHECKING:
    from music_transformer.score import Score


def add_continue(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``continue``."""
    parser.add_argument("file", type=Path, help="the MIDI file to continue")
    _add_common(parser)
    parser.add_argument("--prompt-out", type=Path, help="also write the prompt alone, as it was, to this MIDI file")
    add_flags(parser, ComposeConfig)
    add_flags(parser, Sampling)


def add_generate(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``generate``."""
    _add_common(parser)
    add_flags(parser, ComposeConfig, skip=("at",))
    add_flags(parser, Sampling)


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--out", type=Path, required=True, help="the MIDI file to write: the whole piece")
    parser.add_argument("--wav", type=Path, help="also play the whole piece into this WAV file")
    parser.add_argument("--new-out", type=Path, help="also write the new part alone to this MIDI file")
    parser.add_argument(
        "--preset", choices=sorted(PRESETS), default=DEFAULT_PRESET, help=f"how adventurous (default: {DEFAULT_PRESET})"
    )
    parser.add_argument(
        "--model", default="piano", help="a shipped model's name or a checkpoint folder (default: piano)"
    )
    parser.add_argument(
        "--device", default="auto", choices=("auto", "cpu", "cuda", "mps"), help="where to compute (default: auto)"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress bar and no notes on standard error")


def run_continue(args: argparse.Namespace) -> int:
    """Continue a file."""
    data = _read_bytes(args.file)
    score, report = read_midi(args.file)
    if not args.quiet:
        print(report.summary(), file=sys.stderr)
    return _compose(args, score, data)


def run_generate(args: argparse.Namespace) -> int:
    """Write a piece from nothing."""
    args.at = args.prompt_out = None
    return _compose(args, None, None)


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from None


def _compose(args: argparse.Namespace, score: Score | None, source: bytes | None) -> int:
    from music_transformer.models import load

    config = from_args(ComposeConfig, args)
    sampling = from_args(Sampling, args, PRESETS[args.preset])
    _check_folders(args)
    composition = Composition(
        load(args.model, args.device), score, config, sampling, source=source, model_name=Path(args.model).name
    )
    stopped = _follow(composition, args.quiet)
    takes = [t for t in composition.takes() if t.new.notes] if stopped else refuse_silence(composition.takes())
    if not takes:
        print("music-transformer: stopped before the first note; nothing was written", file=sys.stderr)
        return 130
    many = config.takes > 1
    for take in takes:
        _write(take, args, many=many)
    if args.wav:  # after all MIDI files: where nothing can play, they are there
        _play(takes, args.wav, many=many)
    return 130 if stopped else 0


def _check_folders(args: argparse.Namespace) -> None:
    """Refuse an output into a missing folder, or MIDI under a sound's name, before the work and not after it."""
    if args.out.suffix.lower() == ".wav":
        raise UserError(f"-o {args.out}: this is the MIDI file, and it can't end in .wav; name the sound with --wav")
    for path in (args.out, args.wav, args.new_out, args.prompt_out):
        if path is not None and not path.parent.is_dir():
            raise UserError(f"{path} can't be written: the folder {path.parent} does not exist; make it first")
        if path is not None and path.is_dir():
            raise UserError(f"{path} can't be written: it is a folder; name a file in it")


def _follow(composition: Composition, quiet: bool) -> bool:
    """Run the stream behind a progress bar; returns whether Ctrl-C stopped it."""
    from tqdm import tqdm

    config = composition.config
    began, events = time.monotonic(), 0
    bar = tqdm(
        total=config.seconds, unit="s", disable=None if not quiet else True, file=sys.stderr, leave=False,
        bar_format="{l_bar}{bar}| {n:.1f}/{total:.0f} s of music [{elapsed}<{remaining}{postfix}]",
    )  # fmt: skip
    try:
        for step in composition.steps():
            events += len(step.column)
            slowest = min(
                config.seconds,
                min(s if not d else config.seconds for s, d in zip(step.seconds, step.done, strict=True)),
            )
            if slowest > bar.n + 0.2:
                bar.set_postfix_str(f"{events / (time.monotonic() - began):.0f} events/s", refresh=False)
                bar.update(slowest - bar.n)
        return False
    except KeyboardInterrupt:
        print("\nmusic-transformer: stopped; keeping what exists", file=sys.stderr)
        return True
    finally:
        bar.close()
        if not quiet and events:
            spent = time.monotonic() - began
            print(
                f"{events:,} events in {spent:.1f} s ({events / spent:,.0f} events/s); {composition.engine}",
                file=sys.stderr,
            )


def _name(path: Path, take: Take, many: bool) -> Path:
    return path.with_name(f"{path.stem}-{take.index + 1}{path.suffix}") if many else path


def _write(take: Take, args: argparse.Namespace, *, many: bool) -> None:
    out = _name(args.out, take, many)
    _store(out, take.midi("whole"))
    new = f"{take.new.end:.1f} s new ({len(take.new.notes):,} notes)"
    print(f"{out}: {take.whole.end:.1f} s, of which {new}; seed {take.seed}")
    if args.new_out:
        _store(_name(args.new_out, take, many), take.midi("new"))
    if args.prompt_out:
        write_midi(take.prompt, args.prompt_out)


def _play(takes: list[Take], wav: Path, *, many: bool) -> None:
    from music_transformer.audio import render_wav

    for take in takes:
        print(render_wav(take.whole, _name(wav, take, many)))


def _store(path: Path, data: bytes) -> None:
    try:
        path.write_bytes(data)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror or error}") from None


def add_render(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``render``."""
    from music_transformer.audio import RenderSettings

    parser.add_argument("file", type=Path, help="the MIDI file to play")
    parser.add_argument("-o", "--out", type=Path, required=True, help="the WAV file to write")
    add_flags(parser, RenderSettings)


def run_render(args: argparse.Namespace) -> int:
    """Play a MIDI file into a WAV file."""
    from music_transformer.audio import RenderSettings, render_wav, sound_line

    settings = from_args(RenderSettings, args)
    score, report = read_midi(args.file)
    print(report.summary(), file=sys.stderr)
    print(sound_line(settings), file=sys.stderr)
    print(render_wav(score, args.out, settings))
    return 0


def add_receipt(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``receipt``."""
    parser.add_argument("file", type=Path, help="a MIDI file that was made here")
    parser.add_argument("-o", "--out", type=Path, help="make the piece again from its receipt, into this file")
    parser.add_argument("--model", help="the checkpoint to use (default: the one the receipt names)")
    parser.add_argument(
        "--device", default="cpu", choices=("auto", "cpu", "cuda", "mps"), help="where to compute (default: cpu)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run_receipt(args: argparse.Namespace) -> int:
    """Show a file's receipt; with ``--out``, make the piece again and say whether the bytes are the same."""
    receipt = find_receipt(read_texts(args.file))
    if receipt is None:
        raise UserError(f"{args.file} carries no receipt; only files that music-transformer wrote do")
    _show(receipt, args.json)
    if args.out is None:
        return 0
    from music_transformer.models import load

    again = recreate(receipt, load(args.model or receipt.model, args.device))
    _store(args.out, again)
    same = again == _read_bytes(args.file)
    print(f"{args.out}: {'the same bytes' if same else 'NOT the same bytes as'} {'as ' if same else ''}{args.file}")
    return 0 if same else 1


def _show(receipt: Receipt, as_json: bool) -> None:
    facts = {
        "action": receipt.action, "model": receipt.model, "checkpoint": receipt.checkpoint, "version": receipt.version,
        "seed": receipt.seed, "take": receipt.take, "settings": receipt.settings, "prompt_sha256": receipt.prompt_sha256,
    }  # fmt: skip
    if as_json:
        print(json.dumps(facts))
        return
    for name, value in facts.items():
        print(f"{name}: {json.dumps(value) if isinstance(value, dict) else value}")
