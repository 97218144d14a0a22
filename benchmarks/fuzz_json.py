"""Spoil JSON the way strangers do: wrong kinds, edges of numbers, odd texts, missing and strange keys, broken bytes."""

from __future__ import annotations

import contextlib
import copy
import json
import random
from typing import Any

from benchmarks.fuzz_midi import mutate

_DEEP = json.loads("[" * 50 + "]" * 50)
ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3.5, -0.0, 1e-320, 1e308, -1e308, float("nan"), float("inf"), float("-inf"), 255, 2**31, 2**53,
    2**63, -(2**63), 2**64, 10**40, 10**400, "", " ", "0", "nan", "x" * 300, "\ud800", "\x00", "a\nb", "../../etc/passwd",
    "C:\\x", "é" * 20, "\u202e", "<b>", "%s{0}", [], {}, [[]], [None], [1, 2], ["a"], {"a": 1}, {"": {}}, _DEEP, [0] * 200,
)  # fmt: skip
TOKENS = (
    b"{", b"}", b"[", b"]", b",", b":", b'"', b"null", b"NaN", b"Infinity", b"-1", b"1e999", b"\\ud800", b"\\u0000", b"\xff",
    b"\xef\xbb\xbf", b"true", b"0x1", b"9" * 30, b"[" * 2000, b'{"a":' * 1200, b"\x00", b"//", b"'",
)  # fmt: skip


def spoil(value: Any, rng: random.Random, changes: int | None = None) -> Any:
    """A copy with one to three changes somewhere inside."""
    value = copy.deepcopy(value)
    for _ in range(changes or rng.choice((1, 1, 2, 3))):
        places = list(_places(value, 400))
        if not places:
            return copy.deepcopy(rng.choice(ODD))
        _change(*rng.choice(places), rng)
    return value


def _places(value: Any, most: int) -> list[tuple[Any, Any]]:
    """Every (container, key) inside a value, a sample of large lists, breadth first."""
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting and len(found) < most:
        box = waiting.pop(0)
        if isinstance(box, dict):
            keys: list[Any] = list(box)
        elif isinstance(box, list):
            keys = list(range(len(box))) if len(box) < 8 else [0, 1, len(box) // 2, len(box) - 1]
        else:
            continue
        found += [(box, k) for k in keys]
        waiting += [box[k] for k in keys]
    return found


def _change(box: Any, key: Any, rng: random.Random) -> None:
    how = rng.randrange(8)
    if how < 3:
        box[key] = copy.deepcopy(rng.choice(ODD))
    elif how == 3 and isinstance(box[key], int | float):
        with contextlib.suppress(OverflowError):  # half of a number that no float can hold
            box[key] = box[key] + rng.choice((-1, 1, 0.5)) if rng.random() < 0.7 else -box[key]
    elif how == 3 and isinstance(box[key], str):
        text = box[key]
        at = rng.randrange(len(text) + 1)
        box[key] = (
            text[:at] + rng.choice(("", " ", "\n", "Ġ", "\ud800", "..", "/", text)) + text[at + rng.randrange(3) :]
        )
    elif how == 4:
        del box[key]
    elif how == 5 and isinstance(box, dict):
        box[rng.choice(("", "x", "seed", "piece", "kind", "é", "\ud800", str(key) + "_"))] = rng.choice(ODD)
    elif how == 5:
        box.insert(key, copy.deepcopy(rng.choice((*ODD, box[key]))))
    elif how == 6:
        other = rng.choice(list(box)) if isinstance(box, dict) else rng.randrange(len(box))
        box[key], box[other] = box[other], box[key]
    else:
        box[key] = rng.choice(([box[key]], {"a": box[key]}, str(box[key])))


def to_bytes(value: Any, rng: random.Random) -> bytes:
    """JSON, at times broken, with a mark at its head, in another encoding, or far too deep."""
    try:
        data = json.dumps(value, ensure_ascii=rng.random() < 0.8).encode("utf-8", "surrogatepass")
    except (ValueError, RecursionError):
        data = b'{"a": NaN}'
    if rng.random() < 0.25:
        data = mutate(data, data, rng, TOKENS)
    if rng.random() < 0.01:
        data = rng.choice(
            (b"\xef\xbb\xbf" + data, data.decode("utf-8", "replace").encode("utf-16"), b"[" * 100_000, b"")
        )
    return data
