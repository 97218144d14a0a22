"""SIGKILL at random moments of a save, a few times; 200 times: benchmarks/kill_saves.py."""

from __future__ import annotations

import pytest
import torch

from benchmarks.kill_saves import run, save_one, small, survived
from gpt_core import checkpoint


@pytest.mark.slow
def test_the_last_good_checkpoint_always_loads(tmp_path):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        assert run(tmp_path / "piece", 15, seed=3, width=32).total() == 15
    finally:
        torch.set_num_threads(threads)


def test_the_check_sees_a_lost_step_and_a_mixture(tmp_path):
    model = small(8)
    save_one(tmp_path / "piece", model, 3)
    assert survived(tmp_path / "piece", 3) == survived(tmp_path / "piece", 2) == 3
    with pytest.raises(AssertionError, match="step 4 was saved and step 3 is there"):
        survived(tmp_path / "piece", 4)
    weights = tmp_path / "piece" / checkpoint.WEIGHTS
    save_one(tmp_path / "other", model, 4)
    weights.write_bytes((tmp_path / "other" / checkpoint.WEIGHTS).read_bytes())
    with pytest.raises(AssertionError, match="weights of another step"):
        survived(tmp_path / "piece", 3)
