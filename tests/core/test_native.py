"""The native step against the model's own modules: every variant, both code paths, many takes, many users, no compiler."""

from __future__ import annotations

import copy
import subprocess
import sys
import threading
import time

import pytest
import torch

from gpt_core import native, native_build
from gpt_core.eager import EagerEngine
from gpt_core.errors import UserError
from gpt_core.generate import CachedEngine, choose_engine, describe, generate
from gpt_core.model import GPT
from gpt_core.native import NativeEngine, Packed, native_engine
from gpt_core.sampling import Sampling, generators_for
from tests.core.peers import sharp_model
from tests.core.test_eager import GREEDY, ids_of, worst

LIBRARY = native_build.library()
needs_library = pytest.mark.skipif(isinstance(LIBRARY, str), reason=str(LIBRARY))
VARIANTS = ["learned", "rotary", "relative", "clipped", "none", "relu", "odd width", "wide heads"]


def packed(model: GPT, kind: str = "fp32") -> Packed:
    with torch.inference_mode():
        return Packed(model, kind, LIBRARY)


@needs_library
@pytest.mark.parametrize("rows", [1, 2, 7, 14])
@pytest.mark.parametrize("name", VARIANTS)
def test_logits_are_the_models(name, rows):
    model = sharp_model(name)
    assert worst(NativeEngine(model, packed(model)), model, rows) < 1e-4


@needs_library
@pytest.mark.parametrize("name", VARIANTS)
def test_the_plain_path_gives_the_same(name, monkeypatch):
    monkeypatch.setenv("GPT_CORE_NATIVE_PATH", "scalar")
    model = sharp_model(name)
    plain = packed(model)
    assert plain.path_name == "scalar"
    assert worst(NativeEngine(model, plain), model, 3) < 1e-4


def rounded(weight: torch.Tensor, kind: str) -> torch.Tensor:
    """What a stored weight means, written independently: bf16 to the nearest, or 127 steps to each row's largest."""
    if kind == "bf16":
        return weight.to(torch.bfloat16).to(torch.float32)
    step = weight.abs().max(dim=1, keepdim=True).values.double() / 127
    return (torch.round(weight.double() / step) * step).float()


@needs_library
@pytest.mark.parametrize("path", ["", "scalar"])
@pytest.mark.parametrize("kind", ["bf16", "int8"])
@pytest.mark.parametrize("name", ["rotary", "relu", "wide heads"])
def test_stored_weights_are_rounded_and_nothing_else_is(name, kind, path, monkeypatch):
    monkeypatch.setenv("GPT_CORE_NATIVE_PATH", path)
    model = sharp_model(name)
    engine = NativeEngine(model, packed(model, kind))
    embedding = model.wte.weight.clone()
    with torch.no_grad():
        for n, p in model.named_parameters():
            if n.endswith(("attn.weight", "proj.weight", "fc.weight", "lm_head.weight")):
                p.copy_(rounded(p, kind))
    if model.config.tied:
        model.lm_head.weight = torch.nn.Parameter(rounded(embedding, kind))
        model.wte.weight = torch.nn.Parameter(embedding)
    assert worst(engine, model, 2) < 2e-4


@needs_library
@pytest.mark.parametrize("name", ["learned", "rotary", "relative"])
def test_greedy_ids_are_the_modules_over_2000_tokens(name):
    model, prompt = sharp_model(name), ids_of(7, 1)

    def row(engine) -> list[int]:
        return [int(c) for c in generate(model, prompt, max_new_tokens=2000, sampling=GREEDY, engine=engine)]

    ours = row("native")
    assert ours == row(CachedEngine(model))
    assert len(set(ours)) > 3


@needs_library
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_a_take_gets_the_same_bits_whoever_is_beside_it_on_any_number_of_threads(threads):
    model, ids = sharp_model("rotary"), ids_of(40, 9)
    weights = packed(model)

    @torch.inference_mode()
    def logits(rows: slice, n: int) -> torch.Tensor:
        weights.threads = n
        engine = NativeEngine(model, weights)
        engine.prefill(ids[:1, :3], len(ids[rows]))
        return torch.stack([engine.step(ids[rows, i]) for i in range(3, 40)], 1)

    alone = torch.cat([logits(slice(i, i + 1), 1) for i in range(9)])
    assert torch.equal(logits(slice(0, 9), threads), alone)
    assert torch.equal(logits(slice(2, 4), threads), alone[2:4])


@needs_library
@pytest.mark.parametrize("length", [3, 31, 32, 33, 39])
@pytest.mark.parametrize("name", VARIANTS)
def test_takes_share_what_they_all_have_read(name, length):
    model, ids = sharp_model(name), ids_of(40, 3)
    ids[:, :length] = ids[0, :length]
    engine = NativeEngine(model, packed(model))
    with torch.inference_mode():
        wanted = copy.deepcopy(model).double()(ids)
        got = [engine.prefill(ids[:1, :length], 3), *(engine.step(ids[:, n]) for n in range(length, 40))]
    assert engine.shared == length // 32 * 32
    assert float((torch.stack(got, 1) - wanted[:, length - 1 :]).abs().max()) < 1e-4


