"""What a run will take: parameters counted as PyTorch counts them, the peak near the measured one, the impossible refused."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from gpt_core import footprint
from gpt_core.config import PRESETS, GPTConfig
from gpt_core.errors import UserError
from gpt_core.footprint import check_memory, parameters, total_memory, training_bytes
from gpt_core.model import GPT
from gpt_core.train_config import TrainConfig

SMALL = [p for p in PRESETS if not p.startswith("gpt2-")]
CHANGES = [
    {}, {"bias": True}, {"bias": False}, {"tied": True}, {"tied": False}, {"norm": "layer"}, {"norm": "rms"},
    {"position": "learned"}, {"position": "none"}, {"position": "relative", "max_distance": 100},
]  # fmt: skip


@pytest.mark.parametrize("name", SMALL)
def test_parameters_are_those_of_the_built_model(name):
    for change in CHANGES:
        shape = replace(PRESETS[name], n_layer=2, **change)
        with torch.device("meta"):
            built = sum(p.numel() for p in GPT(shape).parameters())
        assert parameters(shape) == built, change


def test_gpt2_has_124_439_808_parameters():
    assert parameters(PRESETS["gpt2"]) == 124_439_808  # Radford et al. 2019, as published weights have it


STEP = """
import sys
import numpy as np
from gpt_core.config import PRESETS
from gpt_core.device import keep_large_blocks
from gpt_core.model import GPT
from gpt_core.tokens import Shard
from gpt_core.train_config import TrainConfig
from gpt_core.trainer import Data, Trainer
keep_large_blocks()
shard = Shard.of([np.random.default_rng(0).integers(0, 300, 20000).tolist()])
config = TrainConfig(batch_size=int(sys.argv[2]), precision=sys.argv[3], device="cpu")
trainer = Trainer(GPT(PRESETS[sys.argv[1]]), Data(shard, shard), config)
trainer.one_step(), trainer.one_step()
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak is read from Linux's /proc")
@pytest.mark.parametrize(
    ("name", "rows", "precision"), [("piano", 4, "fp32"), ("text", 8, "fp32"), ("music-relative", 4, "fp32")]
)
def test_the_estimate_is_near_the_measured_peak(name, rows, precision):
    command = [sys.executable, "-c", STEP, name, str(rows), precision]
    peak = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout) * 1024
    estimate = training_bytes(PRESETS[name], TrainConfig(batch_size=rows), rows, precision)
    assert 0.7 < estimate / peak < 1.4, f"{estimate / 1e9:.2f} GB told, {peak / 1e9:.2f} GB taken"


def test_rows_are_shared_by_processes_and_accumulations(monkeypatch):
    shape, config = PRESETS["piano"], TrainConfig(batch_size=64, precision="fp32", device="cpu")
    monkeypatch.setattr(footprint, "total_memory", lambda device: 1e12)
    alone = check_memory(shape, config)
    assert check_memory(shape, replace(config, accumulate=8)) < alone / 3
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    both = check_memory(shape, config)
    fixed = training_bytes(shape, config, 0, "fp32") / 1e9
    assert both == pytest.approx(alone + fixed, abs=0.11), "two processes hold the weights twice, the rows once"


def test_what_no_machine_holds_is_refused_with_the_numbers():
    config = TrainConfig(batch_size=1_000_000_000, device="cpu")
    with pytest.raises(
        UserError, match=r"need about [\d,.]+ GB \(4,918,784 parameters, 1,000,000,000 rows of 1,024 tok.* --batch-size"
    ):
        check_memory(PRESETS["piano"], config)
    wide = GPTConfig(n_embd=65_536, n_layer=1000, n_head=1024)
    with pytest.raises(UserError, match="smaller model"):
        check_memory(wide, TrainConfig(batch_size=1, device="cpu"))


def test_the_memory_of_this_machine():
    assert 0.2e9 < total_memory(torch.device("cpu")) < 1e15
