"""The sample pieces: rebuilt byte for byte, and the notes their composers wrote."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from gpt_core.errors import UserError
from music_transformer.midi import read_midi, read_texts
from music_transformer.samples import TITLES, sample_names, sample_path

DATA = Path(__file__).parents[2] / "data"


def test_the_script_rebuilds_every_file_byte_for_byte(monkeypatch):
    monkeypatch.syspath_prepend(str(DATA))
    spec = importlib.util.spec_from_file_location("make_samples", DATA / "make_samples.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "make_samples", module)
    spec.loader.exec_module(module)
    built = module.build()
    assert sorted(built) == sorted(sample_names())
    for name, midi in built.items():
        assert sample_path(name).read_bytes() == midi, f"run: python data/make_samples.py ({name})"
        assert (DATA / f"{name}.mid").read_bytes() == midi, f"run: python data/make_samples.py ({name})"


def test_the_readme_lists_each_fingerprint():
    import hashlib

    readme = (DATA / "README.md").read_text(encoding="utf-8")
    for name in sample_names():
        assert f"{name}.mid" in readme
        assert hashlib.sha256(sample_path(name).read_bytes()).hexdigest() in readme


# Note counts and lowest notes as printed in the scores.
@pytest.mark.parametrize(
    ("name", "notes", "lowest", "highest", "seconds"),
    [
        ("bach_prelude_c", 32 * 16 + 16 + 16 + 5, 36, 81, (100, 140)),
        ("chopin_prelude_a", None, 33, 85, (35, 60)),
        ("petzold_minuet_g", None, 43, 79, (18, 30)),
        ("satie_gymnopedie_1", None, 38, 81, (30, 50)),
    ],
)
def test_each_piece_is_whole_and_played_with_expression(name, notes, lowest, highest, seconds):
    score, report = read_midi(sample_path(name))
    assert notes in (None, len(score.notes)) and report.notes == len(score.notes)
    assert (min(n.pitch for n in score.notes), max(n.pitch for n in score.notes)) == (lowest, highest)
    assert seconds[0] < score.end < seconds[1]
    assert len({n.velocity for n in score.notes}) > 15 and len(score.pedals) > 5 and len(score.tempos) > 20
    assert read_texts(sample_path(name))[0] == TITLES[name]


def test_the_prelude_follows_bachs_bass():
    score, _ = read_midi(sample_path("bach_prelude_c"))
    bars = [score.notes[16 * bar].pitch for bar in range(35)]
    c4, b3, a3, d3, g3, f3, e3, c3 = 60, 59, 57, 50, 55, 53, 52, 48
    dominant = [43] * 8
    assert bars == [
        *(c4, c4, b3, c4, c4, c4, b3, b3, a3, d3, g3, g3, f3, f3, e3, e3, d3, 43, c3, c3),
        *(41, 42, 44, *dominant, 36, 36, 36, 36),
    ]


def test_an_unknown_sample_is_refused_by_name():
    with pytest.raises(UserError, match=r"no sample 'bach'; choose one of bach_prelude_c, "):
        sample_path("bach")
