"""Compose: with a small untrained model, for what is promised does not rest on the weights."""

from __future__ import annotations

import dataclasses
from collections import Counter
from itertools import pairwise

import pytest
import torch

from gpt_core import checkpoint
from gpt_core.config import GPTConfig
from gpt_core.errors import UserError
from gpt_core.model import GPT
from gpt_core.sampling import Sampling
from music_transformer.compose import Composition, continue_score, generate_score, recreate, refuse_silence
from music_transformer.compose_config import PRESETS, ComposeConfig
from music_transformer.events import NOTE_OFF, TIME_SHIFT, VELOCITY, EventCodec
from music_transformer.midi import read_midi, read_texts, write_midi
from music_transformer.receipts import find_receipt
from music_transformer.score import Note, Pedal, Score, Tempo, make_score


@pytest.fixture(scope="module")
def piano(tmp_path_factory):
    torch.manual_seed(5)
    config = GPTConfig(vocab_size=391, context=96, n_layer=2, n_head=2, n_embd=32, position="rotary", bias=False)
    model = GPT(config)
    with torch.no_grad():
        model.h[0].mlp.c_fc.weight.mul_(8)
        model.wte.weight.mul_(20)
    folder = tmp_path_factory.mktemp("models") / "tiny"
    checkpoint.save(folder, model, EventCodec(), {"note": "untrained"})
    return checkpoint.load(folder)


def song(seconds: float = 6.0) -> Score:
    notes = [Note(60 + i % 12, i * 0.25, i * 0.25 + 0.3, 40 + i % 60) for i in range(int(seconds / 0.25))]
    return make_score(notes, [Pedal(1.0, 2.1)], [Tempo(0.0, 100.0)])


def run(composition: Composition) -> Composition:
    for _ in composition.steps():
        pass
    return composition


def test_it_continues_from_the_end_and_leaves_the_upload_untouched(piano):
    (take,) = continue_score(piano, song(), seconds=2, seed=1)
    assert take.prompt == song()
    assert Counter(take.whole.notes[: len(song().notes)]) == Counter(song().notes)
    assert take.whole.pedals == song().pedals
    fresh = [n for n in take.whole.notes if n.channel == 1]
    assert len(fresh) == len(take.new.notes) > 0
    assert min(n.start for n in fresh) >= take.join == pytest.approx(6.05)
    assert [n.start - take.join for n in fresh] == pytest.approx([n.start for n in take.new.notes])


def test_it_says_what_computes(piano):
    composition = Composition(piano, song(), ComposeConfig(seconds=0.5, seed=1, engine="torch"))
    next(composition.steps())
    assert composition.engine.startswith("engine: PyTorch")


def test_the_length_is_what_was_asked(piano):
    for seconds in (0.5, 2.5):
        (take,) = continue_score(piano, song(), seconds=seconds, seed=3)
        waits = sum(i - TIME_SHIFT + 1 for i in take.ids if TIME_SHIFT <= i < VELOCITY)
        assert seconds <= waits / 100 <= seconds + 0.02
        assert take.new.end <= seconds + 0.02


def test_the_same_seed_gives_the_same_music_however_many_takes(piano):
    alone = continue_score(piano, song(), seconds=1.5, seed=11)
    four = continue_score(piano, song(), seconds=1.5, seed=11, takes=4)
    assert alone[0].ids == four[0].ids
    assert len({t.ids for t in four}) == 4
    assert continue_score(piano, song(), seconds=1.5, seed=12)[0].ids != alone[0].ids


def test_the_grammar_holds_in_every_take(piano):
    for take in continue_score(piano, song(), seconds=4, seed=2, takes=2, sampling=Sampling(temperature=1.5)):
        assert take.new.notes
        for n in take.new.notes:
            assert 0.01 - 1e-9 <= n.end - n.start <= 8.0 + 1e-9 and 21 <= n.pitch <= 108
        ons = sum(i < NOTE_OFF for i in take.ids)
        assert ons == len(take.new.notes)
        for pitch in range(128):  # no key is struck again while it is down
            mine = sorted((n.start, n.end) for n in take.new.notes if n.pitch == pitch)
            assert all(a[1] <= b[0] + 1e-9 for a, b in pairwise(mine))


