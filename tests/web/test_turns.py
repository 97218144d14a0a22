"""The queue: order, positions told, a full queue refused, a leaver makes room."""

from __future__ import annotations

import threading

import pytest

from music_transformer.web.turns import QueueFull, Turns


def test_first_come_first_served_and_everyone_knows_the_place():
    turns, order, told = Turns(), [], {n: [] for n in range(4)}
    gate, joined = threading.Event(), threading.Semaphore(0)

    def visit(n: int) -> None:
        with turns.turn(f"v{n}", ahead=lambda k: (told[n].append(k), joined.release())):
            gate.wait(5)
            order.append(n)

    threads = []
    for n in range(4):
        threads.append(threading.Thread(target=visit, args=(n,)))
        threads[-1].start()
        assert joined.acquire(timeout=5)
    assert len(turns) == 4
    gate.set()
    for thread in threads:
        thread.join(5)
    assert order == [0, 1, 2, 3]
    assert [t[0] for t in told.values()] == [0, 1, 2, 3]
    assert all(t[-1] == 0 and t == sorted(t, reverse=True) for t in told.values())
    assert len(turns) == 0


def test_a_full_queue_and_a_greedy_visitor_are_refused():
    turns = Turns(waiting=1, each=2)
    with turns.turn("a"):
        turns._join("b")
        with pytest.raises(QueueFull, match="1 others are waiting"):
            turns._join("c")
    busy = Turns(waiting=9, each=1)
    with busy.turn("a"), pytest.raises(QueueFull, match="your own"), busy.turn("a"):
        pass


def test_who_gives_up_leaves_the_line():
    turns = Turns()
    with turns.turn("a") as first:
        assert first
        with turns.turn("b", cancel=lambda: True) as second:
            assert not second
        assert len(turns) == 1


def test_who_gave_up_while_waiting_does_not_begin_when_the_place_comes():
    turns, left = Turns(), threading.Event()
    leave = {"ahead": lambda n: left.set(), "cancel": left.is_set}  # as it hears that it is next
    with turns.turn("a", **leave) as mine:
        assert not mine


def test_a_failure_inside_a_turn_passes_it_on():
    turns = Turns()
    with pytest.raises(ZeroDivisionError), turns.turn("a"):
        1 / 0  # noqa: B018
    with turns.turn("b") as mine:
        assert mine
