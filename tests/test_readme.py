"""The README's commands and snippets run as printed.

Blocks marked ``sh`` or ``python`` run here, each in an empty folder with a copy of data/; with the word ``slow`` they
run among the slow tests. Blocks marked otherwise (``shell``, ``bat``) are for reading only.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = [
    (README[: m.start()].count("\n") + 1, *m.groups())
    for m in re.finditer(r"^```(sh|python)( slow)?\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)
]


def parameters():
    for line, language, slow, text in BLOCKS:
        yield pytest.param(language, text, id=f"line-{line}", marks=[pytest.mark.slow] if slow else [])


@pytest.fixture
def folder(tmp_path):
    shutil.copytree(ROOT / "data", tmp_path / "data", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


@pytest.mark.parametrize(("language", "text"), parameters())
def test_a_block_runs_as_printed(language, text, folder):
    environment = {**os.environ, "PATH": str(Path(sys.executable).parent) + os.pathsep + os.environ.get("PATH", "")}
    if language == "sh" and shutil.which("bash") is None:
        pytest.skip("no bash on this machine")
    command = ["bash", "-euo", "pipefail", "-c", text] if language == "sh" else [sys.executable, "-c", text]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Traceback" not in done.stderr
    for name in re.findall(r"(?:-o |--wav |\")(\w+\.(?:mid|wav))", text):
        made = list(folder.glob(Path(name).stem + "*" + Path(name).suffix))
        assert made and all(p.stat().st_size > 100 for p in made), f"{name} was not written"


def test_there_are_fast_and_slow_blocks_of_both_kinds():
    assert {(language, bool(slow)) for _, language, slow, _ in BLOCKS} >= {
        ("sh", False),
        ("sh", True),
        ("python", True),
    }


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target


def test_paths_named_in_the_table_exist():
    table = README.split("## Where things are")[1].split("\n\n")[1]
    for path in re.findall(r"`([\w./]+)`", table):
        assert (ROOT / path).exists(), path
