"""The grammar filter: whatever the model says, what is drawn is playable and ends in time."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpt_core.errors import UserError
from music_transformer.events import decode, encode
from music_transformer.grammar import Grammar, GrammarConfig
from tests.music.scores import random_score

BOS, EOS, PAD = 389, 390, 388


def allowed(prompt: list[int], config: GrammarConfig | None = None, prompt_length: int = 0) -> set[int]:
    out = Grammar(config, prompt_length=prompt_length)(torch.tensor([prompt], dtype=torch.long), torch.zeros(1, 391))
    return set(torch.isfinite(out[0]).nonzero().flatten().tolist())


def ons(ids: set[int]) -> set[int]:
    return {i for i in ids if i < 128}


def shifts(ids: set[int]) -> int:
    """The longest wait, in steps; every shorter one must be there too."""
    found = {i - 255 for i in ids if 256 <= i < 356}
    assert found == set(range(1, len(found) + 1))
    return len(found)


def draw(
    grammar: Grammar, prompt: list[int], seed: int, takes: int = 2, haste: float = 4.0, will_to_end: float = 0.0
) -> list[list[int]]:
    """Ids drawn from random logits until every row has ended; each row up to its EOS, without the prompt."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.tensor([prompt] * takes, dtype=torch.long).reshape(takes, len(prompt))
    while not (ids[:, len(prompt) :] == EOS).any(1).all():
        logits = torch.randn(takes, 391, generator=generator) * 3
        logits[:, 256:356] += haste
        logits[:, EOS] += will_to_end
        column = torch.multinomial(grammar(ids, logits).softmax(-1), 1, generator=generator)
        ids = torch.cat((ids, column), dim=1)
        assert ids.shape[1] < len(prompt) + 4_000
    rows = [row[len(prompt) :] for row in ids.tolist()]
    return [row[: row.index(EOS) + 1] for row in rows]


def check_rules(new: list[int], config: GrammarConfig, prompt: list[int]) -> int:
    """Walk the new ids after a canonical prompt and check each rule by hand; returns the steps they last."""
    now = struck_at_this_instant = 0
    down: dict[int, int] = {}
    for note in decode(prompt).notes:
        end = decode([*prompt, 256]).notes  # what still sounds gets longer when time goes on
        if note not in end:
            down[note.pitch] = 0
    rest, before, hold = 0, None, round(100 * config.max_hold)
    for id in new:
        if id < 128:
            assert id not in down and config.lowest <= id <= config.highest
            down[id], struck_at_this_instant, rest = now, 1, 0
        elif id < 256:
            assert down.pop(id - 128) < now or (now == 0 and id - 128 not in down)
            assert not struck_at_this_instant or now == 0
            rest = 0
        elif id < 356:
            now, struck_at_this_instant = now + id - 255, 0
            rest = rest + id - 255 if not down else 0
            assert rest <= round(100 * config.max_silence)
            assert all(now - start <= hold for start in down.values())
        elif id < PAD:
            assert before is None or not 356 <= before < PAD
        else:
            assert id == EOS and not down
        assert before is None or not 356 <= before < PAD or id < 128
        before = id
    return now


def test_at_the_start_of_a_piece():
    first = allowed([BOS])
    assert ons(first) == set(range(21, 109))
    assert not any(128 <= i < 256 for i in first)
    assert {i for i in first if i >= 356} == set(range(356, 388))
    assert shifts(first) == 100


def test_a_sounding_key_is_not_struck_again_and_is_released_later():
    assert ons(allowed([60])) == set(range(21, 109)) - {60}
    assert 188 not in allowed([60])
    assert {i for i in allowed([60, 256]) if 128 <= i < 256} == {188}
    assert ons(allowed([60, 256, 188])) == set(range(21, 109))


def test_offs_come_before_ons():
    assert 188 in allowed([60, 256, 62, 256])
    assert 188 not in allowed([60, 256, 62])


