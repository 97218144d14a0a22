"""Checkpoint folders: round trips, a kill in mid-save, and strangers refused by name with nothing executed."""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from gpt_core import checkpoint
from gpt_core.errors import UserError
from tests.core.peers import SCHEMES, ToyCodec, small_model


@pytest.fixture
def folder(tmp_path, toy_codec) -> Path:
    checkpoint.save(tmp_path / "piece", small_model("rotary"), toy_codec, {"step": 7})
    return tmp_path / "piece"


def change(folder: Path, name: str, **values: object) -> None:
    data = json.loads((folder / name).read_text("utf-8"))
    data.update(values)
    (folder / name).write_text(json.dumps(data), "utf-8")


def rewrite(folder: Path, edit) -> None:
    weights = load_file(folder / checkpoint.WEIGHTS)
    edit(weights)
    save_file(weights, folder / checkpoint.WEIGHTS)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_what_was_saved_is_what_loads(scheme, tmp_path, toy_codec):
    model = small_model(scheme)
    checkpoint.save(tmp_path / "a", model, toy_codec, {"command": "train", "step": 3, "losses": [2.5]})
    back = checkpoint.load(tmp_path / "a")
    assert back.config == model.config and not back.model.training
    assert back.run == {"command": "train", "step": 3, "losses": [2.5]}
    assert isinstance(back.codec, ToyCodec) and back.codec.vocab_size == 61
    assert {n: p.tolist() for n, p in back.model.named_parameters()} == {
        n: p.tolist() for n, p in model.named_parameters()
    }
    ids = torch.arange(16)[None]
    with torch.no_grad():
        assert torch.equal(back.model(ids), model(ids))
    assert len(back.sha) == 64


def test_the_folder_explains_itself(folder):
    assert sorted(p.name for p in folder.iterdir()) == ["codec.json", "config.json", "model.safetensors", "run.json"]
    assert json.loads((folder / "config.json").read_text()) == dataclasses.asdict(small_model("rotary").config)
    assert json.loads((folder / "codec.json").read_text()) == {"kind": "toy", "size": 61}
    assert set(load_file(folder / "model.safetensors")) == {n for n, _ in small_model("rotary").named_parameters()}


def test_half_precision_halves_the_file(tmp_path, toy_codec):
    model = small_model("learned", n_embd=48)
    checkpoint.save(tmp_path / "full", model, toy_codec, {})
    checkpoint.save(tmp_path / "half", model, toy_codec, {}, dtype=torch.float16)
    sizes = [(tmp_path / n / checkpoint.WEIGHTS).stat().st_size for n in ("full", "half")]
    assert sizes[1] < 0.55 * sizes[0]
    back = checkpoint.load(tmp_path / "half").model
    assert back.wte.weight.dtype == torch.float32
    assert torch.equal(back.wte.weight, model.wte.weight.half().float())


def test_saving_again_replaces_the_whole_folder(folder, toy_codec):
    checkpoint.save(folder, small_model("rotary", seed=1), toy_codec, {"step": 8}, trainer_state={"step": 8})
    checkpoint.save(folder, small_model("rotary", seed=2), toy_codec, {"step": 9})
    assert checkpoint.load(folder).run == {"step": 9}
    assert not (folder / checkpoint.TRAINER).exists()
    assert [p.name for p in folder.parent.iterdir()] == ["piece"]


class Killed(BaseException):
    """Stands for the end of the process: nothing after it runs, clean-up neither."""


