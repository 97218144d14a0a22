"""Note-ons and note-offs -> notes in ticks; what never ends is ended."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, field

import numpy as np

from gpt_core.errors import UserError
from music_transformer.midi_track import Ints, Track

MOST_NOTES = 500_000
LONGEST_RING = 8  # beats that a note without note-off lasts at most


@dataclass(slots=True)
class Notes:
    """Notes in ticks as parallel arrays, ``keys`` being ``channel << 7 | pitch``, and what had to be repaired."""

    starts: Ints
    ends: Ints
    keys: Ints
    velocities: Ints
    orphans: int = 0
    hanging: int = 0
    instant: int = 0


@dataclass(slots=True)
class _Pairing:
    """The same while it grows, as lists."""

    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    keys: list[int] = field(default_factory=list)
    velocities: list[int] = field(default_factory=list)
    orphans: int = 0
    hanging: int = 0
    instant: int = 0


def pair_tracks(tracks: list[Track], ticks_per_beat: int, name: str) -> Notes:
    """Pair every track's note-ons and note-offs, first in, first out per channel and pitch.

    A key that lacks note-offs ends each of its notes where it is struck again, the last one at an all-notes-off or
    with the last event of the file, after 8 beats at the latest. A note of no length gets one tick.
    """
    parts: list[Notes] = []
    count = pedals = 0
    last = max((int(t.note_ticks[-1]) for t in tracks if len(t.note_ticks)), default=0)
    for track in tracks:
        if len(track.notes):
            parts.append(_pair_sound(track) or _pair_any(track, last, ticks_per_beat))
            count += len(parts[-1].starts)
        pedals += len(track.pedals)
        if count > MOST_NOTES or pedals > MOST_NOTES:
            thing = "notes" if count > MOST_NOTES else "pedal events"
            raise UserError(f"{name} has more than {MOST_NOTES:,} {thing}; split it and try a part")
    return _joined(parts)


def _joined(parts: list[Notes]) -> Notes:
    if len(parts) == 1:
        return parts[0]
    none = [np.empty(0, np.int64)]
    starts, ends, keys, velocities = (
        np.concatenate(none + [getattr(p, c) for p in parts]) for c in ("starts", "ends", "keys", "velocities")
    )
    orphans, hanging, instant = (sum(getattr(p, c) for p in parts) for c in ("orphans", "hanging", "instant"))
    return Notes(starts, ends, keys, velocities, orphans, hanging, instant)


def _pair_sound(track: Track) -> Notes | None:
    """All at once, where every note-off ends a note and every note has one; None otherwise."""
    key, velocity = track.notes >> 8, track.notes & 127
    strikes = velocity > 0
    order = np.argsort(key.astype(np.uint16), kind="stable")  # key by key, in time
    struck = strikes[order]
    down = np.cumsum(np.where(struck, 1, -1))
    last_of_key = np.append(np.flatnonzero(np.diff(key[order])), len(key) - 1)
    if down.min() < 0 or down[last_of_key].any():
        return None
    ends = np.empty_like(track.note_ticks)
    ends[order[struck]] = track.note_ticks[order[~struck]]  # a key's nth note-off ends its nth note
    starts, ends = track.note_ticks[strikes], ends[strikes]
    instant = ends == starts
    return Notes(starts, ends + instant, key[strikes], velocity[strikes], instant=int(instant.sum()))


def _pair_any(track: Track, last: int, ticks_per_beat: int) -> Notes:
    made = _Pairing()
    events = list(zip(track.note_ticks.tolist(), track.notes.tolist(), strict=True))
    stuck = _pair(events, made)
    if stuck:
        _end_stuck(track, events, made, stuck, last, ticks_per_beat)
    starts, ends = np.asarray(made.starts, np.int64), np.asarray(made.ends, np.int64)
    keys, velocities = np.asarray(made.keys, np.int64), np.asarray(made.velocities, np.int64)
    return Notes(starts, ends, keys, velocities, made.orphans, made.hanging, made.instant)


def _pair(events: list[tuple[int, int]], notes: _Pairing) -> set[int]:
    """Append the notes of (tick, code) events; return the keys that still sound at the end (their ``ends`` stay at -1)."""
    starts, ends, keys, velocities = notes.starts, notes.ends, notes.keys, notes.velocities
    waiting: dict[int, deque[int]] = {}
    for tick, code in events:
        key = code >> 8
        queue = waiting.get(key)
        if code & 127:
            if queue is None:
                queue = waiting[key] = deque()
            queue.append(len(starts))
            starts.append(tick)
            ends.append(-1)
            keys.append(key)
            velocities.append(code & 127)
        elif queue:
            i = queue.popleft()
            if tick == starts[i]:
                notes.instant += 1
                tick += 1
            ends[i] = tick
        else:
            notes.orphans += 1
    notes.hanging += sum(map(len, waiting.values()))
    return {key for key, queue in waiting.items() if queue}


def _end_stuck(
    track: Track, events: list[tuple[int, int]], notes: _Pairing, stuck: set[int], last: int, ticks_per_beat: int
) -> None:
    """Pair the stuck keys anew: a note ends at its key's next event, whichever that is."""
    sounding: dict[int, int] = {}
    i = 0
    for tick, code in events:
        key = code >> 8
        if key in stuck:
            if key in sounding:
                j = sounding.pop(key)
                notes.ends[j] = max(tick, notes.starts[j] + 1)
            if code & 127:
                sounding[key] = i
        i += bool(code & 127)
    hushes: dict[int, list[int]] = {}
    for tick, channel in track.silences:
        hushes.setdefault(channel, []).append(tick)
    for key, j in sounding.items():
        start = notes.starts[j]
        hush = hushes.get(key >> 7, [])
        after = bisect_right(hush, start)
        end = min(hush[after] if after < len(hush) else last, start + LONGEST_RING * ticks_per_beat)
        notes.ends[j] = end if end > start else start + max(1, ticks_per_beat // 4)
