"""Receipts: out and in again, through a MIDI file, and every kind of damage."""

from __future__ import annotations

import base64
import json
import zlib

import pytest

from gpt_core.errors import UserError
from music_transformer import receipts
from music_transformer.midi import read_texts, write_midi
from music_transformer.receipts import MARK, find_receipt, from_text, make_receipt, to_text
from music_transformer.samples import sample_path
from music_transformer.score import Note, make_score

FACTS = {
    "action": "continue",
    "version": "0.1.0",
    "model": "piano",
    "checkpoint": "ab" * 32,
    "seed": 7,
    "take": 1,
    "settings": {"seconds": 20.0, "temperature": 0.95, "name": "é ♪"},
}


def damaged(**changes):
    facts = json.loads(to_text(make_receipt(prompt=b"MThd...", **FACTS))[len(MARK) :])
    facts.update(changes)
    return MARK + json.dumps({k: v for k, v in facts.items() if v != "absent"})


def test_a_receipt_survives_a_midi_file():
    prompt = sample_path("bach_prelude_c").read_bytes()
    receipt = make_receipt(prompt=prompt, **FACTS)
    midi = write_midi(make_score([Note(60, 0.0, 1.0, 80)]), texts=["a title", to_text(receipt)])
    found = find_receipt(read_texts(midi))
    assert found == receipt and found.prompt == prompt
    assert to_text(found) == to_text(receipt)
    assert len(midi) < len(prompt) + 1000  # packed: the prompt does not grow


def test_generated_pieces_have_no_prompt():
    receipt = make_receipt(**{**FACTS, "action": "generate"})
    assert (receipt.prompt, receipt.prompt_sha256) == (None, None)
    assert from_text(to_text(receipt)) == receipt


def test_the_text_is_one_line_of_ascii():
    text = to_text(make_receipt(prompt=bytes(range(256)), **FACTS))
    assert text.isascii() and "\n" not in text


def test_a_huge_prompt_leaves_its_fingerprint_only():
    import random

    prompt = random.Random(1).randbytes(300_000)
    found = from_text(to_text(make_receipt(prompt=prompt, **FACTS)))
    assert found.prompt is None and found.prompt_sha256 == receipts.fingerprint(prompt)


def test_files_without_a_receipt_have_none():
    assert find_receipt(["a title", "words"]) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hello", "is no receipt"),
        (MARK + "{", "JSON does not parse"),
        (MARK + "[1]", "no table of facts"),
        (damaged(format=2), "has format 2, this version reads format 1; update"),
        (damaged(seed="absent"), "lacks seed"),
        (damaged(colour="red"), "unknown facts colour"),
        (damaged(seed="7"), "seed is '7'"),
        (damaged(seed=True), "seed is True"),
        (damaged(prompt="!!!"), "prompt does not unpack"),
        (damaged(prompt_sha256="00"), "does not match its fingerprint"),
        (damaged(prompt=base64.b85encode(zlib.compress(bytes(64))[:-4]).decode()), "cut or too large"),
        (damaged(prompt=base64.b85encode(zlib.compress(bytes(20_000_000))).decode()), "cut or too large"),
    ],
)
def test_damage_is_told_in_one_sentence(text, words):
    with pytest.raises(UserError, match=words) as caught:
        from_text(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "settings",
    [
        '{"a": NaN}',
        '{"a": 1e999}',
        '{"a": -Infinity}',
        '{"\\ud800": 1}',
        '{"a": "\\udfff"}',
        "[" * 20_000,
        "9" * 6000,
        '{"a":' * 9000,
    ],
)
def test_facts_that_no_page_could_show_are_damage(settings):
    text = to_text(make_receipt(None, action="generate", version="1", model="m", checkpoint="c", seed=1))
    assert from_text(text).seed == 1
    with pytest.raises(UserError, match="receipt is damaged"):
        from_text(text.replace('"settings":{}', f'"settings":{settings}'))
