"""The bytes of one MIDI track -> flat lists of what happens in it, whatever the bytes are."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

LONGEST_DELTA = 0x0FFFFFFF  # four 7-bit groups: all the MIDI file format allows
LONGEST_WAIT = 4800  # beats; a single wait beyond 40 minutes at 120 a minute is a corrupt number
DOUBTFUL_WAIT = 16  # beats; once a track held such a number, its thread is probably lost
_DATA_BYTES = {0xF1: 1, 0xF2: 2, 0xF3: 1}  # system common messages; all other F4-FE carry none
KEPT_META = frozenset({*range(0x01, 0x10), 0x51, 0x58, 0x59})


Ints = npt.NDArray[np.int64]


def _none() -> Ints:
    return np.empty(0, np.int64)


@dataclass(slots=True)
class Track:
    """What one track holds. Times are ticks from its start; parallel arrays, because a piece has 100,000 events.

    ``notes[i]`` at ``note_ticks[i]`` is ``channel << 15 | pitch << 8 | velocity``; velocity 0 is a note-off.
    ``pedals[i]`` at ``pedal_ticks[i]`` is ``channel << 1 | down``. ``metas`` are (tick, type, bytes).
    """

    note_ticks: Ints = field(default_factory=_none)
    notes: Ints = field(default_factory=_none)
    pedal_ticks: Ints = field(default_factory=_none)
    pedals: Ints = field(default_factory=_none)
    silences: list[tuple[int, int]] = field(default_factory=list)
    metas: list[tuple[int, int, bytes]] = field(default_factory=list)
    size: int = 0
    end_tick: int = 0
    longest: int = LONGEST_DELTA
    doubtful: int = LONGEST_DELTA
    closed: bool = False
    broken: str = ""
    jumps: list[int] = field(default_factory=list)
    clipped: int = 0
    stray: int = 0
    bends: int = 0
    soft: int = 0

    @property
    def sound(self) -> bool:
        """Whether nothing but perhaps too early an end of the bytes suggests that the thread was lost."""
        return not self.jumps and not self.stray and not self.clipped and self.broken != "no status"


def scan_track(chunk: bytes, ticks_per_beat: int = 480) -> Track:
    """Read one track's bytes up to its end mark, the end of the bytes, or the first place that cannot be read.

    ``size`` is how many bytes were used, ``closed`` whether the end mark was met, ``broken`` why reading stopped.
    Data bytes above 127 are clipped (``clipped``). A wait of more than four bytes or 4800 beats is corrupt and
    counts as 0, and so does from then on any of more than 16 beats (``jumps`` lists where). Running status survives
    meta and system events, because writers rely on it; stray system bytes are skipped. ``bends`` and ``soft`` (soft
    and sostenuto pedal) are counts.
    """
    track = Track(longest=LONGEST_WAIT * ticks_per_beat, doubtful=DOUBTFUL_WAIT * ticks_per_beat)
    lists: tuple[list[int], ...] = ([], [], [], [])
    try:
        _scan(chunk, track, lists)
    except IndexError:
        track.broken = "cut"
        track.size = len(chunk)
    track.note_ticks, track.notes, track.pedal_ticks, track.pedals = (np.asarray(each, np.int64) for each in lists)
    return track


def _scan(chunk: bytes, track: Track, lists: tuple[list[int], ...]) -> None:
    # One loop without calls or objects per event; most tracks go by midi_scan.py and never come here.
    add_tick, add_note, add_pedal_tick, add_pedal = (each.append for each in lists)
    pos, stop = 0, len(chunk)
    tick = running = 0
    longest = track.longest
    while pos < stop:
        delta = chunk[pos]
        pos += 1
        if delta > 127:
            byte = chunk[pos]
            pos += 1
            delta = (delta & 127) << 7 | byte & 127
            if byte > 127 or delta > longest:
                delta, pos = _long_delta(chunk, pos, delta, byte, track)
                longest = track.longest
            tick += delta
            track.end_tick = tick
        elif delta:
            tick += delta
            track.end_tick = tick
        status = chunk[pos]
        if status > 127:
            pos += 1
            if status < 0xF0:
                running = status
        elif running:
            status = running
        else:
            track.broken, track.size = "no status", pos
            return
        if status < 0xA0:
            pitch, velocity = chunk[pos], chunk[pos + 1]
            pos += 2
            if pitch > 127 or velocity > 127:
                track.clipped += 1
                pitch, velocity = min(pitch, 127), min(velocity, 127)
            add_tick(tick)
            add_note((status & 15) << 15 | pitch << 8 | (velocity if status > 143 else 0))
        elif status < 0xC0:
            number, value = chunk[pos], chunk[pos + 1]
            pos += 2
            if number > 127 or value > 127:
                track.clipped += 1
            elif status > 175 and (number == 64 or number == 121):
                add_pedal_tick(tick)
                add_pedal((status & 15) << 1 | (number == 64 and value > 63))
            elif status > 175 and (number == 66 or number == 67):
                track.soft += value > 63
            elif status > 175 and (number == 120 or number == 123):
                track.silences.append((tick, status & 15))
        elif status < 0xF0:
            pos = _unheard(chunk, pos, status, track)
        else:
            pos = _system(chunk, pos, status, tick, track)
            if track.closed or track.broken:
                break
    track.size = pos


def _unheard(chunk: bytes, pos: int, status: int, track: Track) -> int:
    """Pass over a program change, channel pressure or pitch bend; returns where it ends."""
    bend = status >= 0xE0
    track.bends += bend
    track.clipped += chunk[pos] > 127 or (bend and chunk[pos + 1] > 127)
    return pos + 1 + bend


def _long_delta(chunk: bytes, pos: int, delta: int, byte: int, track: Track) -> tuple[int, int]:
    """Go on from the first two groups of a delta time; the value stays small however long the bytes run."""
    groups = 2
    while byte > 127:
        byte = chunk[pos]
        pos += 1
        groups += 1
        if groups <= 4:
            delta = delta << 7 | byte & 127
    if groups > 4 or delta > track.longest:
        track.jumps.append(track.end_tick)
        track.longest = min(track.longest, track.doubtful)
        delta = 0
    return delta, pos


def _system(chunk: bytes, pos: int, status: int, tick: int, track: Track) -> int:
    if status == 0xFF:
        kind = chunk[pos]
        length, pos = read_length(chunk, pos + 1)
        if kind == 0x2F:
            track.closed = True
            return min(pos + length, len(chunk))
        if pos + length > len(chunk):
            track.broken = "overrun"
            return len(chunk)
        if kind in KEPT_META:
            track.metas.append((tick, kind, chunk[pos : pos + length]))
        return pos + length
    if status == 0xF0 or status == 0xF7:
        length, pos = read_length(chunk, pos)
        if pos + length > len(chunk):
            track.broken = "overrun"
            return len(chunk)
        return pos + length
    track.stray += 1
    return pos + _DATA_BYTES.get(status, 0)


def read_length(chunk: bytes, pos: int) -> tuple[int, int]:
    """Return the variable-length number at ``pos`` and where it ends; it stays small however long the bytes run."""
    value = 0
    while True:
        byte = chunk[pos]
        pos += 1
        value = min(value << 7 | byte & 127, LONGEST_DELTA)
        if byte < 128:
            return value, pos
