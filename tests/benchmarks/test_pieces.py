"""Pictures of pieces: the spectrum of a known tone, the figures of known notes, a picture that opens."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import pieces
from music_transformer.audio import SAMPLE_RATE
from music_transformer.score import Note, Score

TWO = Score(notes=(Note(60, 0.0, 3.0, 80), Note(64, 1.0, 2.0, 40)))


def test_a_tone_lies_where_its_frequency_says():
    hertz = 40 * SAMPLE_RATE / pieces.WINDOW  # the middle of bin 40: 468.75 Hz
    tone = np.sin(2 * np.pi * hertz * np.arange(SAMPLE_RATE) / SAMPLE_RATE)
    levels, frequencies, seconds = pieces.spectrum(tone)
    assert (levels.argmax(axis=0) == 40).all() and frequencies[40] == hertz
    assert np.diff(seconds) == pytest.approx(pieces.WINDOW / 2 / SAMPLE_RATE)
    assert levels[40].max() == pytest.approx(0, abs=1e-6)
    assert levels[40].min() == pytest.approx(0, abs=0.01), "as loud at every moment"
    assert levels[39].max() == pytest.approx(-6.02, abs=0.01), "a Hann window has half the amplitude one bin away"
    assert levels[100:].max() == pieces.FLOOR


def test_figures_of_two_notes():
    found = pieces.figures("two", TWO)
    assert found["notes"] == 2 and found["seconds"] == 3.0 and (found["lowest"], found["highest"]) == (60, 64)
    assert (
        found["keys_down"] == pytest.approx(4 / 3, abs=0.05)
        and found["longest_hold"] == 3.0
        and found["pitch_classes"] == 2
    )


def test_a_picture_with_an_empty_place(tmp_path):
    pieces.draw([("a", TWO), ("b", TWO), ("c", TWO)], tmp_path / "out.png")
    assert (tmp_path / "out.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
