"""Text files to shards, a model trained on them and measured, through the command line."""

from __future__ import annotations

import json
import math

import pytest
import torch

from gpt_core import checkpoint
from gpt_core.config import GPTConfig
from gpt_core.errors import UserError
from gpt_core.model import GPT
from gpt_core.text.cli import main
from gpt_core.text.corpus import CorpusConfig, build_corpus, find_codec, find_documents, sections
from gpt_core.text.evaluation import evaluate_text, material
from gpt_core.tokens import Shard
from tests.text.scripted import BYTES, checkpoint_of, scripted


@pytest.fixture
def folder(tmp_path):
    home = tmp_path / "texts"
    (home / "b").mkdir(parents=True)
    for n in range(30):
        (home / ("b" if n % 2 else ".") / f"{n}.txt").write_text(
            f"Text {n}: the cat sat on the mat.\n" * 4, encoding="utf-8"
        )
    (home / "notes.pdf").write_text("not a text file")
    return home


def test_shards_hold_the_end_token_and_the_text(folder, tmp_path):
    record = build_corpus(folder, tmp_path / "s", CorpusConfig(vocab_size=300, validation=0.2, test=0.1))
    codec = find_codec(tmp_path / "s")
    by_split = {}
    for split in ("train", "validation", "test"):
        shard = Shard.open(tmp_path / "s", split)
        names = [p["file"] for p in record["pieces"] if p["split"] == split]
        assert len(shard) == len(names) == record["splits"][split]["pieces"] > 0
        for i, name in enumerate(names):
            piece = shard.piece(i).tolist()
            assert piece[0] == codec.special_ids["eos"] and codec.decode(piece[1:]) == (folder / name).read_text()
        by_split[split] = set(names)
        assert record["splits"][split]["bytes"] == sum((folder / n).stat().st_size for n in names)
    assert sum(map(len, by_split.values())) == 30 and len(set.union(*by_split.values())) == 30
    again = build_corpus(folder, tmp_path / "t", CorpusConfig(vocab_size=300, validation=0.2, test=0.1))
    assert again["fingerprint"] == record["fingerprint"] and again["codec"] == record["codec"]


def test_a_table_of_splits_holds(folder, tmp_path):
    rows = [
        "path\tauthor\tsplit",
        "1.txt\ta\ttrain",
        "b/3.txt\tb\tvalidation",
        "2.txt\tc\tvalidation",
        "4.txt\tc\ttrain",
    ]
    (folder / "index.tsv").write_text("\n".join(rows))
    found = {d.name: d.split for d in find_documents(folder, CorpusConfig())}
    assert found == {"b/3.txt": "validation", "2.txt": "validation", "4.txt": "train"}  # 1.txt lies in b/, unlisted


def test_one_file_gives_its_end(tmp_path):
    text = "".join(f"line {n}\n" for n in range(100))
    (tmp_path / "a.txt").write_text(text)
    record = build_corpus(tmp_path / "a.txt", tmp_path / "s", CorpusConfig(tokenizer="chars", validation=0.1, test=0.1))
    parts = []
    for split in ("train", "validation", "test"):
        parts.append(find_codec(tmp_path / "s").decode(Shard.open(tmp_path / "s", split).piece(0)))
    assert "".join(parts) == text and all(p.endswith("\n") for p in parts)
    assert record["codec"]["kind"] == "chars" and 5 <= parts[1].count("\n") <= 12


def test_the_tokenizer_is_learned_from_the_training_part_alone(folder, tmp_path):
    (folder / "index.tsv").write_text("path\tsplit\n2.txt\ttrain\n4.txt\tvalidation\n")
    (folder / "4.txt").write_text("zzyzx " * 500)
    record = build_corpus(folder, tmp_path / "s", CorpusConfig(vocab_size=400))
    assert not any("zz" in t for t in record["codec"]["tokens"])
    given = build_corpus(folder, tmp_path / "t", CorpusConfig(tokenizer=str(tmp_path / "s")))
    assert given["codec"] == record["codec"]


