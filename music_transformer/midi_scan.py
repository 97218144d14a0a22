"""The same as ``scan_track`` for the tracks that almost all files consist of, many events at a time.

Where an event begins depends on all events before it. But how long an event would be can be said for every byte at once,
as if one began there, and following these hops, sixteen at a time, finds the true beginnings. All else is array arithmetic.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from music_transformer.midi_track import DOUBTFUL_WAIT, KEPT_META, LONGEST_WAIT, Ints, Track, read_length, scan_track

LEAST_BYTES = 1500  # a shorter track is read sooner one event after the other
_PATIENCE = 40  # events that are walked singly after a message of another kind
_FEW, _RARE = 500, 200  # other messages in a track: more than so many, and one in fewer bytes than this, go by the loop
_LEVELS = 4  # 2 to this power: events in a hop

Bytes = npt.NDArray[np.uint8]
_LATE, _OTHER = -2, -1  # kinds: an event after a long wait, a message of which nothing is kept
Special = tuple[int, int, int, bytes]  # index among the events, wait, kind (a meta event's, or one of these), body


def _hop_table(delta_bytes: int) -> Bytes:
    """Status byte, or first data byte under running status -> bytes of the whole event; 0 for system messages."""
    hops = np.zeros(256, np.uint8)
    hops[:128] = delta_bytes + 2
    hops[128:240] = delta_bytes + 3
    hops[0xC0:0xE0] = delta_bytes + 2
    return hops


_HOP1, _HOP2 = _hop_table(1), _hop_table(2)


def scan(chunk: bytes, ticks_per_beat: int = 480) -> Track:
    """Return what ``scan_track`` returns; damaged, tiny and unusual tracks are left to it."""
    if len(chunk) >= LEAST_BYTES:
        try:
            track = _scan_plain(chunk, LONGEST_WAIT * ticks_per_beat)
        except IndexError:
            track = None
        if track:
            track.longest, track.doubtful = LONGEST_WAIT * ticks_per_beat, DOUBTFUL_WAIT * ticks_per_beat
            return track
    return scan_track(chunk, ticks_per_beat)


def _scan_plain(chunk: bytes, longest: int) -> Track | None:
    raw = np.frombuffer(chunk + bytes(4), np.uint8)
    found = _find_events(chunk, _hops(raw))
    if found is None:
        return None
    at, specials, size = found
    special = np.zeros(len(at), bool)
    special[[s[0] for s in specials if s[2] != _LATE]] = True
    first, second = raw[at].astype(np.int64), raw[at + 1]
    long = first > 127
    delta = np.where(long, (first & 127) << 7 | second, first)
    delta[[s[0] for s in specials]] = [s[1] for s in specials]
    if delta.max() > longest:
        return None
    track = Track(closed=True, size=size)
    ticks = delta.cumsum()
    track.end_tick = int(ticks[-1])
    track.metas = [(int(ticks[i]), kind, body) for i, _, kind, body in specials if kind >= 0]
    return track if _sort_events(track, raw, at + 1 + long, ticks, special) else None


def _hops(raw: Bytes) -> Bytes:
    """For each byte how far the next event is if one begins here; 0 where that takes a closer look."""
    one, two = raw[1:-1], raw[2:]
    hops = np.where(raw[:-2] > 127, np.where(one > 127, 0, _HOP2[two]), _HOP1[one])
    return np.concatenate((hops.astype(np.uint8), np.zeros(8, np.uint8)))


def _find_events(chunk: bytes, hops: Bytes) -> tuple[Ints, list[Special], int] | None:
    """Where each event begins, its delta first, what else was met on the way, and how many bytes were used."""
    single = hops.tobytes()
    ladder = [np.arange(len(hops), dtype=np.int32) + hops]
    for _ in range(_LEVELS):
        ladder.append(ladder[-1][ladder[-1]])
    parts: list[Ints] = []
    specials: list[Special] = []
    count = pos = 0
    while True:
        near: list[int] = []
        while (hop := single[pos]) and len(near) < _PATIENCE:
            near.append(pos)
            pos += hop
        far, pos = _follow(ladder, pos)
        count += len(near) + len(far)
        parts += [np.asarray(near, np.int64), far]
        look = _closer_look(chunk, pos)
        if look is None:
            return None
        wait, kind, body, pos = look
        specials.append((count, wait, _OTHER if kind == 0x2F else kind, body))
        if len(specials) > _FEW and len(specials) * _RARE > pos:
            return None
        if kind == 0x2F:
            return np.append(np.concatenate(parts), pos - 1), specials, pos
        if kind != _LATE:
            parts.append(np.asarray([pos - 1]))
            count += 1
        elif not single[pos]:
            return None


def _follow(ladder: list[npt.NDArray[np.int32]], pos: int) -> tuple[Ints, int]:
    """The events from ``pos`` on up to the first place that has no hop, and that place."""
    long = ladder[-1].data
    marks = []
    while (after := long[pos]) != pos:
        marks.append(pos)
        pos = after
    at: Ints = np.asarray(marks, np.int64)
    for step in ladder[-2::-1]:
        at = np.stack((at, step[at].astype(np.int64)), -1).ravel()
    return at[: np.searchsorted(at, pos)], pos


def _closer_look(chunk: bytes, pos: int) -> tuple[int, int, bytes, int] | None:
    """What lies at ``pos``: its wait, kind, body and end; None for anything uncommon.

    An event that every track has, after a wait of three or four bytes: its end is the last byte of the wait, from where
    it looks like one without.
    """
    wait, groups = chunk[pos] & 127, 1
    while chunk[pos] > 127 and groups < 5:
        pos += 1
        groups += 1
        wait = wait << 7 | chunk[pos] & 127
    status = chunk[pos + 1]
    if status < 0xF0 and 2 < groups < 5:
        return wait, _LATE, b"", pos
    if groups > 4 or status not in (0xFF, 0xF0, 0xF7):
        return None
    kind = chunk[pos + 2] if status == 0xFF else _OTHER
    length, start = read_length(chunk, pos + 2 + (status == 0xFF))
    if kind == 0x2F:
        return wait, kind, b"", min(start + length, len(chunk))
    if start + length > len(chunk):
        return None
    kept = kind in KEPT_META
    return wait, kind if kept else _OTHER, chunk[start : start + length] if kept else b"", start + length


def _sort_events(track: Track, raw: Bytes, at: Ints, ticks: Ints, special: npt.NDArray[np.bool_]) -> bool:
    """Fill in notes, pedals and counts from the events whose status, or data under running status, lies ``at``."""
    own = (raw[at] > 127) & ~special
    latest = np.maximum.accumulate(np.where(own, np.arange(len(at)), -1))
    status = np.where(special, 0, raw[at[latest]])
    at = np.where(special, 0, at + own)
    one, two = raw[at], raw[at + 1]
    short = (status >= 0xC0) & (status < 0xE0)
    odd = (latest < 0) | (short & ~own) | (one > 127) | ((two > 127) & ~short)
    if (odd & ~special).any():
        return False
    channel, control = status & 15, (status >> 4) == 0xB
    note = (status >= 0x80) & (status < 0xA0)
    velocity = np.where(status > 0x8F, two, 0)[note]
    track.note_ticks, track.notes = ticks[note], _int(channel[note]) << 15 | _int(one[note]) << 8 | velocity
    pedal = control & ((one == 64) | (one == 121))
    down = (one[pedal] == 64) & (two[pedal] > 63)
    track.pedal_ticks, track.pedals = ticks[pedal], _int(channel[pedal]) << 1 | down
    hush = control & ((one == 120) | (one == 123))
    track.silences = list(zip(ticks[hush].tolist(), channel[hush].tolist(), strict=True))
    track.soft = int((control & ((one == 66) | (one == 67)) & (two > 63)).sum())
    track.bends = int((status >= 0xE0).sum())
    return True


def _int(values: np.ndarray) -> Ints:
    return values.astype(np.int64)
