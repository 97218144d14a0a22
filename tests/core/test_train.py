"""Training: it learns, resumes bit for bit, scores what it should, and two processes equal one."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from gpt_core import checkpoint
from gpt_core.errors import UserError
from gpt_core.evaluate import Protocol, nats_per_token, scored
from gpt_core.model import GPT
from gpt_core.optim import Optimizers
from gpt_core.tokens import Shard, ShardWriter
from gpt_core.train import train
from gpt_core.train_config import TrainConfig
from gpt_core.trainer import Data, Trainer
from tests.core.peers import SMALL, ToyCodec, small_model

TINY = dataclasses.replace(SMALL, n_layer=1, dropout=0.1)
QUICK = TrainConfig(
    max_steps=8, batch_size=4, warmup_steps=2, eval_every=3, eval_windows=2, log_every=1, precision="fp32",
    save_minutes=1000.0, device="cpu",
)  # fmt: skip


def data_of(seed: int = 0) -> Data:
    """Counting upwards in steps of 1 or 2, which a model can learn."""
    rng = np.random.default_rng(seed)
    ids = np.cumsum(rng.integers(1, 3, 900)) % 61
    return Data(Shard.of([ids[:600].tolist()]), Shard.of([ids[600:].tolist()]))


def fresh(config=TINY, seed: int = 0) -> GPT:
    torch.manual_seed(seed)
    return GPT(config)


def silent(row: dict) -> None:
    """Log nothing."""


def run(folder: Path, config: TrainConfig, resume: bool = False, log=silent, model: GPT | None = None):
    model = model or fresh()
    best = train(model, data_of(), config, codec=ToyCodec(), folder=folder, resume=resume, log=log)
    return model, best


def same(a: GPT, b: GPT) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a.parameters(), b.parameters(), strict=True))


VARIANTS = [
    {"optimizer": "muon"},
    {"optimizer": "adamw", "schedule": "cosine"},
    {"optimizer": "muon", "ema": 0.9, "accumulate": 2, "crops": "pieces"},
    {"optimizer": "adamw", "lr_adamw": 1.0, "keep": "best"},
]


@pytest.mark.parametrize("variant", VARIANTS)
def test_resumed_training_equals_uninterrupted_training(tmp_path, toy_codec, variant):
    config = dataclasses.replace(QUICK, **variant)
    whole, best = run(tmp_path / "whole", config)
    seen = []

    def interrupt(row: dict) -> None:
        seen.append(row)
        if row.get("step") == 5 and row["event"] == "step":
            raise KeyboardInterrupt

    run(tmp_path / "parts", config, log=interrupt)
    half = checkpoint.load(tmp_path / "parts")
    assert half.run["step"] == 5
    resumed, best_resumed = run(tmp_path / "parts", config, resume=True, model=fresh(seed=99))
    assert same(whole, resumed) and best == best_resumed
    a, b = checkpoint.load(tmp_path / "whole"), checkpoint.load(tmp_path / "parts")
    assert same(a.model, b.model) and a.run["history"] == b.run["history"] and a.run["step"] == b.run["step"] == 8


def test_an_interrupt_inside_the_update_does_not_tear_the_step(tmp_path, toy_codec, monkeypatch):
    """The signal arrives while weights are being written; the step is finished before the loop stops."""
    whole, _ = run(tmp_path / "whole", QUICK)
    real = Optimizers.step

    def interrupted(self, step):
        if step == 4:
            signal.raise_signal(signal.SIGINT)
        return real(self, step)

    monkeypatch.setattr(Optimizers, "step", interrupted)
    run(tmp_path / "parts", QUICK)
    assert checkpoint.load_trainer(tmp_path / "parts")["step"] == 5
    monkeypatch.setattr(Optimizers, "step", real)
    resumed, _ = run(tmp_path / "parts", QUICK, resume=True, model=fresh(seed=99))
    assert same(whole, resumed)


def test_it_learns_what_can_be_learned(tmp_path):
    config = dataclasses.replace(QUICK, max_steps=200, eval_every=200, batch_size=8)
    _, best = run(tmp_path / "m", config, model=fresh(dataclasses.replace(TINY, dropout=0.0)))
    assert best < 1.0  # ln 61 = 4.1 at the start, ln 2 = 0.69 at best


def test_bf16_learns_the_same(tmp_path):
    """Whatever this machine would choose by itself: sums of bf16 differ in the third digit, what is learned does not."""
    config = dataclasses.replace(QUICK, max_steps=200, eval_every=200, batch_size=8, precision="bf16")
    model, best = run(tmp_path / "m", config, model=fresh(dataclasses.replace(TINY, dropout=0.0)))
    assert best < 1.0 and {p.dtype for p in model.parameters()} == {torch.float32}


def test_the_same_seed_gives_the_same_weights_and_another_does_not(tmp_path):
    short = dataclasses.replace(QUICK, max_steps=3)
    one, _ = run(tmp_path / "a", short)
    again, _ = run(tmp_path / "b", short)
    other, _ = run(tmp_path / "c", dataclasses.replace(short, seed=1))
    assert same(one, again) and not same(one, other)


def test_accumulated_steps_equal_one_large_step():
    models = []
    for accumulate in (1, 4):
        model = fresh(dataclasses.replace(TINY, dropout=0.0))
        trainer = Trainer(model, data_of(), dataclasses.replace(QUICK, accumulate=accumulate))
        first = trainer.one_step()
        trainer.one_step()
        models.append((model, first["loss"]))
    assert models[0][1] == pytest.approx(models[1][1], abs=1e-5)
    for a, b in zip(models[0][0].parameters(), models[1][0].parameters(), strict=True):
        assert (a - b).abs().max() < 1e-4


def test_the_loss_is_the_mean_over_scored_targets(tmp_path):
    writer = ShardWriter(tmp_path, "train", 61)
    writer.add(list(range(12)), [0] * 6 + [1] * 6)
    writer.close()
    shard = Shard.open(tmp_path, "train")
    model = small_model("learned")
    with torch.no_grad():
        nats = F.cross_entropy(model(torch.arange(12)[None])[0, 5:11], torch.arange(6, 12))
    config = dataclasses.replace(QUICK, crops="pieces", batch_size=3)
    trainer = Trainer(model, Data(shard, shard), config)
    assert trainer.one_step()["loss"] == pytest.approx(float(nats), abs=1e-5)


def test_evaluation_is_the_mean_nats_of_each_token_with_its_window():
    model = small_model("rotary")
    ids = np.random.default_rng(0).integers(0, 61, 40).tolist()
    total = 0.0
    for at in range(1, 40):  # windows of 16 move by 8: token t is read from the latest window that scores it
        start = 0 if at <= 16 else 8 * math.ceil((at - 16) / 8)
        with torch.no_grad():
            logits = model(torch.tensor([ids[start:at]]))[0, -1]
        total -= float(logits.log_softmax(-1)[ids[at]])
    assert nats_per_token(model, Shard.of([ids]), Protocol()) == pytest.approx(total / 39, abs=1e-5)
    targets = np.concatenate([t for t, _ in scored(model, Shard.of([ids]), Protocol(batch=2))])
    assert sorted(targets.tolist()) == sorted(ids[1:])


def test_evaluation_with_a_least_context_leaves_early_targets_out():
    model, ids = small_model("rotary"), list(range(40))
    targets = np.concatenate([t for t, _ in scored(model, Shard.of([ids]), Protocol(min_context=8))])
    assert targets.tolist() == list(range(9, 40))


def test_evaluation_of_nothing_is_refused():
    with pytest.raises(UserError, match="nothing to score"):
        nats_per_token(small_model("rotary"), Shard.of([[1], [2]]), Protocol())


def test_evaluation_does_not_disturb_training():
    model = fresh().train()
    nats_per_token(model, data_of().validation, Protocol(limit=2))
    assert model.training


def test_patience_stops_a_run_that_does_not_improve(tmp_path, toy_codec):
    rows = []
    frozen = dataclasses.replace(
        QUICK, max_steps=1000, eval_every=2, patience=3, lr=0.0, lr_adamw=0.0, weight_decay=0.0
    )
    run(tmp_path / "m", frozen, log=rows.append)
    assert rows[-1]["event"] == "early stop" and rows[-1]["step"] == 8
    assert checkpoint.load(tmp_path / "m").run["step"] == 8


def test_averaged_weights_are_what_is_saved(tmp_path, toy_codec):
    config = dataclasses.replace(QUICK, max_steps=3, ema=0.5, lr_adamw=0.1)
    model = fresh()
    mean = {n: p.detach().clone() for n, p in model.named_parameters()}
    trainer = Trainer(model, data_of(), config)
    for step in range(3):
        trainer.one_step()
        decay = min(0.5, (1 + step) / (10 + step))
        mean = {n: mean[n] * decay + p.detach() * (1 - decay) for n, p in model.named_parameters()}
    with trainer.borrowed(trainer.average):
        for n, p in model.named_parameters():
            assert torch.allclose(p, mean[n], atol=1e-6)
    run(tmp_path / "m", config)
    saved = dict(checkpoint.load(tmp_path / "m").model.named_parameters())
    assert all(torch.allclose(saved[n], mean[n], atol=1e-6) for n in mean)


def test_gradients_are_clipped():
    norms = []
    for clip in (0.0, 1e-6):
        model = fresh(dataclasses.replace(TINY, dropout=0.0))
        config = dataclasses.replace(QUICK, grad_clip=clip, optimizer="adamw", lr_adamw=1.0, weight_decay=0.0)
        before = [p.detach().clone() for p in model.parameters()]
        seen = Trainer(model, data_of(), config).one_step()["grad_norm"]
        moved = max(float((a - b).detach().abs().max()) for a, b in zip(before, model.parameters(), strict=True))
        norms.append((seen, moved))
    assert norms[0][0] == norms[1][0] > 0.1  # the norm told is the one before clipping
    assert norms[1][1] < norms[0][1]


def test_losses_that_are_no_numbers_stop_the_run():
    model = fresh()
    with torch.no_grad():
        model.ln_f.weight.fill_(math.nan)
    with pytest.raises(UserError, match="not a number at step 1"):
        Trainer(model, data_of(), QUICK).one_step()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"batch_size": 4, "accumulate": 3}, "--batch-size is 4"),
        ({"row_tokens": 17}, "--row-tokens is 17 but the model reads 16"),
    ],
)
def test_settings_that_do_not_fit_are_refused(changes, words):
    with pytest.raises(UserError, match=words):
        Trainer(fresh(), data_of(), dataclasses.replace(QUICK, **changes))


def test_too_little_material_is_refused():
    with pytest.raises(UserError, match="16 tokens and a row needs 17"):
        Trainer(fresh(), Data(Shard.of([[1] * 16]), data_of().validation), QUICK)


def test_resuming_another_run_is_refused(tmp_path, toy_codec):
    run(tmp_path / "m", dataclasses.replace(QUICK, max_steps=1))
    for model, config, why in [
        (fresh(dataclasses.replace(TINY, n_embd=48)), QUICK, "another model or other settings"),
        (fresh(), dataclasses.replace(QUICK, optimizer="adamw"), "--optimizer is adamw and the run .* has muon"),
        (fresh(), dataclasses.replace(QUICK, ema=0.9), "--ema is 0.9 and the run .* has 0.0"),
    ]:
        with pytest.raises(UserError, match=why):
            run(tmp_path / "m", config, resume=True, model=model)


WORKER = """
import json, sys, torch
from tests.core.test_train import QUICK, TINY, data_of, fresh
from gpt_core import distributed
from gpt_core.train import train
from tests.core.peers import ToyCodec
import dataclasses
rows = []
config = dataclasses.replace(QUICK, max_steps=6, optimizer=sys.argv[2])
model = fresh(dataclasses.replace(TINY, dropout=0.0))
train(model, data_of(), config, codec=ToyCodec(), folder=sys.argv[1], log=rows.append)
if distributed.is_main():
    print(json.dumps([r["loss"] for r in rows if r["event"] == "step"] + [rows[-1]["validation"]]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["muon", "adamw"])
def test_two_processes_equal_one(tmp_path, optimizer):
    script = tmp_path / "worker.py"
    script.write_text(WORKER)
    root = Path(__file__).parents[2]
    env = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    losses = []
    for name, command in (("one", [sys.executable]), ("two", launcher)):
        done = subprocess.run(
            [*command, str(script), str(tmp_path / name), optimizer],
            env=env, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        losses.append(json.loads(done.stdout.strip().splitlines()[-1]))
    assert losses[0] == pytest.approx(losses[1], abs=1e-4)
