"""Files a visitor brings -> pieces on the shelf, with the import report; the same file twice is the same piece."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import hashlib
import threading
from pathlib import PurePath
from typing import Any

from gpt_core.errors import UserError
from music_transformer.midi import ImportReport, read_midi, read_texts
from music_transformer.receipts import Receipt, find_receipt
from music_transformer.samples import TITLES, sample_path
from music_transformer.score import Score
from music_transformer.web.shelf import Piece, Shelf

LARGE = 200_000  # bytes from which on files are read one after the other: at worst one takes 4 s and half a gigabyte
_one_at_a_time = threading.BoundedSemaphore(1)


def read(data: bytes) -> tuple[Score, ImportReport]:
    """``read_midi`` for many visitors at once."""
    if len(data) < LARGE:
        return read_midi(data)
    with _one_at_a_time:
        try:
            return read_midi(data)
        finally:
            _give_back()


def _give_back() -> None:
    """Return freed memory to the system, where the C library can: a large file leaves a hundred megabytes of holes."""
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def bring(shelf: Shelf, data: bytes, name: str, kind: str = "upload") -> Piece:
    """Read a MIDI file and put it on the shelf; UserError in one sentence where it cannot be played."""
    digest = hashlib.sha256(data).hexdigest()
    for piece in shelf.list():
        if piece.facts.get("sha256") == digest:
            return piece
    score, report = read(data)
    facts: dict[str, Any] = {"sha256": digest, "summary": report.summary(), "report": list(report.lines)}
    receipt = receipt_of(data)
    if receipt is not None:
        facts["receipt"] = receipt_facts(receipt)
    stem = PurePath(name.replace("\\", "/")).name
    for suffix in (".midi", ".mid", ".MID", ".rmi"):
        stem = stem.removesuffix(suffix)
    piece = Piece(id="", kind=kind, name=stem, seconds=score.end, join=score.end, notes=len(score.notes), facts=facts)
    return shelf.add(piece, data)


def bring_sample(shelf: Shelf, name: str) -> Piece:
    """Put one of our sample pieces on the shelf; UserError lists the names where ``name`` is none."""
    return bring(shelf, sample_path(name).read_bytes(), TITLES[name], "sample")


def receipt_of(data: bytes) -> Receipt | None:
    """The receipt in a MIDI file, or None where there is none or it is damaged."""
    try:
        return find_receipt(read_texts(data))
    except UserError:
        return None


def receipt_facts(receipt: Receipt) -> dict[str, Any]:
    """A receipt as JSON types, the embedded prompt replaced by its size."""
    facts = dataclasses.asdict(receipt)
    facts["prompt"] = None if receipt.prompt is None else len(receipt.prompt)
    return facts
