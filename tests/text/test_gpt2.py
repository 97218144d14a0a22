"""GPT-2's weights in and out, against transformers."""

from __future__ import annotations

import json

import pytest
import torch

from gpt_core import checkpoint
from gpt_core.errors import UserError
from gpt_core.generate import generate
from gpt_core.sampling import Sampling
from gpt_core.text.gpt2 import export_gpt2, import_gpt2, load_gpt2
from tests.text.gpt2_folders import ARCHITECTURES, hugging_face_model, small_codec, write_folder


@pytest.fixture(scope="module")
def codec():
    return small_codec()


def quiet(line):
    raise AssertionError(f"nothing to say, but: {line}")


@torch.no_grad()
def assert_same_numbers(ours, theirs, *, new):
    ids = torch.randint(0, ours.config.vocab_size, (2, 24), generator=torch.Generator().manual_seed(3))
    gap = (ours(ids) - theirs(ids).logits).abs().max()
    assert gap < 1e-4, float(gap)
    want = theirs.generate(
        ids[:1],
        attention_mask=torch.ones_like(ids[:1]),
        max_new_tokens=new,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
    )
    got = list(generate(ours, ids[:1], max_new_tokens=new, sampling=Sampling(temperature=0.0)))
    assert torch.cat(got).tolist() == want[0, 24:].tolist()
    assert len(set(want[0, 24:].tolist())) > 5  # a model that repeats one id would prove nothing


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_numbers_are_those_of_transformers(name, codec, tmp_path):
    theirs = hugging_face_model(codec, **{**ARCHITECTURES[name], "n_layer": 3})
    import_gpt2(write_folder(theirs, codec, tmp_path / "hf"), tmp_path / "ours", say=quiet)
    loaded = checkpoint.load(tmp_path / "ours")
    assert loaded.model.parameter_count() == theirs.num_parameters()
    assert loaded.codec.encode("the cat") == codec.encode("the cat")
    assert_same_numbers(loaded.model, theirs, new=20)


@pytest.mark.slow
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_block_and_two_hundred_tokens(name, codec, tmp_path):
    theirs = hugging_face_model(codec, **ARCHITECTURES[name])
    assert_same_numbers(load_gpt2(write_folder(theirs, codec, tmp_path), say=quiet), theirs, new=200)


@pytest.mark.slow
def test_the_full_124m(tmp_path):
    theirs = hugging_face_model(n_layer=12, n_head=12, n_embd=768, n_positions=1024)
    theirs.save_pretrained(tmp_path)
    ours = load_gpt2(tmp_path, say=quiet)
    assert ours.parameter_count() == 124_439_808  # the released model's own count
    assert_same_numbers(ours, theirs, new=200)


@pytest.mark.parametrize("kind", ["sharded", "bin", "old"])
def test_every_kind_of_file_gives_the_same_checkpoint(kind, codec, tmp_path):
    theirs = hugging_face_model(codec, n_layer=3, n_head=3, n_embd=48)
    import_gpt2(write_folder(theirs, codec, tmp_path / "a"), tmp_path / "one", say=quiet)
    folder = write_folder(theirs, codec, tmp_path / "b", kind=kind)
    assert kind != "sharded" or len(list(folder.glob("*.safetensors"))) > 1
    import_gpt2(folder, tmp_path / "two", say=quiet)
    assert checkpoint.file_sha(tmp_path / "one" / "model.safetensors") == checkpoint.file_sha(
        tmp_path / "two" / "model.safetensors"
    )


def test_export_is_what_transformers_reads(codec, tmp_path):
    import transformers

    theirs = hugging_face_model(codec, n_layer=2, n_head=2, n_embd=32, layer_norm_epsilon=1e-4)
    import_gpt2(write_folder(theirs, codec, tmp_path / "a"), tmp_path / "ours", say=quiet)
    export_gpt2(tmp_path / "ours", tmp_path / "back")
    again = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "back")
    assert {n: p.shape for n, p in again.state_dict().items()} == {n: p.shape for n, p in theirs.state_dict().items()}
    assert all(torch.equal(p, theirs.state_dict()[n]) for n, p in again.state_dict().items())
    assert again.config.layer_norm_epsilon == 1e-4 and again.config.eos_token_id == codec.special_ids["eos"]
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "back")
    assert tokenizer("the cat 🙂\n")["input_ids"] == codec.encode("the cat 🙂\n")


def test_half_precision_stays_half(codec, tmp_path):
    theirs = hugging_face_model(codec, n_layer=2, n_head=2, n_embd=32).half()
    import_gpt2(write_folder(theirs, codec, tmp_path / "a"), tmp_path / "ours", say=quiet)
    assert (tmp_path / "ours" / "model.safetensors").stat().st_size < 2.2 * theirs.num_parameters() + 4000
    loaded = checkpoint.load(tmp_path / "ours").model
    assert torch.equal(loaded.wpe.weight, theirs.transformer.wpe.weight.float())


