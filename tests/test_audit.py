"""The audit of pinned packages: finds a known fault, and is one sentence where the register can't be reached."""

from __future__ import annotations

import importlib.util
import io
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def audit():
    spec = importlib.util.spec_from_file_location("audit", ROOT / "tools" / "audit.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def pins(tmp_path) -> list[str]:
    file = tmp_path / "constraints.txt"
    file.write_text("# pins\nnumpy==2.4.0\ntorch==2.13.0 ; python_version > '3'\nloose>=1\n--find-links x\n")
    return ["--constraints", str(file)]


def answering(audit, monkeypatch, answer: object) -> list[dict]:
    asked = []

    def urlopen(request, timeout):
        asked.append(json.loads(request.data))
        if isinstance(answer, Exception):
            raise answer
        return io.BytesIO(json.dumps(answer).encode())

    monkeypatch.setattr(audit.urllib.request, "urlopen", urlopen)
    return asked


def test_a_known_fault_is_named_and_fails(audit, monkeypatch, pins, capsys):
    asked = answering(audit, monkeypatch, {"results": [{}, {"vulns": [{"id": "PYSEC-1"}]}]})
    assert audit.main(pins) == 1
    assert [(q["package"]["name"], q["version"]) for q in asked[0]["queries"]] == [
        ("numpy", "2.4.0"),
        ("torch", "2.13.0"),
    ]
    assert "torch 2.13.0: PYSEC-1" in capsys.readouterr().out


def test_no_fault_passes(audit, monkeypatch, pins, capsys):
    answering(audit, monkeypatch, {"results": [{}, {}]})
    assert audit.main(pins) == 0 and "2 pinned packages, 0 with" in capsys.readouterr().out


@pytest.mark.parametrize("answer", [OSError("no route"), TimeoutError("slow"), {}, {"results": [{}]}])
def test_an_unreachable_register_is_one_sentence(audit, monkeypatch, pins, capsys, answer):
    answering(audit, monkeypatch, answer)
    assert audit.main(pins) == 0
    said = capsys.readouterr().out
    assert said.startswith("audit skipped") and said.count("\n") == 1


def test_the_pins_of_the_repository_are_read(audit):
    names = dict(audit.pinned((ROOT / "constraints.txt").read_text("utf-8")))
    assert len(names) > 60 and names["torch"]
