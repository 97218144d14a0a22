"""Edges: the strongest attention weights of a row, and whole layers of them packed into bytes for a browser."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpt_core.errors import UserError
from gpt_core.options import check, option

Floats = NDArray[np.floating[Any]]


@dataclasses.dataclass(frozen=True)
class EdgeRule:
    """Which weights of a row count as its edges: the strongest, until one of the limits is met."""

    top_k: int = option(16, "show at most this many edges per row", low=1, high=65_536)
    mass: float = option(0.9, "stop once the edges reach this share of the row", low=0.0, high=1.0)
    threshold: float = option(0.0, "leave out weights below this", low=0.0, high=1.0)
    first: str = option(
        "rule", "the first token, where rows park unused weight: like any other, always or never",
        choices=("rule", "keep", "hide"),
    )  # fmt: skip


STORED = EdgeRule(first="keep")  # what a packed layer keeps at least; a viewer shows a part of it
_ROOM = 8 * 2048  # rows that STORED packs into 1.14 MB


def stored_for(rows: int) -> EdgeRule:
    """Return what a packed layer of ``rows`` keeps: STORED, and more edges per row (up to 48) where there is room."""
    return dataclasses.replace(STORED, top_k=min(max(STORED.top_k, STORED.top_k * _ROOM // max(rows, 1)), 48))


@dataclasses.dataclass(frozen=True)
class Edges:
    """The edges of one row, strongest first, and what of the row they leave out.

    ``shown`` + ``hidden`` = the row's whole weight (1 for a softmax row); ``first`` is the part of ``hidden`` that lies
    on the first token because the rule hides it.
    """

    keys: tuple[int, ...]
    weights: tuple[float, ...]
    shown: float
    hidden: float
    first: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return JSON types: parallel lists and three numbers."""
        return {**dataclasses.asdict(self), "keys": list(self.keys), "weights": list(self.weights)}


def strongest(keys: ArrayLike, weights: ArrayLike, rule: EdgeRule, total: float | None = None) -> Edges:
    """Return the edges that ``rule`` leaves of one row, given as ``weights`` [N] on ``keys`` [N].

    Weights of 0 are no edges; of equal weights the lower key is the stronger. ``total`` is the row's whole weight where
    ``weights`` are only a part of it (default: their sum). With the first token hidden, ``rule.mass`` is a share of
    what the others hold.
    """
    check(rule)
    key, weight = np.asarray(keys, np.int64), np.asarray(weights, np.float64)
    whole = float(weight.sum()) if total is None else total
    apart = float(weight[key == 0].sum()) if rule.first == "hide" else 0.0
    live = (weight > 0) & ((key != 0) | (rule.first != "hide"))
    order = np.lexsort((key[live], -weight[live]))
    key, weight = key[live][order], weight[live][order]
    before = np.cumsum(weight) - weight
    kept = (before < rule.mass * (whole - apart)) & (weight >= rule.threshold) & (np.arange(len(key)) < rule.top_k)
    if rule.first == "keep":
        kept |= key == 0
    shown = float(weight[kept].sum())
    hidden = max(whole - shown, 0.0)
    return Edges(tuple(key[kept].tolist()), tuple(weight[kept].tolist()), shown, hidden, apart)


def kept_mask(rows: Floats, rule: EdgeRule) -> NDArray[np.bool_]:
    """Mark the edges of many rows [N, T] at once: the same edges as :func:`strongest` row by row."""
    weight = rows
    if rule.first == "hide":
        weight = rows.copy()
        weight[:, 0] = 0
    k = min(rule.top_k, weight.shape[1])
    best = np.sort(np.partition(weight, -k, axis=1)[:, -k:], axis=1)[:, ::-1].astype(np.float64)
    before = np.cumsum(best, axis=1) - best
    whole = weight.sum(1, keepdims=True, dtype=np.float64)
    held = (before < rule.mass * whole) & (best >= rule.threshold) & (best > 0)
    count = held.sum(1, keepdims=True)
    smallest = np.where(count > 0, np.take_along_axis(best, np.maximum(count - 1, 0), 1), np.inf).astype(weight.dtype)
    kept = weight >= smallest
    if (kept.sum(1, keepdims=True) != count).any():  # ties at the border: the lower keys stay
        above, tied = weight > smallest, weight == smallest
        kept = above | (tied & (np.cumsum(tied, axis=1) <= count - above.sum(1, keepdims=True)))
    if rule.first == "keep":
        kept[:, 0] |= weight[:, 0] > 0
    return kept


