"""The bounds of a request: too large, too slow, broken off, misshapen; each is one sentence, none fills the log."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest

from music_transformer.web import guard


def ask(app, parts: list[bytes], *, path: str = "/mt/compose", then: str = "wait") -> tuple[int, str]:
    """POST parts; after them silence (``wait``) or a broken connection (``gone``): status and error."""
    sent: list[dict] = []
    waiting = list(parts)

    async def receive() -> dict:
        if waiting:
            part = waiting.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(waiting) or then != "end"}
        if then == "wait":
            await asyncio.sleep(60)
        return {"type": "http.disconnect"}

    async def send(message: dict) -> None:
        sent.append(message)

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http", "path": path,
        "raw_path": path.encode(), "query_string": b"", "root_path": "", "client": ("127.0.0.1", 1), "server": ("here", 80),
        "headers": [(b"host", b"here"), (b"content-type", b"application/json")],
    }  # fmt: skip
    asyncio.run(app(scope, receive, send))
    body = b"".join(m.get("body", b"") for m in sent[1:])
    return sent[0]["status"], json.loads(body)["error"] if body else ""


def test_an_order_of_more_than_a_megabyte_is_refused_while_it_comes(app):
    status, error = ask(app, [b" " * 400_000] * 3)
    assert status == 413 and "larger than 1 MB" in error


@pytest.mark.parametrize("path", ["/mt/compose", "/mt/pieces"])
def test_a_body_that_does_not_come_is_given_up(app, monkeypatch, path):
    monkeypatch.setattr(guard, "PATIENCE", 0.05)
    status, error = ask(app, [b"{"], path=path)
    assert status == 408 and "in time" in error


def test_a_body_that_trickles_for_ever_is_given_up(app, monkeypatch):
    monkeypatch.setattr(guard, "LONGEST", 0.0)
    assert ask(app, [b"M"] * 50, path="/mt/pieces")[0] == 408


@pytest.mark.parametrize("path", ["/mt/compose", "/mt/pieces"])
def test_a_broken_upload_does_not_fill_the_log(app, caplog, path):
    with caplog.at_level(logging.WARNING):
        ask(app, [b"MThd"], path=path, then="gone")
    assert caplog.records == []


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/mt/next", '{"at": NaN, "piece": 3}'),
        ("/mt/next", '{"events": [1e999]}'),
        ("/mt/next", '{"piece": "\\ud800", "at": "\\ud800"}'),
        ("/mt/next", "null"),
        ("/mt/next", '{"at": -1}'),
        ("/mt/compose", '{"seconds": 1' + "0" * 400 + "}"),
        ("/mt/compose", '{"seed": 1' + "0" * 400 + "}"),
        ("/mt/compose", '{"seed": 1' + "0" * 5000 + "}"),
        ("/mt/compose", '{"seconds": NaN}'),
        ("/mt/compose", '{"temperature": Infinity}'),
        ("/mt/compose", '{"\\ud800": 1}'),
        ("/mt/compose", '{"preset": "\\ud800"}'),
        ("/mt/compose", "[" * 100_000),
        ("/mt/compose", "[]"),
    ],
)
def test_orders_that_make_no_sense_are_one_sentence(client, path, body):
    answer = client.post(path, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 404, 422), answer.text
    assert answer.json()["error"].isprintable()


@pytest.mark.parametrize("at", ["-1", "NaN", "Infinity", "-Infinity", "1e300"])
def test_no_moment_outside_a_piece(client, at):
    piece = client.post("/mt/samples/" + next(iter(client.get("/mt/config").json()["samples"]))).json()["id"]
    body = f'{{"piece": "{piece}", "at": {at}}}'
    answer = client.post("/mt/next", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422) and answer.json()["error"]