def test_what_is_not_text_is_told(folder, tmp_path):
    (folder / "0.txt").write_bytes(b"caf\xe9")
    record = build_corpus(folder, tmp_path / "s", CorpusConfig(vocab_size=300))
    assert [r["file"] for r in record["failed"]] == ["0.txt"] and "byte 4" in record["failed"][0]["error"]
    (tmp_path / "empty").mkdir()
    for source, words in ((tmp_path / "empty", "holds no .txt"), (tmp_path / "absent", "does not exist")):
        with pytest.raises(UserError, match=words):
            build_corpus(source, tmp_path / "u")
    with pytest.raises(UserError, match="--tokenizer is 'nowhere'"):
        build_corpus(folder, tmp_path / "v", CorpusConfig(tokenizer="nowhere"))


def test_bits_per_byte_of_a_model_that_knows_nothing(tmp_path):
    model = GPT(GPTConfig(vocab_size=257, context=16, n_layer=1, n_head=1, n_embd=8))
    torch.nn.init.zeros_(model.wte.weight)
    (tmp_path / "a.txt").write_text("héllo wörld, " * 9)
    loaded = checkpoint_of(model)
    result = evaluate_text(loaded, material(loaded, [tmp_path / "a.txt"], "validation"))
    assert result["bytes"] == result["tokens"] == len(("héllo wörld, " * 9).encode())
    assert result["perplexity"] == pytest.approx(257) and result["bits_per_byte"] == pytest.approx(math.log2(257))


def test_train_evaluate_and_complete_by_command(folder, tmp_path, capsys):
    run, shards = str(tmp_path / "run"), str(tmp_path / "s")
    shape = ["--n-layer", "1", "--n-head", "2", "--n-embd", "16", "--context", "32"]
    short = ["--max-steps", "4", "--batch-size", "2", "--eval-every", "2", "--eval-windows", "2", "--log-every", "1"]
    for tokenizer in ("bpe", "chars"):
        assert (
            main(
                [
                    "corpus",
                    str(folder),
                    "-o",
                    shards,
                    "--vocab-size",
                    "300",
                    "--tokenizer",
                    tokenizer,
                    "--validation",
                    "0.2",
                ]
            )
            == 0
        )
        assert main(["train", shards, "-o", run + tokenizer, *shape, *short]) == 0
        made = checkpoint.load(run + tokenizer)
        assert made.config.vocab_size == made.codec.vocab_size and made.run["step"] == 4
        capsys.readouterr()
        assert main(["evaluate", shards, "--model", run + tokenizer, "--json"]) == 0
        assert 0 < json.loads(capsys.readouterr().out)["bits_per_byte"] < 9
        assert main(["complete", "the cat", "--model", run + tokenizer, "--max-new", "5", "--seed", "3"]) == 0
        first = capsys.readouterr().out
        assert first.startswith("the cat")
        assert main(["complete", "the cat", "--model", run + tokenizer, "--max-new", "5", "--seed", "3"]) == 0
        assert capsys.readouterr().out == first
    assert main(["train", shards, "-o", run + "chars", *shape, *short]) == 1
    assert "--resume" in capsys.readouterr().err
    assert main(["train", shards, "-o", run + "chars", "--resume", *shape, *short[2:], "--max-steps", "6"]) == 0
    assert checkpoint.load(run + "chars").run["step"] == 6
    assert main(["train", shards, "-o", run + "x", "--init-from", run + "bpe", *short]) == 1
    assert "another tokenizer" in capsys.readouterr().err
    assert main(["evaluate", shards, "--model", run + "bpe"]) == 1
    assert "another tokenizer" in capsys.readouterr().err


