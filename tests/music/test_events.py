"""The event codec: the vocabulary, Score <-> ids, and what every id stands for."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpt_core.errors import UserError
from music_transformer.events import (
    BOS,
    EOS,
    PAD,
    VOCAB,
    VOCAB_SIZE,
    EventCodec,
    decode,
    describe,
    encode,
    encode_array,
    normalize,
    token_notes,
)
from music_transformer.score import Note, Pedal, Score, make_score
from tests.music.scores import random_score, scores

# The figure of "Music Transformer" (Huang et al. 2018): a C major arpeggio under the pedal, then an F.
FIGURE = make_score(
    [Note(60, 0.0, 0.4, 80), Note(64, 0.5, 0.9, 80), Note(67, 1.0, 1.6, 80), Note(65, 2.5, 3.0, 100)],
    [Pedal(0.0, 2.0)],
)
FIGURE_IDS = [356 + 19, 60, 305, 64, 305, 67, 355, 128 + 60, 128 + 64, 128 + 67, 305, 356 + 24, 65, 305, 128 + 65]


def test_golden_case():
    assert encode(FIGURE) == FIGURE_IDS
    assert [describe(i) for i in FIGURE_IDS[:4]] == ["VELOCITY 78", "NOTE_ON 60", "TIME_SHIFT 500 ms", "NOTE_ON 64"]
    rings = [(n.pitch, n.start, n.end, n.velocity) for n in decode(FIGURE_IDS).notes]
    assert rings == [(60, 0.0, 2.0, 78), (64, 0.5, 2.0, 78), (67, 1.0, 2.0, 78), (65, 2.5, 3.0, 98)]


def test_magentas_order_and_our_special_ids():
    firsts = {kind.name: (kind.first, kind.count) for kind in VOCAB}
    assert firsts == {
        "NOTE_ON": (0, 128), "NOTE_OFF": (128, 128), "TIME_SHIFT": (256, 100), "VELOCITY": (356, 32),
        "PAD": (388, 1), "BOS": (389, 1), "EOS": (390, 1),
    }  # fmt: skip
    assert VOCAB_SIZE == 391 and EventCodec().special_ids == {"pad": 388, "bos": 389, "eos": 390}
    words = [describe(i) for i in (0, 127, 128, 255, 256, 355, 356, 387, 388, 389, 390)]
    assert words == [
        "NOTE_ON 0", "NOTE_ON 127", "NOTE_OFF 0", "NOTE_OFF 127", "TIME_SHIFT 10 ms", "TIME_SHIFT 1000 ms",
        "VELOCITY 2", "VELOCITY 126", "PAD", "BOS", "EOS",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("seconds", "step"),
    [
        (0.0, 0),
        (0.004999, 0),
        (0.005, 1),
        (0.014999, 1),
        (0.015, 2),
        (0.29, 29),
        (0.125, 13),
        (3599.995, 360000),
        (36000.0, 3600000),
    ],
)
def test_absolute_time_is_rounded_half_up(seconds, step):
    (note,) = normalize(make_score([Note(60, seconds, seconds + 1, 64)])).notes
    assert note.start == step / 100


def test_ten_thousand_odd_intervals_do_not_drift():
    notes = [Note(60, k * 0.0333, k * 0.0333 + 0.01, 64) for k in range(10_000)]
    got = decode(encode(make_score(notes))).notes
    assert max(abs(a.start - b.start) for a, b in zip(notes, got, strict=True)) <= 0.005 + 1e-9


def test_a_note_lasts_at_least_one_step():
    (note,) = decode(encode(make_score([Note(60, 1.001, 1.002, 64)]))).notes
    assert (note.start, note.end) == (1.0, 1.01)


def test_velocity_bins_come_back_as_their_centre():
    for velocity in range(1, 128):
        (note,) = decode(encode(make_score([Note(60, 0, 1, velocity)]))).notes
        low = 4 * ((velocity - 1) // 4) + 1
        assert note.velocity == (low + min(low + 3, 127)) // 2
        assert low <= note.velocity <= low + 3


def test_velocity_is_said_once_while_its_bin_stays():
    bins = [
        i for i in encode(make_score([Note(60 + k, k, k + 1, v) for k, v in enumerate((1, 4, 5, 5, 1))])) if i >= 356
    ]
    assert bins == [356, 357, 356]


def test_long_rests_repeat_one_second():
    assert encode(make_score([Note(60, 2.5, 4.51, 64)])) == [355, 355, 305, 371, 60, 355, 355, 256, 188]


def test_at_one_instant_offs_come_first_each_by_pitch():
    score = make_score([Note(64, 0, 1, 64), Note(60, 0, 1, 64), Note(62, 1, 2, 64), Note(60, 1, 2, 64)])
    assert encode(score) == [371, 60, 64, 355, 188, 192, 60, 62, 355, 188, 190]


def test_overlapping_notes_of_one_pitch_are_paired_first_in_first_out():
    score = make_score([Note(60, 0, 2, 66), Note(60, 0.5, 1, 98)])
    for back in (decode(encode(score)), normalize(score)):
        assert [(n.start, n.end, n.velocity) for n in back.notes] == [(0.0, 1.0, 66), (0.5, 2.0, 98)]


@pytest.mark.parametrize(
    ("ids", "notes"),
    [
        ([60], [(60, 0.0, 0.01)]),
        ([60, 188], [(60, 0.0, 0.01)]),
        ([188, 60, 355], [(60, 0.0, 1.0)]),
        ([60, 305, 60, 305, 188, 305, 188], [(60, 0.0, 1.0), (60, 0.5, 1.5)]),
        ([BOS, 60, PAD, 265, 188, EOS, 62, 265, 190], [(60, 0.0, 0.1)]),
        ([], []),
        ([390, 389, 388, 356, 255, 355], []),
    ],
)
def test_decode_makes_the_best_of_odd_ids(ids, notes):
    assert [(n.pitch, n.start, n.end) for n in decode(ids).notes] == notes


def test_without_a_velocity_notes_are_of_middle_loudness():
    assert decode([60, 355]).notes[0].velocity == 62


@settings(max_examples=150, deadline=None)
@given(scores)
def test_round_trips(score: Score):
    ids = encode(score)
    assert decode(ids) == normalize(score)
    assert encode(decode(ids)) == ids
    assert normalize(normalize(score)) == normalize(score)


@settings(max_examples=100, deadline=None)
@given(scores)
def test_encoder_output_is_canonical(score: Score):
    now, last_on, sounding, ids = 0, None, [0] * 128, encode(score)
    for before, id in zip([None, *ids], ids, strict=False):
        if 256 <= id < 356:
            now, last_on = now + id - 255, None
            assert before is None or not 256 <= before < 355, "a shorter shift never stands before another"
        elif id >= 356:
            assert before is None or before < 356
        elif id >= 128:
            assert last_on is None and sounding[id - 128] > 0
            sounding[id - 128] -= 1
        else:
            assert last_on is None or id >= last_on
            last_on = id
            sounding[id] += 1
    assert not any(sounding)
    assert not ids or 128 <= ids[-1] < 256


def test_ten_thousand_random_sequences_decode():
    rng = random.Random(5)
    for _ in range(10_000):
        ids = [rng.randrange(VOCAB_SIZE) for _ in range(rng.randrange(60))]
        notes = decode(ids).notes
        heard = ids[: ids.index(EOS)] if EOS in ids else ids
        assert len(notes) == sum(i < 128 for i in heard)
        assert all(n.end > n.start and 1 <= n.velocity <= 127 for n in notes)


def test_every_prefix_of_a_piece_decodes():
    ids = encode(random_score(3, 120))
    for cut in range(len(ids)):
        prefix = ids[:cut]
        notes = decode(prefix).notes
        assert len(notes) == sum(i < 128 for i in prefix)
        assert all(n.end > n.start for n in notes)
        again = encode(decode(prefix))
        assert sum(i < 128 for i in again) == sum(128 <= i < 256 for i in again) == len(notes)


@settings(max_examples=60, deadline=None)
@given(scores)
def test_token_notes_give_every_id_its_note_and_time(score: Score):
    ids = encode(score)
    notes = decode(ids).notes
    owner, seconds = token_notes(ids)
    assert len(owner) == len(seconds) == len(ids)
    for id, index, time in zip(ids, owner, seconds, strict=True):
        note = notes[index] if index >= 0 else None
        if id < 128:
            assert (note.pitch, note.start) == (id, time)
        elif id < 256:
            assert (note.pitch, note.end) == (id - 128, time)
        elif id < 356:
            assert note is None
        else:
            assert note.start == time and note.velocity == 4 * (id - 356) + 2
    assert sorted(owner[np.array(ids, int) < 128]) == list(range(len(notes)))


def test_token_notes_of_odd_ids():
    owner, seconds = token_notes([BOS, 360, 361, 60, 190, 265, 188, 188, 362, EOS, 64])
    assert owner.tolist() == [-1, -1, 0, 0, -1, -1, 0, -1, -1, -1, -1]
    assert seconds.tolist() == [0, 0, 0, 0, 0, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1]


def test_encode_array_is_uint16():
    assert encode_array(FIGURE).dtype == np.uint16 and encode_array(Score()).tolist() == []


@pytest.mark.parametrize(
    ("ids", "words"),
    [([0, 391], "391 at position 1"), ([-1], "-1 at position 0"), ([0.5], "whole numbers"), ([[1]], "one flat list"),
     ([10**30], "whole numbers"), (["a"], "whole numbers")],
)  # fmt: skip
def test_strange_ids_are_refused_in_one_sentence(ids, words):
    with pytest.raises(UserError, match=words):
        decode(ids)


def test_codec_refuses_another_vocabulary():
    codec = EventCodec()
    assert codec.from_dict(codec.to_dict()).vocab_size == 391
    other = codec.to_dict() | {"steps_per_second": 125}
    with pytest.raises(UserError, match="vocabulary"):
        EventCodec.from_dict(other)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, VOCAB_SIZE - 1), max_size=200))
def test_any_ids_become_a_score_that_encodes(ids):
    score = decode(ids)
    assert decode(encode(score)) == normalize(score)
