"""Pieces on disk: they survive a restart, damage of a neighbour, and a deletion; names cannot escape."""

from __future__ import annotations

import json
import time

import pytest

from gpt_core.errors import UserError
from music_transformer.midi import read_midi
from music_transformer.web import shelf as shelves
from music_transformer.web.shelf import Piece, Shelf, UnknownPiece, clean_name, shelf_folder

from .conftest import SAMPLE


@pytest.fixture
def shelf(tmp_path) -> Shelf:
    return Shelf(tmp_path / "someone")


def put(shelf: Shelf, name: str = "a", **facts) -> Piece:
    return shelf.add(Piece(id="", kind="upload", name=name, **facts), SAMPLE.read_bytes(), b"new part")


def test_another_process_finds_everything(shelf):
    one = put(shelf, "eins", seconds=3.5, facts={"report": ["a line"]})
    two = put(shelf, "zwei", parent=one.id)
    again = Shelf(shelf.folder)
    assert again.list() == [one, two] and again.get(two.id).parent == one.id
    assert again.midi(one.id) == SAMPLE.read_bytes() and again.midi(one.id, "new") == b"new part"
    assert again.score(one.id) == read_midi(SAMPLE)[0]
    sidecar = json.loads((shelf.folder / f"{one.id}.json").read_text("utf-8"))
    assert sidecar["name"] == "eins" and sidecar["facts"] == {"report": ["a line"]}


def test_delete_and_bring_back_also_after_a_restart(shelf):
    piece = put(shelf)
    shelf.delete(piece.id)
    assert shelf.list() == []
    again = Shelf(shelf.folder)
    assert again.list() == [] and again.restore(piece.id).deleted is None
    assert [p.id for p in again.list()] == [piece.id]


def test_the_trash_is_emptied_after_a_week(shelf):
    piece = put(shelf)
    shelf.change(piece.id, deleted=time.time() - 8 * 24 * 3600)
    assert list(shelf.folder.iterdir())
    Shelf(shelf.folder)
    assert not list(shelf.folder.iterdir())


@pytest.mark.parametrize("id", ["", "../../etc/passwd", "a" * 16, "x" * 15 + "/", None, 5, "..%2f" * 4])
def test_unknown_ids(shelf, id):
    put(shelf)
    with pytest.raises(UnknownPiece):
        shelf.get(id)


def test_a_damaged_sidecar_does_not_close_the_shelf(shelf):
    piece = put(shelf)
    (shelf.folder / "garbage.json").write_text("{", "utf-8")
    (shelf.folder / ("q" * 16 + ".json")).write_text('{"id": "other"}', "utf-8")
    (shelf.folder / ("r" * 16 + ".json")).write_text("[]", "utf-8")
    assert [p.id for p in Shelf(shelf.folder).list()] == [piece.id]


def test_names_are_one_printable_line():
    assert clean_name("a\x00b\n\tc\u202e") == "a b c" and clean_name(" \n") == "untitled"
    assert len(clean_name("ä" * 500)) == 120


def test_a_full_shelf_says_so(shelf, monkeypatch):
    put(shelf)
    monkeypatch.setattr(shelves, "MOST_PIECES", 1)
    with pytest.raises(UserError, match="room for 1"):
        put(shelf)
    monkeypatch.setattr(shelves, "MOST_PIECES", 9)
    monkeypatch.setattr(shelves, "MOST_BYTES", 10)
    with pytest.raises(UserError, match="MB; delete some"):
        put(shelf)


def test_the_folder_does_not_give_the_secret_away(tmp_path):
    one, two = shelf_folder(tmp_path, "secret one"), shelf_folder(tmp_path, "secret two")
    assert one != two and "secret" not in str(one.name) and len(one.name) == 32
