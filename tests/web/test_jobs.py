"""A job: Stop keeps what exists and its receipt holds; a closed page ends it; a crash is told without a traceback."""

from __future__ import annotations

import queue

import pytest

from gpt_core.errors import UserError
from music_transformer.compose import recreate
from music_transformer.web.imports import receipt_of
from music_transformer.web.jobs import Job
from music_transformer.web.orders import form, order_from
from music_transformer.web.session import accounts_from

VISITOR = "v" * 43


def run(session, order: dict, act=lambda job, message: None) -> list[dict]:
    """Run a job to its end and return its messages; ``act`` sees each one as it comes."""
    box: queue.Queue = queue.Queue()
    messages: list[dict] = []
    job = Job(session, VISITOR, order_from(order), box.put).start()
    while (message := box.get(timeout=300)) is not None:
        messages.append(message)
        act(job, message)
    return messages


def test_stop_keeps_what_exists(session):
    messages = run(session, {"seconds": 300, "seed": 3}, lambda job, m: m["type"] == "notes" and job.stop())
    done = messages[-1]
    assert done["type"] == "done" and done["stopped"] and len(done["pieces"]) == 1
    shelf = session.shelf(VISITOR)
    piece = shelf.get(done["pieces"][0])
    assert piece.notes > 0 and piece.seconds < 299
    data = shelf.midi(piece.id)
    receipt = receipt_of(data)
    assert receipt is not None and recreate(receipt, session.models.music()) == data


def test_stop_before_its_turn_leaves_the_queue(session):
    with session.turns.turn("somebody else"):
        messages = run(session, {"seconds": 5}, lambda job, m: m["type"] == "queue" and job.stop())
    assert [m["type"] for m in messages] == ["queue", "done"] and messages[0]["ahead"] == 1
    assert messages[-1]["pieces"] == [] and len(session.turns) == 0


def test_a_crash_is_one_sentence(session, monkeypatch):
    monkeypatch.setattr("music_transformer.web.jobs.save_takes", lambda *a: 1 / 0)
    last = run(session, {"seconds": 1, "seed": 1})[-1]
    assert last["type"] == "error" and "log of the server" in last["message"] and "Zero" not in last["message"]
    assert len(session.turns) == 0


def test_orders_take_the_preset_and_override_it():
    order = order_from({"preset": "calm", "top_k": 5, "seconds": 9})
    assert order.sampling.top_k == 5 and order.compose.seconds == 9
    assert order.sampling.temperature == form()["presets"]["calm"]["temperature"]
    with pytest.raises(UserError, match="JSON object"):
        order_from([1])


def test_accounts():
    assert accounts_from("ann:a:b,ben:c") == [("ann", "a:b"), ("ben", "c")]
    with pytest.raises(UserError, match="login 2") as caught:
        accounts_from("ann:x,secretword")
    assert "secretword" not in str(caught.value)
