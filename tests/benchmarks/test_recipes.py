"""Recipes compared at equal wall time: the speed read from a log by hand, and every arm a command that exists."""

from __future__ import annotations

import json

import pytest

from benchmarks import recipes
from music_transformer.cli import main


def test_speed_is_the_median_of_a_probe_without_its_first_steps(tmp_path):
    times = {10: 0.0, 20: 90.0, 30: 100.0, 40: 110.0, 50: 115.0, 60: 120.0, 70: 170.0}
    rows = [{"time": t, "event": "step", "step": s} for s, t in times.items()]
    log = tmp_path / "arm.log.jsonl"
    log.write_text("".join(json.dumps(r) + "\n" for r in [{"event": "model"}, *rows]))
    assert recipes.seconds_a_step(tmp_path / "arm") == pytest.approx(0.5)  # of 0.5, 0.5 and 5


@pytest.mark.parametrize("arm", recipes.ARMS)
def test_every_arm_is_a_command_of_train(tmp_path, capsys, arm):
    args = type("Args", (), {"shards": tmp_path, "compile": True})
    line = recipes.command(args, arm, tmp_path / "out", 7)
    assert main(line[3:]) == 1  # understood (2 would be bad usage), but there are no shards
    assert str(tmp_path) in capsys.readouterr().err
