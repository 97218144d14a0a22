"""Look into a text model: the likeliest next tokens, a tree of what was appended, and how each token surprised."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from gpt_core.checkpoint import Checkpoint
from gpt_core.errors import UserError
from gpt_core.sampling import Sampling, filters_from

TOP = 10
_VISIBLE = {" ": "␣", "\n": "⏎", "\r": "␍", "\t": "⇥"}


@dataclass(frozen=True)
class Chip:
    """A token as a person can read it: its id, its text with spaces and line ends made visible, and what it is.

    ``kind`` is ``text``, ``bytes`` (a part of a character, shown as hex) or ``special``.
    """

    id: int
    label: str
    kind: str
    text: str


@dataclass(frozen=True)
class Candidate:
    """A possible next token: its probability over the whole vocabulary, and what the settings make of it.

    ``kept`` says whether the settings let it through; ``drawn`` is its probability after them (0 where not kept).
    """

    rank: int
    chip: Chip
    probability: float
    kept: bool
    drawn: float

    def to_dict(self) -> dict[str, Any]:
        """Return JSON types."""
        return asdict(self)


@dataclass(frozen=True)
class Surprise:
    """A token of the text: how many nats it cost after those before it, its rank there, what was likeliest instead.

    The first token has nothing before it but the end token, if that was put there; else its numbers are None.
    """

    chip: Chip
    nats: float | None = None
    rank: int | None = None
    likeliest: Chip | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return JSON types."""
        return asdict(self)


def chip(codec: Any, i: int) -> Chip:
    """Return id ``i`` as a legible chip."""
    raw = codec.token_bytes(i)
    if not raw:
        return Chip(i, codec.decode([i], special=True), "special", "")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return Chip(i, " ".join(f"{b:02X}" for b in raw), "bytes", "")
    return Chip(i, "".join(_letter(c) for c in text), "text", text)


def _letter(c: str) -> str:
    if c in _VISIBLE:
        return _VISIBLE[c]
    return c if c.isprintable() else f"U+{ord(c):04X}"


def next_tokens(
    model: Checkpoint, ids: Sequence[int], sampling: Sampling | None = None, top: int = TOP
) -> list[Candidate]:
    """Return the ``top`` likeliest tokens after ``ids``, likeliest first, as the model sees them and as ``sampling`` would.

    Probabilities are over the full vocabulary. Ids beyond the model's window are not seen, as in generation.
    """
    return candidates(model.codec, torch.tensor([list(ids)]), last_logits(model, ids), sampling, top)


@torch.inference_mode()
def last_logits(model: Checkpoint, ids: Sequence[int]) -> Tensor:
    """Return the logits [V] after ``ids``; keep them to re-score other settings without reading again."""
    if not ids:
        raise UserError("there is no token yet; begin with the end token or a text")
    window = torch.tensor([list(ids)[-model.config.context :]], device=model.model.device)
    return model.model(window, last_only=True)[0, -1].float()


@torch.inference_mode()
def candidates(
    codec: Any, ids: Tensor, logits: Tensor, sampling: Sampling | None = None, top: int = TOP
) -> list[Candidate]:
    """The same from logits [V] at hand; ``ids`` [1, T] are what a repetition penalty looks back on."""
    filtered = logits[None]
    for apply in filters_from(sampling or Sampling()):
        filtered = apply(ids, filtered)
    probability, drawn = logits.double().softmax(-1), filtered[0].double().softmax(-1)
    best = torch.sort(logits, descending=True, stable=True).indices[:top].tolist()
    return [
        Candidate(rank, chip(codec, i), float(probability[i]), bool(filtered[0, i] > -math.inf), float(drawn[i]))
        for rank, i in enumerate(best, start=1)
    ]


