"""The text model that comes along, as it lies in the package."""

from __future__ import annotations

import random

import pytest
import torch
from safetensors import safe_open

from gpt_core.checkpoint import WEIGHTS
from gpt_core.evaluate import Protocol
from gpt_core.generate import generate
from gpt_core.sampling import Sampling
from gpt_core.text.evaluation import evaluate_text
from gpt_core.text.gpt2 import export_gpt2
from gpt_core.text.models import find, load
from gpt_core.tokens import Shard

# Written for this test, so that no book has it.
PASSAGE = (
    "When the two brothers came home from the market, the door of the kitchen stood open and the lamp was still burning. "
    "Nobody answered when they called. The elder put down his basket, looked into the next room, and said that their mother "
    "must have gone across the fields to the miller's house, for her cloak was not on its nail. “It is too dark for her to "
    "walk alone,” said the younger. They took the lamp and went out again without a word."
)


@pytest.fixture(scope="module")
def model():
    return load("text")


def bits_per_byte(model, text):
    shard = Shard.of([[model.codec.special_ids["eos"], *model.codec.encode(text)]])
    return evaluate_text(model, shard, Protocol())["bits_per_byte"]


def test_it_is_small_half_precision_and_says_what_it_is():
    folder = find("text")
    assert (folder / WEIGHTS).stat().st_size <= 25_000_000
    with safe_open(str(folder / WEIGHTS), "pt") as weights:
        assert {weights.get_tensor(name).dtype for name in weights.keys()} == {torch.float16}  # noqa: SIM118
    card = (folder / "MODEL_CARD.md").read_text("utf-8")
    assert all(f"## {title}" in card for title in ("Data and licence", "Recipe", "Figures", "Limits"))
    assert '"/' not in (folder / "run.json").read_text("utf-8"), "no path of the machine that trained it"


def test_it_knows_english(model):
    words = PASSAGE.split()
    random.Random(0).shuffle(words)
    straight, shuffled = bits_per_byte(model, PASSAGE), bits_per_byte(model, " ".join(words))
    assert straight < 2.2 and shuffled > straight + 0.4, (straight, shuffled)


def test_its_weights_give_transformers_the_same_numbers(model, tmp_path):
    from transformers import GPT2LMHeadModel

    export_gpt2(find("text"), tmp_path)
    theirs = GPT2LMHeadModel.from_pretrained(tmp_path, dtype=torch.float32).eval()
    ids = torch.tensor([model.codec.encode(PASSAGE)])
    with torch.no_grad():
        assert (model.model(ids) - theirs(ids).logits).abs().max() < 1e-4
        want = theirs.generate(
            ids[:, :20], attention_mask=torch.ones(1, 20), max_new_tokens=60, do_sample=False, pad_token_id=0
        )
    got = list(generate(model.model, ids[:, :20], max_new_tokens=60, sampling=Sampling(temperature=0.0)))
    assert torch.cat(got).tolist() == want[0, 20:].tolist()
