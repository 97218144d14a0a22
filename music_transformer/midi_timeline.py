"""Scanned tracks -> one timeline in ticks -> notes and a Score in seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from music_transformer.midi_clock import DEFAULT_BEAT, LAST_TICK, Clock, Grid
from music_transformer.midi_notes import Notes
from music_transformer.midi_report import Findings
from music_transformer.midi_track import Track
from music_transformer.score import Columns, PedalColumns, Score, Tempo, TimeSignature

DRUM_CHANNEL = 9
LONGEST_SILENCE = 300.0  # seconds; real pieces rest for half a minute, corrupt ones for years
SHORT_SILENCE = 2.0  # seconds that are left of a longer one
LONGEST_RELEASE = 30.0  # seconds the pedal may outlast the last note

Ticks = npt.NDArray[np.int64]
T = TypeVar("T")


@dataclass(slots=True)
class Timeline:
    """A whole file on one line of ticks, tracks merged. ``pedals`` are (tick, ``channel << 1 | down``)."""

    notes: Notes
    starts: Ticks
    ends: Ticks
    pedals: list[tuple[int, int]]
    tempos: list[tuple[int, int]]
    signatures: list[tuple[int, tuple[int, int]]]


def in_a_row(tracks: list[Track], ticks_per_beat: int) -> int:
    """Lay the independent sequences of a type 2 file one after the other, each from a beat on; say how many sound."""
    offset = 0
    for track in tracks:
        _delay(track, offset)
        if len(track.note_ticks):
            last = int(track.note_ticks[-1])
            channels = np.unique(track.pedals >> 1)
            track.pedal_ticks = np.append(track.pedal_ticks, np.full(len(channels), last))
            track.pedals = np.append(track.pedals, channels << 1)
            offset = -(-last // ticks_per_beat) * ticks_per_beat
    return sum(len(t.note_ticks) > 0 for t in tracks)


def _delay(track: Track, offset: int) -> None:
    if not offset:
        return
    track.note_ticks = track.note_ticks + offset
    track.pedal_ticks = track.pedal_ticks + offset
    track.jumps = [t + offset for t in track.jumps]
    track.silences = [(t + offset, channel) for t, channel in track.silences]
    track.metas = [(t + offset, kind, body) for t, kind, body in track.metas]
    track.metas.insert(0, (offset, 0x51, DEFAULT_BEAT.to_bytes(3, "big")))
    track.end_tick += offset


def merge(tracks: list[Track], notes: Notes, grid: Grid, found: Findings) -> Timeline:
    """Put all tracks on one line; malformed tempo and time-signature events are counted and left out."""
    starts = np.minimum(notes.starts, LAST_TICK)
    ends = np.maximum(np.minimum(notes.ends, LAST_TICK), starts + 1)
    tempos = [(0, grid.fixed_beat)] if grid.fixed_beat else _tempos(tracks, found)
    return Timeline(notes, starts, ends, _pedal_moves(tracks), tempos, _signatures(tracks, found))


def _pedal_moves(tracks: list[Track]) -> list[tuple[int, int]]:
    """All tracks' pedal events in order, without those that find the pedal of their channel as they leave it."""
    if not any(len(t.pedals) for t in tracks):
        return []
    ticks = np.minimum(np.concatenate([t.pedal_ticks for t in tracks]), LAST_TICK)
    codes = np.concatenate([t.pedals for t in tracks])
    order = np.argsort(ticks, kind="stable")
    order = order[np.argsort((codes[order] >> 1).astype(np.uint8), kind="stable")]  # channel by channel
    moves = order[np.diff(codes[order], prepend=-1) != 0]
    moves = moves[np.argsort(ticks[moves], kind="stable")]
    return list(zip(ticks[moves].tolist(), codes[moves].tolist(), strict=True))


def _ordered(events: list[tuple[int, T]]) -> list[tuple[int, T]]:
    return sorted(((min(tick, LAST_TICK), what) for tick, what in events), key=lambda e: e[0])


def _tempos(tracks: list[Track], found: Findings) -> list[tuple[int, int]]:
    tempos = []
    for i, track in enumerate(tracks):
        for tick, kind, body in track.metas:
            if kind == 0x51:
                beat = int.from_bytes(body[:3], "big") if len(body) >= 3 else 0
                if beat:
                    tempos.append((tick, beat))
                    found.tempos_elsewhere += i > 0
                else:
                    found.bad_metas += 1
    found.tempos_given = len(tempos)
    return _ordered(tempos)


def _signatures(tracks: list[Track], found: Findings) -> list[tuple[int, tuple[int, int]]]:
    signatures = []
    for track in tracks:
        for tick, kind, body in track.metas:
            if kind == 0x58:
                if len(body) >= 2 and body[0] and body[1] <= 7:
                    signatures.append((tick, (body[0], 1 << body[1])))
                else:
                    found.bad_metas += 1
            elif kind == 0x59:
                found.bad_metas += len(body) < 2 or not (body[0] <= 7 or body[0] >= 249) or body[1] > 1
    return _ordered(signatures)


