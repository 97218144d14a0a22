"""Sampling filters against plain loops in numpy, and draws that depend on their own take alone."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gpt_core import sampling as s
from gpt_core.errors import UserError

# Few distinct values: ties in nearly every row. -inf: what a grammar leaves behind.
rows = st.lists(st.sampled_from([-2.0, -0.5, 0.0, 0.25, 1.0, 3.0, -math.inf]), min_size=1, max_size=12).filter(
    lambda row: max(row) > -math.inf
)
free_rows = st.lists(st.floats(-8, 8, width=32), min_size=1, max_size=40)


def survivors(logits: torch.Tensor) -> list[int]:
    return [i for i, x in enumerate(logits[0].tolist()) if x > -math.inf]


def best_first(row: list[float]) -> list[int]:
    return sorted((i for i, x in enumerate(row) if x > -math.inf), key=lambda i: (-row[i], i))


def probabilities(row: list[float]) -> np.ndarray:
    e = np.exp(np.asarray(row, dtype=np.float64) - max(row))
    return e / e.sum()


@given(rows, st.integers(0, 14))
def test_top_k_keeps_the_k_likeliest_with_lower_ids_first(row, k):
    wanted = best_first(row)[: k or None]
    out = s.top_k(torch.tensor([row]), k)
    assert survivors(out) == sorted(wanted)
    assert all(out[0, i] == row[i] for i in wanted)


@pytest.mark.parametrize("k", [0, 5, 6, 1000])
def test_top_k_off_whole_and_beyond_change_nothing(k):
    logits = torch.randn(3, 5)
    assert torch.equal(s.top_k(logits, k), logits)


@given(rows | free_rows, st.floats(0, 1))
def test_top_p_is_the_shortest_likeliest_set_that_reaches_p(row, p):
    row = np.asarray(row, dtype=np.float32).tolist()
    order, probability = best_first(row), probabilities(row)
    reached = np.cumsum([probability[i] for i in order])
    if np.abs(reached - p).min() < 1e-12 and p < 1:
        return  # on the edge the last bit of exp decides
    kept, mass = [], 0.0
    for i in order:
        kept.append(i)
        mass += probability[i]
        if mass >= p and p < 1:
            break
    assert survivors(s.top_p(torch.tensor([row]), p)) == sorted(kept)


def test_top_p_ends():
    row = [0.0, 2.0, 2.0, 1.0]
    assert survivors(s.top_p(torch.tensor([row]), 0.0)) == [1]
    assert survivors(s.top_p(torch.tensor([row]), 1.0)) == [0, 1, 2, 3]
    even = torch.full((1, 4), 0.3)  # each exactly 1/4: the second reaches the half, a hair more needs a third
    assert [survivors(s.top_p(even, p)) for p in (0.25, 0.5, 0.5 + 1e-9)] == [[0], [0, 1], [0, 1, 2]]
    assert [survivors(s.narrow(even, 2, p)) for p in (0.5, 0.5 + 1e-9)] == [[0], [0, 1]]


def test_top_p_over_a_large_flat_vocabulary_looks_beyond_its_first_look():
    rng = np.random.default_rng(5)
    row = (rng.standard_normal(5000) * 0.1).astype(np.float32)
    order = np.argsort(-row.astype(np.float64), kind="stable")
    p = probabilities(row.tolist())
    count = int((np.cumsum(p[order]) < 0.9).sum()) + 1
    assert count > 4000
    assert survivors(s.top_p(torch.tensor(row)[None], 0.9)) == sorted(order[:count].tolist())
    peaked = torch.tensor(row)[None].clone()
    peaked[0, 77] = 30.0
    both = s.top_p(torch.cat([peaked, torch.tensor(row)[None]]), 0.9)  # rows of unlike length side by side
    assert survivors(both[:1]) == [77]
    assert survivors(both[1:]) == sorted(order[:count].tolist())


@given(rows | free_rows, st.sampled_from([0.0, 0.01, 0.3, 0.5, 1.0]))
def test_min_p_compares_with_the_likeliest(row, share):
    row = np.asarray(row, dtype=np.float32).tolist()
    p = probabilities(row)
    ratio = p / p.max()
    close = (np.abs(ratio - share) < 1e-5) & (np.asarray(row) != max(row))  # too close to call in float32
    if share and close.any():
        return
    wanted = [i for i in best_first(row) if share == 0 or ratio[i] >= share]
    assert survivors(s.min_p(torch.tensor([row]), share)) == sorted(wanted)


@given(rows | free_rows, st.sampled_from([0.0, 1e-45, 1e-9, 0.1, 0.7, 1.0, 2.5, 10.0]))
def test_temperature_sharpens_and_zero_takes_the_first_largest(row, value):
    row = np.asarray(row, dtype=np.float32).tolist()
    out = s.temperature(torch.tensor([row]), value)
    if value == 0.0:
        assert survivors(out) == [row.index(max(row))]
        return
    with np.errstate(over="ignore"):
        wanted = np.exp((np.asarray(row, dtype=np.float64) - max(row)) / np.float64(value))
    assert np.allclose(out.double().softmax(-1)[0].numpy(), wanted / wanted.sum(), atol=2e-6)


@given(st.integers(0, 2**31), st.sampled_from([0.5, 1.3, 2.0]), st.integers(0, 6), st.integers(0, 8))
def test_repetition_follows_the_paper(seed, penalty, window, length):
    rng = np.random.default_rng(seed)
    logits = rng.standard_normal((2, 7)).astype(np.float32)
    logits[0, 3] = -np.inf
    ids = rng.integers(0, 7, (2, length))
    wanted = logits.copy()
    for b in range(2):
        seen = set(ids[b].tolist()[-window:] if window else ids[b].tolist())
        for i in seen:
            wanted[b, i] = logits[b, i] / penalty if logits[b, i] > 0 else logits[b, i] * penalty
    out = s.repetition(torch.tensor(ids), torch.tensor(logits), penalty, window)
    assert np.allclose(out.numpy(), wanted, rtol=1e-6, atol=0)


def test_filters_do_not_write_into_what_they_are_given():
    logits, ids = torch.randn(2, 9), torch.zeros(2, 3, dtype=torch.long)
    before = logits.clone()
    for f in s.filters_from(s.Sampling(0.5, 3, 0.5, 0.1, 1.5)):
        f(ids, logits)
    assert torch.equal(logits, before)


def test_filters_agree_with_hugging_face_in_its_order():
    from transformers import (
        LogitsProcessorList,
        MinPLogitsWarper,
        RepetitionPenaltyLogitsProcessor,
        TemperatureLogitsWarper,
        TopKLogitsWarper,
        TopPLogitsWarper,
    )

    theirs = LogitsProcessorList(
        [
            RepetitionPenaltyLogitsProcessor(1.7),
            TemperatureLogitsWarper(0.8),
            TopKLogitsWarper(12),
            TopPLogitsWarper(0.8),
            MinPLogitsWarper(0.05),
        ]
    )
    torch.manual_seed(3)
    for _ in range(50):
        ids, logits = torch.randint(0, 391, (2, 20)), torch.randn(2, 391) * 3
        out = logits
        for f in s.filters_from(s.Sampling(0.8, 12, 0.8, 0.05, 1.7)):
            out = f(ids, out)
        assert torch.allclose(out.softmax(-1), theirs(ids, logits.clone()).softmax(-1), atol=1e-6)


def test_default_settings_filter_nothing_and_greedy_needs_one_filter():
    assert s.filters_from(s.Sampling()) == []
    assert len(s.filters_from(s.Sampling(temperature=0.0, top_k=4, top_p=0.5, min_p=0.1))) == 1


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"temperature": -0.1}, "--temperature is -0.1"),
        ({"temperature": math.nan}, "--temperature is not a number"),
        ({"top_k": -1}, "--top-k is -1"),
        ({"top_p": 1.01}, "--top-p is 1.01"),
        ({"min_p": 2.0}, "--min-p is 2.0"),
        ({"repetition_penalty": 0.0}, "--repetition-penalty is 0.0"),
    ],
)
def test_settings_out_of_range_are_named(bad, words):
    with pytest.raises(UserError, match=words):
        s.filters_from(s.Sampling(**bad))


def test_sample_inverts_the_cumulative_distribution():
    logits = torch.randn(4, 391) * 4
    drawn = s.sample(logits, s.generators_for(11, 4))
    for row, g in enumerate(s.generators_for(11, 4)):
        u = torch.rand((1,), generator=g, dtype=torch.float64).item()
        wanted = int(np.searchsorted(np.cumsum(probabilities(logits[row].tolist())), u, side="right"))
        assert drawn[row] == wanted
    assert drawn.dtype == torch.long and drawn.shape == (4,)


def test_sample_draws_in_proportion_and_never_the_impossible():
    row = torch.tensor([[-math.inf, math.log(0.5), -math.inf, math.log(0.3), math.log(0.2), -1e4, -math.inf]])
    g = s.generators_for(1, 1)
    counts = np.bincount([int(s.sample(row, g)) for _ in range(4000)], minlength=7)
    assert counts[[0, 2, 5, 6]].sum() == 0
    assert np.allclose(counts[[1, 3, 4]] / 4000, [0.5, 0.3, 0.2], atol=0.03)


@pytest.mark.parametrize("number", [0.0, 1.0 - 2.0**-53])
def test_the_ends_of_the_unit_interval_give_possible_ids(number, monkeypatch):
    monkeypatch.setattr(s, "uniforms", lambda rows, _: torch.full((rows, 1), number, dtype=torch.float64))
    for seed in range(200):
        torch.manual_seed(seed)
        logits = torch.randn(1, 50) * 5
        logits[0, :3] = logits[0, -3:] = -math.inf
        assert int(s.sample(logits)) == (3 if number == 0 else 46)


def test_a_take_does_not_depend_on_the_takes_beside_it():
    def takes(n):
        gens, torch_rows = s.generators_for(-5, n), torch.Generator().manual_seed(0)
        steps = torch.randn(30, 1, 391, generator=torch_rows) * 3
        return torch.stack([s.sample(step.expand(n, -1), gens) for step in steps])

    four = takes(4)
    assert torch.equal(takes(1)[:, 0], four[:, 0])
    assert torch.equal(takes(2), four[:, :2])
    assert len({tuple(column.tolist()) for column in four.T}) == 4


def test_every_row_uses_one_number_also_when_greedy():
    used, plain = s.generators_for(9, 1), s.generators_for(9, 1)
    s.sample(s.temperature(torch.randn(1, 391), 0.0), used)
    torch.rand((1,), generator=plain[0], dtype=torch.float64)
    assert torch.equal(used[0].get_state(), plain[0].get_state())


def test_seeds_of_any_size_and_sign_differ():
    seeds = [0, 1, -1, 2**63, 2**200, 10, 100]
    firsts = {torch.rand((), generator=s.generators_for(x, 1)[0]).item() for x in seeds}
    assert len(firsts) == len(seeds)


def test_global_generator_obeys_manual_seed():
    logits = torch.randn(3, 391)
    torch.manual_seed(4)
    first = s.sample(logits)
    torch.manual_seed(4)
    assert torch.equal(first, s.sample(logits))


@pytest.mark.parametrize("filters", [s.Sampling(), s.Sampling(0.7, 5, 0.9, 0.1), s.Sampling(temperature=0)])
def test_a_row_without_any_id_is_an_error_that_names_the_take(filters):
    logits = torch.randn(2, 8)
    logits[1] = -math.inf
    for f in s.filters_from(filters):
        logits = f(torch.zeros(2, 0, dtype=torch.long), logits)
    with pytest.raises(UserError, match="no id may follow in take 2"):
        s.sample(logits)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("filters", [s.Sampling(), s.Sampling(temperature=0), s.Sampling(0.7, 5, 0.9, 0.1)])
def test_logits_that_are_no_numbers_are_refused(bad, filters):
    logits = torch.randn(2, 8)
    logits[0, 3] = bad
    for f in s.filters_from(filters):
        logits = f(torch.zeros(2, 0, dtype=torch.long), logits)
    with pytest.raises(UserError):
        s.sample(logits)


def test_wrong_number_of_generators_and_no_takes_are_refused():
    with pytest.raises(UserError, match="3 takes and 2 random generators"):
        s.sample(torch.randn(3, 5), s.generators_for(0, 2))
    with pytest.raises(UserError, match="takes is 0"):
        s.generators_for(0, 0)


def test_the_module_imports_without_torch():
    code = "import sys, gpt_core.sampling; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
