"""Attention rows against Hugging Face's eager attention, a plain softmax, and the model's own output."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from gpt_core import attention as a
from gpt_core.cache import KVCache
from gpt_core.edges import EdgeRule
from gpt_core.errors import UserError
from gpt_core.model import SelfAttention
from gpt_core.positions import relative_logits_naive
from tests.core.peers import SCHEMES, Largest, gpt2_twins, small_model


@pytest.fixture(scope="module")
def twins():
    """Both in float64: the fp32 products of some CPUs take two right computations 3e-5 apart over 1,024 tokens."""
    ours, theirs = gpt2_twins()
    return ours.double(), theirs.double()


def some_ids(n: int, vocab: int = 61, seed: int = 1) -> torch.Tensor:
    return torch.randint(0, vocab, (n,), generator=torch.Generator().manual_seed(seed))


def largest_gap(twins, length: int, mangle=lambda rows: rows) -> float:
    ours, theirs = twins
    ids = some_ids(length, 211)
    with torch.no_grad():
        wanted = theirs(ids[None], output_attentions=True).attentions
    assert len(wanted) == ours.config.n_layer  # an empty tuple would agree with anything
    if length > 2:
        assert all(w[0, :, length // 2 :].max() > 0.5 for w in wanted)  # near-uniform rows would agree by accident
    trace = a.trace(ours, ids)
    gaps = [(mangle(a.rows(trace, l, range(length))) - w[0]).abs().max() for l, w in enumerate(wanted)]
    return float(max(gaps))


@pytest.mark.parametrize("length", [1, 2, 255, 256, 257, 1024])
def test_rows_equal_hugging_face_eager(twins, length):
    assert largest_gap(twins, length) <= 1e-5


def test_in_fp32_rows_are_as_close_to_exact_ones_as_hugging_faces(twins):
    ids = some_ids(1024, 211)
    ours, theirs = gpt2_twins()
    with torch.no_grad():
        exact, rounded = (m(ids[None], output_attentions=True).attentions for m in (twins[1], theirs))
    trace = a.trace(ours, ids)
    for layer, (e, r) in enumerate(zip(exact, rounded, strict=True)):
        assert r.dtype == torch.float32
        assert (a.rows(trace, layer, range(1024)) - e[0]).abs().mean() < 1.5 * (r - e).abs().mean() + 1e-9


def test_the_comparison_sees_wrong_rows(twins, monkeypatch):
    assert largest_gap(twins, 64, lambda rows: rows.flip(0)) > 0.1
    assert largest_gap(twins, 64, lambda rows: rows.roll(1, 1)) > 0.1
    monkeypatch.setattr(math, "sqrt", lambda _: 1.0)  # reaches attention.py, whose only use it is
    assert largest_gap(twins, 64) > 0.1


@pytest.mark.parametrize("scheme", SCHEMES)
def test_rows_are_probabilities_over_the_past(scheme):
    trace = a.trace(small_model(scheme, context=300), some_ids(300))
    for layer in (0, 1):
        rows = a.rows(trace, layer, range(300))
        assert (rows.double().sum(-1) - 1).abs().max() < 1e-6
        assert torch.equal(rows.triu(1), torch.zeros_like(rows))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_rows_times_values_are_what_the_model_computes(scheme):
    model, ids, taken = small_model(scheme), some_ids(16), {}
    model(ids[None], tap=lambda name, layer, x: taken.__setitem__((name, layer), x))
    trace = a.trace(model, ids)
    for layer in (0, 1):
        heads = (a.rows(trace, layer, range(16)) @ taken["v", layer][0]).transpose(0, 1).flatten(1)
        assert (heads - taken["heads", layer][0]).abs().max() < 2e-6


def test_relative_rows_add_an_embedding_per_distance():
    trace = a.trace(small_model("relative, clipped"), some_ids(16))
    q, k, rel = trace.q[1], trace.k[1], trace.relative[1]
    scores = (q @ k.mT + relative_logits_naive(q[None], rel, 16)[0]) / math.sqrt(8)
    wanted = scores.masked_fill(torch.ones(16, 16).triu(1).bool(), -math.inf).softmax(-1)
    assert (a.rows(trace, 1, range(16)) - wanted).abs().max() < 1e-6


@pytest.mark.parametrize("scheme", SCHEMES)
def test_any_part_equals_the_same_part_of_the_whole(scheme):
    trace = a.trace(small_model(scheme), some_ids(13))
    whole = a.rows(trace, 1, range(13))
    assert torch.allclose(a.rows(trace, 1, range(4, 9), [2, 0]), whole[[2, 0], 4:9], atol=1e-6)
    for key in (0, 5, 12):
        assert torch.allclose(a.column(trace, 1, key), whole[:, :, key], atol=1e-6)
    assert torch.allclose(a.column(trace, 1, 5, [1]), whole[[1], :, 5], atol=1e-6)
    assert torch.allclose(a.blend(trace, 1, range(2, 13)), whole.mean(0)[2:], atol=1e-6)
    assert torch.allclose(a.blend(trace, 1, range(2, 13), "max"), whole.amax(0)[2:], atol=1e-6)


def test_columns_over_several_chunks(monkeypatch):
    monkeypatch.setattr(a, "_CHUNK", 5)
    trace = a.trace(small_model("rotary"), some_ids(16))
    assert torch.allclose(a.column(trace, 0, 3), a.rows(trace, 0, range(16))[:, :, 3], atol=1e-6)


@pytest.mark.parametrize("scheme", ["learned", "rotary"])
def test_unmasked_rows_see_the_future_and_agree_on_the_last_token(scheme):
    trace = a.trace(small_model(scheme), some_ids(9))
    masked, free = a.rows(trace, 0, range(9)), a.rows(trace, 0, range(9), causal=False)
    assert torch.equal(masked[:, 8], free[:, 8])
    assert (free[:, :8].triu(1) > 0).any()
    z = trace.q[0] @ trace.k[0].mT / math.sqrt(8)
    assert torch.allclose(free, z.softmax(-1), atol=1e-6)


def test_unmasked_attention_of_the_core_has_the_unmasked_rows():
    model, ids, taken = small_model("learned"), some_ids(9), {}
    model(ids[None], tap=lambda name, layer, x: taken.__setitem__((name, layer), x))
    free = SelfAttention(model.config, causal=False).eval()
    free.load_state_dict(model.h[0].attn.state_dict())
    x, heads = model.h[0].ln_1(taken["embedding", 0]), []
    masked, unmasked = model.h[0].attn(x), free(x, tap=lambda name, _, t: heads.append(t) if name == "heads" else None)
    wanted = a.rows(a.trace(model, ids), 0, range(9), causal=False) @ taken["v", 0][0]
    assert (heads[0][0] - wanted.transpose(0, 1).flatten(1)).abs().max() < 2e-6
    assert torch.allclose(masked[:, -1], unmasked[:, -1], atol=1e-6)
    assert (masked[:, 0] - unmasked[:, 0]).abs().max() > 1e-3


def test_unmasked_is_refused_where_distances_go_back_only():
    with pytest.raises(UserError, match="distances back only"):
        a.rows(a.trace(small_model("relative"), some_ids(4)), 0, range(4), causal=False)


def test_rollout_is_the_product_of_half_identity_half_mean(monkeypatch):
    monkeypatch.setattr(a, "_CHUNK", 5)
    trace = a.trace(small_model("learned", n_layer=3), some_ids(14))
    product = np.eye(14)
    for layer in range(3):
        mean = a.rows(trace, layer, range(14)).double().mean(0).numpy()
        product = (0.5 * np.eye(14) + 0.5 * mean) @ product
        got = a.rollout(trace, range(3, 14), layer).numpy()
        assert np.abs(got - product[3:]).max() < 1e-6
    assert np.abs(a.rollout(trace, range(14)).numpy() - product).max() < 1e-6


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_tap_changes_no_bit(scheme):
    model, ids = small_model(scheme), some_ids(16)[None]
    plain, cache, taps = model(ids), KVCache(model.config), []
    assert torch.equal(plain, model(ids, tap=lambda *seen: taps.append(seen)))
    assert taps
    again, seen = KVCache(model.config), a.Trace(ids[0], model.config)
    column = ids[:, :1]
    for _ in range(16):  # decoding, step by step: the same logits, and so the same ids
        tapped, plain = model(column, cache, tap=seen.tap), model(column, again)
        assert torch.equal(tapped, plain)
        column = plain[:, -1:].argmax(-1)
    assert len(seen.q) == 16 * model.config.n_layer
    assert all(torch.equal(x, y) for x, y in zip(cache.keys, again.keys, strict=True))


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("queries", [1, 3])
def test_a_cache_gives_the_last_rows_and_stays_untouched(scheme, queries):
    model, ids = small_model(scheme), some_ids(12)
    cache = KVCache(model.config)
    with torch.no_grad():
        model(ids[None, :11], cache)
    cache = cache.expand(3)
    before = [x.clone() for x in cache.keys + cache.values]
    seen = a.trace_cached(model, ids, cache, row=2, queries=queries)
    assert seen.queries == range(12 - queries, 12)
    whole = a.trace(model, ids)
    for layer in (0, 1):
        wanted = a.rows(whole, layer, seen.queries)
        assert (a.rows(seen, layer, seen.queries) - wanted).abs().max() < 1e-5
    assert cache.length == 11
    assert all(torch.equal(x, y) for x, y in zip(before, cache.keys + cache.values, strict=True))


def test_what_a_cache_does_not_hold_is_refused():
    model, cache = small_model("learned"), KVCache(SCHEMES["learned"])
    model(some_ids(3)[None], cache)
    with pytest.raises(UserError, match="holds 3 tokens; 1 queries of 9 need 8"):
        a.trace_cached(model, some_ids(9), cache)
    with pytest.raises(UserError, match="no queries 0 to 3"):
        a.rows(a.trace_cached(model, some_ids(4), cache), 0, range(4))


def test_a_piece_longer_than_the_window_says_what_was_out_of_reach():
    model, ids = small_model("rotary"), some_ids(50)
    trace = a.trace(model, ids)
    assert (trace.start, trace.length) == (34, 16)
    assert torch.equal(a.rows(trace, 0, range(16)), a.rows(a.trace(model, ids[34:]), 0, range(16)))


def test_edges_show_and_hide_a_whole_row():
    trace = a.trace(small_model("learned"), some_ids(16))
    row = a.rows(trace, 1, range(11, 12))[2, 0].tolist()
    seen = a.edges(trace, 1, 2, 11, EdgeRule(top_k=4, mass=1.0))
    assert list(seen.keys) == sorted(range(16), key=lambda j: -row[j])[:4]
    assert list(seen.weights) == [row[j] for j in seen.keys]
    assert abs(seen.shown + seen.hidden - 1) < 1e-6


def test_packed_layers_hold_every_view():
    trace, rule = a.trace(small_model("rotary"), some_ids(16)), EdgeRule(top_k=16, mass=1.0)
    everything = range(16)
    wanted = {
        "heads": a.rows(trace, 1, everything),
        "mean": a.blend(trace, 1, everything)[None],
        "max": a.blend(trace, 1, everything, "max")[None],
        "rollout": a.rollout(trace, everything, 1)[None],
    }
    for view, rows in wanted.items():
        packed = a.pack_layer(trace, 1, view, rule)
        assert packed.heads == len(rows)
        for head in range(len(rows)):
            for query in everything:
                dense = np.zeros(16)
                keys, weights = packed.row(head, query)
                dense[keys] = weights
                assert np.abs(dense - rows[head, query].numpy()).max() <= 0.5 / 65535 + 1e-9


def test_no_step_forms_more_than_a_chunk_of_rows(monkeypatch):
    monkeypatch.setattr(a, "_CHUNK", 32)
    model = small_model("relative", context=400, n_layer=3)
    trace = a.trace(model, some_ids(400))
    with Largest() as seen:
        for view in ("heads", "mean", "max"):
            a.pack_layer(trace, 2, view)
        a.column(trace, 2, 0)
    assert seen.numel <= 3 * 32 * 401  # 3 heads, a chunk, all keys (and the skew's one more)
    with Largest() as seen:
        a.pack_layer(trace, 2, "rollout")
    assert seen.numel <= 400 * 400  # one matrix, whatever the layers and heads


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda t: a.rows(t, 2, range(4)), "no layer 2; the model has layers 0 to 1"),
        (lambda t: a.rows(t, 0, range(2, 5)), "no queries 2 to 4; this trace has tokens 0 to 3"),
        (lambda t: a.rows(t, 0, range(2, 2)), "no queries"),
        (lambda t: a.rows(t, 0, range(4), [3]), "no head 3; the model has heads 0 to 2"),
        (lambda t: a.rows(t, 0, range(4), [-1]), "no head -1"),
        (lambda t: a.column(t, 0, 4), "no queries 4"),
        (lambda t: a.pack_layer(t, 0, "sum"), "view is 'sum'; choose one of heads, mean, max, rollout"),
    ],
)
def test_what_is_not_there_is_named(ask, words):
    with pytest.raises(UserError, match=words):
        ask(a.trace(small_model("learned"), some_ids(4)))


def test_nothing_to_look_at_and_a_model_in_training_are_refused():
    with pytest.raises(UserError, match="no tokens"):
        a.trace(small_model("learned"), some_ids(0))
    with pytest.raises(UserError, match=r"model\.eval"):
        a.trace(small_model("learned", dropout=0.1).train(), some_ids(4))
