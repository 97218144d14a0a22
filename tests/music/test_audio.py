"""Sound: what is heard, when, how loud, at which pitch."""

from __future__ import annotations

import sys
import types
import wave

import numpy as np
import pytest

from gpt_core.errors import UserError
from music_transformer.audio import PEAK, SAMPLE_RATE, render, render_wav, sound_line
from music_transformer.score import Note, Pedal, Tempo, make_score
from music_transformer.soundfonts import RenderSettings, find_soundfonts


def level(sound: np.ndarray, start: float, end: float) -> float:
    """Root mean square between two moments."""
    return float(np.sqrt(np.mean(sound[round(start * SAMPLE_RATE) : round(end * SAMPLE_RATE)] ** 2)))


def test_sound_begins_at_each_note_and_is_silent_between():
    sound = render(make_score([Note(60, 1.0, 1.5, 80), Note(64, 4.0, 4.5, 80)]))
    assert sound.dtype == np.float32 and sound.shape[1] == 2
    assert level(sound, 0.0, 0.99) == 0.0
    assert level(sound, 1.0, 1.2) > 0.05
    assert level(sound, 3.5, 3.99) < 0.002
    assert level(sound, 4.0, 4.2) > 0.05


def test_seconds_stay_seconds_whatever_the_tempo_map():
    notes = [Note(60, 0.0, 0.3, 80), Note(60, 3.0, 3.3, 80)]
    plain = render(make_score(notes))
    mapped = render(make_score(notes, tempos=[Tempo(0.0, 40.0), Tempo(1.0, 250.0)]))
    assert np.array_equal(plain, mapped)
    assert 3.3 <= len(plain) / SAMPLE_RATE <= 3.3 + RenderSettings().ring_seconds


def test_the_last_note_rings_out_instead_of_being_cut():
    sound = render(make_score([Note(48, 0.0, 0.5, 100)], [Pedal(0.0, 0.6)]))
    assert len(sound) > 0.65 * SAMPLE_RATE
    ending = sound[-480:]
    assert np.abs(ending).max() < 0.02 * PEAK


def test_the_pedal_lets_a_released_note_ring():
    note = Note(60, 0.0, 0.3, 90)
    anchor = Note(100, 2.5, 2.6, 40)  # keeps both pieces equally long
    dry = render(make_score([note, anchor]))
    wet = render(make_score([note, anchor], [Pedal(0.1, 2.0)]))
    assert level(wet, 1.2, 1.6) > 20 * level(dry, 1.2, 1.6)
    assert level(wet, 2.35, 2.45) < 0.2 * level(wet, 1.2, 1.6)


@pytest.mark.parametrize("velocity", [10, 60, 127])
def test_the_peak_is_the_same_for_soft_and_loud_pieces(velocity):
    sound = render(make_score([Note(60, 0.0, 1.0, velocity)]))
    assert np.abs(sound).max() == pytest.approx(PEAK, abs=1e-4)


def test_louder_velocity_is_louder_within_a_piece():
    sound = render(make_score([Note(60, 2.0 * i, 2.0 * i + 1, v) for i, v in enumerate((30, 60, 90, 120))]))
    levels = [level(sound, 2.0 * i, 2.0 * i + 0.5) for i in range(4)]
    assert levels == sorted(levels)
    assert levels[3] > 4 * levels[0]


@pytest.mark.parametrize(("pitch", "hertz"), [(69, 440.0), (57, 220.0), (84, 1046.502)])
def test_a_key_sounds_at_its_pitch(pitch, hertz):
    sound = render(make_score([Note(pitch, 0.0, 2.0, 90)])).mean(axis=1)[: 2 * SAMPLE_RATE]
    spectrum = np.abs(np.fft.rfft(sound * np.hanning(len(sound))))
    near = np.arange(len(spectrum)) * SAMPLE_RATE / len(sound)
    band = (near > hertz * 0.8) & (near < hertz * 1.25)
    assert near[band][spectrum[band].argmax()] == pytest.approx(hertz, rel=0.004)
    assert spectrum[band].max() > 0.2 * spectrum.max()


def test_the_wav_file_holds_the_same_sound(tmp_path):
    score = make_score([Note(60, 0.2, 1.0, 80), Note(67, 0.5, 1.5, 40)])
    path = render_wav(score, tmp_path / "out.wav")
    again = render_wav(score, tmp_path / "again.wav")
    assert path.read_bytes() == again.read_bytes()
    with wave.open(str(path)) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (2, 2, SAMPLE_RATE)
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2").reshape(-1, 2)
    assert np.abs(samples / 32767 - render(score)).max() < 1 / 32767
    assert sorted(p.name for p in tmp_path.iterdir()) == ["again.wav", "out.wav"]


def test_mistakes_are_told_in_one_sentence(tmp_path):
    score = make_score([Note(60, 0.0, 1.0, 80)])
    with pytest.raises(UserError, match=r"out\.mp3.*WAV only"):
        render_wav(score, tmp_path / "out.mp3")
    with pytest.raises(UserError, match="no notes"):
        render(make_score([]))
    with pytest.raises(UserError, match=r"cannot write.*choose another place"):
        render_wav(score, tmp_path / "absent" / "out.wav")
    (tmp_path / "bad.sf2").write_bytes(b"RIFF, but no soundfont")
    with pytest.raises(UserError, match=r"bad\.sf2 cannot be played"):
        render(score, RenderSettings(soundfont=str(tmp_path / "bad.sf2")))
    with pytest.raises(UserError, match=r"missing\.sf2 is not there"):
        render(score, RenderSettings(soundfont=str(tmp_path / "missing.sf2")))


def test_the_sound_line_never_raises(tmp_path):
    assert sound_line().startswith("sound: ")
    assert "is not there" in sound_line(RenderSettings(soundfont=str(tmp_path / "missing.sf2")))


class Synth:
    """Stands in for FluidSynth's binding: writes down what it is told, and hums while a key is down."""

    def __init__(self, **settings):
        self.log, self.now, self.down = [], 0, set()
        Synth.last = self

    def __getattr__(self, name):
        return lambda *args: self.log.append((round(self.now / SAMPLE_RATE, 3), name, *args))

    def sfload(self, path):
        return 5

    def get_samples(self, count):
        ons = [e for e in self.log if e[1] == "noteon"]
        self.now += count
        return np.full(2 * count, 1000 if ons else 0, np.int16)


def test_fluidsynth_is_told_every_event_at_its_time(monkeypatch):
    monkeypatch.setitem(sys.modules, "fluidsynth", types.SimpleNamespace(Synth=Synth))
    monkeypatch.setattr(
        "music_transformer.soundfonts._AVAILABLE", {"fluidsynth": lambda: True, "midirenderer": lambda: 0}
    )
    font = str(find_soundfonts()[-1])
    score = make_score([Note(60, 0.5, 1.0, 80), Note(60, 1.0, 2.0, 70)], [Pedal(1.0, 1.5)])
    sound = render(score, RenderSettings(soundfont=font, ring_seconds=1.0))
    assert len(sound) == 3.0 * SAMPLE_RATE
    assert Synth.last.log == [
        (0.0, "program_select", 0, 5, 0, 0),
        (0.5, "noteon", 0, 60, 80),
        (1.0, "noteoff", 0, 60),
        (1.0, "cc", 0, 64, 127),
        (1.0, "noteon", 0, 60, 70),
        (1.5, "cc", 0, 64, 0),
        (2.0, "noteoff", 0, 60),
        (3.0, "delete"),
    ]
    assert not sound[: SAMPLE_RATE // 2].any() and sound[SAMPLE_RATE // 2 + 10 :].all()
