"""Score -> waveform -> WAV file, through a soundfont, with the sustain pedal honoured."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import tempfile
import wave
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

import numpy as np

from gpt_core.errors import UserError
from music_transformer.midi import write_midi
from music_transformer.score import Score
from music_transformer.soundfonts import RenderSettings, SoundPlan, plan_sound

SAMPLE_RATE = 48_000  # Hz, of everything rendered here
PEAK = 0.89  # -1 dBFS: the loudest sample of a piece
_SILENCE = 10 ** (-60 / 20)  # below the peak by this factor, an ending counts as silent
_BLOCK = 1 << 20


def render(score: Score, settings: RenderSettings | None = None) -> np.ndarray:
    """Play a score into a float32 waveform [samples, 2] at ``SAMPLE_RATE``, scaled so that its peak is ``PEAK``.

    One gain for the whole piece, so loud and soft stay as far apart as the velocities say. The last notes ring on for
    up to ``settings.ring_seconds``. UserError where no renderer or soundfont is at hand, or the score has no notes.
    """
    samples, gain = _play(score, settings or RenderSettings())
    return samples.astype(np.float32) * np.float32(gain)


def render_wav(score: Score, path: str | Path, settings: RenderSettings | None = None) -> Path:
    """Play a score into a 16-bit stereo WAV file; the file appears only when it is complete. Returns its path."""
    path = Path(path)
    if path.suffix.lower() != ".wav":
        raise UserError(f"{path.name}: sound is written as WAV only; give the file a name that ends in .wav")
    samples, gain = _play(score, settings or RenderSettings())
    starts = range(0, len(samples), _BLOCK)  # in blocks: an hour of float samples would take 1.4 GB
    save_wav(path, (_to_16_bit(samples[i : i + _BLOCK], gain) for i in starts), SAMPLE_RATE, channels=2)
    return path


def save_wav(path: Path, blocks: Iterable[np.ndarray], rate: int, *, channels: int) -> None:
    """Write blocks of int16 samples [n, channels] to a WAV file under a temporary name, then rename it."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with partial.open("wb") as file:
            write_wav(file, blocks, rate, channels=channels)
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise UserError(f"cannot write {path}: {error.strerror or error}; choose another place") from error


def write_wav(file: BinaryIO, blocks: Iterable[np.ndarray], rate: int, *, channels: int) -> None:
    """Write blocks of int16 samples [n, channels] as WAV into an open file."""
    with wave.open(file, "wb") as out:
        out.setnchannels(channels)
        out.setsampwidth(2)
        out.setframerate(rate)
        for block in blocks:
            out.writeframes(np.ascontiguousarray(block, dtype="<i2").data)


def _to_16_bit(samples: np.ndarray, gain: float) -> np.ndarray:
    return np.clip(np.rint(samples * (gain * 32767.0)), -32767, 32767).astype("<i2")


def sound_line(settings: RenderSettings | None = None) -> str:
    """Say in one line what plays, or why nothing does and how to get sound; never raises."""
    try:
        return plan_sound(settings).line
    except UserError as error:
        return str(error)


def _play(score: Score, settings: RenderSettings) -> tuple[np.ndarray, float]:
    """Return raw samples [n, 2], trimmed, and the gain that brings their peak to ``PEAK`` of full scale 1.0."""
    if not score.notes:
        raise UserError("no sound: the piece has no notes; give one that has some")
    plan = plan_sound(settings)
    samples = _ENGINES[plan.renderer](score, plan, settings.ring_seconds)
    peak = max(int(samples.max(initial=0)), -int(samples.min(initial=0)))
    if peak == 0:
        raise UserError(f"no sound: {plan.soundfont.name} played silence; choose another soundfont with --soundfont")
    return _trim(samples, score.end, peak), PEAK / peak


def _trim(samples: np.ndarray, end: float, peak: int) -> np.ndarray:
    """Cut the silence after the last release."""
    keep = min(len(samples), round(end * SAMPLE_RATE))
    loud = np.flatnonzero(np.abs(samples[keep:]).max(axis=1, initial=0) > peak * _SILENCE)
    return samples[: keep + (int(loud[-1]) + 1 if len(loud) else 0)]


