"""inspect, encode and decode, and how the command line behaves at its edges."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import numpy as np
import pytest

from gpt_core.errors import UserError
from music_transformer import cli_files
from music_transformer.cli import main
from music_transformer.events import decode, encode
from music_transformer.midi import read_midi, write_midi
from tests.music.test_events import FIGURE, FIGURE_IDS


@pytest.fixture
def figure(tmp_path):
    path = tmp_path / "figure.mid"
    write_midi(FIGURE, path)
    return str(path)


def test_inspect(figure, capsys):
    assert main(["inspect", figure]) == 0
    assert capsys.readouterr().out.startswith("4 notes")
    assert main(["inspect", figure, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"ok", "notes", "end_seconds", "report", "error"} <= found.keys()
    assert found["ok"] is True and found["notes"] == 4 and found["end_seconds"] == 3.0 and found["error"] is None
    assert isinstance(found["report"], list) and all(isinstance(line, str) for line in found["report"])


def test_inspect_of_no_music_is_one_sentence_and_status_1(tmp_path, capsys):
    bad = tmp_path / "bad.mid"
    bad.write_bytes(b"RIFFxxxxWAVE")
    assert main(["inspect", str(bad)]) == 1
    out, err = capsys.readouterr()
    assert out == "" and len(err.splitlines()) == 1 and "bad.mid" in err
    assert main(["inspect", str(bad), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] is False and found["notes"] == 0 and "bad.mid" in found["error"] and found["report"] == []


def test_encode_in_every_shape(figure, tmp_path, capsys):
    main(["encode", figure])
    assert [int(i) for i in capsys.readouterr().out.split()] == FIGURE_IDS
    main(["encode", figure, "--json"])
    assert json.loads(capsys.readouterr().out) == FIGURE_IDS
    main(["encode", figure, "--events"])
    assert capsys.readouterr().out.splitlines()[:3] == ["VELOCITY 78", "NOTE_ON 60", "TIME_SHIFT 500 ms"]
    assert main(["encode", figure, "--one-hot", str(tmp_path / "hot.npz")]) == 0
    with np.load(tmp_path / "hot.npz") as arrays:
        assert arrays["one_hot"].shape == (15, 391) and arrays["one_hot"].dtype == bool
        assert arrays["one_hot"].argmax(1).tolist() == arrays["ids"].tolist() == FIGURE_IDS


def test_decode_from_json_one_hot_and_stdin(figure, tmp_path, monkeypatch, capsys):
    (tmp_path / "ids.json").write_text(json.dumps(FIGURE_IDS))
    main(["encode", figure, "--one-hot", str(tmp_path / "hot.npz")])
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(FIGURE_IDS)))
    for source in (tmp_path / "ids.json", tmp_path / "hot.npz", "-"):
        out = tmp_path / "out.mid"
        assert main(["decode", str(source), "-o", str(out)]) == 0
        score, _ = read_midi(out)
        assert encode(score) == FIGURE_IDS and len(score.notes) == len(decode(FIGURE_IDS).notes)
        out.unlink()
    assert "4 notes, 3.00 seconds" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "words"),
    [("{", "not JSON"), ('{"a": 1}', "list of whole numbers"), ("[1.5]", "list of whole numbers"), ("[true]", "list"),
     ("[391]", "391 at position 0"), ("[-1]", "-1 at position 0"), ("[" * 100_000, "not JSON"),
     (f"[{10**40}]", "whole numbers")],
)  # fmt: skip
def test_decode_refuses_what_are_no_ids(text, words, tmp_path, capsys):
    (tmp_path / "ids.json").write_text(text)
    assert main(["decode", str(tmp_path / "ids.json"), "-o", str(tmp_path / "out.mid")]) == 1
    err = capsys.readouterr().err
    assert words in err and len(err.splitlines()) == 1
    assert not (tmp_path / "out.mid").exists()


@pytest.mark.parametrize("data", [b"no zip", b"PK\x03\x04half"])
def test_decode_refuses_what_is_no_one_hot_file(data, tmp_path, capsys):
    (tmp_path / "x.npz").write_bytes(data)
    assert main(["decode", str(tmp_path / "x.npz"), "-o", str(tmp_path / "out.mid")]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1
    np.savez(tmp_path / "y.npz", other=[1])
    assert main(["decode", str(tmp_path / "y.npz"), "-o", str(tmp_path / "out.mid")]) == 1
    assert "one_hot" in capsys.readouterr().err


def test_a_folder_that_is_not_there_is_one_sentence(figure, tmp_path, capsys):
    assert main(["encode", figure, "--one-hot", str(tmp_path / "no" / "x.npz")]) == 1
    assert "cannot be written" in capsys.readouterr().err


def test_ctrl_c_is_130_without_a_traceback(monkeypatch, capsys):
    def stop(args):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli_files, "run_inspect", stop)
    assert main(["inspect", "x.mid"]) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_a_reader_that_has_gone_is_no_error(figure):
    code = f"import sys; from music_transformer.cli import main; sys.exit(main(['encode', {figure!r}, '--events']))"
    done = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    done.stdout.close()
    assert done.stderr.read() == b"" and done.wait() == 0


def test_user_errors_are_a_sentence(monkeypatch, capsys):
    def refuse(args):
        raise UserError("the piece is 1,100 events long but the model reads 1,024")

    monkeypatch.setattr(cli_files, "run_inspect", refuse)
    assert main(["inspect", "x.mid"]) == 1
    assert capsys.readouterr().err == "music-transformer: the piece is 1,100 events long but the model reads 1,024\n"