def test_after_a_velocity_only_a_strike():
    assert allowed([60, 370]) == set(range(21, 109)) - {60}


def test_a_hold_is_bounded():
    config = GrammarConfig(max_hold=1.5)
    assert shifts(allowed([60, 355], config)) == 50
    assert allowed([60, 355, 64, 305], config) == {188}
    assert shifts(allowed([60, 355, 64, 305, 188], config)) == 100


def test_a_rest_is_bounded():
    config = GrammarConfig(max_silence=1.2)
    assert shifts(allowed([355], config)) == 20
    last = allowed([60, 256, 188, 355, 275], config)
    assert shifts(last) == 0 and ons(last) and 356 in last


def test_range_is_a_setting():
    assert ons(allowed([], GrammarConfig(lowest=60, highest=61))) == {60, 61}
    assert not {i for i in allowed([60, 61], GrammarConfig(lowest=60, highest=61)) if i >= 356}
    with pytest.raises(UserError, match="lowest"):
        GrammarConfig(lowest=61, highest=60)


def test_the_end_of_the_piece():
    assert EOS not in allowed([BOS])
    assert EOS not in allowed([BOS, 60, 256])
    assert EOS in allowed([BOS, 60, 256, 188])
    assert EOS not in allowed([60, 256, 188], prompt_length=3), "not before a new note"
    long = GrammarConfig(min_seconds=0.02)
    assert EOS not in allowed([60, 256, 188], long) and EOS in allowed([60, 257, 188], long)
    assert not {PAD, BOS} & allowed([60, 256, 188])


def test_when_the_seconds_are_over_all_is_closed():
    config = GrammarConfig(seconds=2)
    assert shifts(allowed([60, 355], config)) == 100
    assert EOS not in allowed([60, 355, 188], config), "the asked length is reached"
    assert allowed([60, 64, 355, 355], config) == {188, 192}
    assert allowed([60, 64, 355, 355, 188], config) == {192}
    assert allowed([60, 64, 355, 355, 188, 192], config) == {EOS}
    assert allowed([60, 64, 355, 355, 188, 192, EOS], config) == {EOS}


def test_the_seconds_count_from_the_end_of_the_prompt():
    config = GrammarConfig(seconds=0.5)
    assert shifts(allowed([60, 355, 188], config, prompt_length=3)) == 50
    assert allowed([355, 60], GrammarConfig(seconds=0), prompt_length=2) == {256}
    assert allowed([355, 60, 256], GrammarConfig(seconds=0), prompt_length=2) == {188}


@settings(max_examples=15, deadline=None)
@given(
    st.integers(0, 10**6), st.sampled_from([0.05, 1.0, 7.3]), st.sampled_from([0.05, 3.0]),
    st.sampled_from([(21, 108), (60, 62), (0, 127)]), st.sampled_from([0.0, 0.01, 2.0]), st.booleans(),
)  # fmt: skip
def test_whatever_is_drawn_obeys_every_rule_and_ends(seed, hold, silence, span, seconds, primed):
    config = GrammarConfig(max_hold=hold, max_silence=silence, lowest=span[0], highest=span[1], seconds=seconds)
    prompt = [BOS, *([380, 60, 64, 300, 188, 355] if primed else [])]
    for new in draw(Grammar(config, prompt_length=len(prompt)), prompt, seed):
        steps = check_rules(new, config, prompt)
        assert steps == round(100 * seconds)
        notes = decode(prompt + new).notes
        again = encode(decode(prompt + new))
        assert len(notes) == sum(i < 128 for i in again) == sum(128 <= i < 256 for i in again)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(0, 390), max_size=120), st.integers(0, 10**6))
def test_an_odd_prompt_does_not_break_it(prompt, seed):
    grammar = Grammar(GrammarConfig(seconds=3), prompt_length=len(prompt))
    for new in draw(grammar, prompt, seed):
        waited = sum(i - 255 for i in new if 256 <= i < 356)
        assert waited <= 301
        assert new == [EOS] or EOS not in prompt
        notes = decode(prompt + new).notes
        assert all(n.end > n.start for n in notes)


