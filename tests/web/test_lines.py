"""A stream that is left in the middle ends at once, not when memory is collected."""

from __future__ import annotations

import asyncio
import gc

import pytest

from music_transformer.web.lines import JsonLines
from music_transformer.web.turns import Turns

SCOPE = {"type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}}


@pytest.fixture
def uncollected():
    """No collection: what is freed is freed by nobody holding it."""
    gc.disable()
    yield
    gc.enable()


def answer(response: JsonLines, leave: int | None) -> list[bytes]:
    """The parts that were sent; the visitor leaves when the n-th is being sent, and that sending never ends."""
    parts: list[bytes] = []

    async def talk() -> None:
        gone = asyncio.Event()

        async def receive() -> dict:
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: dict) -> None:
            if message.get("body"):
                parts.append(message["body"])
            if len(parts) == leave:
                gone.set()
                await asyncio.sleep(60)

        await response(SCOPE, receive, send)

    asyncio.run(talk())
    return parts


def plain(turns: Turns, log: list[str]):
    with turns.turn("ann"):
        try:
            for n in range(3):
                yield b"%d\n" % n
        finally:
            log.append("closed")


async def own(turns: Turns, log: list[str]):
    for line in plain(turns, log):
        yield line


@pytest.mark.parametrize("source", [plain, own])
def test_the_whole_stream(source):
    turns, log = Turns(), []
    assert answer(JsonLines(source(turns, log)), None) == [b"0\n", b"1\n", b"2\n"]
    assert log == ["closed"] and len(turns) == 0


@pytest.mark.parametrize("leave", [1, 2, 3])
def test_a_visitor_who_leaves_gives_the_turn_back(uncollected, leave):
    turns, log = Turns(), []
    source = plain(turns, log)  # held here, as a traceback would hold it
    assert len(answer(JsonLines(source), leave)) == leave
    assert log == ["closed"] and len(turns) == 0


def test_a_source_of_its_own_loop_is_closed_too(uncollected):
    log: list[str] = []

    async def source():
        try:
            while True:
                yield b"x\n"
        finally:
            log.append("closed")

    made = source()
    answer(JsonLines(made), 2)
    assert log == ["closed"]
