"""Requests to the app's own routes for ``benchmarks.fuzz``, in process: sound orders spoiled, visitors who leave in the middle."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import shutil
import threading
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from benchmarks.fuzz_bpe import scratch, small_codecs
from benchmarks.fuzz_json import ODD, spoil, to_bytes
from benchmarks.fuzz_midi import grammatical, mutate
from music_transformer.receipts import MARK

PATIENCE = 60.0  # seconds, not of CPU
SOUND = {200, 307, 499, 400, 403, 404, 405, 413, 422, 503}
SAMPLING = {"temperature": 1.0, "top_k": 0, "top_p": 0.9, "min_p": 0.0, "repetition_penalty": 1.1}
TEXT = {"model": "tiny-text", "text": "the cat", "appended": [1, 2], "sampling": SAMPLING}
MOMENT = {"piece": "PIECE", "at": 1.0, "events": [60, 300, 188]}
ORDER = {
    "piece": "PIECE",
    "preset": "calm",
    "seconds": 0.3,
    "takes": 1,
    "seed": 3,
    "at": 1.0,
    "temperature": 1.0,
    "top_p": 0.9,
}
VIEW = {"piece": "PIECE", "model": "tiny", "at": 1.0}
STEPS = {"kind": "music", "model": "tiny", "sample": "SAMPLE", "position": -1, "layer": 0, "head": 1}
ROUTES: tuple[tuple[str, str, Any], ...] = (
    ("POST", "/mt/compose", ORDER), ("POST", "/mt/compose", {**ORDER, "until": 1.4}), ("POST", "/mt/next", MOMENT),
    ("POST", "/mt/next/keep", MOMENT), ("PATCH", "/mt/pieces/PIECE", {"name": "Tanz", "kept": True}),
    ("DELETE", "/mt/pieces/PIECE", None),
    ("POST", "/mt/pieces/PIECE/restore", None), ("GET", "/mt/pieces/PIECE/notes", None), ("GET", "/mt/pieces/PIECE/bars", None),
    ("GET", "/mt/pieces/PIECE/midi?part=new", None), ("GET", "/mt/pieces/PIECE/meters", None), ("GET", "/mt/pieces", None),
    ("POST", "/mt/pieces/PIECE/recreate", None), ("POST", "/mt/pieces?name=NAME", b""), ("POST", "/mt/pieces?name=NAME", b""),
    ("POST", "/mt/samples/SAMPLE", None), ("GET", "/mt/config", None), ("GET", "/mt/about", None),
    ("GET", "/mt/static/roll.js", None),
    ("POST", "/mt/jobs/JOB/stop", None), ("POST", "/mt/attention/music", VIEW), ("GET", "/mt/attention/VIEW/heads/0", None),
    ("POST", "/mt/attention/text", {"text": "the cat sat", "model": "tiny-text"}), ("GET", "/mt/attention/VIEW/page", None),
    ("POST", "/mt/text/read", TEXT), ("POST", "/mt/text/next", TEXT), ("POST", "/mt/text/lens", TEXT), ("POST", "/mt/steps", STEPS),
    ("POST", "/mt/text/complete", {**TEXT, "max_new": 5, "takes": 2, "seed": 1, "stop": ["mat"]}),
    ("POST", "/mt/steps", {**STEPS, "kind": "text", "model": "tiny-text", "text": "the cat"}),
    ("GET", "/mt/steps/inventory/music/tiny", None),
)  # fmt: skip


class Case(NamedTuple):
    """A request; ``leave`` is after how many parts of the answer the visitor goes away (None: stays)."""

    method: str
    path: str
    body: bytes
    parts: int
    leave: int | None


class Requests:
    """One session over models of a few hundred weights; a fresh visitor every 200 requests."""

    def __init__(self, rng: random.Random, seeds: Path | None) -> None:
        logging.disable(logging.ERROR)
        self.root = scratch()
        self.app, self.session = _app(self.root)
        self.loop = asyncio.new_event_loop()
        self.pool = [grammatical(rng) for _ in range(50)]
        self.count = 0
        self.known: dict[str, str] = {}
        self.visitor = ""

    def case(self, rng: random.Random) -> Case:
        """A sound request, most of them spoiled in path or body."""
        if self.count % 200 == 0:
            self._newcomer(rng)
        self.count += 1
        method, path, body = rng.choice(ROUTES)
        path = self._path(path, rng)
        if body == b"":
            data = rng.choice(self.pool)
            data = mutate(data, data, rng) if rng.random() < 0.5 else data
            data = with_receipt(data, rng) if rng.random() < 0.3 else data
        elif body is None:
            data = b"" if rng.random() < 0.9 else to_bytes(rng.choice(ODD), rng)
        else:
            sound = json.loads(
                json.dumps(body).replace("PIECE", self.known["PIECE"]).replace("SAMPLE", self.known["SAMPLE"])
            )
            data = json.dumps(sound).encode() if rng.random() < 0.2 else to_bytes(spoil(sound, rng), rng)
        streams = path.endswith(("compose", "complete"))
        leave = rng.choice((1, 2, 3)) if streams else rng.choice((None,) * 9 + (0,))
        return Case(rng.choice((method,) * 20 + ("PUT",)), path, data, rng.choice((1, 1, 3)), leave)

    def _path(self, path: str, rng: random.Random) -> str:
        for name in ("PIECE", "SAMPLE", "JOB", "VIEW", "NAME"):
            odd = rng.choice(
                (
                    "..",
                    "../../etc/passwd",
                    "a\x00b",
                    "x" * 300,
                    "é\n",
                    "",
                    "%2e%2e",
                    "A" * 16,
                    "\ud800",
                    str(rng.choice(ODD)),
                )
            )
            value = self.known.get(name, "none") if rng.random() < 0.8 else odd
            path = path.replace(name, quote(value.encode("utf-8", "surrogatepass"), safe=rng.choice(("", "/"))))
        return (
            path
            if rng.random() < 0.95
            else path + rng.choice(("/", "?x=%ff", "/..", "%00", "?part=%00&part=new", "/0/-1", "0"))
        )

    def _newcomer(self, rng: random.Random) -> None:
        shutil.rmtree(self.root / "pieces", ignore_errors=True)
        self.visitor = "".join(rng.choice("abcdefghijk") for _ in range(43))
        answer = self._ask(Case("POST", "/mt/samples/" + self.known.get("SAMPLE", _sample()), b"", 1, None))
        self.known = {"SAMPLE": _sample(), "PIECE": answer["id"], "NAME": "minuet.mid"}

    def _ask(self, case: Case) -> Any:
        status, _, body = self.loop.run_until_complete(_call(self.app, case, self.visitor))
        assert status == 200, f"status {status}"
        return json.loads(body)

    def try_one(self, case: Case, deep: bool) -> str:
        """Ask; the answer is sound, the composing ends, and the visitor's pieces are all still there."""
        status, kind, body = self.loop.run_until_complete(
            asyncio.wait_for(_call(self.app, case, self.visitor), PATIENCE)
        )
        for thread in threading.enumerate():
            if thread.name == "compose":
                thread.join(PATIENCE)
                assert not thread.is_alive(), "a composition goes on for nobody"
        if status == 0:
            return "left"
        assert status in SOUND, f"status {status}"
        if kind.startswith("application/json"):
            self._sound(case, status, json.loads(body, parse_constant=_refuse))
        elif kind.startswith("application/x-ndjson"):
            for line in body.splitlines():
                message = json.loads(line, parse_constant=_refuse)
                assert "went wrong" not in str(message.get("message")), "a composition failed"
        if deep:
            pieces = {p["id"] for p in self._ask(Case("GET", "/mt/pieces", b"", 1, None))}
            assert self.known["PIECE"] in pieces or case.method == "DELETE" or self._deleted(), "a piece is lost"
        return str(status)

    def _deleted(self) -> bool:
        return self.session.shelf(self.visitor).get(self.known["PIECE"]).deleted is not None

    def _sound(self, case: Case, status: int, answer: Any) -> None:
        if status in (400, 404, 503) and "error" in answer:
            text = answer["error"]
            assert text.isprintable() and len(text) < 1000, f"no plain sentence: {text!r}"
        if status == 200 and "/attention/" in case.path:
            self.known["VIEW"] = answer["id"]

    def show(self, case: Case) -> bytes:
        """The request as Python writes it."""
        return repr(case).encode("utf-8", "backslashreplace")


