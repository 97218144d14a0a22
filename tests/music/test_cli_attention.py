"""``music-transformer attention``: each kind of file from a MIDI file, and one sentence where something is wrong."""

from __future__ import annotations

import json

import pytest

from gpt_core import checkpoint
from music_transformer.cli import main
from music_transformer.events import decode
from music_transformer.midi import write_midi
from tests.music.test_arcs import IDS, model_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    home = tmp_path_factory.mktemp("attention")
    made = model_of()
    checkpoint.save(home / "model", made.model, made.codec, {})
    write_midi(decode(IDS), home / "in.mid")
    return home


def ask(folder, *more: str) -> int:
    return main(["attention", str(folder / "in.mid"), "--model", str(folder / "model"), *more])


@pytest.mark.parametrize("kind", ["svg", "png", "json", "html"])
def test_every_kind_of_file_is_written(kind, folder, capsys):
    out = folder / f"arcs.{kind}"
    assert ask(folder, "--layer", "1", "--at", "0.5", "-o", str(out)) == 0
    start = {"svg": b"<svg ", "png": b"\x89PNG", "json": b"{", "html": b"<!doctype html>"}[kind]
    assert out.read_bytes().startswith(start)
    said = capsys.readouterr().out
    assert "E4 at 0.50 s looks at:" in said and "All 8 events were in reach." in said and "does not explain" in said


def test_the_flags_reach_the_question(folder):
    out = folder / "q.json"
    flags = ["--head", "1", "--direction", "looked-at-by", "--group", "event", "--top-k", "2", "--first", "hide"]
    assert ask(folder, "--layer", "1", "--at", "0", *flags, "-o", str(out)) == 0
    data = json.loads(out.read_text("utf-8"))
    assert data["query"]["heads"] == [1] and data["query"]["direction"] == "looked-at-by"
    assert data["query"]["rule"] == {"top_k": 2, "mass": 0.9, "threshold": 0.0, "first": "hide"}
    per_token = {m["place"] for m in data["mass"]}
    assert per_token == {1, 2, 6}  # C4's velocity, note-on and note-off, each by itself
    assert data["model"]["sha"] == checkpoint.file_sha(folder / "model" / "model.safetensors")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--layer", "2", "-o", "x.svg"], "there is no layer 2; the model has layers 0 to 1"),
        (["--head", "4", "-o", "x.svg"], "there is no head 4; this view has heads 0 to 1"),
        (["--head", "1", "--view", "mean", "-o", "x.svg"], "joins all heads"),
        (["--at", "-1", "-o", "x.svg"], "--at is -1 seconds"),
        (["--at", "nan", "-o", "x.svg"], "--at is nan seconds"),
        (["--top-k", "0", "-o", "x.svg"], "--top-k is 0"),
        (["-o", "x.pdf"], "must end in one of .svg, .png, .json, .html"),
    ],
)
def test_mistakes_are_one_sentence(flags, said, folder, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert ask(folder, *flags) == 1
    err = capsys.readouterr().err
    assert said in err and len(err.strip().splitlines()) == 1 and not list(tmp_path.iterdir())
