"""The eager engine against the model's own modules, every variant; its products against each other; who gets which engine."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch

from gpt_core import eager
from gpt_core.eager import EagerEngine
from gpt_core.errors import UserError
from gpt_core.generate import CachedEngine, choose_engine, describe, generate
from gpt_core.model import GPT
from gpt_core.sampling import Sampling
from tests.core.peers import SMALL, sharp_model

GREEDY = Sampling(temperature=0.0)


def ids_of(length: int, rows: int) -> torch.Tensor:
    return torch.randint(0, 61, (rows, length), generator=torch.Generator().manual_seed(rows))


@torch.inference_mode()
def worst(engine, model: GPT, rows: int, start: int = 5, *, alike: bool = False) -> float:
    """Largest difference of an engine's logits from the model's in float64, over a whole window; they go up to about 8.

    With ``alike`` all rows begin with the first one's ``start`` ids, which the engine is given once.
    """
    ids = ids_of(model.config.context, rows)
    if alike:
        ids[:, :start] = ids[0, :start]
    wanted = copy.deepcopy(model).double()(ids)
    off = float((engine.prefill(ids[: 1 if alike else rows, :start], rows) - wanted[:, start - 1]).abs().max())
    for n in range(start, ids.shape[1]):
        off = max(off, float((engine.step(ids[:, n]) - wanted[:, n]).abs().max()))
    assert wanted.std() > 0.5 and wanted.isfinite().all()
    return off


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize(
    "name", ["learned", "rotary", "relative", "clipped", "none", "relu", "odd width", "wide heads"]
)
def test_logits_are_the_models(name, rows):
    model = sharp_model(name)
    assert worst(EagerEngine(model), model, rows) < 1e-4


@pytest.mark.parametrize(("rows", "start"), [(2, 9), (4, 1), (5, 12)])
@pytest.mark.parametrize("name", ["learned", "rotary", "relative", "clipped", "none"])
def test_takes_of_one_prompt_are_the_models(name, rows, start):
    model = sharp_model(name)
    assert worst(EagerEngine(model), model, rows, start, alike=True) < 1e-4


@pytest.mark.parametrize("name", ["learned", "rotary", "relative"])
def test_greedy_ids_are_the_modules_over_many_windows(name):
    model, prompt = sharp_model(name), ids_of(7, 1)

    def rows(engine) -> list[int]:
        return [int(c) for c in generate(model, prompt, max_new_tokens=300, sampling=GREEDY, engine=engine)]

    assert rows(EagerEngine(model)) == rows(CachedEngine(model))
    assert len(set(rows("torch"))) > 3


@pytest.mark.parametrize("product", list(eager._PRODUCTS))
def test_every_product_is_a_matrix_product(product):
    g = torch.Generator().manual_seed(0)
    weight, bias, x = (torch.randn(*s, generator=g) for s in ((7, 5), (7,), (1, 5)))
    wanted = x.double() @ weight.double().T
    for b in (None, bias):
        got = eager._PRODUCTS[product](weight, b, 1, {})(x.numpy())
        assert got.shape == (1, 7)
        assert torch.allclose(torch.from_numpy(got).double(), wanted if b is None else wanted + b, atol=1e-6)


def test_a_product_that_fails_is_not_used(monkeypatch):
    def fails(*_):
        raise RuntimeError("not in this build")

    monkeypatch.setattr(eager, "_fastest", {})
    monkeypatch.setattr(eager, "_PRODUCTS", {**eager._PRODUCTS, "numpy": fails, "mkldnn": fails})
    model = sharp_model("learned")
    assert worst(EagerEngine(model), model, 1) < 1e-4
    assert {name for names in eager._fastest.values() for name in names.values()} == {"torch"}


def test_changed_weights_are_seen():
    model = sharp_model("rotary")
    worst(EagerEngine(model), model, 1)
    with torch.no_grad():
        model.h[0].mlp.c_fc.weight.mul_(-1)
    assert worst(EagerEngine(model), model, 1) < 1e-4


def test_models_that_need_their_modules_keep_them():
    assert isinstance(choose_engine(sharp_model("learned").double(), "torch"), CachedEngine)
    hooked = sharp_model("learned")
    hooked.h[1].register_forward_hook(lambda *_: None)
    assert isinstance(choose_engine(hooked), CachedEngine)
    dropping = GPT(replace(SMALL, dropout=0.1))
    assert isinstance(choose_engine(dropping), CachedEngine)
    assert not isinstance(choose_engine(dropping.eval()), CachedEngine)
    with pytest.raises(UserError, match=r"native can't be used: someone listens"):
        choose_engine(hooked, "native")


def test_an_unknown_engine_is_refused():
    with pytest.raises(UserError, match=r"the engine is 'fast'; choose one of auto, torch, native"):
        choose_engine(sharp_model("learned"), "fast")


def test_one_line_says_which_engine_it_is():
    assert describe(choose_engine(sharp_model("learned"), "torch")) == "engine: PyTorch and NumPy, fp32"
