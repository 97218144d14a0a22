"""Cutting a piece and joining a new part: every figure here is counted by hand."""

from __future__ import annotations

import pytest

from gpt_core.errors import UserError
from music_transformer.events import BOS, NOTE_OFF, NOTE_ON, TIME_SHIFT, VELOCITY, decode
from music_transformer.score import Note, Pedal, Score, Tempo, TimeSignature, make_score
from music_transformer.splice import cut, joined, new_part, with_clock


def piece() -> Score:
    notes = [Note(60, 0.0, 0.5, 80), Note(64, 0.5, 3.0, 80), Note(67, 2.0, 2.25, 40)]
    return make_score(notes, [], [Tempo(0.0, 90.0), Tempo(1.0, 60.0)], [TimeSignature(0.0, 3, 4)])


def test_at_the_end_everything_is_the_prompt():
    made = cut(piece(), None)
    assert made.prompt == piece()
    assert made.join == 3.0
    # velocity 80 is bin (80-1)//4 = 19, velocity 40 bin 9; shifts of 50, 100 + 50, 25 and 75 steps
    assert made.ids == [
        BOS, VELOCITY + 19, NOTE_ON + 60, TIME_SHIFT + 49, NOTE_OFF + 60, NOTE_ON + 64, TIME_SHIFT + 99, TIME_SHIFT + 49,
        VELOCITY + 9, NOTE_ON + 67, TIME_SHIFT + 24, NOTE_OFF + 67, TIME_SHIFT + 74, NOTE_OFF + 64,
    ]  # fmt: skip


def test_the_pedal_rings_out_before_the_join():
    score = make_score([Note(60, 0.0, 0.5, 80)], [Pedal(0.2, 2.0)])
    assert cut(score, None).join == 2.0


def test_in_the_middle_a_held_key_stays_down_in_the_ids_and_whole_in_the_prompt():
    made = cut(piece(), 1.25)
    assert made.prompt.notes == piece().notes[:2]
    assert made.prompt.tempos == piece().tempos
    assert made.join == 1.25
    assert made.ids[-3:] == [NOTE_OFF + 60, NOTE_ON + 64, TIME_SHIFT + 74]


def test_a_release_at_the_cut_belongs_to_the_prompt_and_a_strike_to_the_future():
    made = cut(piece(), 0.5)
    assert made.prompt.notes == piece().notes[:1]
    assert made.ids[-2:] == [TIME_SHIFT + 49, NOTE_OFF + 60]


def test_a_loudness_meant_for_the_future_is_not_left_hanging():
    made = cut(piece(), 2.0)
    assert made.ids[-2:] == [TIME_SHIFT + 99, TIME_SHIFT + 49]


def test_waits_across_the_cut_add_up():
    for at in (0.01, 0.73, 1.0, 1.5, 1.99, 2.6, 2.999):
        made = cut(piece(), at)
        waits = sum(i - TIME_SHIFT + 1 for i in made.ids if TIME_SHIFT <= i < VELOCITY)
        assert waits == round(100 * made.join) == int(100 * at + 0.5)


def test_nothing_is_cut_from_nothing():
    assert cut(None, None) == (Score(), [BOS], 0.0)


@pytest.mark.parametrize(
    ("at", "said"), [(3.5, "3.5 s but the piece ends at 3.00 s"), (0.0, "first note is at 0.00 s")]
)
def test_a_cut_outside_the_piece_is_refused(at, said):
    with pytest.raises(UserError, match=said):
        cut(piece(), at)


def test_a_second_without_a_piece_is_refused():
    with pytest.raises(UserError, match="no piece"):
        cut(None, 2.0)


def test_the_new_part_takes_over_the_loudness():
    prompt_ids = [BOS, VELOCITY + 3, NOTE_ON + 60, TIME_SHIFT + 9, NOTE_OFF + 60]
    new_ids = [TIME_SHIFT + 9, NOTE_ON + 72, TIME_SHIFT + 9, NOTE_OFF + 72]
    assert new_part(prompt_ids, new_ids).notes == (Note(72, 0.1, 0.2, 4 * 3 + 2),)


def test_releases_of_the_prompts_keys_make_no_notes():
    assert new_part([BOS, NOTE_ON + 60], [TIME_SHIFT + 9, NOTE_OFF + 60]).notes == ()


def test_joined_leaves_the_prompt_as_it_was_and_moves_the_new_part():
    new = make_score([Note(72, 0.25, 0.5, 60)])
    whole = joined(piece(), new, 3.0)
    assert whole.notes[:3] == piece().notes
    assert whole.notes[3] == Note(72, 3.25, 3.5, 60, channel=1)  # on a channel of its own, away from the prompt's pedal
    assert whole.tempos == piece().tempos and whole.time_signatures == piece().time_signatures


def test_joined_never_uses_the_drums_channel():
    crowded = make_score([Note(60, 0.0, 1.0, 64, channel=c) for c in range(9)])
    assert joined(crowded, make_score([Note(72, 0.0, 1.0, 64)]), 1.0).notes[-1].channel == 10


def test_with_clock_carries_the_tempo_in_force():
    part = with_clock(decode([NOTE_ON + 60, TIME_SHIFT + 9, NOTE_OFF + 60]), piece(), 1.5)
    assert part.tempos == (Tempo(0.0, 60.0),)
    assert part.time_signatures == (TimeSignature(0.0, 3, 4),)
