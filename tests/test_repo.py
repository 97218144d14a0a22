"""The repository itself: no stray paths, no registry hosts, no huge files, files and functions of a readable size."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LARGEST = 30_000_000  # bytes of one file
LONGEST_FILE, LONGEST_FUNCTION, MOST_PARAMETERS = 300, 60, 5
# Joined here, so that this file does not contain what it forbids.
_HOSTS = ["pypi" + ".org", "python" + "hosted", "download." + "pytorch", "registry." + "npmjs", "deb." + "debian"]
_FOLDERS = ["/" + "work/", "/" + "root/", "/" + "farm/", "/" + "home/", "/" + "Users/", "/" + "opt/pypi"]
FORBIDDEN = re.compile("|".join(re.escape(w) for w in [*_HOSTS, *_FOLDERS]))


def tracked() -> list[Path]:
    """The files of the repository: git's list, or in an unpacked archive everything but caches."""
    try:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
        paths = [ROOT / name for name in listed.decode().split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        paths = [
            p for p in ROOT.rglob("*") if not any(part.startswith((".", "__py")) for part in p.relative_to(ROOT).parts)
        ]
    return [p for p in paths if p.is_file()]


FILES = tracked()
SOURCES = [p for p in FILES if p.suffix == ".py"]


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_the_list_is_not_empty():
    assert len(SOURCES) > 20


def test_no_machine_paths_and_no_registry_hosts():
    found = []
    for path in FILES:
        data = path.read_bytes()
        if b"\0" in data[:8000]:
            continue
        for number, line in enumerate(data.decode("utf-8", errors="replace").splitlines(), start=1):
            if FORBIDDEN.search(line):
                found.append(f"{name(path)}:{number}: {line.strip()[:100]}")
    assert not found, "\n".join(found)


def test_no_huge_files():
    assert not [f"{name(p)}: {p.stat().st_size:,} bytes" for p in FILES if p.stat().st_size > LARGEST]


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_a_source_file_is_readable(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LONGEST_FILE, "split the file: it does more than one thing"
    tree = ast.parse(text)
    if text.strip():
        assert ast.get_docstring(tree), "the first line says what the file is"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = node.end_lineno - node.lineno + 1
            assert lines <= LONGEST_FUNCTION, f"{node.name} has {lines} lines"


@pytest.mark.parametrize(
    "path", [p for p in SOURCES if name(p).startswith(("gpt_core/", "music_transformer/"))], ids=name
)
def test_public_functions_have_few_positional_parameters(path):
    """Keyword-only parameters are free: they name themselves at the call."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            count = len([a for a in node.args.posonlyargs + node.args.args if a.arg not in ("self", "cls")])
            assert count <= MOST_PARAMETERS, (
                f"{node.name} takes {count} positional parameters: use a settings dataclass"
            )


def test_no_utils_module():
    assert not [name(p) for p in SOURCES if p.name in ("utils.py", "util.py", "helpers.py", "misc.py", "common.py")]


def test_direct_dependencies_are_listed_with_their_licences():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = project["dependencies"] + [d for e in ("app", "train") for d in project["optional-dependencies"][e]]
    listed = (ROOT / "THIRD_PARTY.md").read_text(encoding="utf-8")
    missing = [d for d in needed if f"| {re.split('[^A-Za-z0-9_-]', d)[0].lower().replace('_', '-')} |" not in listed]
    assert not missing, f"run python tools/licences.py and mend THIRD_PARTY.md: {missing}"
    assert not re.search(r"\| A?GPL", listed)
