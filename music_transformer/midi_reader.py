"""MIDI bytes -> Score and ImportReport, by way of one timeline in ticks."""

from __future__ import annotations

import dataclasses

from gpt_core.errors import UserError
from music_transformer.midi_clock import read_grid
from music_transformer.midi_container import open_container
from music_transformer.midi_notes import pair_tracks
from music_transformer.midi_report import Findings, ImportReport, make_report
from music_transformer.midi_timeline import cut_silences, in_a_row, merge, to_columns
from music_transformer.score import Columns, Note, Pedal, PedalColumns, Score

LONGEST_PIECE = 12 * 3600.0  # seconds


def read(data: bytes, name: str) -> tuple[Score, ImportReport]:
    """Read the bytes of a MIDI file; ``name`` is for messages. The Score is empty where all notes are drums."""
    notes, pedals, rest, report = read_columns(data, name)
    made = tuple(Note(*row) for row in zip(*(c.tolist() for c in notes), strict=True))
    pressed = tuple(Pedal(*row) for row in zip(*(c.tolist() for c in pedals), strict=True))
    return dataclasses.replace(rest, notes=made, pedals=pressed), report


def read_columns(data: bytes, name: str) -> tuple[Columns, PedalColumns, Score, ImportReport]:
    """The same without an object per note: notes and pedals as arrays, a Score of all the rest, and the report."""
    box = open_container(data, name)
    grid = read_grid(box.division)
    found = Findings(box, grid)
    if box.kind == 2:
        found.sequences = in_a_row(box.tracks, grid.ticks_per_beat)
    notes = pair_tracks(box.tracks, grid.ticks_per_beat, name)
    if not len(notes.starts):
        raise UserError(f"{name} has no notes ({found.contents()}); choose a file with notes")
    line = merge(box.tracks, notes, grid, found)
    clock = cut_silences(line, grid, found)
    columns, pedals, rest = to_columns(line, clock, found)
    if found.end_seconds > LONGEST_PIECE:
        hours = found.end_seconds / 3600
        raise UserError(f"{name} lasts {hours:,.0f} hours; pieces up to {LONGEST_PIECE / 3600:.0f} hours are read")
    return columns, pedals, rest, make_report(found, notes, rest)


def read_texts(data: bytes, name: str) -> list[str]:
    """Decode the text meta events: UTF-8 where it is, else Latin-1, which accepts any byte."""
    return [_decode(body) for t in open_container(data, name).tracks for _, kind, body in t.metas if kind < 0x10]


def _decode(body: bytes) -> str:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        return body.decode("latin-1")
