"""Which renderer and soundfont are chosen from what a machine has."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpt_core.errors import UserError
from music_transformer.soundfonts import SOUNDFONT_VARIABLE, decide_sound, find_soundfonts, plan_sound

SF2, SF3 = Path("a/piano.sf2"), Path("a/grand.sf3")


def decide(renderer="auto", asked=None, renderers=("midirenderer", "fluidsynth"), fonts=(SF2,), there=True):
    return decide_sound(renderer, asked, renderers=renderers, fonts=fonts, exists=lambda path: there)


def test_the_first_renderer_takes_the_first_font_it_reads():
    plan = decide(fonts=(SF3, SF2))
    assert (plan.renderer, plan.soundfont) == ("midirenderer", SF2)
    assert plan.line == "sound: midirenderer with piano.sf2"


def test_sf3_needs_fluidsynth():
    assert decide(fonts=(SF3,)).renderer == "fluidsynth"
    assert decide(asked="my.sf3").renderer == "fluidsynth"
    with pytest.raises(UserError, match=r"midirenderer cannot play my\.sf3; it reads \.sf2 files"):
        decide(asked="my.sf3", renderers=("midirenderer",))


def test_an_asked_font_or_renderer_wins():
    assert decide(asked="my.sf2", fonts=(SF2,)).soundfont == Path("my.sf2")
    assert decide(renderer="fluidsynth").renderer == "fluidsynth"


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ({"renderers": ()}, "no renderer is installed.*MIDI file is complete.*pip install midirenderer"),
        ({"renderer": "fluidsynth", "renderers": ("midirenderer",)}, "fluidsynth is not installed.*MIDI file is compl"),
        ({"fonts": ()}, "no soundfont was found; name an .sf2 file with --soundfont.*MIDI file is complete"),
        ({"asked": "x.sf2", "there": False}, "x.sf2 is not there"),
    ],
)
def test_no_sound_says_how_to_get_it(case, words):
    with pytest.raises(UserError, match=words) as caught:
        decide(**case)
    assert "\n" not in str(caught.value)


def test_the_environment_names_a_font(monkeypatch, tmp_path):
    font = tmp_path / "mine.sf2"
    font.write_bytes(b"")
    monkeypatch.setenv(SOUNDFONT_VARIABLE, str(font))
    assert plan_sound().soundfont == font


def test_a_font_comes_with_the_dependencies():
    assert "TimGM6mb.sf2" in [f.name for f in find_soundfonts()]
