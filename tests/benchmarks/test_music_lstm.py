"""The LSTM baseline: as large as it says, fed by the one training loop, stopped and resumed, scored like the transformer."""

from __future__ import annotations

import json
import math

import pytest
import torch

from benchmarks.music_lstm import LSTM, LSTMConfig, load, main, parameters, same_size
from gpt_core.config import PRESETS
from gpt_core.tokens import ShardWriter
from music_transformer.events import BOS, EOS, NOTE_OFF, TIME_SHIFT


def test_the_size_is_the_transformers():
    target = parameters(PRESETS["pop"])
    assert target == 2_804_352  # the shipped model's
    shape = same_size(target, LSTMConfig())
    with torch.device("meta"):
        assert LSTM(shape).parameter_count() == pytest.approx(target, rel=0.03)


def test_it_reads_forward_only():
    torch.manual_seed(0)
    model, ids = LSTM(LSTMConfig(vocab_size=9, n_layer=2, n_embd=8)), torch.tensor([[1, 2, 3, 4]])
    other = torch.tensor([[1, 2, 7, 8]])
    assert torch.equal(model(ids)[:, :2], model(other)[:, :2]) and not torch.equal(
        model(ids)[:, 2:], model(other)[:, 2:]
    )


def test_it_learns_resumes_and_is_scored(tmp_path):
    for split in ("train", "validation", "test"):
        writer = ShardWriter(tmp_path / "shards", split, 391)
        writer.add([BOS, *[60, TIME_SHIFT + 9, NOTE_OFF + 60] * 400, EOS])
        writer.close()
    train = ["train", str(tmp_path / "shards"), "-o", str(tmp_path / "lstm"), "--like=music-small", "--layers=1"]
    train += [
        "--batch-size=1",
        "--row-tokens=64",
        "--eval-windows=1",
        "--eval-every=6",
        "--warmup-steps=1",
        "--device=cpu",
    ]
    assert main([*train, "--max-steps=3", "--transpose=0"]) == 0
    assert main([*train, "--max-steps=3"]) == 1  # it is there already
    assert main([*train, "--max-steps=30", "--resume", "--transpose=0"]) == 0
    assert json.loads((tmp_path / "lstm" / "run.json").read_text())["step"] == 30
    row = tmp_path / "row.json"
    assert main(["evaluate", str(tmp_path / "shards"), str(tmp_path / "lstm"), "--json", str(row), "--windows=1"]) == 0
    found = json.loads(row.read_text())
    assert found["validation"]["nats_per_event"] < math.log(391) / 2  # three events in turn are soon learned
    assert found["model"] == f"LSTM, {load(tmp_path / 'lstm').parameter_count():,}"
