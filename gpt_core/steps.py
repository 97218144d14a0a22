"""How it works: every number on the way from a token to the prediction after it, and where all the weights are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gpt_core.attention import Trace, rows, scores, trace
from gpt_core.errors import UserError
from gpt_core.model import GPT

LONGEST_MATRIX = 64  # tokens for which a whole score matrix is given


class _Recorder:
    """A tap that keeps everything it is told, (name, layer) -> tensor of the one sequence, and its trace."""

    def __init__(self, seen: Trace) -> None:
        self.seen = seen
        self.kept: dict[tuple[str, int], Tensor] = {}

    def __call__(self, name: str, layer: int, tensor: Tensor) -> None:
        self.kept[name, layer] = tensor[0].detach()

    def at(self, name: str, layer: int, position: int) -> list[float]:
        """The vector of one position."""
        return _list(self.kept[name, layer][position])


def _list(x: Tensor) -> list[float]:
    return x.float().cpu().tolist()


def _with_gaps(x: Tensor) -> list[Any]:
    """Numbers, with None where the mask put -inf, which JSON can't say."""
    return [None if v == float("-inf") else v for v in _list(x)]


@torch.no_grad()
def walk(model: GPT, ids: Sequence[int], position: int, layer: int, head: int, *, top: int = 10) -> dict[str, Any]:
    """Follow the token at ``position`` through block ``layer`` and head ``head`` to the ``top`` likeliest next tokens.

    Every list is the model's own numbers (float32), nothing is recomputed but what a step itself consists of. UserError
    where the model has no such position, layer or head.
    """
    _refuse_outside(model, ids, position, layer, head)
    tokens = torch.tensor(list(ids), device=model.device)
    recorder = _Recorder(trace(model, tokens))
    logits = model(tokens[None], None, recorder)[0, position].float()
    return {
        "ids": list(ids),
        "position": position,
        "layer": layer,
        "head": head,
        "embedding": _embedding(model, recorder, ids[position], position),
        "attention": _attention(model, recorder, position, layer, head),
        "mlp": _mlp(recorder, position, layer),
        "output": _output(model, recorder, logits, position, top),
    }


def _refuse_outside(model: GPT, ids: Sequence[int], position: int, layer: int, head: int) -> None:
    c = model.config
    if not 1 <= len(ids) <= c.context:
        raise UserError(f"{len(ids)} tokens were given and the model reads 1 to {c.context}")
    for what, value, size in (("token", position, len(ids)), ("layer", layer, c.n_layer), ("head", head, c.n_head)):
        if not 0 <= value < size:
            raise UserError(f"there is no {what} {value}; there are {what}s 0 to {size - 1}")


def _embedding(model: GPT, recorder: _Recorder, id: int, position: int) -> dict[str, Any]:
    """Step 1: the token's row of the table, plus the position's where the model has such a table."""
    learned = model.config.position == "learned"
    return {
        "token": _list(model.wte.weight[id]),
        "position": _list(model.wpe.weight[position]) if learned else None,
        "scheme": model.config.position,
        "normed": model.config.embed_norm,
        "stream": recorder.at("embedding", 0, position),
    }


def _attention(model: GPT, recorder: _Recorder, position: int, layer: int, head: int) -> dict[str, Any]:
    """Steps 2 to 7: norm, q k v of the head, scores, mask, softmax, weighted sum, merge, projection."""
    q, k, v = (recorder.kept[name, layer][head].float() for name in ("q", "k", "v"))
    products = q[position] @ k.T
    scaled = scores(recorder.seen, layer, range(position, position + 1), [head])[0, 0]
    weights = scaled.softmax(-1)
    reached = slice(0, position + 1)
    relative = scaled[reached] * math.sqrt(q.shape[-1]) - products[reached]
    return {
        "stream": recorder.at("residual", layer - 1, position) if layer else recorder.at("embedding", 0, position),
        "normed": recorder.at("ln_1", layer, position),
        "q": _list(q[position]),
        "k": _list(k[position]),
        "v": _list(v[position]),
        "products": _list(products),
        "relative": _list(relative) if model.config.position == "relative" else None,
        "divisor": math.sqrt(q.shape[-1]),
        "masked": _with_gaps(scaled),
        "weights": _list(weights),
        "head_output": _list(weights @ v),
        "merged": recorder.at("heads", layer, position),
        "projected": recorder.at("attn", layer, position),
    }


def _mlp(recorder: _Recorder, position: int, layer: int) -> dict[str, Any]:
    """Step 8: the stream with attention added, normed, widened, narrowed and added again."""
    return {
        "normed": recorder.at("ln_2", layer, position),
        "inner": recorder.at("fc", layer, position),
        "out": recorder.at("mlp", layer, position),
        "stream": recorder.at("residual", layer, position),
    }


def _output(model: GPT, recorder: _Recorder, logits: Tensor, position: int, top: int) -> dict[str, Any]:
    """Step 9: the last norm, one logit per id, softmax, the likeliest."""
    probabilities = logits.softmax(-1)
    best = logits.topk(min(top, len(logits))).indices
    return {
        "normed": recorder.at("ln_f", model.config.n_layer, position),
        "ids": best.tolist(),
        "logits": _list(logits[best]),
        "probabilities": _list(probabilities[best]),
        "rest": float(1 - probabilities[best].double().sum()),
    }


@torch.no_grad()
def matrices(model: GPT, ids: Sequence[int], layer: int, head: int) -> dict[str, Any]:
    """Return one head's whole score matrix [T][T] three times: scaled, masked (None where hidden), and after softmax.

    UserError for more than ``LONGEST_MATRIX`` tokens. Where positions are relative, ``scaled`` is the masked one: such a
    model has no embedding for distances ahead.
    """
    if len(ids) > LONGEST_MATRIX:
        raise UserError(f"{len(ids)} tokens make a matrix too large to read; give {LONGEST_MATRIX} or fewer")
    _refuse_outside(model, ids, 0, layer, head)
    seen, every = trace(model, torch.tensor(list(ids), device=model.device)), range(len(ids))
    masked = scores(seen, layer, every, [head])[0]
    plain = masked if seen.relative else scores(seen, layer, every, [head], causal=False)[0]
    return {
        "scaled": [_with_gaps(row) for row in plain],
        "masked": [_with_gaps(row) for row in masked],
        "weights": _list(rows(seen, layer, every, [head])[0]),
    }


def inventory(model: GPT) -> dict[str, Any]:
    """List every weight tensor once: name, shape, count, grouped by where it stands; ``total`` is the parameter count."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for name, p in model.named_parameters():  # names a shared tensor once
        part = name.split(".")
        where = (
            f"block {part[1]}" if part[0] == "h" else {"wte": "embeddings", "wpe": "embeddings"}.get(part[0], "output")
        )
        groups.setdefault(where, []).append({"name": name, "shape": list(p.shape), "count": p.numel()})
    rows = [{"where": w, "count": sum(t["count"] for t in ts), "tensors": ts} for w, ts in groups.items()]
    return {"groups": rows, "total": sum(r["count"] for r in rows), "tied": model.config.tied}
