"""Arcs: which arcs a question about a packed layer has, with every token in its place and no weight lost.

``static/arcs_data.js`` computes the same in the browser from the same bytes; a test holds the two equal.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpt_core.edges import EdgeRule, Edges, Packed, strongest, unpack_front
from gpt_core.errors import UserError
from gpt_core.options import check, option

Halves = NDArray[np.float16]


@dataclass(frozen=True)
class ArcQuery:
    """A question: what do ``tokens`` look at (or who looks at them), in one layer of the model.

    ``heads`` () are all; blended views have one row per token and no heads. ``tokens`` count from the window's start.
    """

    layer: int = option(0, "the layer, counted from 0", low=0, high=999)
    view: str = option(
        "heads", "each head by itself, one blend of a layer's heads, or the flow through all layers up to this one",
        choices=("heads", "mean", "max", "rollout"),
    )  # fmt: skip
    direction: str = option(
        "looks-at", "what the note looks at, or who looks at it", choices=("looks-at", "looked-at-by")
    )
    group: str = option("note", "join the events of a note, or show each event", choices=("note", "event"))
    heads: tuple[int, ...] = ()
    tokens: tuple[int, ...] = ()
    rule: EdgeRule = field(default_factory=EdgeRule)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON types."""
        return dataclasses.asdict(self) | {"heads": list(self.heads), "tokens": list(self.tokens)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ArcQuery:
        """Mirror of :meth:`to_dict`."""
        lists = {name: tuple(data.get(name, ())) for name in ("heads", "tokens")}
        made = cls(**data | lists | {"rule": EdgeRule(**data.get("rule", {}))})
        check(made)
        check(made.rule)
        return made


@dataclass(frozen=True)
class Arc:
    """``query`` looks at ``key`` (the first tokens of two places) with ``weight``; ``head`` is -1 in blended views."""

    head: int
    query: int
    key: int
    weight: float


@dataclass(frozen=True)
class Mass:
    """How much of one asked place's weight the arcs show: ``shown`` + ``hidden`` = ``total``.

    ``total`` is 1 for what a token looks at (more for the max of heads), and for what looks at it whatever it receives.
    ``first`` is the part of ``hidden`` that lies on the first token because the rule hides it.
    """

    head: int
    place: int
    total: float
    shown: float
    hidden: float
    first: float


@dataclass(frozen=True)
class ArcSet:
    """The answer: arcs by asked place and head, strongest first, and the mass of each."""

    arcs: tuple[Arc, ...]
    mass: tuple[Mass, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return JSON types."""
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class ArcPack:
    """A packed layer and the sums that keep its mass honest, each float16 [H, T].

    ``totals``: what a row adds up to. ``received``: what a column adds up to, over all tokens; ``received_by_place``:
    over the leads of places alone.
    """

    packed: Packed
    totals: Halves
    received: Halves
    received_by_place: Halves

    def to_bytes(self) -> bytes:
        """Return the packed edges, then ``received``, ``received_by_place``, and ``totals`` unless all are 1; little endian.

        8 heads of 2,048 tokens are at most 1.2 MB.
        """
        sums = (self.received, self.received_by_place) + (() if (self.totals == 1).all() else (self.totals,))
        return self.packed.to_bytes() + b"".join(s.astype("<f2").tobytes() for s in sums)

    @classmethod
    def from_bytes(cls, data: bytes, heads: int, tokens: int) -> ArcPack:
        """Mirror of :meth:`to_bytes`; UserError where the sizes don't fit together."""
        packed, rest = unpack_front(data, heads, tokens)
        kinds, left = divmod(len(rest), 2 * heads * tokens)
        if left or kinds not in (2, 3):
            raise UserError(f"{heads} heads of {tokens} tokens don't fit {len(rest)} bytes of sums")
        received, by_place, *totals = np.frombuffer(rest, "<f2").reshape(kinds, heads, tokens)
        return cls(packed, totals[0] if totals else np.ones((heads, tokens), np.float16), received, by_place)


@dataclass(frozen=True)
class _Groups:
    """``place`` [T]: the first token of each token's place; ``leads`` [T]: whether a token looks for its place."""

    place: NDArray[np.int64]
    leads: NDArray[np.bool_]


def find_arcs(pack: ArcPack, places: Sequence[int], leads: Sequence[int], query: ArcQuery) -> ArcSet:
    """Answer ``query`` for tokens in places.

    ``places`` [T] gives each token the first token of its place, token 0 one of its own; ``leads`` [T] the token that
    looks for the whole place: a note looks with its note-on, a word with its last piece. All tokens of a place are
    looked at.
    """
    tokens = np.arange(pack.packed.tokens)
    if query.group == "event":
        groups = _Groups(tokens, np.ones(len(tokens), bool))
    else:
        groups = _Groups(np.asarray(places, np.int64), np.asarray(leads) == tokens)
    if query.heads and query.view != "heads":
        raise UserError(f"the {query.view} joins all heads; leave the heads out, or look at them singly (view heads)")
    heads = query.heads or tuple(range(pack.packed.heads))
    _refuse_outside(pack.packed, heads, query.tokens)
    arcs: list[Arc] = []
    mass: list[Mass] = []
    for place in sorted({int(groups.place[t]) for t in query.tokens}):
        for head in heads:
            named = head if query.view == "heads" else -1
            total, found = _one(pack, groups, place, head, query)
            ends = ((k, place) if query.direction == "looked-at-by" else (place, k) for k in found.keys)
            arcs += [Arc(named, q, k, w) for (q, k), w in zip(ends, found.weights, strict=True)]
            mass.append(Mass(named, place, total, found.shown, found.hidden, found.first))
    return ArcSet(tuple(arcs), tuple(mass))


def _refuse_outside(packed: Packed, heads: Sequence[int], tokens: Sequence[int]) -> None:
    for name, asked, size in (("head", heads, packed.heads), ("token", tokens, packed.tokens)):
        for value in asked:
            if not 0 <= value < size:
                raise UserError(f"there is no {name} {value}; this view has {name}s 0 to {size - 1}")


def _one(pack: ArcPack, groups: _Groups, place: int, head: int, query: ArcQuery) -> tuple[float, Edges]:
    """Return the total weight and the edges of one asked place in one head.

    Weights are summed as the whole numbers they are stored as, so that the order of the sum does not matter.
    """
    members = np.flatnonzero(groups.place == place)
    if query.direction == "looks-at":
        (row,) = members[groups.leads[members]]
        found = _looks_at(pack.packed, head, int(row), groups.place)
        total, rule = float(pack.totals[head, row]), query.rule
    else:
        found = _looked_at_by(pack.packed, head, members, groups)
        sums = pack.received if query.group == "event" else pack.received_by_place
        total = float(sums[head, members].astype(np.float64).sum())
        rule = dataclasses.replace(query.rule, first="rule")  # the first token looks only at itself: no sink to hide
    keys = np.flatnonzero(found)
    total = max(total, float(found.sum()) / 65535)  # halves round: never less than what is there
    return total, strongest(keys, found[keys] / 65535, rule, total)


def _looks_at(packed: Packed, head: int, row: int, place: NDArray[np.int64]) -> NDArray[np.float64]:
    """Add up what ``row`` looks at, by place [T], in units of 1/65535."""
    span = _span(packed, head, row)
    found = np.bincount(place[packed.index[span]], packed.weight[span].astype(np.float64), packed.tokens)
    return found.astype(np.float64)


def _looked_at_by(packed: Packed, head: int, keys: NDArray[np.int64], groups: _Groups) -> NDArray[np.float64]:
    """Add up how the leads look at ``keys``, by place [T], in units of 1/65535."""
    first, last = (int(packed.indptr[(head + i) * packed.tokens]) for i in (0, 1))
    hits = first + np.flatnonzero(np.isin(packed.index[first:last], keys))
    rows = np.searchsorted(packed.indptr, hits, side="right") - 1 - head * packed.tokens
    weight = packed.weight[hits] * groups.leads[rows].astype(np.float64)
    return np.bincount(groups.place[rows], weight, packed.tokens).astype(np.float64)


def _span(packed: Packed, head: int, row: int) -> slice:
    at = head * packed.tokens + row
    return slice(int(packed.indptr[at]), int(packed.indptr[at + 1]))
