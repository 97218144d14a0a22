"""Tokenizer and GPT-2 folders that fuzzing broke the import with: refused in one sentence. Longer runs: benchmarks/fuzz.py."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import save_file

from gpt_core.errors import UserError
from gpt_core.text.bpe import BPECodec, byte_alphabet
from gpt_core.text.bpe_files import read_tokenizer, write_tokenizer
from gpt_core.text.gpt2_files import WeightFiles
from gpt_core.text.gpt2_layout import read_config

LETTERS = {c: i for i, c in enumerate(byte_alphabet().values())}
WHOLE = {
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
    "added_tokens": [{"id": 257, "content": "<|endoftext|>"}],
    "model": {"type": "BPE", "vocab": {**LETTERS, "th": 256}, "merges": ["t h"]},
}


def changed(path: str, value: object) -> dict:
    data = json.loads(json.dumps(WHOLE))
    *way, last = path.split(".")
    box = data
    for key in way:
        box = box[int(key) if key.isdigit() else key]
    if value == "absent":
        del box[last]
    else:
        box[last] = value
    return data


def test_the_sound_file_is_read(tmp_path):
    (tmp_path / "tokenizer.json").write_text(json.dumps(WHOLE))
    codec = read_tokenizer(tmp_path)
    assert codec.encode("th") == [256] and codec.special == {"<|endoftext|>": 257}


def test_an_end_token_that_is_not_listed_as_added_is_the_end_token_all_the_same(tmp_path):
    vocab = {**WHOLE["model"]["vocab"], "<|endoftext|>": 257}
    whole = {**WHOLE, "model": {**WHOLE["model"], "vocab": vocab}, "added_tokens": []}
    (tmp_path / "tokenizer.json").write_text(json.dumps(whole))
    codec = read_tokenizer(tmp_path)
    assert codec.special == {"<|endoftext|>": 257}
    (tmp_path / "again").mkdir()
    write_tokenizer(codec, tmp_path / "again")
    assert read_tokenizer(tmp_path / "again").to_dict() == codec.to_dict()


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("model", [1, 2], "describes no tokenizer"),
        ("model", "BPE", "describes no tokenizer"),
        ("pre_tokenizer", -9, "describes no tokenizer"),
        ("pre_tokenizer", "ByteLevel", "describes no tokenizer"),
        ("model.vocab", "absent", "lacks its vocabulary"),
        ("model.merges", "absent", "lacks its vocabulary"),
        ("model.merges", 3.5, "lacks its vocabulary"),
        ("model.merges", [None], "does not name two tokens"),
        ("model.merges", [7], "does not name two tokens"),
        ("model.merges", [["t", ["h"]]], "does not name two tokens"),
        ("model.merges", ["t\nh x y"], "does not name two tokens"),
        ("added_tokens", "xxx", "lacks its vocabulary"),
        ("added_tokens", [2147483648], "without content or id"),
        ("added_tokens", [[{"id": 257, "content": "x"}]], "without content or id"),
        ("added_tokens", [{"id": 257}], "without content or id"),
        ("added_tokens", [{"content": "x"}], "without content or id"),
        ("added_tokens", [{"id": 257, "content": {"a": 1}}], "without content or id"),
        ("added_tokens.0.id", "257", "not a whole number"),
        ("added_tokens.0.id", True, "not a whole number"),
        ("model.vocab.th", None, "not a whole number"),
        ("model.vocab.th", {"a": 1}, "not a whole number"),
        ("model.vocab.th", 256.0, "not a whole number"),
    ],
)
def test_tokenizer_files_of_the_wrong_shape(tmp_path, path, value, words):
    (tmp_path / "tokenizer.json").write_text(json.dumps(changed(path, value)))
    with pytest.raises(UserError, match=words) as refused:
        read_tokenizer(tmp_path)
    assert "tokenizer.json" in str(refused.value) and str(refused.value).isprintable()


def test_numbers_beyond_pythons_patience(tmp_path):
    (tmp_path / "tokenizer.json").write_text('{"model": ' + "9" * 5000 + "}")
    with pytest.raises(UserError, match="can't be read as JSON"):
        read_tokenizer(tmp_path)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"special": {}, "tokens": ["a", ["b"]], "merges": []}, "not texts"),
        ({"special": {}, "tokens": ["a", "a"], "merges": []}, "not texts, each there once"),
        ({"special": [], "tokens": ["a"], "merges": []}, "is not tokens, merges and special"),
        ({"special": {}, "tokens": {"a": 0}, "merges": []}, "is not tokens, merges and special"),
        ({"special": {"x": [1]}, "tokens": list(LETTERS), "merges": []}, "whole number"),
    ],
)
def test_codecs_of_the_wrong_shape(data, words):
    with pytest.raises(UserError, match=words):
        BPECodec.from_dict({"kind": "byte-bpe", **data})


@pytest.fixture
def parts(tmp_path):
    """A folder in one part with an index."""
    save_file({"wte.weight": torch.zeros(2, 2)}, tmp_path / "one.safetensors")

    def index(weight_map: object) -> WeightFiles:
        (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
        return WeightFiles(tmp_path)

    return index


@pytest.mark.parametrize("name", [{"a": 1}, ["one.safetensors"], None, 7, True])
def test_an_index_with_names_that_are_none(parts, name):
    with pytest.raises(UserError, match="no name; the index is damaged"):
        parts({"wte.weight": "one.safetensors", "wpe.weight": name})


@pytest.mark.parametrize(
    "name", ["../one.safetensors", "/etc/passwd", "a\x00b", "", ".", "two\n.safetensors", "x" * 300]
)
def test_an_index_never_leads_out_of_its_folder(parts, name):
    with pytest.raises(UserError, match="not in the folder"):
        parts({"wte.weight": name})


def test_an_index_that_promises_too_much(parts):
    files = parts({"wte.weight": "one.safetensors", "wpe.weight": "one.safetensors"})
    assert files.get("wte.weight").shape == (2, 2)
    with pytest.raises(UserError, match=r"can't give wpe\.weight"):
        files.get("wpe.weight")


def test_a_bin_that_breaks_without_a_word(tmp_path):
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(UserError, match="can't be read as plain weights"):
        WeightFiles(tmp_path)


SETTINGS = {"vocab_size": 300, "n_positions": 16, "n_embd": 4, "n_layer": 1, "n_head": 2}


@pytest.mark.parametrize("name", [*SETTINGS, "layer_norm_epsilon"])
@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan"), 10**400, -1, [1], {}, "two"])
def test_settings_that_are_no_sizes(name, value):
    assert read_config(SETTINGS, "config.json").n_embd == 4
    with pytest.raises(UserError):
        read_config({**SETTINGS, name: value}, "config.json")


@pytest.mark.parametrize("value", [["gelu"], {}, 3])
def test_an_activation_that_is_no_word(value):
    with pytest.raises(UserError, match="activation"):
        read_config({**SETTINGS, "activation_function": value}, "config.json")
