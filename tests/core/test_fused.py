"""Attention on matrix tiles against softmax written out in fp64: values, gradients, odd shapes, threads, compiled, absent."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from torch import Tensor

from gpt_core import fused
from gpt_core.config import PRESETS
from gpt_core.model import GPT

needs_tiles = pytest.mark.skipif(
    not fused.ready(), reason="this CPU has no matrix tiles (AMX), or there is no compiler"
)
ROUNDING = 2.0**-8  # of bf16, relative

SHAPES = [(1, 1, 64, 16), (2, 3, 65, 48), (1, 2, 127, 32), (1, 2, 129, 64), (2, 2, 256, 80), (1, 1, 333, 128)]


def inputs(shape: tuple[int, ...], scale: float = 1.0, seed: int = 0) -> list[Tensor]:
    """q, k, v and the gradient of the output, in bf16, as the model lays them out: [B, T, H, D] in memory."""
    draw = torch.Generator().manual_seed(seed)
    b, h, t, d = shape
    q, k, v, g = (torch.randn(b, t, h, d, generator=draw).transpose(1, 2) for _ in range(4))
    return [x.bfloat16() for x in (q * scale, k * scale, v, g)]


def by_hand(q: Tensor, k: Tensor, v: Tensor, g: Tensor) -> list[Tensor]:
    """Output and gradients of q, k, v from the formula, in fp64."""
    q, k, v = (x.detach().double().requires_grad_() for x in (q, k, v))
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    future = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool).triu(1)
    out = scores.masked_fill(future, -math.inf).softmax(-1) @ v
    return [out.detach(), *torch.autograd.grad(out, (q, k, v), g.double())]


def ours(q: Tensor, k: Tensor, v: Tensor, g: Tensor) -> list[Tensor]:
    q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
    out = fused.causal_attention(q, k, v)
    return [out.detach(), *torch.autograd.grad(out, (q, k, v), g)]


def distance(a: Tensor, b: Tensor) -> float:
    return float((a.double() - b.double()).norm() / b.double().norm())


@needs_tiles
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values_and_gradients_are_those_of_the_formula(shape):
    x = inputs(shape)
    for name, mine, right in zip(("out", "dq", "dk", "dv"), ours(*x), by_hand(*x), strict=True):
        assert mine.shape == right.shape and mine.dtype == torch.bfloat16
        assert distance(mine, right) < ROUNDING, name


@needs_tiles
def test_every_position_by_itself_is_right_not_the_sum_alone():
    x = inputs((1, 2, 300, 48), scale=1.5)
    for name, mine, right in zip(("out", "dq", "dk", "dv"), ours(*x), by_hand(*x), strict=True):
        off = (mine.double() - right).norm(dim=-1)
        size = right.norm(dim=-1)
        assert bool((off < 4 * ROUNDING * size + 1e-2 * size.mean()).all()), name


@needs_tiles
def test_it_is_no_farther_from_the_truth_than_pytorch_in_bf16():
    x = inputs((2, 4, 512, 64), scale=1.5)
    q, k, v = (u.detach().requires_grad_() for u in x[:3])
    out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    theirs = [out.detach(), *torch.autograd.grad(out, (q, k, v), x[3])]
    for mine, other, right in zip(ours(*x), theirs, by_hand(*x), strict=True):
        assert distance(mine, right) < 1.02 * distance(other, right)


@needs_tiles
@pytest.mark.parametrize("scale", [8.0, 40.0])
def test_large_scores_overflow_nowhere(scale):
    x = inputs((1, 1, 200, 32), scale=scale)  # at 40 scores of a few thousand: one-hot weights
    mine, right = ours(*x), by_hand(*x)
    assert all(bool(u.isfinite().all()) for u in mine)
    assert distance(mine[0], right[0]) < ROUNDING and distance(mine[3], right[3]) < ROUNDING


@needs_tiles
def test_what_is_no_number_does_not_vanish():
    x = inputs((1, 1, 128, 16))
    x[1][0, 0, 70, 3] = math.nan  # a key
    out = ours(*x)[0]
    assert bool(out[0, 0, :64].isfinite().all()) and bool(out[0, 0, 70:].isnan().all())


@needs_tiles
def test_a_query_sees_nothing_of_what_comes_after_it():
    q, k, v, _ = inputs((1, 2, 160, 32))
    with torch.no_grad():
        before = fused.causal_attention(q, k, v)
        k[:, :, 100:] = 77.0
        v[:, :, 100:] = -55.0
        after = fused.causal_attention(q, k, v)
    assert torch.equal(before[:, :, :100], after[:, :, :100])
    assert not torch.equal(before[:, :, 100:], after[:, :, 100:])


@needs_tiles
def test_threads_and_memory_layout_change_no_bit():
    x = inputs((3, 2, 200, 48))
    threads = torch.get_num_threads()
    results = []
    try:
        for n in (1, 2, 5):
            torch.set_num_threads(n)
            results.append(ours(*x))
    finally:
        torch.set_num_threads(threads)
    results.append(ours(*(u.contiguous() for u in x)))
    results.append(ours(*(u.mT.contiguous().mT for u in x)))  # the last stride is not 1
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


@needs_tiles
def test_pytorchs_own_products_on_tiles_go_on_as_before():
    a, b = torch.randn(256, 256).bfloat16(), torch.randn(256, 256).bfloat16()
    before = a @ b
    ours(*inputs((2, 2, 128, 64)))
    assert torch.equal(a @ b, before)


@needs_tiles
def test_pytorch_finds_the_operators_well_made():
    q, k, v, g = inputs((2, 2, 96, 32))
    grown = [x.detach().requires_grad_() for x in (q, k, v)]
    torch.library.opcheck(fused._forward, tuple(grown))
    out, sums = fused._forward(q, k, v)
    torch.library.opcheck(fused._backward, (q, k, v, out, sums, g))


def losses(model: GPT, ids: Tensor, forward=None) -> tuple[float, list[Tensor]]:
    model.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        logits = (model if forward is None else forward)(ids)
    loss = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), ids.flatten())
    loss.backward()
    return loss.item(), [p.grad.clone() for p in model.parameters()]


def small() -> tuple[GPT, Tensor]:
    torch.manual_seed(0)
    config = dataclasses.replace(PRESETS["piano"], n_layer=2, n_embd=64, n_head=2, zero_init=False)
    return GPT(config), torch.randint(0, config.vocab_size, (2, 130))


def test_a_model_learns_the_same_with_it_and_without(monkeypatch):
    model, ids = small()
    loss, gradients = losses(model, ids)
    monkeypatch.setattr(fused, "takes", lambda q, k, v: False)
    plain_loss, plain = losses(model, ids)
    assert loss == pytest.approx(plain_loss, rel=1e-3)
    assert all(distance(a, b) < 5e-2 for a, b in zip(gradients, plain, strict=True))


@needs_tiles
def test_training_takes_it_and_evaluation_does_not(monkeypatch):
    model, ids = small()
    calls = []
    real = fused.causal_attention
    monkeypatch.setattr(fused, "causal_attention", lambda *x: calls.append(1) or real(*x))
    losses(model, ids)
    assert len(calls) == 2  # one a layer
    with torch.no_grad():
        model(ids)
    model(ids)  # fp32
    assert len(calls) == 2


@needs_tiles
@pytest.mark.slow
def test_compiled_it_is_the_same():
    model, ids = small()
    loss, gradients = losses(model, ids)
    compiled_loss, compiled = losses(model, ids, torch.compile(model))
    assert compiled_loss == pytest.approx(loss, rel=1e-3)
    assert all(distance(a, b) < 5e-2 for a, b in zip(compiled, gradients, strict=True))


def test_a_machine_without_tiles_or_compiler_builds_nothing_and_trains_all_the_same(monkeypatch):
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    monkeypatch.setattr(fused, "library", lambda name: pytest.fail("built"))
    assert not fused.ready()
    assert math.isfinite(losses(*small())[0])
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: True)
    monkeypatch.setattr(fused, "library", lambda name: "no C++ compiler was found")
    assert not fused.ready()
    assert math.isfinite(losses(*small())[0])
    with pytest.raises(RuntimeError, match="no matrix tiles"):
        fused.causal_attention(*inputs((1, 1, 64, 16))[:3])