@torch.inference_mode()
def surprises(model: Checkpoint, ids: Sequence[int]) -> list[Surprise]:
    """Return for every token its nats and rank after those before it: the text read by the model, token by token.

    Begin ``ids`` with the end token to score the first word too. A text longer than the window is read in windows that
    overlap by half, so that every token but the first has at least half a window (or all there is) before it.
    """
    ids, context = list(ids), model.config.context
    out = [Surprise(chip(model.codec, ids[0]))] if ids else []
    start = 0
    while len(out) < len(ids):
        window = ids[start : start + context]
        logits = model.model(torch.tensor([window], device=model.model.device))[0].float()
        first = len(out) - start
        out += _scored(model.codec, logits[first - 1 :], window[first:])
        if start + context < len(ids):
            start += max(1, context // 2)
    return out


def text_surprises(model: Checkpoint, ids: Sequence[int]) -> list[Surprise]:
    """Return every token's surprise in a text read as it stands, as completion reads it.

    The first token is scored as the first of a text, after the end token; an end token that begins ``ids`` (nothing was
    written) is left out.
    """
    end = model.codec.special_ids["eos"]
    if ids[0] == end:
        return surprises(model, ids)[1:]
    return [surprises(model, [end, ids[0]])[1], *surprises(model, ids)[1:]]


def _scored(codec: Any, logits: Tensor, targets: Sequence[int]) -> list[Surprise]:
    rows = logits[: len(targets)]
    follows = torch.tensor(list(targets), device=rows.device)[:, None]
    mine = rows.gather(1, follows)
    ranks = (
        (rows > mine).sum(1) + ((rows == mine) & (torch.arange(rows.shape[1], device=rows.device) < follows)).sum(1) + 1
    )
    nats = rows.double().logsumexp(1) - mine[:, 0].double()
    best = rows.argmax(1).tolist()
    return [
        Surprise(chip(codec, i), n, r, chip(codec, b))
        for i, n, r, b in zip(targets, nats.tolist(), ranks.tolist(), best, strict=True)
    ]


@dataclass(frozen=True)
class Node:
    """A token of the tree and the node it follows; the root holds the prompt and follows none."""

    id: int
    parent: int


class Tree:
    """Texts that share beginnings: append by id, undo, and go back to any branch. Node 0 is the prompt."""

    def __init__(self, prompt: Sequence[int]) -> None:
        self.prompt = list(prompt)
        self.nodes = [Node(-1, -1)]
        self.at = 0

    def append(self, i: int) -> int:
        """Go to the child with id ``i``, making it if it is new; returns its node."""
        found = next((n for n in self.children(self.at) if self.nodes[n].id == i), None)
        if found is None:
            self.nodes.append(Node(i, self.at))
            found = len(self.nodes) - 1
        self.at = found
        return found

    def undo(self) -> int:
        """Go back by one token; at the prompt, stay."""
        self.at = max(0, self.nodes[self.at].parent)
        return self.at

    def go(self, node: int) -> None:
        """Go to a node; UserError if there is none of that number."""
        if not 0 <= node < len(self.nodes):
            raise UserError(f"there is no branch point {node}; this tree has 0 to {len(self.nodes) - 1}")
        self.at = node

    def children(self, node: int) -> list[int]:
        """Return the nodes that follow ``node``, oldest first."""
        return [n for n, other in enumerate(self.nodes) if other.parent == node]

    def leaves(self) -> list[int]:
        """Return the ends of all branches, oldest first."""
        parents = {n.parent for n in self.nodes}
        return [n for n in range(len(self.nodes)) if n not in parents]

    def appended(self, node: int | None = None) -> list[int]:
        """Return the ids from the prompt's end to ``node`` (the present one)."""
        at, out = self.at if node is None else node, []
        while at > 0:
            out.append(self.nodes[at].id)
            at = self.nodes[at].parent
        return out[::-1]

    def ids(self, node: int | None = None) -> list[int]:
        """Return all ids up to ``node`` (the present one), the prompt's first."""
        return self.prompt + self.appended(node)
