"""Positions: the skew against a gather per pair, its memory, and the algebra of rotation."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpt_core import relative, relative_blocks
from gpt_core.positions import relative_logits, relative_logits_naive, rotary_table, rotate
from tests.core.peers import Largest


def by_hand(q: torch.Tensor, embedding: torch.Tensor, n_keys: int) -> torch.Tensor:
    """Query i is position K-T+i; it meets the embedding of its distance to each key up to itself."""
    b, h, t, _ = q.shape
    out = torch.zeros(b, h, t, n_keys)
    for i in range(t):
        for j in range(n_keys - t + i + 1):
            distance = min(n_keys - t + i - j, embedding.shape[1] - 1)
            out[:, :, i, j] = torch.einsum("bhd,hd->bh", q[:, :, i], embedding[:, distance])
    return out


@settings(max_examples=40)
@given(st.integers(1, 12), st.integers(0, 12), st.integers(1, 30), st.integers(0, 2**31))
def test_skewing_equals_the_naive_forms(queries, earlier, distances, seed):
    g = torch.Generator().manual_seed(seed)
    keys = queries + earlier
    q = torch.randn(2, 3, queries, 4, generator=g)
    embedding = torch.randn(3, distances, 4, generator=g)
    past = torch.ones(queries, keys).tril(earlier).bool()
    skewed = relative_logits(q, embedding, keys).where(past, 0)
    assert (skewed - by_hand(q, embedding, keys)).abs().max() < 1e-5
    assert (skewed - relative_logits_naive(q, embedding, keys).where(past, 0)).abs().max() < 1e-5


def test_skewing_equals_the_naive_form_on_a_long_window():
    torch.manual_seed(0)
    q, embedding = torch.randn(1, 2, 300, 16), torch.randn(2, 300, 16)
    gap = relative_logits(q, embedding, 300) - relative_logits_naive(q, embedding, 300)
    assert gap.tril().abs().max() < 1e-5


def test_skewing_needs_no_embedding_per_pair():
    heads, length, width = 2, 96, 16
    q, embedding = torch.randn(1, heads, length, width), torch.randn(heads, length, width)
    with Largest() as skew:
        relative_logits(q, embedding, length)
    with Largest() as naive:
        relative_logits_naive(q, embedding, length)
    assert skew.numel <= heads * length * (length + 1)  # the logits themselves, and one column of padding
    assert naive.numel >= heads * length * length * width


def test_gradients_reach_queries_and_embeddings():
    q = torch.randn(1, 1, 5, 3, dtype=torch.double, requires_grad=True)
    embedding = torch.randn(1, 4, 3, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(lambda a, b: relative_logits(a, b, 7).tril(2), (q, embedding))


def attention_naively(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, embedding: torch.Tensor) -> torch.Tensor:
    """Softmax of the whole matrix, an embedding gathered per pair."""
    length, size = q.shape[-2:]
    scores = (q @ k.mT + relative_logits_naive(q, embedding, length)) / math.sqrt(size)
    future = torch.ones(length, length, dtype=torch.bool).triu(1)
    return scores.masked_fill(future, float("-inf")).softmax(-1) @ v


def relative_inputs(length: int, distances: int, seed: int, **kind: torch.dtype) -> list[torch.Tensor]:
    """Queries, keys and values that lie in one tensor, as the model's do, and embeddings."""
    g = torch.Generator().manual_seed(seed)
    qkv = torch.randn(2, length, 3, 2, 4, generator=g, **kind).permute(2, 0, 3, 1, 4)
    return [x.requires_grad_() for x in (*qkv.unbind(0), torch.randn(2, distances, 4, generator=g, **kind))]


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 23), st.integers(1, 30), st.integers(1, 9), st.integers(0, 2**31))
def test_attention_in_blocks_equals_the_naive_form_and_so_do_its_gradients(length, distances, block, seed):
    mine, theirs = (relative_inputs(length, distances, seed, dtype=torch.double) for _ in range(2))
    up = torch.randn(2, 2, length, 4, dtype=torch.double, generator=torch.Generator().manual_seed(seed + 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(relative_blocks, "BLOCK", block)
        got = relative.relative_attention(*mine)
        got.backward(up)
        with torch.no_grad():
            assert torch.equal(relative.relative_attention(*mine), got)
    wanted = attention_naively(*theirs)
    wanted.backward(up)
    for a, b in zip((got, *(x.grad for x in mine)), (wanted, *(x.grad for x in theirs)), strict=True):
        assert (a - b).abs().max() < 1e-10


def test_attention_in_blocks_takes_what_a_model_trains_on():
    q, k, v, embedding = relative_inputs(300, 200, 5, dtype=torch.float32)
    assert relative.takes(q, k) and not relative.takes(q[:, :, :1], k) and not relative.takes(q.double(), k)
    gap = relative.relative_attention(q, k, v, embedding) - attention_naively(q, k, v, embedding)
    assert gap.abs().max() < 1e-5


@pytest.mark.parametrize(
    ("length", "distances", "block"), [(300, 200, 128), (257, 257, 64), (150, 400, 32), (40, 9, 64)]
)
def test_in_bf16_it_is_about_as_near_to_the_truth_as_the_naive_form(length, distances, block):
    truth, mine, plain = (relative_inputs(length, distances, 8, dtype=torch.double) for _ in range(3))
    up = torch.randn(2, 2, length, 4, dtype=torch.double, generator=torch.Generator().manual_seed(9))

    def run(attention, inputs, kind):
        result = attention(*(x.to(kind) for x in inputs[:3]), inputs[3].to(kind))
        result.backward(up.to(kind))
        return [result.detach().double(), *(x.grad for x in inputs)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(relative_blocks, "BLOCK", block)
        got = run(relative.relative_attention, mine, torch.bfloat16)
    assert got[0].dtype == torch.double and relative.takes(*(torch.zeros(1, 1, 300, 4, dtype=torch.bfloat16),) * 2)
    naive, wanted = run(attention_naively, plain, torch.bfloat16), run(attention_naively, truth, torch.double)
    for a, b, c in zip(got, naive, wanted, strict=True):
        off, theirs = (float((x - c).norm() / c.norm()) for x in (a, b))
        assert off < 0.012 and off < 1.2 * theirs, (off, theirs)


def test_attention_in_blocks_never_holds_all_scores():
    q, k, v, embedding = relative_inputs(600, 600, 6, dtype=torch.float32)
    with Largest() as all_at_once:
        attention_naively(q, k, v, embedding)
    with Largest() as trained:
        relative.relative_attention(q, k, v, embedding)
    with Largest() as read, torch.no_grad():
        relative.relative_attention(q, k, v, embedding)
    assert all_at_once.numel >= 2 * 2 * 600 * 600 and trained.numel <= 2 * 2 * 128 * 728 and read.numel <= 2 * 128 * 728


def test_rotary_table_is_the_papers():
    cos, sin = rotary_table(50, 8)
    for i in range(4):
        angle = 17 * 10000 ** (-2 * i / 8)
        assert cos[17, i] == pytest.approx(math.cos(angle), abs=1e-5)
        assert sin[17, i] == pytest.approx(math.sin(angle), abs=1e-5)


def test_rotation_is_complex_multiplication():
    torch.manual_seed(1)
    cos, sin = rotary_table(20, 8)
    x = torch.randn(2, 3, 20, 8)
    turned = torch.complex(x[..., :4], x[..., 4:]) * torch.complex(cos, sin)
    assert torch.allclose(rotate(x, cos, sin), torch.cat((turned.real, turned.imag), -1), atol=1e-6)


def test_rotated_products_depend_on_distance_alone():
    torch.manual_seed(2)
    cos, sin = rotary_table(400, 16)
    q, k = torch.randn(16), torch.randn(16)

    def score(i: int, j: int) -> float:
        return float(
            rotate(q[None], cos[i : i + 1], sin[i : i + 1]) @ rotate(k[None], cos[j : j + 1], sin[j : j + 1]).T
        )

    assert score(30, 10) == pytest.approx(score(390, 370), abs=1e-4)
    assert score(30, 10) != pytest.approx(score(30, 11), abs=1e-2)
    assert score(7, 7) == pytest.approx(float(q @ k), abs=1e-5)


def test_rotation_keeps_half_precision():
    cos, sin = rotary_table(4, 8)
    assert rotate(torch.randn(1, 4, 8).bfloat16(), cos, sin).dtype == torch.bfloat16