def test_takes_json_next_and_tokens_by_command(tmp_path, capsys):
    model = GPT(GPTConfig(vocab_size=257, context=32, n_layer=1, n_head=1, n_embd=8))
    checkpoint.save(tmp_path / "m", model, BYTES, {})
    where = ["--model", str(tmp_path / "m")]
    assert main(["complete", "ab", *where, "--takes", "2", "--max-new", "4", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [r["take"] for r in rows] == [0, 1] and rows[0]["prompt"] == "ab"
    assert main(["next", "ab", *where, "--top", "3", "--top-k", "2", "--surprise", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [c["kept"] for c in shown["next"]] == [True, True, False] and len(shown["surprise"]) == 2
    assert main(["next", "ab", *where, "--surprise"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 12
    for top in ("0", "-3", "100000"):
        assert main(["next", "ab", *where, "--top", top]) == 1
        assert capsys.readouterr().err.startswith(f"gpt-core: --top is {top}; give 1 to ")
    assert main(["tokens", "a é<|endoftext|>", *where, "--special"]) == 0
    assert capsys.readouterr().out.split() == [
        "97",
        "text",
        "a",
        "32",
        "text",
        "␣",
        "195",
        "bytes",
        "C3",
        "169",
        "bytes",
        "A9",
        "256",
        "special",
        "<|endoftext|>",
    ]
    assert main(["complete", "ab", "--model", "nowhere"]) == 1
    assert "no text model 'nowhere'" in capsys.readouterr().err


def test_interactive_answers_until_the_input_ends(tmp_path, capsys, monkeypatch):
    import io

    checkpoint.save(
        tmp_path / "m", GPT(GPTConfig(vocab_size=257, context=32, n_layer=1, n_head=1, n_embd=8)), BYTES, {}
    )
    monkeypatch.setattr("sys.stdin", io.StringIO("one\ntwo\n"))
    assert main(["complete", "--interactive", "--model", str(tmp_path / "m"), "--max-new", "3"]) == 0
    out = capsys.readouterr().out
    assert "=== 1 ===\none" in out and "=== 1 ===\ntwo" in out


def test_sections_begin_behind_blank_lines_and_nothing_is_lost(tmp_path):
    text = "One.\n\nTwo is long.\n \n\nThree.\n\nFour.\n\n"
    assert sections(text, 0) == [text] and sections(text, 10_000) == [text]
    assert sections(text, 6) == ["One.\n\n", "Two is long.\n \n\n", "Three.\n\n", "Four.\n\n"]
    assert sections(text, 7) == ["One.\n\nTwo is long.\n \n\n", "Three.\n\n", "Four.\n\n"]
    (tmp_path / "a.txt").write_text(text * 8)
    config = CorpusConfig(tokenizer="chars", validation=0.25, section=20)
    record = build_corpus(tmp_path / "a.txt", tmp_path / "s", config)
    codec, train = find_codec(tmp_path / "s"), Shard.open(tmp_path / "s", "train")
    pieces = [train.piece(n).tolist() for n in range(len(train))]
    assert len(pieces) == record["splits"]["train"]["pieces"] > 6
    assert all(p[0] == codec.special_ids["eos"] for p in pieces)
    held = Shard.open(tmp_path / "s", "validation")
    assert len(held) == 1  # held-out texts stay whole
    assert "".join(codec.decode(p[1:]) for p in pieces) + codec.decode(held.piece(0).tolist()[1:]) == text * 8


@pytest.mark.parametrize(
    ("files", "config", "words"),
    [
        ({"a.txt": b""}, {}, "a.txt holds no text"),
        ({"a.txt": b" \n"}, {"tokenizer": "chars"}, "a.txt holds no text"),
        ({"a.txt": b"", "b.txt": b"\xff"}, {}, "none of 2 files can be used; the first: .*a.txt holds no text"),
        ({"a.txt": b"abc\xff"}, {}, r"a.txt is not UTF-8 text \(byte 4\)"),
        ({"a.txt": b"abc\n" * 50}, {"validation": 0.5, "test": 0.5}, "leaves no text to train on; lower --validation"),
    ],
)
def test_what_gives_no_corpus_is_said(files, config, words, tmp_path):
    home = tmp_path / "texts"
    home.mkdir()
    for name, raw in files.items():
        (home / name).write_bytes(raw)
    with pytest.raises(UserError, match=words):
        build_corpus(home, tmp_path / "s", CorpusConfig(**config))
    assert not (tmp_path / "s").exists()


def test_what_is_no_folder_of_shards_is_said(folder, tmp_path, capsys):
    for given in (folder, tmp_path / "absent"):
        assert main(["train", str(given), "-o", str(tmp_path / "m")]) == 1
        assert f"{given} is no folder of shards" in capsys.readouterr().err


def test_a_text_that_ends_at_once_is_said(tmp_path, capsys):
    checkpoint.save(tmp_path / "m", scripted({256: 256}).model, BYTES, {})
    assert main(["complete", "--model", str(tmp_path / "m"), "--temperature", "0"]) == 0
    said = capsys.readouterr()
    assert said.out == "\n" and "the model ended the text at once" in said.err
    assert main(["complete", "ab", "--model", str(tmp_path / "m"), "--stop", ""]) == 1
    assert capsys.readouterr().out == ""
