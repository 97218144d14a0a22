"""Note-ons and note-offs -> notes in ticks; what never ends is ended."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, field

from gpt_core.errors import UserError
from music_transformer.midi_track import Track

MOST_NOTES = 500_000
LONGEST_RING = 8  # beats that a note without note-off lasts at most


@dataclass(slots=True)
class Notes:
    """Notes in ticks as parallel lists, ``keys`` being ``channel << 7 | pitch``, and what had to be repaired."""

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
    notes = Notes()
    pedals = 0
    last = max((t.note_ticks[-1] for t in tracks if t.note_ticks), default=0)
    for track in tracks:
        first = len(notes.starts)
        stuck = _pair(track, notes)
        if stuck:
            _end_stuck(track, notes, first, stuck, last, ticks_per_beat)
        pedals += len(track.pedals)
        if len(notes.starts) > MOST_NOTES or pedals > MOST_NOTES:
            thing = "notes" if len(notes.starts) > MOST_NOTES else "pedal events"
            raise UserError(f"{name} has more than {MOST_NOTES:,} {thing}; split it and try a part")
    return notes


def _pair(track: Track, notes: Notes) -> set[int]:
    """Append the track's notes; return the keys that still sound at its end (their ``ends`` stay at -1)."""
    starts, ends, keys, velocities = notes.starts, notes.ends, notes.keys, notes.velocities
    waiting: dict[int, deque[int]] = {}
    for tick, code in zip(track.note_ticks, track.notes, strict=True):
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


def _end_stuck(track: Track, notes: Notes, first: int, stuck: set[int], last: int, ticks_per_beat: int) -> None:
    """Pair the stuck keys anew: a note ends at its key's next event, whichever that is."""
    sounding: dict[int, int] = {}
    i = first
    for tick, code in zip(track.note_ticks, track.notes, strict=True):
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
