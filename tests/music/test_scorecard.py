"""The scorecard of a model that knows nothing, whose figures are known beforehand; resuming; and the two commands."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch

from gpt_core import checkpoint
from gpt_core.config import GPTConfig
from gpt_core.model import GPT
from gpt_core.tokens import ShardWriter
from music_transformer.baselines import uniform_rates
from music_transformer.cli import main
from music_transformer.events import BOS, EOS, EventCodec, decode, encode_array
from music_transformer.midi import read_midi, write_midi
from music_transformer.scorecard import open_splits
from tests.music.scores import random_score

FLAGS = ["--pieces=3", "--seconds=2", "--windows=6", "--min-context=4", "--order=2"]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Shards of random music, and a checkpoint that gives every id the same probability."""
    home = tmp_path_factory.mktemp("scorecard")
    for split, seeds in (("train", range(4)), ("validation", range(10, 13)), ("test", range(20, 23))):
        writer = ShardWriter(home / "shards", split, 391)
        for seed in seeds:
            writer.add(np.concatenate(([BOS], encode_array(random_score(seed, 80)), [EOS])))
        writer.close()
    torch.manual_seed(0)
    model = GPT(GPTConfig(vocab_size=391, context=32, n_layer=1, n_head=1, n_embd=8, tied=False, zero_init=True))
    checkpoint.save(home / "even", model, EventCodec(), {})
    return home


def scorecard(home, *more) -> int:
    return main(
        ["scorecard", str(home / "shards"), "--model", str(home / "even"), "-o", str(home / "out"), *FLAGS, *more]
    )


@pytest.fixture(scope="module")
def found(home):
    assert scorecard(home) == 0
    return json.loads((home / "out" / "scorecard.json").read_text())


def test_the_likelihoods_are_those_of_knowing_nothing(home, found):
    parts = found["parts"]
    for by_split in (parts["likelihood"]["result"], parts["baselines"]["result"]["uniform"]):
        for split in ("validation", "test"):
            assert by_split[split]["nats_per_event"] == pytest.approx(math.log(391), abs=1e-5)
    grams = parts["baselines"]["result"]["2-gram"]["validation"]
    assert grams["nats_per_event"] < math.log(391)
    splits = open_splits(home / "shards")
    late = sum(len(splits["validation"].piece(i)) - 1 - 4 for i in range(3))
    assert grams["events"] == uniform_rates(splits["validation"], 4)["events"] == late


def test_pieces_lie_beside_and_their_faults_are_counted(home, found):
    files = sorted((home / "out" / "pieces").glob("*.mid"))
    assert [f.name for f in files] == ["0001.mid", "0002.mid", "0003.mid"]
    each = found["parts"]["faults"]["result"]["each"]
    assert [row["notes"] for row in each] == [len(read_midi(f)[0].notes) for f in files]
    assert found["parts"]["faults"]["result"]["shares"]["pieces"]["stuck"] == 0.0
    quoted = found["parts"]["quotations"]["result"]
    assert [row["seed"] for row in quoted["each"]] == [1, 2, 3] and len(quoted["real"]) == 3


def test_the_page_and_the_picture(home, found):
    page = (home / "out" / "scorecard.md").read_text()
    for words in ("| even | 5.969 |", "| uniform | 5.969 |", "| 2-gram |", "## Quotations", "--pieces 3 --seconds 2.0"):
        assert words in page
    png = (home / "out" / "scorecard.png").read_bytes()
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(png[16:20], "big") == 1920


def test_what_is_done_is_kept_and_what_changed_is_done_again(home, found, capsys):
    row = found["parts"]["likelihood"]["result"]["validation"]
    beside = home / "lstm.json"
    beside.write_text(json.dumps({"model": "lstm", "validation": row | {"nats_per_event": 1.25}, "test": row}))
    stamp = (home / "out" / "pieces" / "0001.mid").stat().st_mtime_ns
    assert scorecard(home, "--windows=5", "--pieces=4", "--beside", str(beside)) == 0
    said = capsys.readouterr().err
    assert "baselines: kept" in said and "likelihood: kept" not in said and "faults: kept" not in said
    assert (home / "out" / "pieces" / "0001.mid").stat().st_mtime_ns == stamp
    again = json.loads((home / "out" / "scorecard.json").read_text())
    assert len(again["parts"]["faults"]["result"]["each"]) == 4
    assert "| lstm | 1.250 |" in (home / "out" / "scorecard.md").read_text()


def test_quotes_of_a_training_piece_and_of_another(home, tmp_path, capsys):
    piece = decode(open_splits(home / "shards")["train"].piece(2))
    write_midi(piece, tmp_path / "known.mid")
    write_midi(random_score(99, 60), tmp_path / "other.mid")
    command = [
        "quotes",
        str(tmp_path / "known.mid"),
        "--shards",
        str(home / "shards"),
        "--index",
        str(tmp_path / "i.npz"),
    ]
    assert main([*command, "--json"]) == 0
    assert main(["quotes", str(tmp_path / "other.mid"), *command[2:], "--json"]) == 0
    known, other = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert known["notes"] == known["of"] == len(piece.notes) and known["source"] == "piece 3"
    assert other["notes"] < 8
    assert main(command) == 0
    of = len(piece.notes)
    assert f"known.mid: {of} notes in a row of {of}, notes 1 to {of}, as in piece 3" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--min-context=32"], "--min-context is 32; this model reads 32"),
        (["--pieces=2"], "--pieces is 2"),
        (["--beside", "absent.json"], "absent.json is no row"),
    ],
)
def test_bad_input_is_one_sentence(home, capsys, more, words):
    assert scorecard(home, *more) == 1
    error = capsys.readouterr().err
    assert words in error and len(error.strip().splitlines()) == 1


def test_shards_without_a_split_are_one_sentence(home, tmp_path, capsys):
    assert main(["scorecard", str(tmp_path), "--model", str(home / "even"), "-o", str(tmp_path / "out"), *FLAGS]) == 1
    assert "holds no split 'train'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
