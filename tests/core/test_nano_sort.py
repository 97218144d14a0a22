"""A trained GPT-2-type model of others, its published activations reproduced layer by layer."""

from __future__ import annotations

import base64
import json
import os
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch

from gpt_core import attention
from gpt_core.generate import generate
from gpt_core.model import GPT, GPTConfig
from gpt_core.sampling import Sampling

pytestmark = pytest.mark.corpus
NAME = "gpt-nano-sort"


@pytest.fixture(scope="module")
def published(tmp_path_factory) -> tuple[GPT, dict[str, torch.Tensor]]:
    folder = _unpacked(tmp_path_factory)
    config, weights = _tensors(folder / f"{NAME}-model.json")
    _, activations = _tensors(folder / f"{NAME}-t0-partials.json")
    shape = {n: config[n] for n in ("n_layer", "n_head", "n_embd", "vocab_size")}
    model = GPT(GPTConfig(context=config["block_size"], tied=False, **shape)).eval()
    named = {n.removeprefix("transformer."): w for n, w in weights.items() if not n.endswith(".attn.bias")}
    model.load_state_dict(named)  # minGPT's linear layers are laid out as torch's: nothing to transpose
    return model, activations


def _unpacked(tmp_path_factory) -> Path:
    ready = Path(os.environ.get("MT_DATA", "absent")) / NAME
    packed = Path(__file__).parents[3] / "shared" / "data" / f"{NAME}.tar.xz"
    if ready.is_dir():
        return ready
    if not packed.is_file():
        pytest.skip(f"the data archive {NAME} is not here; set MT_DATA to the folder that holds it")
    with tarfile.open(packed) as tar:
        tar.extractall(tmp_path_factory.mktemp("data"), filter="data")
    return next(tmp_path_factory.getbasetemp().glob(f"data*/{NAME}"))


def _tensors(path: Path) -> tuple[dict, dict[str, torch.Tensor]]:
    data = json.loads(path.read_text("utf-8"))
    config = data.pop("config")
    arrays = {n: np.frombuffer(base64.b64decode(x["data"]), "<f4").reshape(x["shape"]) for n, x in data.items()}
    return config, {n: torch.from_numpy(a.copy()) for n, a in arrays.items()}


@torch.no_grad()
def test_every_activation_is_reproduced(published):
    model, wanted = published
    ids, seen = wanted["idx"].long(), {}
    logits = model(ids, tap=lambda name, layer, x: seen.__setitem__((name, layer), x))
    pairs = {
        "x": seen["embedding", 0],
        "tok_emb": model.wte(ids),
        "pos_emb": model.wpe.weight[None],
        "ln1": seen["ln_1", 0],
        "q": seen["q", 0],
        "k": seen["k", 0],
        "v": seen["v", 0],
        "y": seen["heads", 0],
        "yProj": seen["attn", 0],
        "attnResid": seen["embedding", 0] + seen["attn", 0],
        "ln2": seen["ln_2", 0],
        "fc": seen["fc", 0],
        "gelu": model.h[0].mlp.act(seen["fc", 0]),
        "mlp": seen["mlp", 0],
        "mlpResid": seen["residual", 0],
        "block0": seen["residual", 0],
        "block1": seen["residual", 1],
        "block2": seen["residual", 2],
        "ln_f": seen["ln_f", 3],
        "lm_head": logits,
        "probs": logits.softmax(-1),
    }
    assert set(wanted) - set(pairs) <= {"idx", "qkv", "att", "attSm"}  # the last two: next test
    for name, mine in pairs.items():
        assert mine.shape == wanted[name].shape, name
        assert (mine - wanted[name]).abs().max() < 1e-4, name
        assert wanted[name].abs().max() > 1e-2, name


def test_attention_before_and_after_the_softmax_is_reproduced(published):
    model, wanted = published
    assert wanted["attSm"][:, :, 2:].max() > 0.8
    for row, ids in enumerate(wanted["idx"].long()):
        trace = attention.trace(model, ids)
        weights = attention.rows(trace, 0, range(11))
        assert (weights - wanted["attSm"][row]).abs().max() < 1e-4
        scores, theirs = attention.scores(trace, 0, range(11)), wanted["att"][row]
        past = torch.ones(11, 11).tril().bool()
        assert (scores - theirs)[:, past].abs().max() < 1e-4


def test_it_sorts(published):
    model, _ = published
    for letters in ([2, 1, 1, 0, 2, 0], [0, 0, 2, 2, 1, 1], [2, 2, 2, 1, 0, 0]):
        stream = generate(model, torch.tensor([letters]), max_new_tokens=6, sampling=Sampling(temperature=0.0))
        assert [int(column) for column in stream] == sorted(letters)
