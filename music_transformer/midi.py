"""MIDI files in and out: read_midi, read_columns, write_midi, read_texts, inspect_midi, ImportReport."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from gpt_core.errors import UserError
from music_transformer import midi_reader, midi_writer
from music_transformer.midi_container import LARGEST_FILE
from music_transformer.midi_report import ImportReport
from music_transformer.score import Columns, PedalColumns, Score

SUFFIXES = (".mid", ".midi", ".kar", ".rmi")  # how the names of MIDI files end, in lower case

__all__ = ["ImportReport", "inspect_midi", "read_columns", "read_midi", "read_texts", "write_midi"]


def read_midi(source: str | Path | bytes) -> tuple[Score, ImportReport]:
    """Read a MIDI file (a path or its bytes): the notes in seconds, and a report of what was repaired or dropped.

    Note ends are key releases; the sustain pedal stays apart in ``score.pedals``. Drums (channel 10) are left out.
    Raises UserError, one sentence, where the bytes are not MIDI or hold no note for the piano.
    """
    data, name = _load(source)
    score, report = midi_reader.read(data, name)
    _refuse_drums(len(score.notes), report, name)
    return score, report


def read_columns(source: str | Path | bytes) -> tuple[Columns, PedalColumns]:
    """The notes and pedals of ``read_midi`` as arrays, without an object for each: for encoding many files."""
    data, name = _load(source)
    notes, pedals, _, report = midi_reader.read_columns(data, name)
    _refuse_drums(len(notes.pitch), report, name)
    return notes, pedals


def _refuse_drums(notes: int, report: ImportReport, name: str) -> None:
    if not notes:
        raise UserError(f"{name} has only drums ({report.notes:,} notes on channel 10); choose a file with other notes")


def inspect_midi(source: str | Path | bytes) -> ImportReport:
    """Only the report of ``read_midi``; a file of nothing but drums has one, too."""
    return midi_reader.read_columns(*_load(source))[3]


def read_texts(source: str | Path | bytes) -> list[str]:
    """List the text meta events of a MIDI file (types 1-15: text, copyright, track name, lyric ...) in file order."""
    data, name = _load(source)
    return midi_reader.read_texts(data, name)


def write_midi(score: Score, path: str | Path | None = None, *, texts: Iterable[str] = ()) -> bytes:
    """Return the score as the bytes of a type 1 MIDI file and, where ``path`` is given, write them there.

    Piano sound (General MIDI program 1), tempo and time signatures kept, ``texts`` as text meta events on track 0.
    Equal scores give equal bytes. The file appears whole or not at all.
    """
    data = midi_writer.to_bytes(score, texts)
    if path is not None:
        _store(Path(path), data)
    return data


def _load(source: str | Path | bytes) -> tuple[bytes, str]:
    """The bytes, no more than is certain to be refused, and the name for messages."""
    if isinstance(source, bytes | bytearray | memoryview):
        return bytes(source), "this file"
    path = Path(source)
    name = "".join(c if c.isprintable() else "?" for c in path.name)
    try:
        if path.exists() and not path.is_file():
            raise UserError(f"{name or path} is not a file; give a MIDI file")
        with path.open("rb") as file:
            return file.read(LARGEST_FILE + 1), name
    except (OSError, ValueError) as error:
        raise UserError(f"{name or path} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _store(path: Path, data: bytes) -> None:
    part = path.with_name(path.name + ".part")
    try:
        part.write_bytes(data)
        os.replace(part, path)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror or error}") from None
