"""The log of a run: one file beside each checkpoint folder."""

from __future__ import annotations

import io
import json

from gpt_core.progress import RunLog


def test_folders_that_differ_after_a_dot_have_logs_of_their_own(tmp_path):
    for number, name in enumerate(("lr-0.01", "lr-0.1", "plain")):
        with RunLog(tmp_path / name, screen=io.StringIO()) as log:
            log({"event": "stopped", "step": number, "folder": name})
    for number, name in enumerate(("lr-0.01", "lr-0.1", "plain")):
        (line,) = (tmp_path / f"{name}.log.jsonl").read_text("utf-8").splitlines()
        assert json.loads(line)["step"] == number
