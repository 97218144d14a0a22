"""Where a run begins: what is asked for and can't be is refused; what changes on the way is told and recorded."""

from __future__ import annotations

import dataclasses
import signal

import pytest

from gpt_core import checkpoint
from gpt_core import train as loop
from gpt_core.errors import UserError
from gpt_core.optim import Optimizers
from gpt_core.start import Start

from .test_train import QUICK, run, same

pytestmark = pytest.mark.usefixtures("toy_codec")


def test_a_shape_that_was_asked_for_and_is_not_there_is_refused(tmp_path):
    run(tmp_path / "m", dataclasses.replace(QUICK, max_steps=1))
    here = checkpoint.load(tmp_path / "m").config
    for start in (Start(tmp_path / "m", resume=True), Start(tmp_path / "new", init_from=tmp_path / "m")):
        assert dataclasses.replace(start, asked={"n_layer": here.n_layer, "n_embd": here.n_embd}).load()
        with pytest.raises(UserError, match=f"n_layer 5 was asked for and .*m has {here.n_layer}"):
            dataclasses.replace(start, asked={"n_layer": 5}).load()


def test_one_origin_at_a_time(tmp_path):
    run(tmp_path / "a", dataclasses.replace(QUICK, max_steps=1))
    run(tmp_path / "b", dataclasses.replace(QUICK, max_steps=1))
    with pytest.raises(UserError, match="give one of them"):
        Start(tmp_path / "a", resume=True, init_from=tmp_path / "b").load()
    assert Start(tmp_path / "a").load() is None


def test_a_run_goes_on_with_the_data_it_had(tmp_path):
    run(tmp_path / "m", dataclasses.replace(QUICK, max_steps=1))
    loaded = checkpoint.load(tmp_path / "m")
    old, new = {"source": "bach", "fingerprint": "a" * 64}, {"source": "satie", "fingerprint": "b" * 64}
    loaded.run.update(data=old, init_from="piano")
    again = Start(tmp_path / "m", resume=True)
    assert again.record(loaded, old) == {"data": old, "init_from": "piano"}
    with pytest.raises(UserError, match=r"learned from bach \(fingerprint a{12}\) .* satie \(b{12}\).*--init-from"):
        again.record(loaded, new)
    other = Start(tmp_path / "n", init_from=tmp_path / "m")
    assert other.record(loaded, new) == {"data": new, "init_from": str(tmp_path / "m")}, "a new run may"


def test_settings_that_change_on_the_way_are_told_and_recorded(tmp_path):
    rows: list[dict] = []
    run(tmp_path / "m", dataclasses.replace(QUICK, max_steps=2))
    run(tmp_path / "m", dataclasses.replace(QUICK, max_steps=4, lr=0.01, log_every=7), resume=True, log=rows.append)
    told = {"event": "resumed", "step": 2, "max_steps": "2 -> 4", "lr": "0.02 -> 0.01"}
    assert rows[0] == told
    run(tmp_path / "m", dataclasses.replace(QUICK, max_steps=5, lr=0.01), resume=True)
    assert checkpoint.load(tmp_path / "m").run["resumed"] == [
        {"step": 2, "changed": {"max_steps": [2, 4], "lr": [0.02, 0.01]}},
        {"step": 4, "changed": {"max_steps": [4, 5]}},
    ]


def test_a_finished_run_says_so_and_stays_as_it_is(tmp_path):
    rows: list[dict] = []
    before, _ = run(tmp_path / "m", dataclasses.replace(QUICK, max_steps=3))
    record = (tmp_path / "m" / "run.json").read_text()
    after, _ = run(tmp_path / "m", dataclasses.replace(QUICK, max_steps=2, seed=9), resume=True, log=rows.append)
    assert rows == [{"event": "nothing to do", "step": 3, "max_steps": 2}]
    assert (tmp_path / "m" / "run.json").read_text() == record and same(before, after)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_step_that_does_not_end_is_left_when_asked_again_later(tmp_path, monkeypatch, number):
    clock = [100.0]
    monkeypatch.setattr(loop.time, "monotonic", lambda: clock[0])

    def endless(self, step):
        signal.raise_signal(number)
        if number == signal.SIGTERM:
            signal.raise_signal(number)  # torchrun passes on what its processes were told already
        clock[0] += 11
        signal.raise_signal(number)
        raise AssertionError("still in the step")

    monkeypatch.setattr(Optimizers, "step", endless)
    rows: list[dict] = []
    run(tmp_path / "m", QUICK, log=rows.append)
    assert rows[-1]["event"] == "stopped" and rows[-1]["step"] == 0