@needs_library
def test_eight_users_at_once_get_what_each_gets_alone():
    model = sharp_model("wide heads")
    choose_engine(model, "native").packed.threads = 2
    warm = Sampling(temperature=0.9, top_k=20)

    def play(seed: int) -> list[list[int]]:
        stream = generate(
            model, ids_of(5, 1), max_new_tokens=120, sampling=warm, takes=2, generators=generators_for(seed, 2)
        )
        return [c.tolist() for c in stream]

    together: dict[int, list] = {}
    users = [threading.Thread(target=lambda s=seed: together.update({s: play(s)})) for seed in range(8)]
    for user in users:
        user.start()
    for user in users:
        user.join()
    assert together == {seed: play(seed) for seed in range(8)}


@needs_library
@pytest.mark.slow
def test_nothing_runs_while_nobody_generates():
    model = sharp_model("rotary")
    engine = choose_engine(model, "native")
    engine.packed.threads = 3
    with torch.inference_mode():
        engine.prefill(ids_of(4, 1), 1)
        engine.step(torch.tensor([3]))
    time.sleep(0.2)
    before = time.process_time()
    time.sleep(1.0)
    assert time.process_time() - before < 0.3


@needs_library
def test_weights_are_packed_once_and_again_when_they_change(monkeypatch):
    model, made = sharp_model("rotary"), []
    pack = native._pack
    monkeypatch.setattr(native, "_pack", lambda *a: made.append(1) or pack(*a))
    first, second = native_engine(model), native_engine(model)
    assert first.packed is second.packed and len(made) == 1
    with torch.no_grad():
        model.h[1].attn.c_attn.weight.mul_(-0.5)
    assert worst(native_engine(model), model, 2) < 1e-4
    assert len(made) == 2


@needs_library
def test_a_wrong_step_is_found_out_and_not_used(monkeypatch):
    monkeypatch.setattr(native, "_ORDERS", {**native._ORDERS, "activation": ("relu2", "gelu", "gelu_tanh", "relu")})
    model = sharp_model("rotary")
    assert "does not give the model's own logits" in native_engine(model)
    engine = choose_engine(model)
    assert isinstance(engine, EagerEngine) and "own logits" in describe(engine)


@needs_library
def test_other_precisions_are_left_to_the_modules():
    assert "fp32 models on the CPU" in native_engine(sharp_model("learned").bfloat16())


@needs_library
def test_one_line_says_which_engine_it_is():
    line = describe(choose_engine(sharp_model("learned"), "native-bf16"))
    assert line.startswith("engine: native, bf16, ") and line.endswith(" thread")


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ({"_compiler": lambda: None}, "no C++ compiler was found"),
        ({"_compiler": lambda: [sys.executable, "-c", "raise SystemExit('no such flag')"]}, "failed: no such flag"),
        ({"_folder": lambda: 1 / 0 if False else (_ for _ in ()).throw(PermissionError("read-only"))}, "read-only"),
    ],
)
def test_without_a_library_nothing_breaks(broken, words, monkeypatch, tmp_path):
    monkeypatch.setattr(native_build, "_loaded", {})
    monkeypatch.setattr(native_build, "_folder", lambda: tmp_path)
    for name, what in broken.items():
        monkeypatch.setattr(native_build, name, what)
    model = sharp_model("rotary")
    engine = choose_engine(model)
    assert isinstance(engine, EagerEngine)
    assert words in describe(engine) and "\n" not in describe(engine)
    assert len(list(generate(model, ids_of(4, 1), max_new_tokens=3))) == 3
    with pytest.raises(UserError, match="the engine native can't be used"):
        choose_engine(model, "native")


BUILD = "from gpt_core.native_build import library; lib = library(); assert not isinstance(lib, str), lib"


@needs_library
@pytest.mark.slow
def test_two_processes_build_at_once_and_a_damaged_library_is_built_again(tmp_path):
    env = {"XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path), "PATH": __import__("os").environ["PATH"]}
    for _ in range(2):
        both = [subprocess.Popen([sys.executable, "-c", BUILD], env=env) for _ in range(2)]
        assert [p.wait() for p in both] == [0, 0]
        [built] = [p for p in tmp_path.rglob("*") if p.is_file()]
        built.write_bytes(b"not a library")


@needs_library
@pytest.mark.parametrize("kind", native.KINDS)
def test_the_matrices_lie_in_one_piece_of_memory(kind):
    for name in ("rotary", "odd width", "learned"):
        weights = packed(sharp_model(name), kind)
        begin, size = (
            native.ctypes.addressof(native.ctypes.c_char.from_buffer(weights.arena.block)),
            len(weights.arena.block),
        )
        layers = [getattr(layer, part) for layer in weights._layers for part in ("c_attn", "c_proj", "c_fc", "c_out")]
        places = [begin <= linear.weight < begin + size for linear in (*layers, weights.struct.head_out)]
        assert all(places), (name, places)
