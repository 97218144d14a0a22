"""A few piano notes rendered once, for the page's sampler: one WAV and a table of where each note lies in it."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import threading
import wave
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpt_core.errors import UserError
from music_transformer.audio import SAMPLE_RATE, render, save_wav, write_wav
from music_transformer.score import Note, make_score
from music_transformer.soundfonts import RenderSettings, SoundPlan, plan_sound

FORMAT = 1  # raise it when anything below changes: it is part of the cached file's name
BANK_RATE = SAMPLE_RATE // 2
PITCHES = tuple(range(21, 109, 3))  # the sampler shifts each by at most one semitone
VELOCITY = 84
_GAP = 1.0  # seconds between notes, for the room's echo to die away
_FADE = 0.05
_lock = threading.Lock()


@dataclass(frozen=True)
class SampleBank:
    """``wav``: a mono 16-bit WAV file at ``BANK_RATE``. ``manifest``: JSON types, with offsets in samples."""

    wav: bytes
    manifest: dict[str, Any]


def sample_bank(settings: RenderSettings | None = None) -> SampleBank:
    """Return the notes for the page's sampler, rendered once and kept in the user's cache folder.

    The manifest is ``{"format", "rate", "velocity", "sound", "notes": [{"pitch", "offset", "length"}, ...]}`` with
    offset and length in samples. UserError where no renderer or soundfont is at hand.
    """
    with _lock:
        return _bank(settings or RenderSettings())


@functools.lru_cache(maxsize=2)
def _bank(settings: RenderSettings) -> SampleBank:
    plan = plan_sound(settings)
    path = _cache_file(plan)
    wav = _cached(path)
    if wav is None:
        wav = _write(path, _render_notes(settings))
    return SampleBank(wav, _manifest(plan))


def seconds_of(pitch: int) -> float:
    """How long a note of the bank lasts: low strings ring for 4 s, high ones for 2 s."""
    return 4.0 - 2.0 * (pitch - PITCHES[0]) / (PITCHES[-1] - PITCHES[0])


def _manifest(plan: SoundPlan) -> dict[str, Any]:
    notes, offset = [], 0
    for pitch in PITCHES:
        length = round(seconds_of(pitch) * BANK_RATE)
        notes.append({"pitch": pitch, "offset": offset, "length": length})
        offset += length
    return {"format": FORMAT, "rate": BANK_RATE, "velocity": VELOCITY, "sound": plan.line, "notes": notes}


def _render_notes(settings: RenderSettings) -> np.ndarray:
    """Play all notes one after another and cut them out: int16 [samples, 1]."""
    notes, starts, time = [], [], 0.0
    for pitch in PITCHES:
        notes.append(Note(pitch, time, time + seconds_of(pitch), VELOCITY))
        starts.append(time)
        time += seconds_of(pitch) + _GAP
    sound = _halve(render(make_score(notes), settings).mean(axis=1))
    pieces = []
    for pitch, start in zip(PITCHES, starts, strict=True):
        length = round(seconds_of(pitch) * BANK_RATE)
        first = round(start * BANK_RATE)
        piece = np.zeros(length, np.float32)
        heard = sound[first : first + length]
        piece[: len(heard)] = heard
        fade = round(_FADE * BANK_RATE)
        piece[-fade:] *= np.linspace(1.0, 0.0, fade, dtype=np.float32)
        pieces.append(piece)
    out = np.concatenate(pieces)
    out *= 0.89 / np.abs(out).max()  # the two channels' mean has a lower peak than either
    return np.rint(out * 32767).astype("<i2")[:, None]


def _halve(sound: np.ndarray) -> np.ndarray:
    """Halve the sample rate behind a windowed-sinc low-pass, so that nothing folds back."""
    n = np.arange(-32, 33)
    kernel = 0.46 * np.sinc(0.46 * n) * np.hamming(len(n))
    kernel /= kernel.sum()
    return np.convolve(sound, kernel, mode="same")[::2].astype(np.float32)


def _cache_file(plan: SoundPlan) -> Path:
    from platformdirs import user_cache_path

    stat = plan.soundfont.stat()
    key = f"{FORMAT} {plan.renderer} {plan.soundfont} {stat.st_size} {stat.st_mtime_ns}"
    return user_cache_path("music-transformer") / f"notes-{hashlib.sha256(key.encode()).hexdigest()[:16]}.wav"


def _cached(path: Path) -> bytes | None:
    """Return the cached file if it is whole."""
    expected = sum(round(seconds_of(p) * BANK_RATE) for p in PITCHES)
    try:
        data = path.read_bytes()
        with wave.open(io.BytesIO(data)) as sound:
            return data if sound.getnframes() == expected and len(data) >= 2 * expected else None
    except (OSError, EOFError, wave.Error):
        return None


def _write(path: Path, samples: np.ndarray) -> bytes:
    """Write the cache, or only return the bytes where the folder cannot be written."""
    data = io.BytesIO()
    write_wav(data, [samples], BANK_RATE, channels=1)
    with contextlib.suppress(OSError, UserError):  # where the cache cannot be written, the next process renders again
        path.parent.mkdir(parents=True, exist_ok=True)
        save_wav(path, [samples], BANK_RATE, channels=1)
    return data.getvalue()
