"""The decoder against Hugging Face's GPT-2, published parameter counts, and causality bit by bit."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from gpt_core.cache import KVCache
from gpt_core.errors import UserError
from gpt_core.model import GPT, MLP, PRESETS, GPTConfig, causal_mask
from tests.core.peers import SCHEMES, gpt2_twins, small_model

PUBLISHED = {  # layers and parameters of the released checkpoints
    "gpt2": (12, 124_439_808),
    "gpt2-medium": (24, 354_823_168),
    "gpt2-large": (36, 774_030_080),
    "gpt2-xl": (48, 1_557_611_200),
}


@pytest.fixture(scope="module")
def twins():
    return gpt2_twins(context=128)


@pytest.mark.parametrize("name", PRESETS)
def test_presets_can_be_built_and_have_the_published_parameters(name):
    with torch.device("meta"):
        model = GPT(PRESETS[name])
        assert model(torch.zeros(1, 5, dtype=torch.long)).shape == (1, 5, PRESETS[name].vocab_size)
    if name in PUBLISHED:
        assert (len(model.h), model.parameter_count()) == PUBLISHED[name]


def test_the_published_models_are_presets():
    assert set(PUBLISHED) <= set(PRESETS)


@pytest.mark.parametrize("length", [1, 2, 77, 128])
def test_logits_equal_hugging_face(twins, length):
    ours, theirs = twins
    ids = torch.randint(0, 211, (2, length), generator=torch.Generator().manual_seed(length))
    with torch.no_grad():
        wanted, seen = theirs(ids).logits, ours(ids)
    assert wanted.std() > 0.1
    assert (seen - wanted).abs().max() < 2e-5


def test_every_stream_equals_hugging_face(twins):
    ours, theirs = twins
    ids, stream = torch.arange(100)[None], []
    with torch.no_grad():
        wanted = theirs(ids, output_hidden_states=True).hidden_states
        ours(ids, tap=lambda name, _, x: stream.append(x) if name in ("embedding", "residual", "ln_f") else None)
    del stream[-2]  # theirs ends in the normed stream alone
    assert len(stream) == len(wanted) == 4
    for mine, hers in zip(stream, wanted, strict=True):
        assert (mine - hers).abs().max() < 2e-5


@pytest.mark.parametrize("scheme", SCHEMES)
def test_later_tokens_change_nothing_earlier(scheme):
    model = small_model(scheme)
    ids = torch.arange(16)[None]
    with torch.no_grad():
        before = model(ids)
        for at in (1, 7, 15):
            other = ids.clone()
            other[0, at:] = (other[0, at:] + 29) % 61
            after = model(other)
            assert torch.equal(after[:, :at], before[:, :at])
            assert (after[:, at:] - before[:, at:]).abs().amax(-1).min() > 1e-4


@pytest.mark.parametrize("scheme", [s for s in SCHEMES if s != "none"])
def test_order_matters(scheme):
    model = small_model(scheme)
    with torch.no_grad():
        one, other = model(torch.tensor([[5, 9, 2]])), model(torch.tensor([[9, 5, 2]]))
    assert (one[:, -1] - other[:, -1]).abs().max() > 1e-3


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("cuts", [[16], [1] * 16, [5, 1, 1, 9], [15, 1]])
def test_reading_in_parts_equals_reading_at_once(scheme, cuts):
    model, ids = small_model(scheme), torch.arange(16)[None] * 3 % 61
    cache, parts = KVCache(model.config), []
    with torch.no_grad():
        for part in ids.split(cuts, dim=1):
            parts.append(model(part, cache))
        assert (torch.cat(parts, 1) - model(ids)).abs().max() < 1e-5
    assert cache.length == 16


@pytest.mark.parametrize("scheme", SCHEMES)
def test_rows_of_a_batch_do_not_mix(scheme):
    model = small_model(scheme)
    ids = torch.randint(0, 61, (3, 12), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        together = model(ids)
        for row in range(3):
            assert (together[row] - model(ids[row : row + 1])[0]).abs().max() < 1e-5


def test_last_only_is_the_last_column():
    model, ids = small_model("rotary"), torch.arange(9)[None]
    with torch.no_grad():
        assert torch.allclose(model(ids, last_only=True), model(ids)[:, -1:], atol=1e-6)


def test_too_many_tokens_are_refused_with_both_numbers():
    model = small_model("learned")
    with pytest.raises(UserError, match="reads 16 tokens and 17 were given"):
        model(torch.zeros(1, 17, dtype=torch.long))
    cache = KVCache(model.config)
    model(torch.zeros(1, 16, dtype=torch.long), cache)
    with pytest.raises(UserError, match="17 were given"):
        model(torch.zeros(1, 1, dtype=torch.long), cache)


def test_causal_mask_by_hand():
    mask = causal_mask(2, 4, torch.device("cpu"))
    assert mask.tolist() == [[True, True, True, False], [True, True, True, True]]


@pytest.mark.parametrize(
    ("activation", "at_minus_one", "at_two"),
    [("gelu_tanh", -0.158808, 1.954598), ("gelu", -0.158655, 1.954500), ("relu", 0.0, 2.0), ("relu2", 0.0, 4.0)],
)
def test_activations(activation, at_minus_one, at_two):
    out = MLP(replace(SCHEMES["learned"], activation=activation)).act(torch.tensor([-1.0, 2.0]))
    assert out.tolist() == pytest.approx([at_minus_one, at_two], abs=1e-6)


def test_fresh_weights_are_gpt2s():
    torch.manual_seed(0)
    model = GPT(GPTConfig(vocab_size=500, context=64, n_layer=8, n_head=4, n_embd=128))
    assert model.lm_head.weight is model.wte.weight
    assert float(model.h[0].attn.c_attn.weight.detach().std()) == pytest.approx(0.02, rel=0.03)
    assert float(model.h[0].mlp.c_proj.weight.detach().std()) == pytest.approx(0.02 / 4, rel=0.03)  # / sqrt(2 * 8)
    assert torch.equal(model.ln_f.weight, torch.ones(128)) and not model.h[3].mlp.c_fc.bias.any()


def test_zero_initialised_outputs_start_uniform():
    model = GPT(replace(PRESETS["music-small"], n_layer=2))
    logits = model(torch.arange(6)[None])
    assert torch.equal(logits, torch.zeros_like(logits))


def test_dropout_acts_in_training_only():
    model, ids = small_model("relative", dropout=0.5), torch.arange(10)[None]
    assert torch.equal(model(ids), model(ids))
    model.train()
    assert not torch.equal(model(ids), model(ids))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_weight_learns(scheme):
    model = small_model(scheme).train()
    torch.nn.functional.cross_entropy(model(torch.arange(16)[None])[0], torch.arange(16)).backward()
    idle = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert idle == []


def test_a_tap_is_told_every_step_in_order():
    model, seen = small_model("learned"), []
    model(torch.arange(5)[None], tap=lambda name, layer, x: seen.append((name, layer, tuple(x.shape))))
    stream, split = (1, 5, 24), (1, 3, 5, 8)
    block = [("ln_1", stream), ("q", split), ("k", split), ("v", split), ("heads", stream), ("attn", stream)]
    block += [("ln_2", stream), ("fc", (1, 5, 96)), ("mlp", stream), ("residual", stream)]
    layers = [(name, layer, shape) for layer in (0, 1) for name, shape in block]
    assert seen == [("embedding", 0, stream), *layers, ("ln_f", 2, stream)]