@pytest.mark.parametrize(("said", "asked", "most"), [(None, None, 8.0), (1.5, None, 1.5), (1.5, 4.0, 4.0)])
def test_how_long_a_note_is_held_is_the_checkpoints_matter_unless_someone_says(piano, said, asked, most):
    own = dataclasses.replace(piano, run={} if said is None else {"generation": {"max_hold": said}})
    config = ComposeConfig(seconds=60.0, seed=1, max_hold=asked)
    (take,) = run(Composition(own, None, config)).takes()
    assert most - 1.0 < max(n.end - n.start for n in take.new.notes) <= most + 1e-6
    assert take.receipt.settings["compose"]["max_hold"] == most, "the receipt tells it, whoever decided"


@pytest.mark.parametrize("said", ["long", 0, 61, True, [3]])
def test_a_checkpoint_that_says_nonsense_of_holds_is_refused(piano, said):
    own = dataclasses.replace(piano, run={"generation": {"max_hold": said}})
    with pytest.raises(UserError, match=r"run.json: generation.max_hold is .* 0.05 to 60 seconds"):
        Composition(own, None)


def test_from_a_second_in_the_middle(piano):
    (take,) = continue_score(piano, song(), seconds=5, seed=4, at=3.1)
    kept = tuple(n for n in song().notes if n.start < 3.1)
    assert take.prompt.notes == kept
    assert take.join == 3.1
    assert all(n.start >= 3.1 for n in take.whole.notes if n.channel == 1)


def test_generate_continues_nothing(piano):
    (take,) = generate_score(piano, seconds=1.5, seed=9)
    assert take.prompt == Score() and take.join == 0.0
    assert take.whole.notes == take.new.notes
    assert take.receipt.action == "generate" and take.receipt.prompt is None


def test_without_a_seed_one_is_drawn_and_told(piano):
    first, second = (run(Composition(piano, None, ComposeConfig(seconds=1))).takes()[0] for _ in range(2))
    assert first.seed != second.seed
    assert run(Composition(piano, None, ComposeConfig(seconds=1, seed=first.seed))).takes()[0].ids == first.ids


def test_a_stop_keeps_what_exists(piano):
    composition = Composition(piano, song(), ComposeConfig(seconds=60, seed=1))
    seen: list[object] = []
    for step in composition.steps(lambda: len(seen) >= 80):
        seen.append(step)
    (take,) = composition.takes()
    assert len(take.ids) == len(seen) == 80
    assert take.new.notes and take.new.end < 60


def test_nothing_but_rests_says_so_and_offers_another_seed(piano):
    composition = Composition(piano, song(), ComposeConfig(seconds=5, seed=7))
    composition.ids = [[TIME_SHIFT + 99] * 3]
    with pytest.raises(UserError, match="take 1 with seed 7 came out as nothing but rests; try --seed 8"):
        refuse_silence(composition.takes())


def test_the_receipt_makes_the_piece_again_byte_for_byte(piano):
    upload = write_midi(song())
    score, _ = read_midi(upload)
    takes = run(
        Composition(piano, score, ComposeConfig(seconds=1.5, takes=2, seed=6), PRESETS["wild"], source=upload)
    ).takes()
    for take in takes:
        for part in ("whole", "new"):
            data = take.midi(part)
            receipt = find_receipt(read_texts(data))
            assert receipt is not None and receipt.take == take.index and receipt.prompt == upload
            assert recreate(receipt, piano) == data


def test_the_receipt_refuses_another_checkpoint(piano, tmp_path):
    torch.manual_seed(6)
    checkpoint.save(tmp_path / "other", GPT(piano.config), EventCodec(), {})
    (take,) = generate_score(piano, seconds=1, seed=1)
    with pytest.raises(UserError, match="was made by checkpoint"):
        recreate(take.receipt, checkpoint.load(tmp_path / "other"))


def test_a_prompt_longer_than_the_window_is_read_from_its_end(piano):
    long = song(60)
    (take,) = continue_score(piano, long, seconds=5, seed=3)
    assert len(take.prompt_ids) > 4 * piano.config.context
    assert take.prompt.notes == long.notes
    assert take.new.notes


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"seconds": 0.0}, "--seconds is 0.0"),
        ({"takes": 0}, "--takes is 0"),
        ({"at": 99.0}, "--at is 99 s"),
        ({"seed": -1}, "--seed is -1"),
    ],
)
def test_settings_out_of_range_are_refused(piano, settings, said):
    with pytest.raises(UserError, match=said):
        continue_score(piano, song(), **settings)