@pytest.mark.parametrize("again", [False, True])
def test_a_kill_at_any_moment_of_a_save_leaves_the_old_or_the_new(folder, toy_codec, monkeypatch, again):
    """Cut every save short after its n-th change of the disk, then load, or save once more and cut that short too."""
    real = {n: getattr(Path, n) for n in ("rename", "chmod")} | {"rmtree": checkpoint.shutil.rmtree}

    def cut_after(n: int) -> None:
        left = [n]

        def counted(act):
            def run(*args, **kwargs):
                if left[0] <= 0:
                    raise Killed
                left[0] -= 1
                return act(*args, **kwargs)

            return run

        for name in ("rename", "chmod"):
            monkeypatch.setattr(Path, name, counted(real[name]))
        monkeypatch.setattr(checkpoint.shutil, "rmtree", counted(real["rmtree"]))

    def save_and_die(n: int, step: int) -> None:
        cut_after(n)
        try:
            checkpoint.save(folder, small_model("rotary", seed=step), toy_codec, {"step": step})
        except Killed:
            pass
        finally:
            cut_after(10**9)

    for n in range(6):
        for m in range(6) if again else [None]:
            save_and_die(10**9, 1)
            save_and_die(n, 2)
            if m is not None:
                save_and_die(m, 3)
            assert checkpoint.load(folder).run["step"] in ((1, 2) if m is None else (1, 2, 3))


def test_a_loaded_model_does_not_change_with_its_file(folder):
    """Written over, as cp does, and cut short: mapped weights would follow, or end the process."""
    model = checkpoint.load(folder).model
    before = {n: p.tolist() for n, p in model.named_parameters()}
    with (folder / checkpoint.WEIGHTS).open("r+b") as file:
        file.write(b"\x7f" * 10_000)
    assert {n: p.tolist() for n, p in model.named_parameters()} == before
    (folder / checkpoint.WEIGHTS).write_bytes(b"")
    assert {n: p.tolist() for n, p in model.named_parameters()} == before


def test_what_a_killed_save_left_is_removed_an_hour_later(folder, toy_codec):
    old, fresh = folder.parent / ".piece.new-old", folder.parent / ".piece.new-fresh"
    for place in (old, fresh):
        place.mkdir()
        (place / "model.safetensors").write_bytes(b"half")
    os.utime(old, (1e9, 1e9))
    checkpoint.save(folder, small_model("rotary"), toy_codec, {"step": 8})
    assert not old.exists() and fresh.exists(), "another save may still be writing the fresh one"


def test_a_failing_save_leaves_the_old_and_no_litter(folder, toy_codec):
    with pytest.raises(TypeError):
        checkpoint.save(folder, small_model("rotary"), toy_codec, {"step": object()})
    assert checkpoint.load(folder).run == {"step": 7}
    assert [p.name for p in folder.parent.iterdir()] == ["piece"]


def test_unknown_keys_are_named(folder):
    rewrite(folder, lambda w: w.update({"h.9.attn.rel": torch.zeros(2)}))
    with pytest.raises(UserError, match=r"h\.9\.attn\.rel"):
        checkpoint.load(folder)


def test_missing_keys_are_named(folder):
    rewrite(folder, lambda w: w.pop("lm_head.weight"))
    with pytest.raises(UserError, match=r"lm_head\.weight"):
        checkpoint.load(folder)


def test_wrong_shapes_are_named_with_both(folder):
    rewrite(folder, lambda w: w.update({"wte.weight": torch.zeros(60, 24)}))
    with pytest.raises(UserError, match=r"wte\.weight has shape \(60, 24\) but the config asks for \(61, 24\)"):
        checkpoint.load(folder)


@pytest.mark.parametrize(
    "absurd",
    [
        {"n_layer": 1000, "n_embd": 60000, "n_head": 1},
        {"vocab_size": 2_000_000},
        {"context": 1_048_576, "position": "learned"},
        {"context": 1_048_576},
    ],
)
def test_sizes_the_file_can_not_hold_are_refused_before_memory_is_taken(folder, absurd):
    change(folder, checkpoint.CONFIG, **absurd)
    with pytest.raises(UserError, match="asks for about"):
        checkpoint.load(folder)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"colour": "blue"}, "does not know colour"),
        ({"n_layer": "two"}, "--n-layer is 'two'"),
        ({"n_layer": None}, "--n-layer needs a value"),
        ({"n_head": 0}, "--n-head is 0"),
        ({"n_embd": 25}, "must be a multiple"),
        ({"position": ["learned"]}, "--position"),
        ({"norm": "batch"}, "--norm is 'batch'"),
    ],
)
def test_configs_that_can_not_be_built_are_refused_with_the_file(folder, values, words):
    change(folder, checkpoint.CONFIG, **values)
    with pytest.raises(UserError, match=f"config.json: .*{words}"):
        checkpoint.load(folder)


