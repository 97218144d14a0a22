"""Score -> the bytes of a type 1 MIDI file, the same bytes for the same Score."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from music_transformer.midi_clock import DEFAULT_BEAT, LONGEST_BEAT, Clock
from music_transformer.score import Note, Pedal, Score

DRUM_CHANNEL = 9
PLAIN_TICKS = 500  # a tick is 1 ms at 120 a minute, so that the 10 ms grid is met exactly
LEAST_TICKS = 480
MOST_TICKS = 0x7FFF
COARSEST_TICK = 1250  # microseconds
LONGEST_WAIT = 4000  # beats between two events; some readers take longer ones for damage
MOST_VOICES = 32  # tracks for one channel

_OFF, _UP, _DOWN, _ON = range(4)  # the order of events on one tick
Event = tuple[int, int, bytes]


def to_bytes(score: Score, texts: Iterable[str] = ()) -> bytes:
    """Write tempo and time-signature maps and texts to track 0, each channel's notes and pedal to tracks of its own."""
    clock = _make_clock(score)
    tracks = [_conductor(score, clock, texts)]
    notes = _by_channel(score.notes)
    pedals = _by_channel(score.pedals)
    for channel in sorted({*notes, *pedals}):
        voices = _voices(notes.get(channel, []), clock, channel)
        voices[0] += _pedal_events(pedals.get(channel, []), clock, channel)
        tracks += [[(0, -1, bytes((0xC0 | channel, 0))), *voice] for voice in voices]
    header = b"MThd" + _u32(6) + b"\x00\x01" + _u16(len(tracks)) + _u16(clock.ticks_per_beat)
    return header + b"".join(_chunk(t, LONGEST_WAIT * clock.ticks_per_beat) for t in tracks)


def _u16(value: int) -> bytes:
    return value.to_bytes(2, "big")


def _u32(value: int) -> bytes:
    return value.to_bytes(4, "big")


def _make_clock(score: Score) -> Clock:
    beats = [(t.time, min(max(round(60e6 / t.bpm), 1), LONGEST_BEAT)) for t in score.tempos if t.bpm > 0]
    slowest = max([b for _, b in beats] + [0 if beats and beats[0][0] <= 0 else DEFAULT_BEAT])
    least = max(LEAST_TICKS, -(-slowest // COARSEST_TICK))
    unit = score.ticks_per_beat or PLAIN_TICKS
    ticks = unit * -(-least // unit)
    clock = Clock(ticks if ticks <= MOST_TICKS else MOST_TICKS)
    for time, beat in beats:
        clock.add_at(time, beat)
    return clock


def _conductor(score: Score, clock: Clock, texts: Iterable[str]) -> list[Event]:
    events = [(0, -2, _meta(0x01, text.encode("utf-8", "replace"))) for text in texts]
    events += [(t, -1, _meta(0x51, b.to_bytes(3, "big"))) for t, b in zip(clock.ticks, clock.beats, strict=True)]
    for s in score.time_signatures:
        power = s.denominator.bit_length() - 1
        if 0 < s.numerator < 256 and s.denominator == 1 << power:
            tick = int(clock.nearest_ticks([s.time])[0])
            events.append((tick, 0, _meta(0x58, bytes((s.numerator, power, 24, 8)))))
    return events


def _by_channel(things: Iterable[Note] | Iterable[Pedal]) -> dict[int, list]:
    """Drums' channel would turn the piano into a drum kit, so what stands there goes to channel 0."""
    found: dict[int, list] = {}
    for thing in things:
        channel = thing.channel & 15
        found.setdefault(0 if channel == DRUM_CHANNEL else channel, []).append(thing)
    return found


def _voices(notes: Sequence[Note], clock: Clock, channel: int) -> list[list[Event]]:
    """Spread notes over as few tracks as let every note-off meet its own note-on, first in, first out."""
    ons = clock.nearest_ticks([n.start for n in notes]).tolist() if notes else []
    offs = clock.nearest_ticks([n.end for n in notes]).tolist() if notes else []
    voices: list[list[Event]] = [[]]
    busy: list[dict[int, int]] = [{}]
    for note, on, off in sorted(zip(notes, ons, offs, strict=True), key=lambda x: (x[1], x[0].pitch, x[2])):
        off = max(off, on + 1)
        i = next((i for i, b in enumerate(busy) if b.get(note.pitch, 0) <= off), len(busy))
        if i == MOST_VOICES:
            i -= 1
        elif i == len(busy):
            busy.append({})
            voices.append([])
        busy[i][note.pitch] = off
        voices[i].append((on, _ON, bytes((0x90 | channel, note.pitch, note.velocity))))
        voices[i].append((off, _OFF, bytes((0x80 | channel, note.pitch, 64))))
    return voices


def _pedal_events(pedals: Sequence[Pedal], clock: Clock, channel: int) -> list[Event]:
    events = []
    reach = -1
    downs = clock.nearest_ticks([p.start for p in pedals]).tolist() if pedals else []
    ups = clock.nearest_ticks([p.end for p in pedals]).tolist() if pedals else []
    for down, up in sorted(zip(downs, ups, strict=True)):
        down = max(down, reach)
        if up > down:
            events.append((down, _DOWN, bytes((0xB0 | channel, 64, 127))))
            events.append((up, _UP, bytes((0xB0 | channel, 64, 0))))
            reach = up
    return events


def _meta(kind: int, body: bytes) -> bytes:
    return bytes((0xFF, kind)) + _vlq(len(body)) + body


def _vlq(value: int) -> bytes:
    groups = [value & 127]
    while value := value >> 7:
        groups.append(value & 127 | 128)
    return bytes(reversed(groups))


def _chunk(events: list[Event], longest: int) -> bytes:
    events.sort(key=lambda e: e[:2])  # stable: equal places keep their order
    parts = []
    last = 0
    for tick, _, message in events:
        while tick - last > longest:
            parts.append(_vlq(longest) + _meta(0x01, b""))
            last += longest
        parts.append(_vlq(tick - last) + message)
        last = tick
    body = b"".join(parts) + b"\x00\xff\x2f\x00"
    return b"MTrk" + _u32(len(body)) + body
