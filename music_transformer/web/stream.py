"""``POST /mt/compose``: an order in, a stream of JSON lines out, as fast as the model plays."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections.abc import AsyncGenerator
from typing import Annotated, Any

from fastapi import APIRouter, Body

from gpt_core.errors import UserError
from music_transformer.web.asking import Here, Visitor
from music_transformer.web.jobs import Job
from music_transformer.web.lines import JsonLines
from music_transformer.web.orders import order_from

router = APIRouter()


@router.post("/compose")
async def compose(here: Here, visitor: Visitor, data: Annotated[Any, Body()]) -> JsonLines:
    """Compose; the lines are the messages of :class:`jobs.Job` after one that names the job."""
    order = order_from(data)
    if order.piece is not None:
        here.shelf(visitor).get(order.piece)
    messages: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    key = (visitor, secrets.token_urlsafe(12))

    def emit(message: dict[str, Any] | None) -> None:
        if message is None:  # not before: the server waits at its end for the jobs it knows
            here.jobs.pop(key, None)
        with contextlib.suppress(RuntimeError):  # the server has closed meanwhile; the pieces are saved all the same
            loop.call_soon_threadsafe(messages.put_nowait, message)

    job = Job(here, visitor, order, emit)

    async def lines() -> AsyncGenerator[bytes, None]:
        here.jobs[key] = job  # only here: a visitor may have left before the answer begins
        job.start()
        try:
            yield _line({"type": "job", "job": key[1]})
            while (message := await messages.get()) is not None:
                yield _line(message)
        finally:  # also where the page was closed: the job ends soon, and what exists is saved
            job.stop()

    return JsonLines(lines())


@router.post("/jobs/{job}/stop")
async def stop(here: Here, visitor: Visitor, job: str) -> dict[str, bool]:
    """End a composition and keep what exists."""
    found = here.jobs.get((visitor, job))
    if found is None:
        raise UserError("this composition is over already")
    found.stop()
    return {"stopped": True}


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"
