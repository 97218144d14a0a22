"""The floors of the house: imports point down, also inside functions; heavy libraries keep to their rooms."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# From the ground up. Each string is a room: one module, or one module split into several files. A module may import
# what stands on a lower floor and what stands in its own room. The longest pattern that fits a module counts; a module
# that none fits fails the test: give it a room. Within a row, core and music do not know each other.
FLOORS: list[list[str]] = [
    ["core.errors", "music.score", "music.version"],
    [
        "core.options",
        "core.commands",
        "core.codec",
        "core.device",
        "core.distributed",
        "core.positions core.relative*",
        "core.native_build",
    ],
    ["music.midi music.midi_*", "music.vocabulary", "music.pedals", "music.augment", "music.receipts", "music.samples"],
    ["core.config", "core.progress", "core.train_config", "core.sampling", "core.tokens", "core.edges"],
    [
        "core.cache",
        "core.optim",
        "core.fused",
        "music.events",
        "music.duplicates",
        "music.soundfonts",
        "music.downloads",
    ],
    ["core.model", "text.metrics", "text.bpe text.bpe_*", "text.chars", "music.audio", "music.grammar", "music.corpus"],
    ["core.packing", "core.attention", "core.checkpoint", "music.sample_bank", "music.splice", "music.meters"],
    ["core.eager", "core.native core.native_*", "music.ngram", "music.memorisation", "music.statistics music.overlap"],
    ["core.generate", "core.evaluate", "core.lens", "core.steps", "text.gpt2*", "music.models"],
    ["core.footprint", "core.start", "core.train core.trainer", "music.evaluation"],
    ["text.*", "music.baselines"],
    ["music.training", "music.compose*", "music.duet", "music.arcs music.arc_*", "music.next_events"],
    ["music.scorecard music.scorecard_*"],
    ["music.cli_*", "text.cli_*", "music.web.*"],
    ["music.cli", "text.cli", "music.web.*_tab"],
    ["music.web.page"],
    ["music.cli_serve"],
    ["music.__main__", "core.__main__", "text.__main__", "music.web", "app"],
]
SHORT = {"core": "gpt_core", "text": "gpt_core.text", "music": "music_transformer"}
PACKAGES = ("gpt_core", "music_transformer", "gpt_core.text")  # their __init__ only re-exports, lazily


def _modules() -> dict[str, Path]:
    files = [*ROOT.glob("gpt_core/**/*.py"), *ROOT.glob("music_transformer/**/*.py"), *ROOT.glob("app.py")]
    dotted = {".".join(f.relative_to(ROOT).with_suffix("").parts): f for f in files}
    return {name.removesuffix(".__init__"): file for name, file in sorted(dotted.items())}


MODULES = _modules()


def imports_of(source: str, name: str, *, types: bool = True) -> set[str]:
    """Every module a source imports, wherever the statement stands; ``from a import b`` gives a.b if that is one.

    Without ``types``, what stands under ``if TYPE_CHECKING`` does not count: it never runs.
    """
    found = set()
    tree = ast.parse(source)
    unrun = {id(n) for i in ast.walk(tree) if _type_checking(i) for b in i.body for n in ast.walk(b)}
    for node in ast.walk(tree):
        if id(node) in unrun and not types:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{name}: write imports in full"
            found |= {m if (m := f"{node.module}.{a.name}") in MODULES else node.module for a in node.names}
    return found - {name}


def _type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


SOURCES = {name: path.read_text(encoding="utf-8") for name, path in MODULES.items()}
GRAPH = {name: imports_of(text, name) for name, text in SOURCES.items()}
RUN_GRAPH = {name: imports_of(text, name, types=False) for name, text in SOURCES.items()}


def place(module: str) -> tuple[int, str] | None:
    """(floor, room) of a module."""
    fits = []
    for floor, rooms in enumerate(FLOORS):
        for room in rooms:
            for pattern in room.split():
                head, _, rest = pattern.partition(".")
                if fnmatchcase(module, f"{SHORT[head]}.{rest}" if rest else head):
                    fits.append((len(pattern), floor, room))
    return max(fits)[1:] if fits else None


def test_every_module_has_a_floor():
    homeless = [m for m in MODULES if m not in PACKAGES and place(m) is None]
    assert not homeless, f"give these a row in FLOORS: {homeless}"


def test_imports_point_down():
    wrong = []
    for module, imported in GRAPH.items():
        here = place(module)
        for other in sorted(imported & MODULES.keys()):
            there = place(other)
            if here and there and there[1] != here[1] and there[0] >= here[0]:
                wrong.append(f"{module} (floor {here[0]}) imports {other} (floor {there[0]})")
    assert not wrong, "\n".join(wrong)


def test_there_is_no_cycle():
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, "cycle: " + " -> ".join([*path, module])
        if module in done:
            return
        for other in sorted(RUN_GRAPH[module] & MODULES.keys()):
            visit(other, (*path, module))
        done.add(module)

    for module in MODULES:
        visit(module, ())


@pytest.mark.parametrize(
    ("who", "never"),
    [
        ("gpt_core.*", "music_transformer gradio mido pretty_midi"),
        ("gpt_core.[!t_]*", "gpt_core.text"),
        ("music_transformer.[!w]*", "gpt_core.text gradio"),
        ("music_transformer.[!m]*", "mido pretty_midi"),
        ("app", "mido pretty_midi"),
        *[(f"music_transformer.{m}", "torch") for m in ("score", "vocabulary", "pedals", "events", "midi*", "augment")],
        *[(f"music_transformer.{m}", "torch") for m in ("audio", "soundfonts", "sample_bank", "receipts", "samples*")],
        ("gpt_core.model", "gpt_core.sampling gpt_core.checkpoint gpt_core.train gpt_core.trainer"),
        ("gpt_core.generate", "gpt_core.codec"),
    ],
)
def test_who_never_imports_what(who, never):
    for module in MODULES:
        if fnmatchcase(module, who):
            for banned in never.split():
                guilty = [i for i in GRAPH[module] if i == banned or i.startswith(banned + ".")]
                assert not guilty, f"{module} imports {guilty}"


def test_the_check_sees_imports_inside_functions():
    source = "def f():\n    from gpt_core import errors\n    if True:\n        import torch.nn\n"
    assert imports_of(source, "music_transformer.x") == {"gpt_core.errors", "torch.nn"}
    source = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch\nelse:\n    import json\n"
    assert imports_of(source, "music_transformer.x") == {"typing", "torch", "json"}
    assert imports_of(source, "music_transformer.x", types=False) == {"typing", "json"}


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


# What --help needs: the packages, every command module, every module of settings.
LIGHT = [
    m
    for m in MODULES
    if m in (*PACKAGES, "gpt_core.errors", "gpt_core.codec", "gpt_core.options", "music_transformer.midi")
    or m.split(".")[-1].startswith("cli")
    or " = option(" in SOURCES[m]
]


def test_settings_and_commands_import_no_heavy_library():
    code = (
        "import importlib, json, sys\n"
        "heavy = ('torch', 'gradio', 'transformers', 'matplotlib', 'tensorboard', 'pandas')\n"
        "out = {}\n"
        f"for name in {LIGHT!r}:\n"
        "    importlib.import_module(name)\n"
        "    got = [h for h in heavy if h in sys.modules]\n"
        "    if got: out[name] = got; break\n"
        "print(json.dumps(out))"
    )
    assert json.loads(run(code)) == {}


def test_importing_does_no_work():
    names = [
        m for m in MODULES if not m.startswith("music_transformer.web") and not m.endswith("__main__") and m != "app"
    ]
    code = (
        "import importlib, logging, os, random, sys, threading, warnings\n"
        "import numpy, torch\n"
        "def state():\n"
        "    return [dict(os.environ), list(logging.root.handlers), logging.root.level, torch.get_num_threads(),\n"
        "            torch.get_default_dtype(), torch.get_default_device(), torch.initial_seed(), random.getstate(),\n"
        "            torch.is_grad_enabled(), threading.active_count(), os.getcwd(), sys.path[:]]\n"
        "before = state()\n"
        f"for name in {names!r}: importlib.import_module(name)\n"
        "assert state() == before, [(a, b) for a, b in zip(before, state()) if a != b]\n"
    )
    assert run(code) == ""
