"""The same bytes read by us, mido and symusic: equal notes, tick for tick."""

from __future__ import annotations

import io
from collections import defaultdict

import mido
import symusic
from hypothesis import given, settings
from hypothesis import strategies as st

from music_transformer.midi import read_midi

Row = tuple[float, int, float, int]

EVENTS = st.lists(
    st.tuples(st.sampled_from([0, 1, 5, 96, 200]), st.integers(40, 44), st.integers(0, 127), st.booleans()), max_size=60
)


def file_of(tracks: list, beats: list[int]) -> bytes:
    """A type 1 file in which every note is released in the end and none has no length."""
    file = mido.MidiFile(type=1, ticks_per_beat=96)
    file.tracks.append(mido.MidiTrack(mido.MetaMessage("set_tempo", tempo=b, time=50) for b in beats))
    for channel, events in enumerate(tracks):
        track = mido.MidiTrack()
        sounding: dict[int, int] = defaultdict(int)
        fresh: set[int] = set()
        for wait, pitch, velocity, strike in events:
            if wait:
                fresh.clear()
            if strike and velocity:
                sounding[pitch] += 1
                fresh.add(pitch)
                track.append(mido.Message("note_on", channel=channel, note=pitch, velocity=velocity, time=wait))
            elif sounding[pitch] and pitch not in fresh:
                sounding[pitch] -= 1
                track.append(mido.Message("note_off", channel=channel, note=pitch, time=wait))
            else:
                track.append(mido.Message("pitchwheel", channel=channel, pitch=velocity, time=wait))
        track += [
            mido.Message("note_off", channel=channel, note=p, time=7) for p, n in sounding.items() for _ in range(n)
        ]
        file.tracks.append(track)
    out = io.BytesIO()
    file.save(file=out)
    return out.getvalue()


def by_mido(data: bytes) -> list[Row]:
    """mido's own playback clock, paired first in, first out."""
    waiting: dict[tuple[int, int], list[tuple[float, int]]] = defaultdict(list)
    time, rows = 0.0, []
    for m in mido.MidiFile(file=io.BytesIO(data)):
        time += m.time
        if m.type == "note_on" and m.velocity:
            waiting[m.channel, m.note].append((time, m.velocity))
        elif m.type in ("note_on", "note_off"):
            start, velocity = waiting[m.channel, m.note].pop(0)
            rows.append((start, m.note, time, velocity))
    return rows


def by_symusic(data: bytes) -> list[Row]:
    tracks = symusic.Score.from_midi(data, ttype="second").tracks
    return [(n.start, n.pitch, n.start + n.duration, n.velocity) for t in tracks for n in t.notes]


@settings(max_examples=60, deadline=None)
@given(st.lists(EVENTS, min_size=1, max_size=3), st.lists(st.integers(200_000, 900_000), max_size=3))
def test_notes_onsets_lengths_and_velocities_are_theirs(tracks, beats):
    data = file_of([*tracks, [(0, 40, 64, True)]], beats)
    mine = [(n.start, n.pitch, n.end, n.velocity) for n in read_midi(data)[0].notes]
    tick = max([500_000, *beats]) / 96e6
    for theirs in (by_mido(data), by_symusic(data)):
        assert len(mine) == len(theirs)
        key = lambda row: (row[1], row[3], round(row[0] / tick * 10), row[2])  # noqa: E731
        for a, b in zip(sorted(mine, key=key), sorted(theirs, key=key), strict=True):
            assert a[1] == b[1] and a[3] == b[3]
            assert abs(a[0] - b[0]) < tick and abs(a[2] - b[2]) < tick
