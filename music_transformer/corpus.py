"""A folder of MIDI files -> token shards for training: split by piece, then encoded on all cores."""

from __future__ import annotations

import csv
import hashlib
import json
import multiprocessing
import os
import shutil
import zipfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from gpt_core.errors import UserError
from gpt_core.options import check, option, to_json
from music_transformer.duplicates import same_music, sketch
from music_transformer.events import EventCodec, encode_columns
from music_transformer.midi import SUFFIXES, read_columns
from music_transformer.score import Columns, PedalColumns
from music_transformer.vocabulary import BOS, EOS, NOTE_OFF, STEPS_PER_SECOND, TIME_SHIFT, VELOCITY, VOCAB_SIZE

SPLITS = ("train", "validation", "test")
STRETCHES = (0.95, 0.975, 1.025, 1.05)


@dataclass(frozen=True)
class CorpusConfig:
    """How a folder of MIDI becomes shards. A CSV of the folder with a ``split`` column goes before the shares."""

    validation: float = option(0.05, "share of the pieces kept for validation", low=0.0, high=0.5)
    test: float = option(0.05, "share of the pieces kept for the test", low=0.0, high=0.5)
    min_notes: int = option(8, "leave out pieces with fewer notes", low=1)
    stretch: bool = option(False, "add four copies of every training piece, 5 and 2.5 % faster and slower")
    workers: int = option(0, "processes that encode; 0 = one for each core", low=0, high=256)


@dataclass(frozen=True)
class Piece:
    """One file of the corpus: its path, its name relative to the folder, its split."""

    path: Path
    name: str
    split: str


@dataclass(frozen=True)
class Encoded:
    """A piece after encoding: the file with its ids, its fingerprint and sketch, or why there are none."""

    piece: Piece
    file: Path | None = None
    sha256: str = ""
    sketch: np.ndarray | None = None
    error: str = ""


def find_pieces(folder: Path, config: CorpusConfig) -> list[Piece]:
    """List the MIDI files under ``folder`` by name, each with its split; UserError if there are none."""
    paths = sorted(p for p in folder.rglob("*") if p.suffix.lower() in SUFFIXES and p.is_file())
    if not paths:
        raise UserError(
            f"{folder} holds no MIDI file ({', '.join(SUFFIXES)}); give a folder of MIDI files, or maestro or pop909"
        )
    official = _official_split(folder)
    names = [p.relative_to(folder).as_posix() for p in paths]
    missing = [n for n in names if n not in official] if official else []
    if missing:
        raise UserError(f"{len(missing)} of {len(names)} files, {missing[0]} first, are not in the folder's split CSV")
    split = official or _drawn_splits(names, config)
    return [Piece(p, n, split[n]) for p, n in zip(paths, names, strict=True)]


def _drawn_splits(names: list[str], config: CorpusConfig) -> dict[str, str]:
    """Every piece's own draw; where a small folder leaves a wanted split empty, one training piece moves there."""
    splits = {name: hash_split(name, config) for name in names}
    for split, share in (("validation", config.validation), ("test", config.test)):
        train = sorted((n for n in names if splits[n] == "train"), key=_draw)
        if share > 0 and split not in splits.values() and len(train) > 1:
            splits[train[0]] = split
    return splits


def _official_split(folder: Path) -> dict[str, str]:
    """Read ``midi_filename -> split`` from the folder's CSV that has both columns; empty without one."""
    for path in sorted(folder.glob("*.csv")):
        with path.open(encoding="utf-8", newline="") as lines:
            rows = csv.DictReader(lines)
            if {"midi_filename", "split"} <= set(rows.fieldnames or ()):
                return {row["midi_filename"]: row["split"] for row in rows if row["split"] in SPLITS}
    return {}


def hash_split(name: str, config: CorpusConfig) -> str:
    """Choose a piece's split by its name alone: the same on every machine, whatever else the folder holds."""
    draw = _draw(name)
    if draw < config.test:
        return "test"
    return "validation" if draw < config.test + config.validation else "train"


def _draw(name: str) -> float:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") / 2**64


def encode_pieces(pieces: list[Piece], cache: Path, config: CorpusConfig) -> Iterator[Encoded]:
    """Encode pieces in their order on all cores; what lies in ``cache`` from an earlier run is not done again."""
    jobs = [(piece, cache, config) for piece in pieces]
    workers = min(config.workers or os.cpu_count() or 1, len(jobs))
    if workers == 1:
        yield from map(_encode_piece, jobs)
        return
    pool = ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))
    try:
        yield from pool.map(_encode_piece, jobs, chunksize=4)
    finally:
        pool.shutdown(cancel_futures=True)


def _encode_piece(job: tuple[Piece, Path, CorpusConfig]) -> Encoded:
    piece, cache, config = job
    try:
        data = piece.path.read_bytes()
    except OSError as error:
        return Encoded(piece, error=f"cannot be read: {error.strerror}")
    copies = (1.0, *STRETCHES) if config.stretch and piece.split == "train" else (1.0,)
    file = cache / f"{hashlib.sha256(data).hexdigest()[:32]}-{len(copies)}.npz"
    try:
        ids = _cached(file) or _encode_copies(data, copies, file)
    except UserError as error:
        return Encoded(piece, error=str(error))
    notes = int((ids[0] < NOTE_OFF).sum())
    if notes < config.min_notes:
        return Encoded(piece, error=f"has {notes:,} notes, fewer than {config.min_notes:,}")
    return Encoded(piece, file, hashlib.sha256(ids[0].tobytes()).hexdigest(), sketch(ids[0]))