def test_an_untied_head_and_spare_ids(codec, tmp_path):
    theirs = hugging_face_model(
        codec, n_layer=2, n_head=2, n_embd=32, tie_word_embeddings=False, vocab_size=codec.vocab_size + 4
    )
    said = []
    import_gpt2(write_folder(theirs, codec, tmp_path / "a"), tmp_path / "ours", say=said.append)
    assert said == ["the model has 4 ids more than its tokenizer; they are kept as unused"]
    loaded = checkpoint.load(tmp_path / "ours")
    assert not loaded.config.tied and loaded.codec.decode([loaded.codec.vocab_size - 1]) == ""
    ids = torch.arange(10)[None]
    assert (loaded.model(ids) - theirs(ids).logits).abs().max() < 1e-4


def change_config(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model_type": "llama"}, "llama model; only GPT-2"),
        ({"n_inner": 7}, "n_inner 7; only 4 x n_embd = 128"),
        ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx True; only False"),
        ({"activation_function": "silu"}, "'silu'"),
        ({"n_layer": 3}, r"of the config's 40 weights 12 are missing \(.*h.2.attn.c_attn.bias.*n_layer is 3"),
        ({"n_layer": 1}, r"0 are missing \(none\), and 12 others are there \(.*h.1.attn.*n_layer is 1"),
        ({"n_head": 5}, "config.json: n_embd is 32 and n_head is 5"),
        ({"n_positions": 128}, "wpe.weight has shape .256, 32. but the config asks for .128, 32."),
        ({"vocab_size": 10}, "the tokenizer has 270 ids but the model 10"),
        ({"n_embd": "x"}, "no GPT-2 config.json"),
    ],
)
def test_what_is_not_a_gpt2_is_refused_by_name(changes, words, codec, tmp_path):
    folder = write_folder(hugging_face_model(codec, n_layer=2, n_head=2, n_embd=32), codec, tmp_path / "a")
    change_config(folder, **changes)
    with pytest.raises(UserError, match=words):
        import_gpt2(folder, tmp_path / "ours", say=quiet)
    assert not (tmp_path / "ours").exists() and not list(tmp_path.glob(".ours*"))


class Bomb:
    def __reduce__(self):
        return (exec, ("raise SystemExit('ran code of a stranger')",))


def test_nothing_in_a_bin_file_is_run(codec, tmp_path):
    folder = write_folder(hugging_face_model(codec, n_layer=2, n_head=2, n_embd=32), codec, tmp_path / "a", kind="bin")
    torch.save({"wte.weight": Bomb()}, folder / "pytorch_model.bin")
    with pytest.raises(UserError, match=r"pytorch_model\.bin can't be read as plain weights"):
        import_gpt2(folder, tmp_path / "ours", say=quiet)


@pytest.mark.parametrize("kind", ["safetensors", "bin", "sharded"])
def test_a_damaged_file_is_refused(kind, codec, tmp_path):
    folder = write_folder(hugging_face_model(codec, n_layer=2, n_head=2, n_embd=32), codec, tmp_path / "a", kind=kind)
    file = sorted([*folder.glob("*.safetensors"), *folder.glob("*.bin")])[0]
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(UserError, match="can't be read"):
        import_gpt2(folder, tmp_path / "ours", say=quiet)
    if kind == "sharded":
        file.unlink()
        with pytest.raises(UserError, match="not in the folder"):
            import_gpt2(folder, tmp_path / "ours", say=quiet)


def test_numbers_that_are_none_are_refused_before_anything_is_written(codec, tmp_path):
    model = hugging_face_model(codec, n_layer=2, n_head=2, n_embd=32)
    with torch.no_grad():
        model.transformer.h[1].mlp.c_fc.weight[3, 5] = float("nan")
    folder = write_folder(model, codec, tmp_path / "a")
    with pytest.raises(UserError, match=r"a: h\.1\.mlp\.c_fc\.weight holds what is no finite number"):
        import_gpt2(folder, tmp_path / "ours", say=quiet)
    assert not (tmp_path / "ours").exists()


def test_refusals_say_what_to_do(codec, tmp_path):
    folder = write_folder(hugging_face_model(codec, n_layer=2, n_head=2, n_embd=32), codec, tmp_path / "a")
    (folder / "vocab.json").unlink()
    with pytest.raises(UserError, match="--tokenizer"):
        import_gpt2(folder, tmp_path / "ours", say=quiet)
    with pytest.raises(UserError, match="neither a folder nor a hub id"):
        import_gpt2(tmp_path / "absent", tmp_path / "ours", say=quiet)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    write_folder(hugging_face_model(codec, n_layer=2, n_head=2, n_embd=32), codec, folder)
    with pytest.raises(UserError, match="not an empty folder"):
        import_gpt2(folder, tmp_path / "full", say=quiet)
