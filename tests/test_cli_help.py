"""Every command explains itself: quickly, without heavy libraries, with the flags of its settings."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys

import pytest

COMMANDS = {"music-transformer": "music_transformer", "gpt-core": "gpt_core.text"}
RUN_AS = {"music_transformer": "music_transformer", "gpt_core.text": "gpt_core"}  # python -m
CODE = """
import contextlib, importlib, io, json, sys
from {package}.cli import main
out = {{}}
for argv in {argvs!r}:
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        try:
            status = main(argv)
        except SystemExit as stop:
            status = stop.code
    heavy = [m for m in ("torch", "gradio", "transformers") if m in sys.modules]
    out[" ".join(argv)] = [status or 0, text.getvalue(), heavy]
print(json.dumps(out))
"""


def present(package: str) -> bool:
    return importlib.util.find_spec(package) is not None and importlib.util.find_spec(f"{package}.cli") is not None


def verbs(package: str) -> list[str]:
    cli = importlib.import_module(f"{package}.cli")
    return [v.name for v in cli.VERBS if importlib.util.find_spec(f"{package}.{v.module}") is not None]


def ask(package: str, argvs: list[list[str]]) -> dict[str, list]:
    import json

    code = CODE.format(package=package, argvs=argvs)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


PACKAGES = [pytest.param(package, id=command) for command, package in COMMANDS.items() if present(package)]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_verb_has_help_and_none_loads_a_heavy_library(package):
    names = verbs(package)
    answers = ask(package, [["--help"], *[[name, "--help"] for name in names]])
    status, text, _ = answers["--help"]
    assert status == 0 and all(f"\n    {name}" in text for name in names)
    for name in names:
        status, text, heavy = answers[f"{name} --help"]
        assert status == 0, name
        assert text.startswith("usage: ") and name in text.splitlines()[0], name
        assert not heavy, f"{name} --help imports {heavy}"


@pytest.mark.parametrize("package", PACKAGES)
def test_python_m_is_the_same_command(package):
    (command,) = [c for c, p in COMMANDS.items() if p == package]
    done = subprocess.run([sys.executable, "-m", RUN_AS[package], "--help"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith(f"usage: {command} ")
    done = subprocess.run([sys.executable, "-m", RUN_AS[package], "--version"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.split()[0] == command and done.stdout.split()[1][0].isdigit()


@pytest.mark.parametrize("package", PACKAGES)
def test_bad_usage_is_status_2_and_a_missing_file_is_status_1(package):
    done = subprocess.run([sys.executable, "-m", RUN_AS[package], "no-such-verb"], capture_output=True, text=True)
    assert done.returncode == 2 and "no-such-verb" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("verb", ["inspect", "encode", "continue", "receipt", "render"])
def test_a_missing_file_is_one_sentence(verb, tmp_path):
    if verb not in verbs("music_transformer"):
        pytest.skip(f"{verb} is not in this version")
    command = [sys.executable, "-m", "music_transformer", verb, "absent.mid"]
    command += ["-o", "out.wav"] if verb == "render" else ["-o", "out.mid"] if verb == "continue" else []
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1 and "absent.mid" in done.stderr
    assert not list(tmp_path.iterdir())


# verb -> the settings it obeys; each option of them must be a flag with its help, its range and its default.
SETTINGS = {
    "music_transformer": {
        "continue": ["music_transformer.compose_config:ComposeConfig", "gpt_core.sampling:Sampling"],
        "generate": ["music_transformer.compose_config:ComposeConfig", "gpt_core.sampling:Sampling"],
        "render": ["music_transformer.soundfonts:RenderSettings"],
        "corpus": ["music_transformer.corpus:CorpusConfig"],
        "train": ["gpt_core.train_config:TrainConfig"],
        "scorecard": ["music_transformer.scorecard_config:ScorecardConfig"],
        "serve": ["music_transformer.web.settings:ServeConfig"],
    },
    "gpt_core.text": {
        "complete": ["gpt_core.sampling:Sampling"],
        "train": ["gpt_core.train_config:TrainConfig"],
    },
}
NOT_A_FLAG = {("generate", "at")}  # there is nothing to continue


@pytest.mark.parametrize("package", PACKAGES)
def test_flags_come_from_the_settings(package):
    from gpt_core.options import specs

    wanted = {v: where for v, where in SETTINGS[package].items() if v in verbs(package)}
    answers = ask(package, [[verb, "--help"] for verb in wanted])
    for verb, places in wanted.items():
        text = " ".join(answers[f"{verb} --help"][1].split())
        for place in places:
            module, _, name = place.partition(":")
            for spec in specs(getattr(importlib.import_module(module), name)):
                if (verb, spec.name) in NOT_A_FLAG:
                    continue
                flag = f"--[no-]{spec.flag[2:]}" if spec.type is bool else spec.flag
                shown = flag in text or spec.flag in text
                assert shown, f"{verb} lacks {spec.flag} of {name}"
                assert f"(default: {spec.default})" in text, f"{verb} {spec.flag}"


@pytest.mark.parametrize(
    ("verb", "rarely"), [("inspect", True), ("continue", True), ("serve", False), ("train", False)]
)
def test_commands_that_end_soon_leave_the_garbage(verb, rarely):
    code = f"import gc, sys\nfrom music_transformer.cli import main\nsys.argv[1:] = [{verb!r}, '--help']\n"
    code += "try: main()\nexcept SystemExit: print(gc.get_threshold()[0])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert (int(out.split()[-1]) == 100_000) is rarely