@dataclasses.dataclass(frozen=True)
class Packed:
    """The edges of one layer, row after row: head 0's queries 0..T-1, then head 1's; compressed sparse rows.

    ``indptr`` u32 [H·T + 1], ``index`` u16 (keys, ascending in each row) and ``weight`` u16 (w·65535).
    """

    heads: int
    tokens: int
    indptr: NDArray[np.uint32]
    index: NDArray[np.uint16]
    weight: NDArray[np.uint16]

    def to_bytes(self) -> bytes:
        """Return u32 the bytes per count (1, 2 or 4), how many edges each row has, ``index``, ``weight``; little endian.

        Counts take a quarter of the room of ``indptr``, which is their running sum. :func:`unpack` mirrors this.
        """
        counts = np.diff(self.indptr)
        width = np.min_scalar_type(int(counts.max(initial=0))).itemsize
        parts = (counts.astype(f"<u{width}"), self.index.astype("<u2"), self.weight.astype("<u2"))
        return width.to_bytes(4, "little") + b"".join(part.tobytes() for part in parts)

    def manifest(self) -> dict[str, int]:
        """Return what a reader needs to know beside the bytes."""
        return {"heads": self.heads, "tokens": self.tokens, "edges": len(self.index), "scale": 65535}

    def row(self, head: int, query: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return keys and weights of one row."""
        start, end = (int(self.indptr[head * self.tokens + query + i]) for i in (0, 1))
        return self.index[start:end].astype(np.int64), self.weight[start:end] / 65535.0

    def edges(self, head: int, query: int, rule: EdgeRule) -> Edges:
        """Return the edges ``rule`` leaves of a softmax row; what was not stored counts as hidden."""
        return strongest(*self.row(head, query), rule, total=1.0)


def pack(rows: Iterable[Floats], heads: int, tokens: int, rule: EdgeRule = STORED) -> Packed:
    """Pack rows handed over in chunks [N, K], in the order of :class:`Packed`; weights are at most 1.

    K may stop short of ``tokens`` where all further keys weigh 0.
    """
    if tokens > 65_536:
        raise UserError(f"packed edges number at most 65,536 tokens and {tokens} were given; show a part of the piece")
    check(rule)
    counts, index, weight = [np.zeros(1, np.int64)], [], []
    for chunk in rows:
        kept = kept_mask(chunk, rule)
        flat = np.flatnonzero(kept)
        counts.append(kept.sum(1))
        index.append((flat % chunk.shape[1]).astype(np.uint16))
        weight.append(np.rint(chunk.reshape(-1)[flat].astype(np.float64) * 65535).astype(np.uint16))
    indptr = np.cumsum(np.concatenate(counts)).astype(np.uint32)
    if len(indptr) != heads * tokens + 1:
        raise ValueError(f"{heads} heads of {tokens} tokens need {heads * tokens} rows; {len(indptr) - 1} came")
    return Packed(heads, tokens, indptr, np.concatenate(index), np.concatenate(weight))


def unpack(data: bytes, heads: int, tokens: int) -> Packed:
    """Mirror of ``Packed.to_bytes``; raises UserError where the sizes don't fit together."""
    packed, rest = unpack_front(data, heads, tokens)
    if rest:
        raise _misfit(heads, tokens, data)
    return packed


def unpack_front(data: bytes, heads: int, tokens: int) -> tuple[Packed, bytes]:
    """Read a packed layer off the front of ``data``, and return what follows it, too."""
    rows, width = heads * tokens, int.from_bytes(data[:4], "little")
    start = 4 + width * rows  # of the keys
    if width not in (1, 2, 4) or len(data) < start:
        raise _misfit(heads, tokens, data)
    counts = np.frombuffer(data, f"<u{width}", rows, 4)
    indptr = np.concatenate((np.zeros(1, np.uint64), np.cumsum(counts, dtype=np.uint64))).astype(np.uint32)
    edges = int(indptr[-1])
    if len(data) < start + 4 * edges:
        raise _misfit(heads, tokens, data)
    index, weight = (np.frombuffer(data, "<u2", edges, start + skipped) for skipped in (0, 2 * edges))
    return Packed(heads, tokens, indptr, index, weight), data[start + 4 * edges :]


def _misfit(heads: int, tokens: int, data: bytes) -> UserError:
    return UserError(f"{heads} heads of {tokens} tokens don't fit {len(data)} bytes of packed edges")