def _cached(file: Path) -> list[np.ndarray]:
    """The copies an earlier run encoded; an empty list if there are none or the file is damaged."""
    try:
        with np.load(file) as found:
            return [found[name] for name in found.files]
    except (OSError, ValueError, EOFError, zipfile.BadZipFile):
        return []


def _encode_copies(data: bytes, factors: tuple[float, ...], file: Path) -> list[np.ndarray]:
    notes, pedals = read_columns(data)
    ids = [encode_columns(*_stretched(notes, pedals, factor)) for factor in factors]
    scratch = file.with_suffix(f".{os.getpid()}.tmp")
    with scratch.open("wb") as sink:
        np.savez(sink, *ids)
    scratch.replace(file)
    return ids


def _stretched(notes: Columns, pedals: PedalColumns, factor: float) -> tuple[Columns, PedalColumns]:
    slower = notes._replace(start=notes.start * factor, end=notes.end * factor)
    return slower, pedals._replace(start=pedals.start * factor, end=pedals.end * factor)


def build_corpus(
    folder: str | Path, out: str | Path, config: CorpusConfig | None = None, *, progress: bool = False
) -> dict[str, Any]:
    """Encode every MIDI file under ``folder`` into the shards ``out``; returns the record kept as ``out/meta.json``.

    An interrupted build goes on where it stopped. Files that cannot be read are listed in the record and left out, and
    so are copies of music (also transposed or stretched) that a held-out split has too.
    """
    config = config or CorpusConfig()
    check(config)
    folder, out = Path(folder), Path(out)
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder; give a folder of MIDI files, or maestro or pop909")
    pieces = find_pieces(folder, config)
    cache = out / "pieces"
    cache.mkdir(parents=True, exist_ok=True)
    found = encode_pieces(pieces, cache, config)
    encoded = list(tqdm(found, "encoding", len(pieces), unit="file", disable=not progress))
    good = [e for e in encoded if not e.error]
    copies = _leaks(good)
    kept = [e for i, e in enumerate(good) if i not in copies]
    if not kept:
        raise UserError(_nothing_left(encoded, folder))
    left_out = {
        "failed": [{"file": e.piece.name, "error": e.error} for e in encoded if e.error],
        "duplicates": [_duplicate(good[i].piece, good[j].piece) for i, j in sorted(copies.items())],
    }
    record = _record(folder.name, kept, left_out, config)
    record["splits"] = {
        split: _write_split([e for e in kept if e.piece.split == split], out, split) for split in SPLITS
    }
    _write_json(out / "meta.json", record)
    shutil.rmtree(cache)
    return record


def _nothing_left(encoded: list[Encoded], folder: Path) -> str:
    first = next(e for e in encoded if e.error)
    return f"none of the {len(encoded):,} files in {folder} can be learned from; {first.piece.name}, the first, {first.error}"


def _leaks(good: list[Encoded]) -> dict[int, int]:
    """Pieces to leave out -> the piece they copy: of music in two splits the test keeps it, then the validation."""
    out: dict[int, int] = {}
    for i, j in same_music([e.sketch for e in good if e.sketch is not None]):
        a, b = sorted((i, j), key=lambda k: SPLITS.index(good[k].piece.split))
        if good[a].piece.split != good[b].piece.split:
            out.setdefault(a, b)
    return out


def _duplicate(piece: Piece, original: Piece) -> dict[str, str]:
    return {"file": piece.name, "split": piece.split, "same_as": original.name, "same_as_split": original.split}


def _record(
    source: str, kept: list[Encoded], left_out: dict[str, list[dict[str, str]]], config: CorpusConfig
) -> dict[str, Any]:
    """What a reader of the shards wants to know; the fingerprint covers every kept piece, its split and its ids."""
    lines = "".join(f"{e.piece.split} {e.piece.name} {e.sha256}\n" for e in kept)
    return {
        "source": source,
        "fingerprint": hashlib.sha256(lines.encode()).hexdigest(),
        "codec": EventCodec().to_dict(),
        "settings": {k: v for k, v in to_json(config).items() if k != "workers"},
        "splits": {},
        "pieces": [{"file": e.piece.name, "split": e.piece.split} for e in kept],
        **left_out,
    }


def _write_split(encoded: list[Encoded], out: Path, split: str) -> dict[str, Any]:
    """Write every copy of every piece as BOS + ids + EOS; returns the split's figures."""
    from gpt_core.tokens import ShardWriter  # late: it brings torch, which the encoding processes do not need

    writer = ShardWriter(out, split, VOCAB_SIZE)
    size: dict[str, Any] = {"pieces": len(encoded), "copies": 0, "tokens": 0, "notes": 0, "hours": 0.0}
    for e in encoded:
        for ids in _cached(e.file) if e.file else []:
            writer.add(np.concatenate(([BOS], ids, [EOS])))
            size["copies"] += 1
            size["tokens"] += len(ids) + 2
            size["notes"] += int((ids < NOTE_OFF).sum())
            size["hours"] += _steps(ids) / STEPS_PER_SECOND / 3600
    writer.close()
    size["hours"] = round(size["hours"], 2)
    return size


def _steps(ids: np.ndarray) -> int:
    waits = ids[(ids >= TIME_SHIFT) & (ids < VELOCITY)].astype(np.int64)
    return int((waits - TIME_SHIFT + 1).sum())


def _write_json(path: Path, data: dict[str, Any]) -> None:
    scratch = path.with_suffix(".tmp")
    scratch.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    scratch.replace(path)
