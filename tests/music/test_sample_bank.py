"""The page's sampler notes: where they lie, their pitch, and the cache."""

from __future__ import annotations

import io
import wave

import numpy as np
import pytest

from music_transformer import sample_bank as bank_module
from music_transformer.sample_bank import sample_bank


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("platformdirs.user_cache_path", lambda *a, **k: folder)
        bank_module._bank.cache_clear()
        yield folder
    bank_module._bank.cache_clear()


def samples_of(bank):
    with wave.open(io.BytesIO(bank.wav)) as file:
        assert (file.getnchannels(), file.getsampwidth()) == (1, 2)
        assert file.getframerate() == bank.manifest["rate"]
        return np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(float)


def test_every_note_is_where_the_manifest_says(cache):
    bank = sample_bank()
    samples, rate = samples_of(bank), bank.manifest["rate"]
    notes = bank.manifest["notes"]
    assert [n["pitch"] for n in notes] == list(range(21, 109, 3))
    assert notes[-1]["offset"] + notes[-1]["length"] == len(samples)
    for note in notes:
        sound = samples[note["offset"] : note["offset"] + note["length"]]
        assert np.abs(sound[: rate // 5]).max() > 500, note
        assert np.abs(sound[: rate // 5]).max() > 3 * np.abs(sound[-rate // 100 :]).max(), note
        if 45 <= note["pitch"] <= 96:
            spectrum = np.abs(np.fft.rfft(sound * np.hanning(len(sound)), 1 << 18))
            hertz = 440 * 2 ** ((note["pitch"] - 69) / 12)
            near = np.arange(len(spectrum)) * rate / (1 << 18)
            band = (near > hertz * 0.95) & (near < hertz * 1.05)
            assert near[band][spectrum[band].argmax()] == pytest.approx(hertz, rel=0.006)
    assert len(bank.wav) < 6_000_000


def test_the_second_process_reads_the_cache(cache, monkeypatch):
    first = sample_bank()
    assert [f.suffix for f in cache.iterdir()] == [".wav"]
    bank_module._bank.cache_clear()
    monkeypatch.setattr(bank_module, "_render_notes", lambda settings: pytest.fail("rendered again"))
    assert sample_bank() == first


def test_a_damaged_cache_is_made_again(cache):
    first = sample_bank()
    (file,) = cache.iterdir()
    file.write_bytes(first.wav[:1000])
    bank_module._bank.cache_clear()
    assert sample_bank() == first


@pytest.mark.parametrize(("hertz", "lowest", "highest"), [(1_000, 0.97, 1.03), (8_000, 0.9, 1.05), (16_000, 0.0, 0.01)])
def test_halving_the_rate_keeps_what_fits_and_drops_what_would_fold(hertz, lowest, highest):
    tone = np.sin(2 * np.pi * hertz * np.arange(48_000) / 48_000).astype(np.float32)
    halved = bank_module._halve(tone)[1000:-1000]
    assert lowest <= np.sqrt(np.mean(halved**2)) / np.sqrt(0.5) <= highest
