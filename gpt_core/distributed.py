"""Who am I among the processes that torchrun started, and the few collective steps that training needs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor


def rank() -> int:
    """Return this process's number, 0 when alone."""
    return int(os.environ.get("RANK", "0"))


def world_size() -> int:
    """Return how many processes train together, 1 when alone."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_main() -> bool:
    """Say whether this process is the one that writes and prints."""
    return rank() == 0


@contextmanager
def process_group(device: torch.device) -> Iterator[None]:
    """Join the other processes (nccl for cuda tensors, gloo for those on the CPU) for the time of the block; alone, do nothing."""
    if world_size() == 1:
        yield
        return
    dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo")
    try:
        yield
    finally:
        dist.destroy_process_group()


def sum_gradients(parameters: Iterable[Tensor]) -> None:
    """Replace every gradient by its sum over the processes, in one transfer."""
    if world_size() == 1:
        return
    grads = [p.grad for p in parameters if p.grad is not None]
    flat = torch.cat([g.flatten() for g in grads])
    dist.all_reduce(flat)
    for g, part in zip(grads, flat.split([g.numel() for g in grads]), strict=True):
        g.copy_(part.view_as(g))


def share(tensors: list[Tensor], owner: list[int]) -> None:
    """Send each tensor from the process that owns it to all others, one transfer per owner."""
    if world_size() == 1:
        return
    for r in range(world_size()):
        mine = [t for t, o in zip(tensors, owner, strict=True) if o == r]
        if not mine:
            continue
        flat = torch.cat([t.flatten() for t in mine])
        dist.broadcast(flat, src=r)
        for t, part in zip(mine, flat.split([t.numel() for t in mine]), strict=True):
            t.copy_(part.view_as(t))


def total(values: Tensor) -> Tensor:
    """Sum a small tensor over the processes."""
    if world_size() > 1:
        dist.all_reduce(values)
    return values


def barrier() -> None:
    """Wait until every process is here."""
    if world_size() > 1:
        dist.barrier()
