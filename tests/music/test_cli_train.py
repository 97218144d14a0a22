"""``train``: a few steps on a little music, stopped and resumed."""

from __future__ import annotations

import json

import pytest
from safetensors.torch import load_file

from gpt_core.tokens import ShardWriter
from music_transformer.cli import main
from music_transformer.events import BOS, EOS, NOTE_OFF, TIME_SHIFT, VELOCITY
from music_transformer.training import transposer

FLAGS = ["--n-layer=1", "--n-embd=16", "--n-head=2", "--context=32", "--batch-size=4", "--eval-windows=4"]
FLAGS += ["--eval-every=4", "--log-every=2", "--warmup-steps=2", "--seed=3", "--device=cpu", "--dropout=0.1"]


@pytest.fixture
def shards(tmp_path):
    for split, pieces in (("train", 3), ("validation", 1)):
        writer = ShardWriter(tmp_path / "shards", split, 391)
        for p in range(pieces):
            ids = [VELOCITY + 12]
            for i in range(80):
                ids += [60 + (i + p) % 7, TIME_SHIFT + 11, NOTE_OFF + 60 + (i + p) % 7]
            writer.add([BOS, *ids, EOS])
        writer.close()
    return tmp_path / "shards"


def train(shards, out, *more):
    return main(["train", str(shards), "-o", str(out), *FLAGS, *more])


def test_training_learns_logs_and_records(shards, tmp_path):
    out = tmp_path / "model"
    assert train(shards, out, "--max-steps", "40", "--eval-every", "20") == 0
    run = json.loads((out / "run.json").read_text())
    assert run["step"] == 40 and run["tokens_seen"] == 40 * 4 * 32 and run["transpose"] == 3
    first, last = run["history"][0]["validation"], run["history"][-1]["validation"]
    assert last < first < 5.97  # ln 391: better than knowing nothing, and better still
    rows = [json.loads(row) for row in (tmp_path / "model.log.jsonl").read_text().splitlines()]
    assert [r["step"] for r in rows if r["event"] == "step"] == list(range(2, 41, 2))


def test_resumed_equals_uninterrupted(shards, tmp_path):
    assert train(shards, tmp_path / "whole", "--max-steps", "8") == 0
    assert train(shards, tmp_path / "parts", "--max-steps", "4", "--schedule", "constant") == 0
    assert train(shards, tmp_path / "parts", "--max-steps", "8", "--schedule", "constant", "--resume") == 0
    assert train(shards, tmp_path / "plain", "--max-steps", "8", "--schedule", "constant") == 0
    a, b = (load_file(tmp_path / n / "model.safetensors") for n in ("plain", "parts"))
    assert all(bool((a[k] == b[k]).all()) for k in a)
    c = load_file(tmp_path / "whole" / "model.safetensors")
    assert any(bool((a[k] != c[k]).any()) for k in a)  # another schedule is another run: the comparison can fail


def test_where_the_weights_came_from_survives_a_resume(shards, tmp_path):
    assert train(shards, tmp_path / "first", "--max-steps", "1") == 0
    out = tmp_path / "second"
    assert train(shards, out, "--max-steps", "1", "--init-from", str(tmp_path / "first")) == 0
    assert train(shards, out, "--max-steps", "2", "--resume") == 0
    assert json.loads((out / "run.json").read_text())["init_from"] == str(tmp_path / "first")


def test_resuming_with_another_shape_or_other_data_is_refused(shards, tmp_path, capsys):
    out = tmp_path / "m"
    (shards / "meta.json").write_text(json.dumps({"source": "bach", "fingerprint": "a" * 64, "splits": {}}))
    assert train(shards, out, "--max-steps", "1") == 0
    again = ["train", str(shards), "-o", str(out), "--resume", "--device=cpu", "--batch-size=4", "--max-steps"]
    for asked, sentence in [
        (["--preset", "piano"], "has 32; a model keeps its shape"),
        (["--n-layer", "3"], "n_layer 3 was asked for"),
        (["--init-from", str(tmp_path / "pop")], "give one of them"),
    ]:
        assert main([*again, "2", *asked]) == 1
        assert sentence in capsys.readouterr().err
    assert main([*again, "1"]) == 0
    assert "nothing to do  step 1  max_steps 1" in capsys.readouterr().err
    (shards / "meta.json").write_text(json.dumps({"source": "satie", "fingerprint": "b" * 64, "splits": {}}))
    assert main([*again, "2"]) == 1
    assert "has learned from bach (fingerprint aaaaaaaaaaaa)" in capsys.readouterr().err


def test_more_than_the_machine_holds_is_refused_before_anything_is_written(shards, tmp_path, capsys):
    assert train(shards, tmp_path / "m", "--batch-size", "1000000000") == 1
    assert "1,000,000,000 rows of 32 tokens at a time" in capsys.readouterr().err
    assert not (tmp_path / "m").exists()


def test_a_folder_with_something_in_it_is_not_overwritten(shards, tmp_path, capsys):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("years of work")
    assert train(shards, tmp_path / "full", "--max-steps", "1") == 1
    assert "is not empty; pass --resume" in capsys.readouterr().err
    assert (tmp_path / "full" / "thesis.txt").read_text() == "years of work"


def test_transposing_stays_within_the_range_asked_for():
    import numpy as np

    move = transposer(2)
    rng = np.random.default_rng(0)
    row = np.array([60, TIME_SHIFT + 9, NOTE_OFF + 60, VELOCITY + 3])
    seen = {tuple(move(row, rng)) for _ in range(200)}
    assert seen == {(60 + k, TIME_SHIFT + 9, NOTE_OFF + 60 + k, VELOCITY + 3) for k in range(-2, 3)}
