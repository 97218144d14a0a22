"""The music models that ship: small enough, told about in a card, and better than chance by far."""

from __future__ import annotations

import json
import math

import pytest

from music_transformer.midi import read_midi
from music_transformer.models import DEFAULT, find, load, names
from music_transformer.next_events import nats_per_event
from music_transformer.samples import TITLES, sample_path

UNIFORM = math.log(391)


def test_it_is_there():
    assert names() == ["piano", "pop"] and DEFAULT == "piano"


@pytest.mark.parametrize("name", names())
def test_card_size_and_run(name):
    folder = find(name)
    assert (folder / "model.safetensors").stat().st_size < 25e6
    card = (folder / "MODEL_CARD.md").read_text("utf-8")
    for heading in ("Data and licence", "Recipe", "Figures", "Limits"):
        assert f"## {heading}" in card
    text = (folder / "run.json").read_text("utf-8")
    assert json.loads(text)["data"]["fingerprint"][:16] in card and '"/' not in text, (
        "no path of the machine that trained it"
    )


@pytest.mark.parametrize("name", names())
def test_it_expects_music(name):
    model = load(name, "cpu")
    surprise = [nats_per_event(model, read_midi(sample_path(title))[0], 0.0)[1] for title in TITLES]
    assert max(surprise) < 0.75 * UNIFORM, surprise
