"""The likeliest next events and nats per event, against the model's own logits read one window at a time."""

from __future__ import annotations

import math

import pytest
import torch

from gpt_core.config import GPTConfig
from gpt_core.errors import UserError
from gpt_core.model import GPT
from music_transformer.events import BOS, EventCodec, encode
from music_transformer.next_events import draft, likeliest, nats_per_event
from music_transformer.score import Note, make_score


class Piano:
    """What these functions use of a checkpoint."""

    def __init__(self, context: int) -> None:
        torch.manual_seed(3)
        self.model = GPT(
            GPTConfig(vocab_size=391, context=context, n_layer=2, n_head=2, n_embd=16, position="rotary")
        ).eval()
        self.config, self.codec = self.model.config, EventCodec()


SCORE = make_score(Note(60 + (5 * i) % 13, 0.3 * i, 0.3 * i + 0.25, 40 + i) for i in range(40))


def test_likeliest_are_the_allowed_ones_by_probability():
    piano = Piano(512)
    now = draft(SCORE, None)
    events = likeliest(piano, now, 391)
    assert sum(e.share for e in events) == pytest.approx(1.0, abs=1e-5)
    assert not {e.id for e in events} & set(range(128, 256)), "nothing sounds at the end, so nothing can be released"
    logits = piano.model(torch.tensor([[BOS, *encode(SCORE)]]))[0, -1].tolist()
    best = max((e.id for e in events), key=lambda id: logits[id])
    assert events[0].id == best and events[0].text
    held = draft(SCORE, 1.6)  # inside the sixth note, of pitch 60 + 25 % 13 = 72
    offs = {e.id - 128 for e in likeliest(piano, held, 391) if 128 <= e.id < 256}
    assert offs == {72}


def test_a_draft_moves_on_and_closes_what_sounds():
    now = draft(None, None, [356 + 20, 60, 256 + 99, 64, 256 + 49])
    assert now.seconds == 1.5
    assert [(n.pitch, n.start, n.end) for n in now.score().notes] == [(60, 0.0, 1.5), (64, 1.0, 1.5)]
    with pytest.raises(UserError, match="391"):
        draft(None, None, [391])
    with pytest.raises(UserError, match="at most 2,000"):
        draft(None, None, [60] * 2001)


def test_nats_within_one_window_are_the_cross_entropy():
    piano = Piano(1024)
    ids = [BOS, *encode(SCORE)]
    logp = piano.model(torch.tensor([ids]))[0].log_softmax(-1).detach()
    nats = [-float(logp[i, ids[i + 1]]) for i in range(len(ids) - 1)]
    before, after = nats_per_event(piano, SCORE, 0.0)
    assert math.isnan(before) and after == pytest.approx(sum(nats) / len(nats), abs=1e-4)
    before, after = nats_per_event(piano, SCORE, 6.0)
    cut = next(i for i in range(len(ids)) if sum(max(0, x - 255) for x in ids[: i + 1] if 256 <= x < 356) >= 600)
    assert before == pytest.approx(sum(nats[:cut]) / cut, abs=0.15)
    total = before * len(nats[:cut]) + after * len(nats[cut:])
    assert total == pytest.approx(sum(nats), rel=0.02)


def test_nats_of_a_long_piece_read_every_event_once():
    piano = Piano(64)
    _, after = nats_per_event(piano, SCORE, 0.0)
    ids = [BOS, *encode(SCORE)]
    nats = []
    for i in range(1, len(ids)):
        start = 0 if i <= 64 else 32 * math.ceil((i - 64) / 32)
        logits = piano.model(torch.tensor([ids[start:i]]))[0, -1].detach()
        nats.append(-float(logits.log_softmax(-1)[ids[i]]))
    assert after == pytest.approx(sum(nats) / len(nats), abs=1e-3)
