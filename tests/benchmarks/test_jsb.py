"""The chorales: their layout, what a row may be cut to, what the figure averages, and that a run resumes."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch

from benchmarks.jsb import (
    BOS,
    EOS,
    KEYS,
    REST,
    SHAPE,
    VOCAB_SIZE,
    ChoraleCodec,
    held_out,
    main,
    nll,
    read,
    rows,
    transposed,
)
from gpt_core.config import GPTConfig
from gpt_core.model import GPT

STEPS = [[74, 70, 65, 58], [74, 70, 65, 58], [75, -1, 58, 55]]
IDS = [BOS, 74, 70, 65, 58, 74, 70, 65, 58, 75, REST, 58, 55, EOS]


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "chorales.json"
    path.write_text(json.dumps({"train": [STEPS * 8, STEPS * 20], "valid": [STEPS], "test": [STEPS * 2]}))
    return path


def test_the_layout(data):
    assert [p.tolist() for p in read(data, "valid")] == [IDS]
    assert ChoraleCodec().decode(IDS) == STEPS
    shard = held_out(read(data, "valid"))
    assert shard.mask is not None and shard.mask.tolist() == [0, *[1] * 12, 0]


def test_rows_start_on_a_bar_and_reach_the_end():
    piece = np.concatenate(([BOS], np.arange(400) % 100, [EOS]))
    starts = []
    shard = rows([piece], 128)
    for i in range(len(shard)):
        row = shard.piece(i)
        (start,) = [s for s in range(0, 402, 64) if np.array_equal(piece[s : s + 129], row)]
        starts.append(start)
    assert len(starts) == 25 and set(starts) == {0, 64, 128, 192, 256, 320}
    assert len(rows([piece[:100]], 128)) == 8  # one that fits is there as often for each of its ids


def test_transposing_moves_the_voices_and_nothing_else():
    rng, ids = np.random.default_rng(0), np.array(IDS)
    moved = [transposed(ids, rng) for _ in range(200)]
    assert {int(m[1]) - 74 for m in moved} == set(KEYS) and len(KEYS) == 12
    for m in moved:
        assert m[0] == BOS and m[10] == REST and m[-1] == EOS and m[1] - m[2] == 4


@pytest.fixture
def even():
    torch.manual_seed(0)
    return GPT(GPTConfig(vocab_size=VOCAB_SIZE, context=8, n_layer=1, n_head=1, n_embd=8, tied=False, zero_init=True))


def test_the_figure_is_the_mean_over_all_notes(data, even):
    """A head that favours REST: each of the 11 pitches and the one rest has a known probability."""
    with torch.no_grad():
        even.ln_f.weight.zero_()
        even.ln_f.bias.fill_(1.0)
        even.lm_head.weight[REST] = 1.0 / 8  # logit 1 for REST, 0 for all others
    total = math.log(VOCAB_SIZE - 1 + math.e)
    found = nll(even, read(data, "valid"), 4)
    assert found["notes"] == 12
    assert found["nats_per_note"] == pytest.approx(total - 1 / 12, abs=1e-5)
    assert found["alto"] == pytest.approx(total - 1 / 3, abs=1e-5) and found["bass"] == pytest.approx(total, abs=1e-5)


@pytest.mark.parametrize("position", ["learned", "relative", "rotary"])
def test_an_arm_trains_resumes_and_is_scored(data, tmp_path, capsys, position):
    out = tmp_path / "arm"
    train = ["train", str(data), "-o", str(out), "--position", position, "--n-layer=1", "--n-embd=16", "--n-head=2"]
    train += ["--context=64", "--batch-size=2", "--eval-every=4", "--warmup-steps=1", "--device=cpu"]
    assert main([*train, "--max-steps=2"]) == 0
    assert main([*train, "--max-steps=8", "--resume"]) == 0
    run = json.loads((out / "run.json").read_text())
    assert run["step"] == 8 and run["history"][-1]["validation"] < math.log(VOCAB_SIZE)
    capsys.readouterr()
    assert main(["evaluate", str(data), str(out), "--stride=8"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["split"], line["notes"]) for line in lines] == [("valid", 12), ("test", 24)]
    assert main(["train", str(data), "-o", str(out)]) == 1 and "pass --resume" in capsys.readouterr().out


def test_the_shape_is_the_cores_own():
    assert SHAPE.position == "rotary" and SHAPE.n_layer == 5 and SHAPE.n_embd == 256
