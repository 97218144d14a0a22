"""Where a piece is cut to be continued, and how its new part is joined on: pure functions of Scores and ids."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

from gpt_core.errors import UserError
from music_transformer.events import BOS, PAD, STEPS_PER_SECOND, TIME_SHIFT, VELOCITY, decode, encode, token_notes
from music_transformer.score import Note, Score, make_score, shift
from music_transformer.vocabulary import MAX_SHIFT, NOTE_OFF

DRUMS = 9


class Cut(NamedTuple):
    """A prompt: its notes as they were, its ids with BOS, and the second at which the new part begins."""

    prompt: Score
    ids: list[int]
    join: float


def cut(score: Score | None, at: float | None) -> Cut:
    """Cut ``score`` at second ``at`` (None = its end, rung out); None for no piece cuts nothing at 0.

    Notes struck before the cut stay whole, later ones go. The ids stop at the cut, so a key held across it is still down
    in them. Raises UserError where ``at`` leaves no note or lies after the end.
    """
    if score is None or not score.notes:
        if at:
            raise UserError(f"--at is {at:g} s but there is no piece to continue; leave --at out or give a MIDI file")
        return Cut(Score(), [BOS], 0.0)
    ids = encode(score)
    length = sum(i - TIME_SHIFT + 1 for i in ids if TIME_SHIFT <= i < VELOCITY) / STEPS_PER_SECOND
    if at is None:
        return Cut(score, [BOS, *ids], length)
    if not 0 <= at <= length:
        raise UserError(
            f"--at is {at:g} s but the piece ends at {length:.2f} s; give 0 to {length:.2f}, or leave it out"
        )
    join = int(100 * at + 0.5) / STEPS_PER_SECOND
    before = _ids_before(ids, join)
    prompt = _notes_before(score, join)
    if not prompt.notes:
        raise UserError(f"--at is {at:g} s but the first note is at {score.notes[0].start:.2f} s; continue from later")
    return Cut(prompt, [BOS, *before], join)


def _ids_before(ids: Sequence[int], join: float) -> list[int]:
    """Keep the events before ``join`` (NOTE_OFFs at it too), then wait until it."""
    _, seconds = token_notes(ids)
    at = round(join * STEPS_PER_SECOND)
    end = 0
    now = 0
    for n, (i, s) in enumerate(zip(ids, seconds, strict=True)):
        step = round(float(s) * STEPS_PER_SECOND)
        if step > at or (step == at and not NOTE_OFF <= i < VELOCITY):
            break
        end, now = n + 1, step
    kept = list(ids[:end])
    while kept and VELOCITY <= kept[-1] < PAD:
        kept.pop()
    wait = at - now
    return (
        kept
        + [TIME_SHIFT + MAX_SHIFT - 1] * (wait // MAX_SHIFT)
        + ([TIME_SHIFT + wait % MAX_SHIFT - 1] if wait % MAX_SHIFT else [])
    )


def _notes_before(score: Score, join: float) -> Score:
    step = round(join * STEPS_PER_SECOND)
    return dataclasses.replace(
        score,
        notes=tuple(n for n in score.notes if int(100 * n.start + 0.5) < step),
        pedals=tuple(p for p in score.pedals if p.start < join),
        tempos=tuple(t for t in score.tempos if t.time <= join),
        time_signatures=tuple(t for t in score.time_signatures if t.time <= join),
    )


def new_part(prompt_ids: Sequence[int], new_ids: Sequence[int]) -> Score:
    """Return the notes of ``new_ids``, 0 = the join; the loudness in force at the join carries over."""
    spoken = next((i for i in reversed(prompt_ids) if VELOCITY <= i < PAD), None)
    return decode([*([] if spoken is None else [spoken]), *new_ids])


def joined(prompt: Score, new: Score, join: float) -> Score:
    """Return the prompt, untouched, followed by ``new`` from second ``join`` on, on a channel of its own."""
    channel = _free_channel(prompt)
    notes: list[Note] = [dataclasses.replace(n, channel=channel) for n in shift(new, join).notes]
    whole = make_score([*prompt.notes, *notes], prompt.pedals, prompt.tempos, prompt.time_signatures)
    return dataclasses.replace(whole, ticks_per_beat=prompt.ticks_per_beat)


def followed(whole: Score, source: Score, until: float) -> Score:
    """Return ``whole`` up to second ``until``, and from there on what ``source`` holds: a rewritten range."""
    head = [n for n in whole.notes if n.start < until]
    tail = [n for n in source.notes if n.start >= until]
    pedals = {*whole.pedals, *(p for p in source.pedals if p.start >= until)}
    made = make_score([*head, *tail], pedals, source.tempos, source.time_signatures)
    return dataclasses.replace(made, ticks_per_beat=source.ticks_per_beat)


def _free_channel(prompt: Score) -> int:
    """Return a channel on which no pedal of the prompt can blur the new notes; 0 where there is none or no prompt."""
    used = {n.channel for n in prompt.notes} | {p.channel for p in prompt.pedals}
    return next((c for c in range(16) if c not in used and c != DRUMS), 0)


def with_clock(new: Score, prompt: Score, join: float) -> Score:
    """Give the new part, by itself, the tempo and time signature in force at the join."""
    tempos = [dataclasses.replace(t, time=0.0) for t in prompt.tempos if t.time <= join][-1:]
    signatures = [dataclasses.replace(t, time=0.0) for t in prompt.time_signatures if t.time <= join][-1:]
    made = make_score(new.notes, (), tempos, signatures)
    return dataclasses.replace(made, ticks_per_beat=prompt.ticks_per_beat)
