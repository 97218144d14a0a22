"""Completion: with models whose text is known, and against the generation loop itself."""

from __future__ import annotations

import pytest
import torch

from gpt_core.config import GPTConfig
from gpt_core.errors import UserError
from gpt_core.generate import generate
from gpt_core.model import GPT
from gpt_core.sampling import Sampling, generators_for
from gpt_core.text.complete import CompleteConfig, Completion, Held, complete, stream
from tests.text.scripted import BYTES, checkpoint_of, scripted, writes

GREEDY = Sampling(temperature=0.0)


def random_model(context=32, seed=1):
    torch.manual_seed(seed)
    model = GPT(GPTConfig(vocab_size=257, context=context, n_layer=2, n_head=2, n_embd=16))
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn(p.shape) * 0.3)
    return checkpoint_of(model)


def test_the_known_text_comes_out_and_ends():
    assert complete(writes("brown fx"[:5] + "🙂é."), " ", sampling=GREEDY) == [Completion(0, "brown🙂é.", "end")]


def test_half_a_character_is_never_shown():
    pieces = list(stream(writes("a🙂b"), " ", sampling=GREEDY))
    assert [p.text for p in pieces] == ["a", "🙂", "b", ""] and pieces[-1].finished == "end"
    cut = list(stream(writes("a🙂b"), " ", CompleteConfig(max_new=3), GREEDY))
    assert [p.text for p in cut] == ["a", "\ufffd"] and cut[-1].finished == "length"


def test_stop_strings_end_the_text_before_them():
    model = writes("one tw".replace(" ", "_") + "h")
    assert complete(model, " ", sampling=GREEDY, stop=["_tw"]) == [Completion(0, "one", "stop")]
    assert complete(model, " ", sampling=GREEDY, stop=["w", "e_"]) == [Completion(0, "on", "stop")]
    pieces = [p.text for p in stream(model, " ", sampling=GREEDY, stop=["ne!"])]
    assert pieces == ["o", "ne_", "t", "w", "h", ""]  # 'n' and 'e' waited until '_' told that it is not 'ne!'


def test_held_text_against_every_cut_of_a_text():
    text = "abababc.aab"
    for stop in ("ababc", "aab", "b.", "xyz"):
        want = text[: text.index(stop)] if stop in text else text
        for size in range(1, 6):
            held = Held([stop])
            shown = [held.push(text[i : i + size]) for i in range(0, len(text), size)]
            assert "".join(shown) + held.finish() == want
            assert bool(held.met) == (stop in text)


def test_takes_are_the_loops_own_rows():
    model = random_model()
    sampling = Sampling(temperature=0.9, top_k=20)
    got = complete(model, "hello", CompleteConfig(max_new=50, takes=3, seed=7, past_end=True), sampling)
    prompt = torch.tensor([BYTES.encode("hello")])
    columns = generate(
        model.model, prompt, max_new_tokens=50, sampling=sampling, takes=3, generators=generators_for(7, 3)
    )
    rows = torch.stack(list(columns), 1).tolist()
    assert [c.text for c in got] == [BYTES.decode(r) for r in rows]
    assert len({c.text for c in got}) == 3 and {c.finished for c in got} == {"length"}
    alone = complete(model, "hello", CompleteConfig(max_new=50, takes=1, seed=7, past_end=True), sampling)
    assert alone[0].text == got[0].text
    assert complete(model, "hello", CompleteConfig(max_new=50, takes=1, seed=8, past_end=True), sampling) != alone


def test_an_engine_by_name_gives_the_same_text():
    texts = [complete(random_model(), "ab", CompleteConfig(max_new=12, engine=e), GREEDY) for e in ("torch", "auto")]
    assert texts[0] == texts[1]
    with pytest.raises(UserError, match="engine"):
        complete(random_model(), "ab", CompleteConfig(engine="steam"))


def test_an_empty_prompt_writes_from_the_end_token():
    model = scripted({256: ord("A"), ord("A"): ord("B"), ord("B"): 256})
    assert complete(model, "", sampling=GREEDY)[0].text == "AB"
    assert complete(model, "<|endoftext|>", CompleteConfig(special=True), GREEDY)[0].text == "AB"
    on = complete(model, "", CompleteConfig(max_new=5, past_end=True), GREEDY)[0]
    assert on.text == "ABAB" and on.finished == "length"


def test_a_long_prompt_slides_with_a_notice():
    model, said = random_model(context=16), []
    prompt = "the quick brown fox jumps over"
    text = "".join(p.text for p in stream(model, prompt, CompleteConfig(max_new=10), GREEDY, notice=said.append))
    assert said == ["the prompt has 30 tokens and the model reads 16: the first 14 are not seen"]
    assert text == "".join(p.text for p in stream(model, prompt[14:], CompleteConfig(max_new=10), GREEDY))
    said.clear()
    list(stream(model, "the quick", CompleteConfig(max_new=10), GREEDY, notice=said.append))
    assert said == ["the model reads 16 tokens at a time: beyond that it goes on from the last 8"]


def test_refusals():
    with pytest.raises(UserError, match="stop string is empty"):
        stream(writes("a"), " ", stop=[""])
    with pytest.raises(UserError, match="--max-new is 0"):
        complete(writes("a"), " ", CompleteConfig(max_new=0))
    with pytest.raises(UserError, match="stop string is empty or no text"):
        stream(writes("a"), " ", stop=[7])
    with pytest.raises(UserError, match="the prompt is bytes; give a string"):
        complete(writes("a"), b" ")


def test_one_stop_string_may_stand_alone():
    assert complete(writes("onetw"), " ", sampling=GREEDY, stop="etx")[0].text == "onetw"
    assert complete(writes("onetw"), " ", sampling=GREEDY, stop="et") == [Completion(0, "on", "stop")]


def test_appended_ids_follow_the_prompt_and_half_a_character_is_completed():
    model, said = writes("a🙂b"), []
    half = list("🙂".encode()[:3])
    config = CompleteConfig(max_new=62)
    pieces = list(stream(model, " ", config, GREEDY, appended=[ord("a"), *half], notice=said.append))
    assert [p.text for p in pieces] == ["🙂", "b", ""]
    assert said == ["the model reads 64 tokens at a time: beyond that it goes on from the last 32"]  # 5 + 62
    assert complete(model, "", sampling=GREEDY, appended=[ord("b")])[0] == Completion(0, "", "end")
    said.clear()
    complete(model, "x" * 70, CompleteConfig(max_new=1), GREEDY, notice=said.append)
    assert said == ["the prompt has 70 tokens and the model reads 64: the first 6 are not seen"]
