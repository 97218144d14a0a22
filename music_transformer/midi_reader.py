"""MIDI bytes -> Score and ImportReport."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from gpt_core.errors import UserError
from music_transformer.midi_clock import Clock
from music_transformer.midi_container import Container, open_container
from music_transformer.midi_report import ImportReport
from music_transformer.midi_track import Track
from music_transformer.score import Note, Pedal, Score, Tempo, TimeSignature

DRUM_CHANNEL = 9


@dataclass(slots=True)
class Paired:
    """Notes in ticks, as parallel lists; ``keys`` are ``channel << 7 | pitch``."""

    starts: list[int]
    ends: list[int]
    keys: list[int]
    velocities: list[int]


def pair_notes(track: Track, notes: Paired) -> None:
    """Pair note-ons with note-offs first in, first out, and append them to ``notes``."""
    starts, ends, keys, velocities = notes.starts, notes.ends, notes.keys, notes.velocities
    waiting: dict[int, list[int]] = {}
    for tick, code in zip(track.note_ticks, track.notes, strict=True):
        key = code >> 8
        queue = waiting.get(key)
        if code & 127:
            if queue is None:
                queue = waiting[key] = []
            queue.append(len(starts))
            starts.append(tick)
            ends.append(-1)
            keys.append(key)
            velocities.append(code & 127)
        elif queue:
            i = queue.pop(0)
            ends[i] = tick if tick > starts[i] else tick + 1
    for queue in waiting.values():
        for i in queue:
            ends[i] = max(track.end_tick, starts[i] + 1)


def read(data: bytes, name: str) -> tuple[Score, ImportReport]:
    """Read the bytes of a MIDI file; ``name`` is for messages."""
    box = open_container(data, name)
    notes = Paired([], [], [], [])
    for track in box.tracks:
        pair_notes(track, notes)
    if not notes.starts:
        raise UserError(f"{name} has no notes")
    clock = Clock(box.division or 480, _tempo_events(box.tracks))
    return _assemble(box, notes, clock)


def _metas(tracks: Iterable[Track], kind: int, size: int) -> Iterator[tuple[int, bytes]]:
    found = [(tick, body) for t in tracks for tick, k, body in t.metas if k == kind and len(body) >= size]
    return iter(sorted(found, key=lambda f: f[0]))


def _tempo_events(tracks: Iterable[Track]) -> Iterator[tuple[int, int]]:
    for tick, body in _metas(tracks, 0x51, 3):
        beat = int.from_bytes(body[:3], "big")
        if beat:
            yield tick, beat


def _assemble(box: Container, notes: Paired, clock: Clock) -> tuple[Score, ImportReport]:
    keys = np.asarray(notes.keys)
    start, end = clock.seconds(notes.starts), clock.seconds(notes.ends)
    order = np.lexsort((keys >> 7, end, keys & 127, start))
    order = order[(keys >> 7)[order] != DRUM_CHANNEL]
    columns = (keys & 127, start, end, np.asarray(notes.velocities), keys >> 7)
    rows = zip(*(c[order].tolist() for c in columns), strict=True)
    score_notes = tuple(Note(*row) for row in rows)
    last = float(end.max())
    tempos = tuple(Tempo(s, 60e6 / b) for s, b in zip(clock.seconds(clock.ticks).tolist(), clock.beats, strict=True))
    score = Score(
        score_notes, _pedals(box.tracks, clock, last), tempos, _time_signatures(box.tracks, clock), clock.ticks_per_beat
    )
    return score, ImportReport(len(keys), last, (), int(len(keys) - len(order)))


def _pedals(tracks: Iterable[Track], clock: Clock, last: float) -> tuple[Pedal, ...]:
    moves = [m for t in tracks for m in zip(t.pedal_ticks, t.pedals, strict=True)]
    moves.sort(key=lambda m: m[0])
    times = clock.seconds([m[0] for m in moves]).tolist() if moves else []
    down: dict[int, float] = {}
    pedals = []
    for time, (_, code) in zip(times, moves, strict=True):
        channel = code >> 1
        if code & 1:
            down.setdefault(channel, time)
        elif channel in down:
            since = down.pop(channel)
            if time > since:
                pedals.append(Pedal(since, time, channel))
    pedals += [Pedal(since, last, channel) for channel, since in down.items() if since < last]
    pedals.sort(key=lambda p: (p.start, p.channel))
    return tuple(p for p in pedals if p.channel != DRUM_CHANNEL)


def _time_signatures(tracks: Iterable[Track], clock: Clock) -> tuple[TimeSignature, ...]:
    by_tick = {tick: (body[0], body[1]) for tick, body in _metas(tracks, 0x58, 2) if body[0] and body[1] <= 7}
    changes: list[tuple[int, tuple[int, int]]] = []
    for tick, signature in by_tick.items():
        if not changes or changes[-1][1] != signature:
            changes.append((tick, signature))
    times = clock.seconds([c[0] for c in changes]).tolist() if changes else []
    return tuple(TimeSignature(t, n, 1 << d) for t, (_, (n, d)) in zip(times, changes, strict=True))


def read_texts(data: bytes, name: str) -> list[str]:
    """Decode the text meta events: UTF-8 where it is, else Latin-1, which accepts any byte."""
    return [_decode(body) for t in open_container(data, name).tracks for _, kind, body in t.metas if kind < 0x10]


def _decode(body: bytes) -> str:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        return body.decode("latin-1")
