"""The step-through's numbers, recomputed from the weights with numpy alone; the inventory against published counts."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from gpt_core.config import PRESETS
from gpt_core.errors import UserError
from gpt_core.model import GPT
from gpt_core.steps import inventory, matrices, walk
from tests.core.peers import SCHEMES, small_model

IDS, POSITION, LAYER, HEAD = [5, 17, 3, 44, 17, 9], 4, 1, 2


def weights(model: GPT) -> dict[str, np.ndarray]:
    return {name: p.detach().double().numpy() for name, p in model.named_parameters()}


def layer_norm(x, w, b):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * w + b


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def by_hand(w: dict[str, np.ndarray], heads: int = 3) -> dict[str, np.ndarray]:
    """GPT-2's forward pass as its paper and code describe it; the numbers of block LAYER and head HEAD."""
    x = w["wte.weight"][IDS] + w["wpe.weight"][: len(IDS)]
    out = {"embedding": x}
    for layer in range(2):
        p = {n.removeprefix(f"h.{layer}."): v for n, v in w.items() if n.startswith(f"h.{layer}.")}
        normed = layer_norm(x, p["ln_1.weight"], p["ln_1.bias"])
        q, k, v = np.split(normed @ p["attn.c_attn.weight"].T + p["attn.c_attn.bias"], 3, axis=-1)
        size, merged, all_weights = q.shape[1] // heads, [], []
        for h in range(heads):
            cut = slice(h * size, (h + 1) * size)
            scaled = q[:, cut] @ k[:, cut].T / np.sqrt(size)
            scaled[np.triu_indices(len(IDS), 1)] = -np.inf
            all_weights.append(softmax(scaled))
            merged.append(all_weights[-1] @ v[:, cut])
        projected = np.concatenate(merged, -1) @ p["attn.c_proj.weight"].T + p["attn.c_proj.bias"]
        cut = slice(HEAD * size, (HEAD + 1) * size)
        out |= {"normed": normed, "q": q[:, cut], "k": k[:, cut], "v": v[:, cut], "weights": all_weights[HEAD]}
        out |= {"head_output": merged[HEAD], "merged": np.concatenate(merged, -1), "projected": projected}
        x = x + projected
        out["ln_2"] = layer_norm(x, p["ln_2.weight"], p["ln_2.bias"])
        out["fc"] = out["ln_2"] @ p["mlp.c_fc.weight"].T + p["mlp.c_fc.bias"]
        out["mlp"] = gelu(out["fc"]) @ p["mlp.c_proj.weight"].T + p["mlp.c_proj.bias"]
        x = x + out["mlp"]
    out["ln_f"] = layer_norm(x, w["ln_f.weight"], w["ln_f.bias"])
    return out | {"stream": x, "logits": out["ln_f"] @ w["wte.weight"].T}


def test_every_step_equals_a_pass_by_hand():
    model = small_model("learned")
    got, want = walk(model, IDS, POSITION, LAYER, HEAD), by_hand(weights(model))

    def same(part, name, wanted):
        np.testing.assert_allclose(got[part][name], want[wanted][POSITION], rtol=2e-3, atol=2e-4)

    same("embedding", "stream", "embedding")
    for name in ("normed", "q", "k", "v", "weights", "head_output", "merged", "projected"):
        same("attention", name, name)
    for name, wanted in {"normed": "ln_2", "inner": "fc", "out": "mlp", "stream": "stream"}.items():
        same("mlp", name, wanted)
    same("output", "normed", "ln_f")
    logits = want["logits"][POSITION]
    assert got["output"]["ids"] == np.argsort(-logits)[:10].tolist()
    np.testing.assert_allclose(got["output"]["probabilities"], np.sort(softmax(logits))[::-1][:10], rtol=1e-3)
    assert sum(got["output"]["probabilities"]) + got["output"]["rest"] == pytest.approx(1)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_steps_of_every_kind_of_model_end_in_its_own_logits(scheme):
    model = small_model(scheme)
    got = json.loads(json.dumps(walk(model, IDS, POSITION, LAYER, HEAD, top=3)))
    with torch.no_grad():
        best = model(torch.tensor([IDS]))[0, POSITION].topk(3)
    assert got["output"]["ids"] == best.indices.tolist()
    assert got["output"]["logits"] == pytest.approx(best.values.tolist(), rel=1e-4)
    a = got["attention"]
    assert a["masked"][POSITION + 1 :] == [None] and a["weights"][POSITION + 1 :] == [0.0]
    size = len(a["q"])
    assert a["merged"][HEAD * size : (HEAD + 1) * size] == pytest.approx(a["head_output"], rel=1e-3, abs=1e-4)
    assert np.add(a["stream"], a["projected"]) + np.array(got["mlp"]["out"]) == pytest.approx(
        np.array(got["mlp"]["stream"]), rel=1e-3, abs=1e-3
    )


def test_the_matrix_before_and_after_the_mask_and_after_softmax():
    model = small_model("learned")
    got, want = matrices(model, IDS, LAYER, HEAD), by_hand(weights(model))
    scaled = want["q"] @ want["k"].T / np.sqrt(want["q"].shape[1])
    np.testing.assert_allclose(got["scaled"], scaled, rtol=2e-3, atol=2e-4)
    for i, row in enumerate(got["masked"]):
        assert row[: i + 1] == pytest.approx(scaled[i, : i + 1], rel=2e-3, abs=2e-4) and set(row[i + 1 :]) <= {None}
    np.testing.assert_allclose(got["weights"], want["weights"], rtol=2e-3, atol=2e-4)
    relative = matrices(small_model("relative"), IDS, 0, 0)
    assert relative["scaled"] == relative["masked"]


def test_the_inventory_adds_up_to_the_published_parameter_counts():
    with torch.device("meta"):
        small, medium = GPT(PRESETS["gpt2"]), GPT(PRESETS["gpt2-medium"])
    assert inventory(small)["total"] == 124_439_808 == small.parameter_count()
    assert inventory(medium)["total"] == 354_823_168
    by_place = {g["where"]: g["count"] for g in inventory(small)["groups"]}
    assert by_place["embeddings"] == 50_257 * 768 + 1_024 * 768
    assert by_place["block 0"] == by_place["block 11"] == 7_087_872
    assert by_place["output"] == 2 * 768 and inventory(small)["tied"]
    untied = small_model("rotary")
    assert inventory(untied)["total"] == untied.parameter_count()


@pytest.mark.parametrize("wrong", [{"position": 6}, {"layer": 2}, {"head": 3}, {"position": -1}])
def test_what_is_not_there_is_named(wrong):
    asked = {"position": 0, "layer": 0, "head": 0} | wrong
    with pytest.raises(UserError, match=f"there is no .*{next(iter(wrong.values()))}; there are"):
        walk(small_model("learned"), IDS, **asked)


def test_long_input_is_refused_with_both_numbers():
    with pytest.raises(UserError, match="17 tokens were given and the model reads 1 to 16"):
        walk(small_model("learned"), [1] * 17, 0, 0, 0)
    with pytest.raises(UserError, match="65 tokens"):
        matrices(small_model("learned", context=100), [1] * 65, 0, 0)
