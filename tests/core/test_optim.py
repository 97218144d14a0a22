"""The learning-rate schedule by hand, orthogonalised updates, and parameter groups that cover every weight once."""

from __future__ import annotations

import copy

import pytest
import torch

from gpt_core.optim import Muon, Optimizers, learning_rate_share, orthogonalize
from gpt_core.train_config import TrainConfig
from tests.core.peers import SCHEMES, small_model


@pytest.mark.parametrize(
    ("schedule", "step", "share"),
    [
        ("linear", 0, 0.2),
        ("linear", 3, 0.8),
        ("linear", 4, 1.0),
        ("linear", 39, 1.0),
        ("linear", 70, 0.5),
        ("linear", 99, 1 / 60),
        ("linear", 100, 0.01),
        ("cosine", 70, 0.5),
        ("cosine", 55, 0.853553),
        ("cosine", 99, 0.01),
        ("constant", 99, 1.0),
    ],
)
def test_schedule_by_hand(schedule, step, share):
    config = TrainConfig(max_steps=100, warmup_steps=4, decay=0.6, schedule=schedule, final_lr=0.01)
    assert learning_rate_share(step, config) == pytest.approx(share, abs=1e-6)


def test_no_decay_and_no_warm_up_stay_at_the_peak():
    config = TrainConfig(max_steps=10, warmup_steps=0, decay=0.0)
    assert [learning_rate_share(s, config) for s in (0, 5, 9)] == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("shape", [(8, 8), (24, 6), (6, 24)])
def test_orthogonalised_matrices_keep_directions_and_level_singular_values(shape):
    g = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    u, s, vt = torch.linalg.svd(g, full_matrices=False)
    out = orthogonalize(g, torch.float32)
    levels = torch.diagonal(u.T @ out @ vt.T)
    assert levels.min() > 0.5 and levels.max() < 1.3
    assert (out - u @ torch.diag(levels) @ vt).abs().max() < 1e-3
    assert s.max() / s.min() > 2


@pytest.mark.parametrize("shape", [(8, 8), (24, 6), (6, 24)])
def test_orthogonalising_in_bf16_comes_to_the_same(shape):
    g = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    a, b = orthogonalize(g, torch.float32), orthogonalize(g, torch.bfloat16)
    assert b.dtype == torch.float32
    assert 0 < (a - b).norm() / a.norm() < 0.05


@pytest.mark.parametrize(
    ("precision", "units", "dtype"),
    [("auto", True, torch.bfloat16), ("auto", False, torch.float32), ("fp32", True, torch.float32)],
)
def test_muon_computes_in_bf16_where_the_machine_is_fast_at_it_and_fp32_was_not_asked_for(
    monkeypatch, precision, units, dtype
):
    monkeypatch.setattr("gpt_core.optim.fast_bf16", lambda device: units)
    muon = Optimizers(small_model("rotary"), TrainConfig(precision=precision)).all[0]
    assert isinstance(muon, Muon) and muon.dtype is dtype


def test_muon_treats_q_k_and_v_apart():
    g = torch.Generator().manual_seed(1)
    whole, parts = torch.nn.Parameter(torch.zeros(12, 4)), [torch.nn.Parameter(torch.zeros(4, 4)) for _ in range(3)]
    whole.grad = torch.randn(12, 4, generator=g)
    for part, grad in zip(parts, whole.grad.chunk(3), strict=True):
        part.grad = grad.clone()
    Muon([whole], lr=0.1, weight_decay=0.0).step()
    Muon(parts, lr=0.1, weight_decay=0.0).step()
    assert torch.allclose(whole, torch.cat(list(parts)), atol=1e-6)
    assert float(whole.detach().norm()) == pytest.approx(0.1 * 12**0.5, rel=0.3)


def test_muon_decays_weights_apart_from_the_gradient():
    p = torch.nn.Parameter(torch.full((2, 2), 3.0))
    p.grad = torch.zeros(2, 2)
    Muon([p], lr=0.1, weight_decay=0.5).step()
    assert torch.allclose(p, torch.full((2, 2), 3.0 * 0.95))


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("optimizer", ["muon", "adamw"])
def test_every_weight_is_in_one_group_and_only_matrices_decay(scheme, optimizer):
    model = small_model(scheme)
    name_of = {id(p): n for n, p in model.named_parameters()}
    groups = [
        g for o in Optimizers(model, TrainConfig(optimizer=optimizer, weight_decay=0.1)).all for g in o.param_groups
    ]
    names = [name_of[id(p)] for g in groups for p in g["params"]]
    assert sorted(names) == sorted(name_of.values())
    for g in groups:
        for p in g["params"]:
            if p.dim() < 2:
                assert g["weight_decay"] == 0, name_of[id(p)]
            if name_of[id(p)].endswith(("c_fc.weight", "c_attn.weight")):
                assert g["weight_decay"] == 0.1


def test_state_goes_round():
    def trained(steps):
        model = small_model("rotary")
        optimizers = Optimizers(model, TrainConfig(max_steps=10, warmup_steps=0))
        for step in range(steps):
            model(torch.arange(8)[None]).square().mean().backward()
            optimizers.step(step)
        return model, optimizers

    model, optimizers = trained(3)
    other = small_model("rotary")
    other.load_state_dict(model.state_dict())
    fresh = Optimizers(other, TrainConfig(max_steps=10, warmup_steps=0))
    fresh.load_state_dict(copy.deepcopy(optimizers.state_dict()))
    for m, o in ((model, optimizers), (other, fresh)):
        m(torch.arange(8)[None]).square().mean().backward()
        o.step(3)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))
