"""MIDI bytes -> Score and ImportReport, by way of one timeline in ticks."""

from __future__ import annotations

from gpt_core.errors import UserError
from music_transformer.midi_clock import read_grid
from music_transformer.midi_container import open_container
from music_transformer.midi_notes import pair_tracks
from music_transformer.midi_report import Findings, ImportReport, make_report
from music_transformer.midi_timeline import cut_silences, in_a_row, merge, to_score
from music_transformer.score import Score

LONGEST_PIECE = 12 * 3600.0  # seconds


def read(data: bytes, name: str) -> tuple[Score, ImportReport]:
    """Read the bytes of a MIDI file; ``name`` is for messages. The Score is empty where all notes are drums."""
    box = open_container(data, name)
    grid = read_grid(box.division)
    found = Findings(box, grid)
    if box.kind == 2:
        found.sequences = in_a_row(box.tracks, grid.ticks_per_beat)
    notes = pair_tracks(box.tracks, grid.ticks_per_beat, name)
    if not notes.starts:
        raise UserError(f"{name} has no notes ({found.contents()}); choose a file with notes")
    line = merge(box.tracks, notes, grid, found)
    clock = cut_silences(line, grid, found)
    score = to_score(line, clock, found)
    if found.end_seconds > LONGEST_PIECE:
        hours = found.end_seconds / 3600
        raise UserError(f"{name} lasts {hours:,.0f} hours; pieces up to {LONGEST_PIECE / 3600:.0f} hours are read")
    return score, make_report(found, notes, score)


def read_texts(data: bytes, name: str) -> list[str]:
    """Decode the text meta events: UTF-8 where it is, else Latin-1, which accepts any byte."""
    return [_decode(body) for t in open_container(data, name).tracks for _, kind, body in t.metas if kind < 0x10]


def _decode(body: bytes) -> str:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        return body.decode("latin-1")
