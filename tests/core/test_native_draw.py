"""The draw in C against the filters and the draw of sampling.py: the same ids from the same numbers, the same errors."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from gpt_core import native_build
from gpt_core.errors import UserError
from gpt_core.generate import choose_engine, generate
from gpt_core.native_draw import native_draw
from gpt_core.sampling import Sampling, filters_from, generators_for, sample
from tests.core.peers import sharp_model

LIBRARY = native_build.library()
pytestmark = pytest.mark.skipif(isinstance(LIBRARY, str), reason=str(LIBRARY))

SETTINGS = [
    Sampling(),
    Sampling(temperature=0.97, top_p=0.96),
    Sampling(temperature=1.7),
    Sampling(top_k=5),
    Sampling(temperature=0.6, top_k=40, top_p=0.9),
    Sampling(top_p=0.0),
    Sampling(top_k=1),
    Sampling(temperature=1e-45, top_p=0.5),
    Sampling(temperature=3.0, top_k=1000, top_p=0.999),
]


def rows(kind: str, vocab: int) -> torch.Tensor:
    """300 steps of 4 rows: smooth ones, ones full of ties, ones with most ids forbidden, nearly flat ones."""
    g = torch.Generator().manual_seed(vocab)
    x = torch.randn(300, 4, vocab, generator=g) * 3
    if kind == "ties":
        return x.round()
    if kind == "forbidden":
        mask = torch.rand(x.shape, generator=g) < 0.9
        mask[..., 1] = False
        return x.masked_fill(mask, -torch.inf)
    return x * 0.01 if kind == "flat" else x


@pytest.mark.parametrize("kind", ["smooth", "ties", "forbidden", "flat"])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_it_draws_what_the_filters_draw(kind, settings):
    draw, ours, theirs = native_draw(settings), generators_for(1, 4), generators_for(1, 4)
    for vocab in (2, 391):
        for logits in rows(kind, vocab):
            wanted = logits
            for apply in filters_from(settings):
                wanted = apply(torch.zeros(4, 0, dtype=torch.long), wanted)
            before = logits.clone()
            assert draw(logits, ours).tolist() == sample(wanted, theirs).tolist()
            assert torch.equal(logits, before)
    assert torch.equal(ours[3].get_state(), theirs[3].get_state())  # one number a row, no more


def test_a_large_vocabulary():
    settings = Sampling(temperature=0.9, top_p=0.95)
    draw, ours, theirs = native_draw(settings), generators_for(2, 2), generators_for(2, 2)
    for scale in (0.1, 1.0, 6.0):
        for logits in torch.randn(8, 2, 50257, generator=torch.Generator().manual_seed(3)) * scale:
            wanted = logits
            for apply in filters_from(settings):
                wanted = apply(torch.zeros(2, 0, dtype=torch.long), wanted)
            assert draw(logits, ours).tolist() == sample(wanted, theirs).tolist()


@pytest.mark.parametrize("number", [0.0, 1.0 - 2.0**-53])
def test_the_ends_of_the_unit_interval_give_possible_ids(number, monkeypatch):
    monkeypatch.setattr("gpt_core.native_draw.uniforms", lambda n, _: torch.full((n, 1), number, dtype=torch.float64))
    draw = native_draw(Sampling())
    for seed in range(200):
        logits = torch.randn(1, 50, generator=torch.Generator().manual_seed(seed)) * 5
        logits[0, :3] = logits[0, -3:] = -torch.inf
        assert int(draw(logits, None)) == (3 if number == 0 else 46)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_what_cannot_be_drawn_is_said_as_ever(settings):
    draw, g = native_draw(settings), generators_for(0, 2)
    for bad, words in (
        (torch.nan, "not finite"),
        (torch.inf, "not finite"),
        (-torch.inf, "no id may follow in take 2"),
    ):
        logits = torch.zeros(2, 8)
        logits[1] = bad
        with pytest.raises(UserError, match=words):
            draw(logits, g)
    with pytest.raises(UserError, match="2 takes and 1 random generators"):
        draw(torch.zeros(2, 8), g[:1])


@pytest.mark.parametrize(
    "other", [{"temperature": 0.0}, {"min_p": 0.1}, {"repetition_penalty": 1.2}, {"temperature": 1e-50}]
)
def test_settings_that_only_the_filters_know_are_left_to_them(other):
    assert native_draw(dataclasses.replace(Sampling(), **other)) is None


@pytest.mark.parametrize(
    "settings", [Sampling(temperature=0.97, top_p=0.96), Sampling(min_p=0.05, temperature=1.3)], ids=str
)
def test_a_whole_stream_is_the_same_with_and_without(settings, monkeypatch):
    model, prompt = sharp_model("rotary"), torch.arange(5)[None]

    def ids() -> list[list[int]]:
        asked = {"sampling": settings, "takes": 3, "generators": generators_for(7, 3)}
        return [
            c.tolist()
            for c in generate(model, prompt, max_new_tokens=150, engine=choose_engine(model, "native"), **asked)
        ]

    ours = ids()
    monkeypatch.setattr("gpt_core.generate.native_draw", lambda sampling: None)
    assert ours == ids()
