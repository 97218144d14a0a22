"""A visitor's pieces on disk: a tree of uploads and takes, each a MIDI file beside a JSON sidecar; nothing is lost."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import re
import secrets
import threading
import time
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from gpt_core.errors import UserError
from music_transformer.midi import read_midi
from music_transformer.score import Score

MOST_PIECES = 1000
MOST_BYTES = 200_000_000
_TRASH_SECONDS = 7 * 24 * 3600.0  # how long a deleted piece can still be brought back
_STALE_SECONDS = 3600.0
_ID = re.compile(r"[A-Za-z0-9_-]{16}")
_LONGEST_NAME = 120


class UnknownPiece(UserError):
    """No such piece on this visitor's shelf; the page answers with status 404."""


@dataclass(frozen=True)
class Piece:
    """One node of the tree. ``kind``: upload, sample, take, edit. Times in seconds, ``created`` since 1970.

    ``join`` is where the newest part starts, ``until`` where it ends (None: with the piece); ``facts`` holds JSON types:
    settings, seed, report, meters.
    """

    id: str
    kind: str
    name: str
    parent: str | None = None
    created: float = 0.0
    seconds: float = 0.0
    join: float = 0.0
    until: float | None = None
    notes: int = 0
    kept: bool = False
    deleted: float | None = None
    facts: dict[str, Any] = field(default_factory=dict)


def clean_name(name: str) -> str:
    """A name fit to show and to save under: printable, one line, at most 120 characters."""
    shown = " ".join("".join(c if c.isprintable() else " " for c in name).split())
    return shown[:_LONGEST_NAME] or "untitled"


class Shelf:
    """The pieces of one visitor, in one folder; every change is on disk before the call returns."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.RLock()
        self._pieces: dict[str, Piece] = {}
        for file in sorted(folder.glob("*.json")) if folder.is_dir() else ():
            piece = _read_sidecar(file)
            if piece is not None and file.with_suffix(".mid").is_file():
                self._pieces[piece.id] = piece
        self._empty_trash()
        self._sweep()

    def list(self) -> list[Piece]:
        """The pieces that are not deleted, oldest first."""
        with self._lock:
            alive = [p for p in self._pieces.values() if p.deleted is None]
        return sorted(alive, key=lambda p: (p.created, p.id))

    def get(self, id: str) -> Piece:
        """One piece, deleted ones too (they can be brought back); UnknownPiece for any other id."""
        with self._lock:
            piece = self._pieces.get(id) if isinstance(id, str) and _ID.fullmatch(id) else None
        if piece is None:
            raise UnknownPiece("this piece is not among yours; choose one from the list")
        return piece

    def add(self, piece: Piece, midi: bytes, new: bytes | None = None) -> Piece:
        """Save a new piece (its id and time are given here), with its whole MIDI file and that of its new part."""
        with self._lock:
            self._room(len(midi) + len(new or b""))
            piece = dataclasses.replace(
                piece, id=secrets.token_urlsafe(12), created=time.time(), name=clean_name(piece.name)
            )
            try:
                _make(self.folder)
                _write(self._file(piece.id, ".mid"), midi)
                if new is not None:
                    _write(self._file(piece.id, ".new.mid"), new)
                return self._save(piece)
            except BaseException:  # a full disk, or the end of the program: half a piece would take up room
                self._remove(piece.id)
                raise

    def change(self, id: str, **facts: Any) -> Piece:
        """Change name, kept, deleted or facts of a piece and return it."""
        with self._lock:
            if "name" in facts:
                facts["name"] = clean_name(facts["name"])
            return self._save(dataclasses.replace(self.get(id), **facts))

    def delete(self, id: str) -> Piece:
        """Put a piece into the trash; ``restore`` brings it back for a week."""
        return self.change(id, deleted=time.time())

    def restore(self, id: str) -> Piece:
        """Bring a deleted piece back."""
        return self.change(id, deleted=None)

    def midi(self, id: str, part: str = "whole") -> bytes:
        """The bytes of a piece's MIDI file; ``part`` is "whole", or "new" for what was composed last."""
        piece = self.get(id)
        file = self._file(piece.id, ".new.mid" if part == "new" else ".mid")
        if part == "new" and not file.exists():
            file = self._file(piece.id, ".mid")
        try:
            return file.read_bytes()
        except OSError as error:
            raise UserError(f"the piece cannot be read: {error.strerror or error}") from None

    def score(self, id: str) -> Score:
        """The notes of a piece."""
        return _score(self._file(self.get(id).id, ".mid"))

    def _file(self, id: str, suffix: str) -> Path:
        return self.folder / f"{id}{suffix}"

    def _save(self, piece: Piece) -> Piece:
        text = json.dumps(dataclasses.asdict(piece), ensure_ascii=False, indent=1)
        _write(self._file(piece.id, ".json"), text.encode())
        self._pieces[piece.id] = piece
        return piece

    def _room(self, size: int) -> None:
        used = sum(f.stat().st_size for f in self.folder.glob("*")) if self.folder.is_dir() else 0
        if len(self._pieces) >= MOST_PIECES:
            raise UserError(
                f"you have {len(self._pieces):,} pieces, and there is room for {MOST_PIECES:,}; delete some"
            )
        if used + size > MOST_BYTES:
            raise UserError(f"your pieces fill {used / 1e6:.0f} of {MOST_BYTES / 1e6:.0f} MB; delete some")

    def _empty_trash(self) -> None:
        """Remove for good what was deleted more than a week ago."""
        for piece in [p for p in self._pieces.values() if p.deleted and time.time() - p.deleted > _TRASH_SECONDS]:
            self._remove(piece.id)
            del self._pieces[piece.id]

    def _remove(self, id: str) -> None:
        for suffix in (".json", ".new.mid", ".mid"):
            with contextlib.suppress(OSError):
                self._file(id, suffix).unlink()

    def _sweep(self) -> None:
        """Remove what a save left that was killed in the middle, not one that still runs."""
        for part in self.folder.glob("*.part"):
            with contextlib.suppress(OSError):
                if time.time() - part.stat().st_mtime > _STALE_SECONDS:
                    part.unlink()


def shelf_folder(root: Path, visitor: str) -> Path:
    """Where a visitor's pieces lie: the name gives nothing away of the visitor's secret."""
    return root / hashlib.sha256(visitor.encode()).hexdigest()[:32]


@lru_cache(maxsize=16)
def _score(file: Path) -> Score:
    return read_midi(file)[0]  # a piece's MIDI file never changes


def _read_sidecar(file: Path) -> Piece | None:
    try:
        facts = json.loads(file.read_text("utf-8"))
        known = {f.name for f in dataclasses.fields(Piece)}
        piece = Piece(**{k: v for k, v in facts.items() if k in known})
        return piece if piece.id == file.stem and _ID.fullmatch(piece.id) else None
    except (OSError, ValueError, TypeError, AttributeError):
        return None  # a stranger's file in the folder must not keep the page from opening


def _write(file: Path, data: bytes) -> None:
    part = file.with_name(file.name + ".part")
    try:
        part.write_bytes(data)
        os.replace(part, file)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        raise UserError(_unsaved(error)) from None


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise UserError(_unsaved(error)) from None


def _unsaved(error: OSError) -> str:
    """Without the folder's name, which is the server's own affair."""
    return f"the piece cannot be saved: {error.strerror or error}; what was saved before is safe"