def test_without_a_length_a_piece_may_end_by_itself():
    config = GrammarConfig(min_seconds=1, lowest=60, highest=60)
    rows = draw(Grammar(config), [BOS], 7, takes=4, will_to_end=9.0)
    assert all(check_rules(row, config, [BOS]) >= 100 and decode(row).notes for row in rows)


def test_every_way_of_telling_the_history_gives_the_same_answer():
    rng = random.Random(4)
    ids = torch.tensor([encode(random_score(s, 40))[:150] for s in (1, 2, 3)])
    logits = torch.zeros(3, 391)
    buffer = ids.clone()
    steady, jumping = Grammar(prompt_length=5), Grammar(prompt_length=5)
    for n in range(1, 150):
        fresh = Grammar(prompt_length=5)(ids[:, :n].clone(), logits)
        assert torch.equal(steady(buffer[:, :n], logits), fresh)
        if rng.random() < 0.3:
            assert torch.equal(jumping(ids[:, :n], logits), fresh)


def test_another_history_is_noticed():
    grammar = Grammar()
    logits = torch.zeros(1, 391)
    buffer = torch.tensor([[60, 300, 64, 300, 188]])
    grammar(buffer[:, :3], logits)
    buffer[0, 0] = 61  # the same place in memory, other music
    buffer[0, 2] = 65
    assert set(torch.isfinite(grammar(buffer[:, :4], logits)[0]).nonzero().flatten().tolist()) == allowed(
        [61, 300, 65, 300]
    )
    assert torch.isfinite(grammar(torch.tensor([[70]]), logits)[0]).nonzero().flatten().tolist() == sorted(
        allowed([70])
    )
    assert grammar(torch.tensor([[70], [71]]), torch.zeros(2, 391)).shape == (2, 391)


def test_logits_are_kept_where_allowed_and_never_changed_in_place():
    logits = torch.randn(1, 391)
    before = logits.clone()
    out = Grammar()(torch.tensor([[60]]), logits)
    assert torch.equal(logits, before) and torch.equal(out[torch.isfinite(out)], before[torch.isfinite(out)])


def test_another_vocabulary_is_refused():
    with pytest.raises(UserError, match="391"):
        Grammar()(torch.tensor([[60]]), torch.zeros(1, 388))


def test_a_new_note_comes_within_the_longest_wait_also_under_a_held_chord():
    bounds = GrammarConfig(seconds=20.0, max_hold=30.0, max_silence=30.0, max_wait=1.5)
    prompt = [BOS, 60, 64, 67]  # keys held across the join, so that silence never counts
    for ids in draw(Grammar(bounds, prompt_length=len(prompt)), prompt, seed=5, haste=9.0):
        now, last, longest = 0, 0, 0
        for i in ids:
            if 256 <= i < 356:
                now += i - 255
                longest = max(longest, now - last)
            elif i < 128:
                last = now
        assert now == 2000
        assert 100 < longest <= 150


@pytest.mark.parametrize("most", [1, 3])
def test_no_more_keys_sound_than_asked(most):
    bounds = GrammarConfig(seconds=20.0, max_hold=4.0, max_keys=most)
    prompt = [BOS, 60, 62, 64, 65, 67]  # more keys than asked: none is struck until enough of them are released
    for ids in draw(Grammar(bounds, prompt_length=len(prompt)), prompt, seed=7, haste=-1.0):
        sounding, most_at_a_strike, strikes = {60, 62, 64, 65, 67}, 0, 0
        for i in ids:
            if i < 128:
                sounding.add(i)
                strikes += 1
                most_at_a_strike = max(most_at_a_strike, len(sounding))
            elif i < 256:
                sounding.discard(i - 128)
        assert strikes > most and most_at_a_strike == most