def with_receipt(data: bytes, rng: random.Random) -> bytes:
    """The file with one more track, which holds a spoiled receipt."""
    facts = {
        "format": 1,
        "action": "continue",
        "version": "0.1",
        "model": "piano",
        "checkpoint": "ab",
        "seed": 3,
        "take": 0,
    }
    facts |= {"settings": {"compose": {"seconds": 1.0}, "sampling": SAMPLING}, "prompt_sha256": None, "prompt": None}
    text = MARK.encode() + to_bytes(spoil(facts, rng), rng)[:16_000]
    event = b"\x00\xff\x01" + bytes((len(text) >> 7 | 128, len(text) & 127)) + text + b"\x00\xff\x2f\x00"
    return data + b"MTrk" + len(event).to_bytes(4, "big") + event


def _app(root: Path) -> tuple[Any, Any]:
    import torch

    from gpt_core import checkpoint
    from gpt_core.config import GPTConfig
    from gpt_core.model import GPT
    from music_transformer.events import EventCodec
    from music_transformer.web import attention_tab, steps_tab, text_reading, text_tab
    from music_transformer.web.backend import build_backend, include
    from music_transformer.web.session import Session
    from music_transformer.web.settings import ServeConfig

    torch.manual_seed(0)
    for name, codec in (("tiny", EventCodec()), ("tiny-text", small_codecs()[0])):
        checkpoint.save(root / name, GPT(GPTConfig(codec.vocab_size, 32, 1, 2, 8, position="rotary")), codec, {})
    os.environ["MUSIC_TRANSFORMER_MORE_MODELS"] = str(root / "tiny-text")
    text_reading.DEFAULT = "tiny-text"
    session = Session(ServeConfig(model=str(root / "tiny"), device="cpu", folder=str(root / "pieces")))
    app = build_backend(session)
    for tab in (attention_tab, text_tab, steps_tab):
        include(app, tab.routes(session), session)
    return app, session


