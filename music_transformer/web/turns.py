"""The queue: one visitor at a time composes, the others wait in order and are told how many are before them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from gpt_core.errors import UserError


class QueueFull(UserError):
    """Too many are waiting; the page says so with status 503."""


@dataclass(eq=False)
class _Ticket:
    visitor: str
    told: int = field(default=-1)


class Turns:
    """First come, first served. ``waiting`` may wait at once, ``each`` of them at most one visitor's own."""

    def __init__(self, waiting: int = 16, each: int = 4) -> None:
        self.waiting = waiting
        self.each = each
        self._line: deque[_Ticket] = deque()  # its head has the turn
        self._moved = threading.Condition()

    def __len__(self) -> int:
        """How many are composing or waiting."""
        return len(self._line)

    @contextmanager
    def turn(
        self, visitor: str, *, ahead: Callable[[int], None] | None = None, cancel: Callable[[], bool] = lambda: False
    ) -> Iterator[bool]:
        """Wait for one's turn; yields False where ``cancel()`` became true before it came.

        ``ahead(n)`` is told how many are before this one, whenever that changes, 0 included. QueueFull at once where
        too many wait already.
        """
        ticket = self._join(visitor)
        try:
            yield self._wait(ticket, ahead or (lambda n: None), cancel)
        finally:
            with self._moved:
                self._line.remove(ticket)
                self._moved.notify_all()

    def _join(self, visitor: str) -> _Ticket:
        with self._moved:
            mine = sum(t.visitor == visitor for t in self._line)
            if mine >= self.each:
                raise QueueFull(f"{mine} of your own pieces are being written or waiting; wait for one, or stop one")
            if len(self._line) > self.waiting:
                raise QueueFull(f"{self.waiting} others are waiting for the instrument; try again in a minute")
            ticket = _Ticket(visitor)
            self._line.append(ticket)
            return ticket

    def _wait(self, ticket: _Ticket, ahead: Callable[[int], None], cancel: Callable[[], bool]) -> bool:
        while not cancel():
            with self._moved:
                before = self._line.index(ticket)
                if before == ticket.told:
                    self._moved.wait(0.2)
                    before = self._line.index(ticket)
            if before != ticket.told:
                ticket.told = before
                ahead(before)
            if before == 0:  # asked again: it may have become true during the wait for this place
                return not cancel()
        return False