def cut_silences(line: Timeline, grid: Grid, found: Findings) -> Clock:
    """Shorten silences of more than five minutes to two seconds, on the timeline; return its clock."""
    clock = Clock(grid.ticks_per_beat, line.tempos)
    edges = np.sort(np.concatenate(([0], line.starts, line.ends)))
    seconds = clock.seconds(edges)
    rests = np.diff(seconds)
    long = np.flatnonzero(rests > LONGEST_SILENCE)
    found.place_damage(clock)
    if not long.size:
        return clock
    found.cuts = list(zip(seconds[long].tolist(), rests[long].tolist(), strict=True))
    begins, stops = clock.nearest_ticks(seconds[long] + SHORT_SILENCE), edges[long + 1]
    begins = np.maximum(begins, edges[long] + 1)  # a tick at least: no note may shrink to nothing
    line.starts, line.ends = _closed_up(line.starts, begins, stops), _closed_up(line.ends, begins, stops)
    line.pedals = _closed_up_events(line.pedals, begins, stops)
    line.tempos = _closed_up_events(line.tempos, begins, stops)
    line.signatures = _closed_up_events(line.signatures, begins, stops)
    return Clock(grid.ticks_per_beat, line.tempos)


def _closed_up(ticks: Ticks, begins: Ticks, stops: Ticks) -> Ticks:
    """Where ticks lie once each stretch ``begins[i] .. stops[i]`` is gone."""
    gone = np.concatenate(([0], np.cumsum(stops - begins)))
    i = np.searchsorted(stops, ticks, side="right")
    roof = np.append(begins, np.iinfo(np.int64).max)
    return np.minimum(ticks, roof[i]) - gone[i]


def _closed_up_events(events: list[tuple[int, T]], begins: Ticks, stops: Ticks) -> list[tuple[int, T]]:
    ticks = _closed_up(np.asarray([e[0] for e in events], dtype=np.int64), begins, stops)
    return [(tick, what) for tick, (_, what) in zip(ticks.tolist(), events, strict=True)]


def to_columns(line: Timeline, clock: Clock, found: Findings) -> tuple[Columns, PedalColumns, Score]:
    """The timeline in seconds, drums left out: notes and pedals, in a Score's order, and a Score of all the rest."""
    keys = line.notes.keys
    pitch, channel = keys & 127, keys >> 7
    start, end = clock.seconds(line.starts), clock.seconds(line.ends)
    velocity = line.notes.velocities
    order = _in_order(start, (velocity, channel, end, pitch))
    order = order[channel[order] != DRUM_CHANNEL]
    notes = Columns(*(c[order] for c in (pitch, start, end, velocity, channel)))
    found.end_seconds = float(end.max())
    found.drums = len(keys) - len(order)
    found.channels = int(np.count_nonzero(np.bincount(channel)))
    pedals = _pedals(line.pedals, clock, int(line.ends[order].max()) if len(order) else 0, found)
    found.pedals = len(pedals.start)
    last = max(found.end_seconds, float(pedals.end.max(initial=0.0)))
    tempos, signatures = _tempo_map(clock, last), _signature_map(line, clock, last)
    return notes, pedals, Score((), (), tempos, signatures, clock.ticks_per_beat)


def _in_order(start: np.ndarray, others: tuple[np.ndarray, ...]) -> Ticks:
    """As lexsort would; but only what starts at one time is sorted by the other keys, the last of them first."""
    order = np.argsort(start, kind="stable")
    same = np.diff(start[order]) == 0
    tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
    among = order[tied]
    order[tied] = among[np.lexsort((*(k[among] for k in others), start[among]))]
    return order


def _seconds(clock: Clock, events: Sequence[tuple[Any, ...]]) -> list[float]:
    return clock.seconds([e[0] for e in events]).tolist() if events else []


def _pedals(moves: list[tuple[int, int]], clock: Clock, last: int, found: Findings) -> PedalColumns:
    """Pair pedal-downs with pedal-ups per channel; the pedal goes up with the last note or soon after."""
    latest = _last_tick_before(clock, float(clock.seconds([last])[0]) + LONGEST_RELEASE)
    down: dict[int, int] = {}
    spans = []
    for tick, code in moves:
        channel = code >> 1
        if code & 1:
            down.setdefault(channel, tick)
        elif channel in down:
            spans.append((down.pop(channel), min(tick, latest), channel))
    found.pedal_left_down = any(since < last and channel != DRUM_CHANNEL for channel, since in down.items())
    spans += [(since, last, channel) for channel, since in down.items()]
    kept = sorted((s for s in spans if s[0] < s[1] and s[2] != DRUM_CHANNEL), key=lambda s: (s[0], s[2]))
    starts, ends, channels = np.asarray(kept, np.int64).reshape(-1, 3).T
    return PedalColumns(clock.seconds(starts), clock.seconds(ends), channels)


def _last_tick_before(clock: Clock, seconds: float) -> int:
    """Not the nearest tick: on the finer grid that is written, it would be another moment."""
    tick = int(clock.nearest_ticks([seconds])[0])
    return tick - 1 if clock.seconds([tick])[0] > seconds else tick


def _tempo_map(clock: Clock, last: float) -> tuple[Tempo, ...]:
    times = clock.seconds(clock.ticks).tolist()
    return tuple(Tempo(t, 60e6 / beat) for t, beat in zip(times, clock.beats, strict=True) if t <= last)


def _signature_map(line: Timeline, clock: Clock, last: float) -> tuple[TimeSignature, ...]:
    changes: list[tuple[int, tuple[int, int]]] = []
    for tick, signature in dict(line.signatures).items():
        if not changes or changes[-1][1] != signature:
            changes.append((tick, signature))
    times = _seconds(clock, changes)
    return tuple(TimeSignature(t, n, d) for t, (_, (n, d)) in zip(times, changes, strict=True) if t <= last)