def _sample() -> str:
    from music_transformer.samples import sample_names

    return sample_names()[0]


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


async def _call(app: Any, case: Case, visitor: str) -> tuple[int, str, bytes]:
    """One request through ASGI: status (0: left before), kind and bytes of the answer."""
    path, _, query = case.path.partition("?")
    size = max(1, -(-len(case.body) // case.parts))
    waiting = [case.body[i : i + size] for i in range(0, max(1, len(case.body)), size)]
    if case.leave == 0 and len(waiting) > 1:
        waiting = waiting[:1]
    gone, status, kind, parts = asyncio.Event(), 0, "", []

    async def receive() -> dict[str, Any]:
        if waiting:
            part = waiting.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(waiting) or case.leave == 0}
        if case.leave != 0:
            await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        nonlocal status, kind
        if message["type"] == "http.response.start":
            status = message["status"]
            kind = dict(message["headers"]).get(b"content-type", b"").decode()
        elif message.get("body"):
            parts.append(message["body"])
            if len(parts) == case.leave:
                gone.set()

    from urllib.parse import unquote

    headers = [
        (b"host", b"here"),
        (b"cookie", f"mt_visitor={visitor}".encode()),
        (b"content-type", b"application/json"),
    ]
    scope = {
        "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1", "method": case.method,
        "scheme": "http",
        "path": unquote(path, errors="replace"), "raw_path": path.encode(), "query_string": query.encode(), "root_path": "",
        "headers": headers, "client": ("127.0.0.1", 1), "server": ("here", 80), "state": {},
    }  # fmt: skip
    try:
        await app(scope, receive, send)
    except Exception as error:
        if type(error).__name__ != "ClientDisconnect":
            raise
    finally:
        gone.set()
    return status, kind, b"".join(parts)
