"""What a run leaves: the last weights or the best, and a true count of what it read."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from gpt_core import checkpoint
from gpt_core.evaluate import Protocol, nats_per_token
from gpt_core.tokens import Shard
from gpt_core.train import train
from gpt_core.trainer import Data, Trainer
from tests.core.peers import ToyCodec
from tests.core.test_train import QUICK, data_of, fresh, silent


@pytest.mark.parametrize("keep", ["last", "best"])
def test_the_checkpoint_has_the_last_or_the_best_weights(tmp_path, toy_codec, keep):
    noise = Shard.of([np.random.default_rng(5).integers(61, size=200).tolist()])  # what it learns is wrong here
    data = dataclasses.replace(data_of(), validation=noise)
    config = dataclasses.replace(QUICK, max_steps=60, lr_adamw=0.02, eval_every=4, keep=keep)
    best = train(fresh(), data, config, codec=ToyCodec(), folder=tmp_path / "m", log=silent)
    saved = checkpoint.load(tmp_path / "m")
    seen = [row["validation"] for row in saved.run["history"]]
    assert best == min(seen) < seen[-1] - 0.1
    nats = nats_per_token(saved.model, noise, Protocol(limit=QUICK.eval_windows))
    assert nats == pytest.approx(best if keep == "best" else seen[-1], rel=1e-6)


def test_tokens_seen_are_the_scored_targets(tmp_path, toy_codec):
    pieces = Shard.of([list(range(n)) for n in (3, 5, 9)])
    data = Data(pieces, pieces)
    config = dataclasses.replace(QUICK, crops="pieces", row_tokens=12)
    train(fresh(), data, config, codec=ToyCodec(), folder=tmp_path / "m", log=silent)
    batches = Trainer(fresh(), data, config).batches
    scored_targets = sum(int((batches.rows(step, range(4))[1] >= 0).sum()) for step in range(8))
    assert checkpoint.load(tmp_path / "m").run["tokens_seen"] == scored_targets < 8 * 4 * 8
