"""The public names: exactly these, each found where it is promised, and cheap until used."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import gpt_core
import music_transformer

MUSIC = [
    *("CorpusConfig", "EventCodec", "Grammar", "GrammarConfig", "ImportReport", "Note", "Pedal", "Score", "Tempo"),
    *(
        "TimeSignature",
        "attention",
        "build_corpus",
        "continue_score",
        "crop",
        "decode",
        "describe",
        "encode",
        "fold_pedals",
    ),
    *("from_one_hot", "generate_score", "load", "make_score", "normalize", "one_hot", "read_midi", "render_wav"),
    *("stretch", "token_notes", "transpose", "write_midi"),
]
CORE = [
    *(
        "Checkpoint",
        "Codec",
        "GPT",
        "GPTConfig",
        "KVCache",
        "PRESETS",
        "Sampling",
        "Shard",
        "ShardWriter",
        "TrainConfig",
    ),
    *("UserError", "codec_from_dict", "generators_for", "load", "save"),
]
README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
BOTH = [pytest.param(music_transformer, MUSIC, id="music"), pytest.param(gpt_core, CORE, id="core")]


@pytest.mark.parametrize(("package", "names"), BOTH)
def test_the_public_names_are_these(package, names):
    assert sorted(package.__all__) == sorted(names)
    assert set(names) <= set(dir(package))


@pytest.mark.parametrize(("package", "names"), BOTH)
def test_every_public_name_is_there_and_explained(package, names):
    for name in names:
        thing = getattr(package, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert inspect.getdoc(thing), f"{name} has no docstring"


@pytest.mark.parametrize(("package", "names"), BOTH)
def test_an_unknown_name_is_an_attribute_error(package, names):
    with pytest.raises(AttributeError, match="no attribute 'composer'"):
        _ = package.composer


def test_public_functions_are_typed():
    for package, names in ((music_transformer, MUSIC), (gpt_core, CORE)):
        for name in names:
            thing = getattr(package, name)
            if inspect.isfunction(thing):
                signature = inspect.signature(thing)
                assert signature.return_annotation is not inspect.Signature.empty, name
                bare = [p.name for p in signature.parameters.values() if p.annotation is inspect.Parameter.empty]
                assert not bare, f"{name}: {bare}"


def test_the_readme_uses_public_names_only():
    snippets = "".join(re.findall(r"```python.*?```", README, flags=re.DOTALL))
    used = set(re.findall(r"\bmt\.(\w+)", snippets))
    assert used >= {"load", "read_midi", "continue_score", "write_midi", "render_wav"}
    assert used <= set(MUSIC)


def test_importing_the_packages_is_cheap():
    code = (
        "import sys, gpt_core, music_transformer; print([m for m in ('torch', 'numpy', 'gradio') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
