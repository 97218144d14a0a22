"""Token shards on disk, and the batches and evaluation windows drawn from them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gpt_core.errors import UserError

IGNORE = -100  # target value that cross_entropy leaves out
Transform = Callable[[np.ndarray, np.random.Generator], np.ndarray]


class ShardWriter:
    """Write pieces of ids to ``<split>.bin`` and their borders to ``<split>.idx.npy``; visible only once closed.

    A piece may carry a loss mask of the same length (1 = scored as a target), kept in ``<split>.mask``.
    """

    def __init__(self, folder: Path | str, split: str, vocab_size: int) -> None:
        self.folder, self.split = Path(folder), split
        self.folder.mkdir(parents=True, exist_ok=True)
        self.dtype = np.dtype("<u2") if vocab_size <= 65536 else np.dtype("<u4")
        self.vocab_size = vocab_size
        self._offsets = [0]
        self._ids = open(self._tmp("bin"), "wb")  # noqa: SIM115 (closed in close)
        self._mask = open(self._tmp("mask"), "wb")  # noqa: SIM115
        self._masked = False

    def _tmp(self, ext: str) -> Path:
        return self.folder / f".{self.split}.{ext}.tmp"

    def add(self, ids: Sequence[int] | np.ndarray, mask: Sequence[int] | np.ndarray | None = None) -> None:
        """Append one piece; ids must be in range(vocab_size)."""
        a = np.asarray(ids, dtype=np.int64)
        if a.size and (a.min() < 0 or a.max() >= self.vocab_size):
            raise UserError(f"a piece holds id {a.max()} (lowest {a.min()}) but the vocabulary has {self.vocab_size}")
        m = np.ones(len(a), np.uint8) if mask is None else np.asarray(mask, dtype=np.uint8)
        if len(m) != len(a):
            raise UserError(f"the loss mask has {len(m)} entries for {len(a)} ids; give one per id")
        self._masked |= mask is not None
        self._ids.write(a.astype(self.dtype).tobytes())
        self._mask.write(m.tobytes())
        self._offsets.append(self._offsets[-1] + len(a))

    def close(self) -> None:
        """Finish the files and give them their names."""
        self._ids.close()
        self._mask.close()
        np.save(self.folder / f"{self.split}.idx.npy", np.array(self._offsets, dtype=np.int64))
        self._tmp("bin").replace(self.folder / f"{self.split}.bin")
        if self._masked:
            self._tmp("mask").replace(self.folder / f"{self.split}.mask")
        else:
            self._tmp("mask").unlink()
            (self.folder / f"{self.split}.mask").unlink(missing_ok=True)  # of an earlier build


@dataclass(frozen=True)
class Shard:
    """One split: all ids as one array, piece i at ``ids[offsets[i]:offsets[i+1]]``, and the loss mask if there is one."""

    ids: np.ndarray
    offsets: np.ndarray
    mask: np.ndarray | None = None

    @classmethod
    def open(cls, folder: Path | str, split: str) -> Shard:
        """Map a split into memory without reading it."""
        base = Path(folder)
        if not (base / f"{split}.bin").is_file() or not (base / f"{split}.idx.npy").is_file():
            raise UserError(
                f"{base} holds no split {split!r} ({split}.bin, {split}.idx.npy); build it with the corpus command"
            )
        offsets = np.load(base / f"{split}.idx.npy", allow_pickle=False)
        size, total = (base / f"{split}.bin").stat().st_size, int(offsets[-1])
        if total == 0:
            raise UserError(f"{base}/{split}.bin holds 0 tokens; build the shards anew, from more or with other splits")
        if size not in (2 * total, 4 * total):
            raise UserError(
                f"{base}/{split}.bin has {size} bytes but its index counts {total} tokens; build the shards again"
            )
        ids = np.memmap(base / f"{split}.bin", dtype="<u2" if size == 2 * total else "<u4", mode="r")
        mask_path = base / f"{split}.mask"
        mask = np.memmap(mask_path, dtype=np.uint8, mode="r") if mask_path.is_file() else None
        return cls(ids, offsets, mask)

    @classmethod
    def of(cls, pieces: Sequence[Sequence[int]]) -> Shard:
        """Hold pieces in memory."""
        offsets = np.concatenate([[0], np.cumsum([len(p) for p in pieces])]).astype(np.int64)
        return cls(np.concatenate([np.asarray(p, dtype=np.int64) for p in pieces]), offsets)

    def piece(self, i: int) -> np.ndarray:
        """Return the ids of piece ``i``."""
        return np.asarray(self.ids[self.offsets[i] : self.offsets[i + 1]], dtype=np.int64)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def fingerprint(self) -> str:
        """Return the sha256 (16 hex digits) of the ids and the borders."""
        h = hashlib.sha256(np.ascontiguousarray(self.ids).data)
        h.update(self.offsets.tobytes())
        return h.hexdigest()[:16]


@dataclass(frozen=True)
class Batches:
    """Training rows; row r of step s depends on (seed, s, r) alone, so a resumed run draws what it would have drawn."""

    shard: Shard
    context: int
    seed: int = 0
    crops: str = "stream"
    transform: Transform | None = None

    def rows(self, step: int, rows: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Return inputs and targets [B, T]; padding and unscored tokens have target -100.

        T is the context; where rows are pieces, no more than the longest of these rows needs.
        """
        drawn = [self._row(np.random.default_rng([self.seed, step, r])) for r in rows]
        longest = max(2, *(len(ids) for ids, _ in drawn))
        drawn = [(np.pad(ids, (0, longest - len(ids))), np.pad(mask, (0, longest - len(ids)))) for ids, mask in drawn]
        x = torch.from_numpy(np.stack([ids[:-1] for ids, _ in drawn]))
        y = torch.from_numpy(np.stack([np.where(mask[1:] > 0, ids[1:], IGNORE) for ids, mask in drawn]))
        return x, y

    def _row(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        start, end = self._span(rng)
        ids = np.asarray(self.shard.ids[start:end], dtype=np.int64)
        mask = np.ones(len(ids), np.uint8) if self.shard.mask is None else np.asarray(self.shard.mask[start:end])
        if self.transform:
            ids = self.transform(ids, rng)
        return ids, mask

    def _span(self, rng: np.random.Generator) -> tuple[int, int]:
        need = self.context + 1
        if self.crops == "stream":
            low, high = 0, len(self.shard.ids)
        else:
            i = int(rng.integers(len(self.shard)))
            low, high = int(self.shard.offsets[i]), int(self.shard.offsets[i + 1])
        start = low if high - low <= need else low + int(rng.integers(high - low - need + 1))
        return start, min(high, start + need)


def windows(shard: Shard, context: int, stride: int, limit: int | None = None) -> Iterator[tuple[np.ndarray, int]]:
    """Yield (ids, first): windows of at most context+1 ids inside one piece, to score from target index ``first`` on.

    Windows of a piece overlap by context-stride, so each token is scored exactly once, the first window of a piece from
    its first target. ``limit`` takes that many windows evenly spread over the split.
    """
    plan = []
    for i in range(len(shard)):
        low, high = int(shard.offsets[i]), int(shard.offsets[i + 1])
        start = low
        while start + 1 < high:
            first = 0 if start == low else context - stride
            if first < min(context, high - start - 1):
                plan.append((start, min(high, start + context + 1), first))
            if start + context + 1 >= high:
                break
            start += stride
    if limit is not None and limit < len(plan):
        plan = [plan[int(i)] for i in np.linspace(0, len(plan) - 1, limit)]
    for start, end, first in plan:
        yield np.asarray(shard.ids[start:end], dtype=np.int64), first
