"""JSON lines as a response that closes its source the moment it is over, also where the visitor left in the middle."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Generator

from fastapi.responses import StreamingResponse
from starlette.concurrency import iterate_in_threadpool
from starlette.types import Receive, Scope, Send


class JsonLines(StreamingResponse):
    """Streams a generator's lines as they come; a plain generator runs in the thread pool.

    Without the closing, a source that was left in the middle would end when its memory is collected: perhaps much later,
    and what it holds, its turn in the queue, would be held as long.
    """

    def __init__(self, source: Generator[bytes, None, None] | AsyncGenerator[bytes, None]) -> None:
        self.source = source
        lines = source if isinstance(source, AsyncGenerator) else iterate_in_threadpool(source)
        super().__init__(lines, media_type="application/x-ndjson", headers={"Cache-Control": "no-store"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, then close the source."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            with contextlib.suppress(RuntimeError, ValueError):  # it is at work just now: it ends by itself
                if isinstance(self.source, AsyncGenerator):
                    await self.source.aclose()
                else:
                    self.source.close()
