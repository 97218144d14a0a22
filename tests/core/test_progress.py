"""The log of a run: one file beside each checkpoint folder."""

from __future__ import annotations

import io
import json

from gpt_core.progress import RunLog, line


def test_folders_that_differ_after_a_dot_have_logs_of_their_own(tmp_path):
    for number, name in enumerate(("lr-0.01", "lr-0.1", "plain")):
        with RunLog(tmp_path / name, screen=io.StringIO()) as log:
            log({"event": "stopped", "step": number, "folder": name})
    for number, name in enumerate(("lr-0.01", "lr-0.1", "plain")):
        (line,) = (tmp_path / f"{name}.log.jsonl").read_text("utf-8").splitlines()
        assert json.loads(line)["step"] == number


def test_lines_name_what_the_model_reads():
    model = {"event": "model", "parameters": 4918784, "train_tokens": 23165793, "memory_gb": 1.4}
    assert (
        line(model, "event") == "model  4,918,784 parameters  23,165,793 events to learn from  about 1.4 GB of memory"
    )
    step = {"event": "step", "step": 20, "loss": 2.5, "tokens_per_second": 14200.4, "seconds_left": 3725.0}
    assert line(step, "event") == "step 20  loss 2.5000  14,200 events/s  1:02:05 left"
    assert "nats/event" in line({"event": "validation", "step": 20, "validation": 2.4, "best": 2.3}, "event")
    assert "nats/token" in line({"event": "validation", "step": 20, "validation": 2.4, "best": 2.3})
