"""The serve command refuses what it can't use before it loads anything."""

import pytest

from music_transformer.cli import main


def refusal(capsys, *arguments):
    assert main(["serve", "--no-open-browser", *map(str, arguments)]) == 1
    shown = capsys.readouterr()
    assert not shown.out and shown.err.count("\n") == 1
    return shown.err


@pytest.mark.parametrize("name", ["a file", "a file/below", "\0"])
def test_a_folder_that_can_not_be_is_refused_at_the_start(tmp_path, capsys, name):
    (tmp_path / "a file").write_text("here")
    said = refusal(capsys, "--folder", tmp_path / name)
    assert "pieces can't be kept in" in said and "choose another --folder" in said
    assert (tmp_path / "a file").read_text() == "here"
