"""How relative attention goes through a sequence in blocks, and the memory in which the scores of one are skewed (Huang et al.).

Skewing costs nothing: scores by distance and scores by key are the same memory, read with rows that are one place apart in length.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

BLOCK = 128  # queries at a time


def spans(length: int) -> Iterator[tuple[int, int]]:
    """First and last + 1 of each block of queries."""
    for start in range(0, length, BLOCK):
        yield start, min(start + BLOCK, length)


def numbers(heads: int, start: int, stop: int) -> int:
    """How many numbers the memory of a block of one sequence holds."""
    return heads * (stop - start) * (2 * stop - start)


def two_ways(memory: Tensor, heads: int, start: int, stop: int, *, first: int = 0) -> tuple[Tensor, Tensor]:
    """The numbers from ``first`` on as scores [H, n, K] of n queries by distance, and the same scores by key.

    Query i meets key j at column j + n-1-i of the first view, since column c is distance K-1-c: a row of the second view
    is one place shorter. K + n places a row keep the rows apart.
    """
    n, row = stop - start, 2 * stop - start
    by_distance = memory.as_strided((heads, n, stop), (n * row, row + 1, 1), first)
    by_key = memory.as_strided((heads, n, stop), (n * row, row, 1), first + n - 1)
    return by_distance, by_key
