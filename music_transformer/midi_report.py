"""ImportReport: what an import found, kept, repaired and lost, in sentences for a musician."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from music_transformer.midi_clock import LAST_TICK, Clock, Grid
from music_transformer.midi_container import Container
from music_transformer.midi_notes import Notes
from music_transformer.score import Score

_SHOWN = 5  # places named per kind of damage; the rest is counted


@dataclass(frozen=True, slots=True)
class ImportReport:
    """How an import went. ``lines`` are plain sentences; ``warnings`` those of them that tell of a repair or a loss.

    ``notes`` and ``end_seconds`` (the last note's end) count every note of the file; ``drums`` of them, those of
    channel 10, are not in the Score.
    """

    notes: int
    end_seconds: float
    lines: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    drums: int = 0

    def to_dict(self) -> dict[str, Any]:
        """As JSON types: notes, end_seconds, drums, report (all lines), warnings."""
        return {
            "notes": self.notes,
            "end_seconds": round(self.end_seconds, 3),
            "drums": self.drums,
            "report": list(self.lines),
            "warnings": list(self.warnings),
        }

    def summary(self) -> str:
        """One line: how much music was read, and how much of it needed attention."""
        text = f"{_count(self.notes, 'note')}, {clock_text(self.end_seconds)}"
        return f"{text}; {_count(len(self.warnings), 'remark')}: {' '.join(self.warnings)}" if self.warnings else text


@dataclass(slots=True)
class Findings:
    """What the steps of an import noticed, before it is put into words."""

    box: Container
    grid: Grid
    sequences: int = 0
    tempos_given: int = 0
    tempos_elsewhere: int = 0
    bad_metas: int = 0
    cuts: list[tuple[float, float]] = field(default_factory=list)
    breaks: list[str] = field(default_factory=list)
    jumps: list[str] = field(default_factory=list)
    pedal_left_down: bool = False
    pedals: int = 0
    drums: int = 0
    channels: int = 0
    end_seconds: float = 0.0

    def place_damage(self, clock: Clock) -> None:
        """Put into words where, in seconds, tracks jump or break off."""
        for i, (track, start) in enumerate(zip(self.box.tracks, self.box.starts, strict=True), 1):
            last = track.note_ticks[-1] if len(track.note_ticks) else -1
            jumps = [tick for tick in track.jumps if tick < last]
            if jumps:
                at = _place(clock, jumps[0]) if len(self.jumps) < _SHOWN else ""
                waits = _count(len(jumps), "corrupt wait")
                self.jumps.append(
                    f"{waits} dropped in track {i} from {at} on; the notes that follow there may be wrong"
                )
            if track.broken:
                at = _place(clock, track.end_tick) if len(self.breaks) < _SHOWN else ""
                byte = start + track.size
                self.breaks.append(f"track {i} cannot be read beyond {at} (byte {byte:,}); what follows in it is lost")

    def contents(self) -> str:
        """What there is in a file without notes, for the message that refuses it."""
        parts = [_count(len(self.box.tracks), "track")]
        for i, (track, start) in enumerate(zip(self.box.tracks, self.box.starts, strict=True), 1):
            if track.broken:
                parts.append(f"track {i} cannot be read beyond byte {start + track.size:,}")
        if self.box.alien_chunks:
            parts.append(_count(self.box.alien_chunks, "chunk") + " of another kind")
        return ", ".join(parts[:_SHOWN])


def make_report(found: Findings, notes: Notes, score: Score) -> ImportReport:
    """Put the findings into sentences."""
    warnings = (*_header(found), *_repairs(found, notes), *_losses(found))
    lines = (*_music(found, notes, score), *_left_out(found, len(notes.starts)), *warnings)
    return ImportReport(len(notes.starts), found.end_seconds, lines, warnings, found.drums)


def clock_text(seconds: float) -> str:
    """Seconds -> ``m:ss`` or ``h:mm:ss``."""
    whole = int(seconds + 0.5)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours:,}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def _place(clock: Clock, tick: int) -> str:
    return clock_text(float(clock.seconds([min(tick, LAST_TICK)])[0]))


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def _music(found: Findings, notes: Notes, score: Score) -> Iterator[str]:
    sounding = sum(len(t.note_ticks) > 0 for t in found.box.tracks)
    text = f"{_count(len(notes.starts), 'note')} in {clock_text(found.end_seconds)}"
    if sounding > 1 or found.channels > 1:
        text += f", {_count(sounding, 'track')} on {_count(found.channels, 'channel')} merged into one piano part"
    yield text + "."
    yield _tempo(found, score)
    if found.tempos_elsewhere:
        yield f"{_count(found.tempos_elsewhere, 'tempo event')} outside the first track obeyed."
    if found.pedals:
        yield f"Sustain pedal kept: pressed {_count(found.pedals, 'time')}."
    if found.sequences > 1:
        yield f"The file holds {found.sequences} independent sequences (type 2); they follow one another."
    elif found.sequences:
        yield "A type 2 file with a single sequence."


def _tempo(found: Findings, score: Score) -> str:
    if found.grid.frame_rate:
        return (
            f"Times are counted in film frames ({found.grid.frame_rate} a second), not in beats; they are kept exactly."
        )
    if not found.tempos_given:
        return "No tempo is given; 120 beats a minute assumed."
    speeds = [t.bpm for t in score.tempos]
    if len(speeds) == 1:
        return f"Tempo {speeds[0]:.4g} beats a minute."
    return f"Tempo map kept: {len(speeds):,} tempos from {min(speeds):.4g} to {max(speeds):.4g} beats a minute."


def _left_out(found: Findings, notes: int) -> Iterator[str]:
    if found.drums == notes:
        yield f"All {_count(found.drums, 'note')} are drums (channel 10): nothing is left for the piano."
    elif found.drums:
        yield f"{_count(found.drums, 'drum note')} (channel 10) left out."
    bends, soft = sum(t.bends for t in found.box.tracks), sum(t.soft for t in found.box.tracks)
    if bends:
        yield f"{_count(bends, 'pitch bend')} ignored: a piano cannot bend."
    if soft:
        yield f"{_count(soft, 'soft or sostenuto pedal event')} ignored."


def _header(found: Findings) -> Iterator[str]:
    box = found.box
    if box.riff:
        yield "Unwrapped from a RIFF container (.rmi)."
    elif box.junk_before:
        yield f"{_count(box.junk_before, 'byte')} of something else before the MIDI header skipped."
    if box.text_mode:
        yield "A transfer in text mode had added bytes to the file; they were taken out again."
    if box.kind > 2:
        yield f"The header names the unknown type {box.kind}; read as type 1."
    if box.header_cut:
        yield "The header is cut short; the missing numbers were assumed."
    if box.declared != len(box.tracks):
        yield f"The header announces {_count(box.declared, 'track')}, the file holds {len(box.tracks):,}; all are read."
    if found.grid.assumed:
        yield f"The header gives no ticks per beat; {found.grid.ticks_per_beat} assumed, so the speed is a guess."
    if found.grid.frame_rate not in ("", "24", "25", "29.97", "30"):
        yield f"{found.grid.frame_rate} frames a second is no film format; taken at its word."


def _repairs(found: Findings, notes: Notes) -> Iterator[str]:
    box = found.box
    unclosed = sum(not t.closed and not t.broken for t in box.tracks)
    rows = (
        (box.wrong_lengths, "track", "whose stated length was wrong: its real end was found"),
        (unclosed, "track", "without an end mark closed"),
        (box.alien_chunks, "chunk", "of another kind skipped"),
        (box.junk_between + box.junk_after, "byte", "outside all tracks skipped"),
        (sum(t.clipped for t in box.tracks), "event", "with an impossible value: cut to 127"),
        (sum(t.stray for t in box.tracks), "stray system message", "skipped"),
        (found.bad_metas, "malformed tempo, time or key signature", "ignored"),
        (notes.hanging, "note", "never released: ended where the key is struck again or the music stops"),
        (notes.orphans, "release", "of keys that were not down ignored"),
        (notes.instant, "note", "of no length made as short as can be"),
    )
    for number, thing, what in rows:
        if number:
            yield f"{_count(number, thing)} {what}."
    if found.pedal_left_down:
        yield "The sustain pedal is never released; it goes up with the last note."
    yield from _some([f"a silence of {clock_text(s)} at {clock_text(t)} cut to 2 seconds" for t, s in found.cuts])
    yield from _some(found.jumps)


def _losses(found: Findings) -> Iterator[str]:
    if found.box.missing:
        verb = "is" if found.box.missing == 1 else "are"
        yield f"The file is cut short: {_count(found.box.missing, 'byte')} {verb} missing at its end."
    yield from _some(found.breaks)


def _some(sentences: list[str]) -> Iterator[str]:
    for sentence in sentences[:_SHOWN]:
        yield sentence[0].upper() + sentence[1:] + "."
    if len(sentences) > _SHOWN:
        yield f"And {len(sentences) - _SHOWN:,} more such places."