# midirenderer keeps Python's lock while it plays, which would freeze a server's other threads for seconds; and a
# soundfont that crashes it must not take the program along. So it plays in a process of its own.
_CHILD = """
import sys, midirenderer
font, out = sys.argv[1:]
sound = midirenderer.render_wave_from(open(font, "rb").read(), sys.stdin.buffer.read())
open(out, "wb").write(sound)
"""


def _midirenderer(score: Score, plan: SoundPlan, ring: float) -> np.ndarray:
    # Without the tempo map the file runs at MIDI's own 120 beats a minute; sound needs seconds only.
    midi = _with_tail(write_midi(Score(score.notes, score.pedals)), score.end + ring)
    with tempfile.TemporaryDirectory(prefix="music-transformer-") as folder:
        out = Path(folder) / "sound.wav"
        command = [sys.executable, "-P", "-c", _CHILD, str(plan.soundfont), str(out)]
        done = subprocess.run(command, input=midi, capture_output=True)
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().splitlines() or [f"status {done.returncode}"]
            raise UserError(f"no sound: {plan.soundfont.name} cannot be played ({said[-1]}); choose another .sf2")
        with wave.open(str(out)) as sound:
            frames = sound.getnframes()
            assert (sound.getframerate(), sound.getsampwidth(), sound.getnchannels()) == (SAMPLE_RATE, 2, 2)
        return np.fromfile(out, "<i2", offset=out.stat().st_size - 4 * frames).reshape(-1, 2)


def _with_tail(midi: bytes, seconds: float) -> bytes:
    """Add a first track: full channel volume (a finer 16-bit result), and an end of track at ``seconds``.

    The renderer stops at the last end of track, in the middle of what still rings.
    """
    header, _, tracks, division = struct.unpack(">IHHH", midi[4:14])
    volume = b"".join(bytes((0, 0xB0 | channel, 7, 127)) for channel in range(16))
    track = volume + _variable_length(round(seconds * 2 * division)) + b"\xff\x2f\x00"
    start = b"MThd" + struct.pack(">IHHH", 6, 1, tracks + 1, division)
    return start + b"MTrk" + struct.pack(">I", len(track)) + track + midi[8 + header :]


def _variable_length(value: int) -> bytes:
    out = [value & 0x7F]
    while value := value >> 7:
        out.append(0x80 | value & 0x7F)
    return bytes(reversed(out))


def _fluidsynth(score: Score, plan: SoundPlan, ring: float) -> np.ndarray:
    import fluidsynth

    synth = fluidsynth.Synth(gain=0.4, samplerate=float(SAMPLE_RATE))
    try:
        font = synth.sfload(str(plan.soundfont))
        if font == -1:
            raise UserError(f"no sound: {plan.soundfont.name} cannot be played; choose another .sf2 file")
        for channel in {n.channel for n in score.notes}:
            synth.program_select(channel, font, 0, 0)
        out, done = [], 0
        for time, _, call, args in [*_events(score), (score.end + ring, 3, "", ())]:
            due = round(time * SAMPLE_RATE)
            if due > done:
                out.append(np.asarray(synth.get_samples(due - done), dtype=np.int16).reshape(-1, 2))
                done = due
            if call:
                getattr(synth, call)(*args)
    finally:
        synth.delete()
    return np.concatenate(out) if out else np.zeros((0, 2), np.int16)


def _events(score: Score) -> list[tuple[float, int, str, tuple[int, ...]]]:
    """(seconds, order at one instant, the synthesizer's call, its arguments): offs, then pedal, then ons."""
    events: list[tuple[float, int, str, tuple[int, ...]]] = []
    for n in score.notes:
        events.append((n.start, 2, "noteon", (n.channel, n.pitch, n.velocity)))
        events.append((n.end, 0, "noteoff", (n.channel, n.pitch)))
    for p in score.pedals:
        events.append((p.start, 1, "cc", (p.channel, 64, 127)))
        events.append((p.end, 0, "cc", (p.channel, 64, 0)))
    return sorted(events, key=lambda e: e[:2])


_ENGINES = {"midirenderer": _midirenderer, "fluidsynth": _fluidsynth}
