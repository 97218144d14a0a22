"""The key-value cache: append, crop, expand, and the sentences it refuses with."""

from __future__ import annotations

import pytest
import torch

from gpt_core.cache import KVCache
from gpt_core.errors import UserError
from tests.core.peers import SCHEMES, SMALL, small_model


def test_append_returns_everything_so_far():
    cache = KVCache(SMALL, 2)
    first, second = torch.randn(2, 3, 5, 8), torch.randn(2, 3, 2, 8)
    for layer in (0, 1):
        cache.append(layer, first, -first)
    cache.advance(5)
    k, v = cache.append(1, second, -second)
    assert torch.equal(k, torch.cat((first, second), 2)) and torch.equal(v, -k)
    assert (cache.length, cache.batch, cache.capacity) == (5, 2, 16)


def test_memory_is_laid_out_once():
    cache = KVCache(SMALL)
    before = [x.data_ptr() for x in cache.keys + cache.values]
    for _ in range(16):
        cache.append(0, torch.randn(1, 3, 1, 8), torch.randn(1, 3, 1, 8))
        cache.advance(1)
    assert [x.data_ptr() for x in cache.keys + cache.values] == before


@pytest.mark.parametrize("scheme", SCHEMES)
def test_cropped_caches_go_on_as_if_the_rest_had_never_been(scheme):
    model, ids = small_model(scheme), torch.arange(16)[None]
    cache = KVCache(model.config)
    with torch.no_grad():
        model(ids, cache)
        cache.crop(6)
        other = torch.tensor([[60, 3, 41]])
        out = model(other, cache)
        wanted = model(torch.cat((ids[:, :6], other), 1))[:, 6:]
    assert (out - wanted).abs().max() < 1e-5 and cache.length == 9


@pytest.mark.parametrize("scheme", SCHEMES)
def test_expanded_caches_are_copies(scheme):
    model, ids = small_model(scheme), torch.arange(7)[None]
    cache = KVCache(model.config)
    nexts = torch.tensor([[4], [50], [4]])
    with torch.no_grad():
        model(ids, cache)
        many = cache.expand(3)
        out = model(nexts, many)
        for row, next_id in enumerate(nexts):
            wanted = model(torch.cat((ids, next_id[None]), 1))[0, -1]
            assert (out[row, -1] - wanted).abs().max() < 1e-5
    assert (cache.length, many.length, many.batch) == (7, 8, 3)


def test_what_does_not_fit_is_refused():
    cache = KVCache(SMALL, capacity=4)
    with pytest.raises(UserError, match="holds 4 tokens and 5 were asked for"):
        cache.append(0, torch.zeros(1, 3, 5, 8), torch.zeros(1, 3, 5, 8))
    cache.advance(3)
    for n in (-1, 4):
        with pytest.raises(UserError, match=f"3 tokens to {n}"):
            cache.crop(n)
    with pytest.raises(UserError, match="this one has 2"):
        KVCache(SMALL, 2).expand(4)


def test_half_precision():
    assert KVCache(SMALL, dtype=torch.bfloat16).keys[0].dtype == torch.bfloat16