@pytest.mark.parametrize("name", ["config.json", "codec.json", "run.json"])
@pytest.mark.parametrize("bytes_", [b"", b"{", b"[1]", b"\xff\xfe\x00", b'"x"', b"[" * 100_000])
def test_damaged_json_is_named(folder, name, bytes_):
    (folder / name).write_bytes(bytes_)
    with pytest.raises(UserError, match=name):
        checkpoint.load(folder)


def test_half_a_surrogate_pair_in_the_record_comes_back(folder, toy_codec):
    change(folder, checkpoint.RUN, command="\ud800")
    loaded = checkpoint.load(folder)
    checkpoint.save(folder, loaded.model, toy_codec, loaded.run)
    assert checkpoint.load(folder).run["command"] == "\ud800"


@pytest.mark.parametrize("kind", ["martian", None, ["toy"], 7])
def test_strange_codecs_are_refused_by_kind(folder, kind):
    change(folder, checkpoint.CODEC, kind=kind)
    with pytest.raises(UserError, match="kind"):
        checkpoint.load(folder)


def test_a_codec_without_its_parts_is_refused(folder):
    (folder / checkpoint.CODEC).write_text('{"kind": "toy"}')
    with pytest.raises(UserError, match=r"codec\.json"):
        checkpoint.load(folder)


def test_codec_and_model_of_different_size_are_refused_with_both(folder):
    change(folder, checkpoint.CODEC, size=62)
    with pytest.raises(UserError, match="62 ids but the model 61"):
        checkpoint.load(folder)


class Trap:
    """Unpickled, it writes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("name", ["model.safetensors", "trainer.pt"])
@pytest.mark.parametrize("writer", [lambda x, p: p.write_bytes(pickle.dumps(x)), torch.save])
def test_pickles_are_never_executed(folder, tmp_path, name, writer):
    writer(Trap(tmp_path / "sprung"), folder / name)
    with pytest.raises(UserError, match=name):
        checkpoint.load(folder)
        checkpoint.load_trainer(folder)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("cut", [0, 7, 8, 100, -1])
def test_cut_weights_are_refused(folder, cut):
    path = folder / checkpoint.WEIGHTS
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(UserError):
        checkpoint.load(folder)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "codec.json"])
def test_missing_files_are_named(folder, name):
    (folder / name).unlink()
    with pytest.raises(UserError, match=name):
        checkpoint.load(folder)


def test_folders_that_are_none_are_refused(tmp_path):
    for path in (tmp_path / "absent", tmp_path):
        with pytest.raises(UserError):
            checkpoint.load(path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match="not a checkpoint folder"):
        checkpoint.load(tmp_path / "file")


def test_directories_in_place_of_files_are_refused(folder):
    (folder / checkpoint.WEIGHTS).unlink()
    (folder / checkpoint.WEIGHTS).mkdir()
    with pytest.raises(UserError):
        checkpoint.load(folder)


def test_resuming_without_trainer_state_is_refused(folder):
    with pytest.raises(UserError, match=r"has no trainer\.pt"):
        checkpoint.load_trainer(folder)


def test_weights_that_are_no_numbers_are_refused(folder):
    rewrite(folder, lambda weights: weights["h.0.mlp.c_proj.weight"].view(-1)[:1].fill_(float("nan")))
    with pytest.raises(UserError, match=r"h\.0\.mlp\.c_proj\.weight holds what is no finite number"):
        checkpoint.load(folder)
