"""How well a model predicts held-out text: nats per token, perplexity, and bits per byte."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gpt_core.checkpoint import Checkpoint
from gpt_core.errors import UserError
from gpt_core.evaluate import Protocol, scored
from gpt_core.text.corpus import RECORD, SUFFIXES, Document, find_codec
from gpt_core.text.metrics import bits_per_byte, perplexity
from gpt_core.tokens import Shard


def evaluate_text(model: Checkpoint, shard: Shard, protocol: Protocol | None = None) -> dict[str, Any]:
    """Score every token of ``shard`` (from the second of a piece on) once.

    Returns nats_per_token, perplexity, bits_per_byte, tokens, bytes. Bits per byte divide by the UTF-8 bytes of what was
    scored, so models of different tokenizers compare.
    """
    size = np.array([len(model.codec.token_bytes(i)) for i in range(model.codec.vocab_size)])
    nats, tokens, n_bytes = 0.0, 0, 0
    for targets, losses in scored(model.model, shard, protocol or Protocol()):
        nats, tokens, n_bytes = nats + float(losses.sum()), tokens + len(targets), n_bytes + int(size[targets].sum())
    if not tokens:
        raise UserError("no token is left to score; give longer texts or a smaller --min-context")
    return {
        "nats_per_token": nats / tokens, "perplexity": perplexity(nats, tokens), "bits_per_byte": bits_per_byte(nats, n_bytes),
        "tokens": tokens, "bytes": n_bytes,
    }  # fmt: skip


def material(model: Checkpoint, sources: Sequence[Path], split: str) -> Shard:
    """Open a folder of shards, or encode text files and folders of them with the model's tokenizer."""
    first = sources[0]
    if len(sources) == 1 and (first / RECORD).is_file():
        if find_codec(first).to_dict() != model.codec.to_dict():
            raise UserError(f"{first} was built with another tokenizer than the model's; give the text files instead")
        return Shard.open(first, split)
    end = model.codec.special_ids["eos"]
    return Shard.of([[end, *model.codec.encode(d.read())] for d in _documents(sources)])


def _documents(sources: Sequence[Path]) -> Iterator[Document]:
    for source in sources:
        inside = sorted(p for p in source.rglob("*") if p.suffix.lower() in SUFFIXES) if source.is_dir() else [source]
        if not inside or not inside[0].is_file():
            raise UserError(f"{source} is no text file and no folder that holds one; give text files or shards")
        yield from (Document(p.name, split="", path=p) for p in inside)
