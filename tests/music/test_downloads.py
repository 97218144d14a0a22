"""Fetching a public corpus, from a server of our own on the loopback."""

from __future__ import annotations

import functools
import hashlib
import http.server
import io
import threading
import zipfile
from dataclasses import replace

import pytest

from gpt_core.errors import UserError
from music_transformer import downloads

FILES = {
    "set-1/2004/a.midi": b"MThd first",
    "set-1/2004/b.midi": b"MThd second",
    "set-1/split.csv": b"midi_filename,split\n",
    "set-1/LICENSE": b"free",
    "set-1/run.exe": b"no",
    "../escape.midi": b"MThd",
}


def make_zip() -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        for name, data in FILES.items():
            archive.writestr(name, data)
    return sink.getvalue()


@pytest.fixture
def served(tmp_path):
    """(recipe that points at a local server, folder it serves, paths asked for)."""
    root, asked = tmp_path / "served", []
    root.mkdir()
    (root / "set.zip").write_bytes(make_zip())

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            asked.append(self.path)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(root)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    checksum = hashlib.sha256(make_zip()).hexdigest()
    url = f"http://127.0.0.1:{server.server_address[1]}/set.zip"
    yield replace(downloads.RECIPES["maestro"], url=url, archive=checksum), root, asked
    server.shutdown()
    server.server_close()


def test_fetched_once_checked_and_unpacked(served, tmp_path, monkeypatch):
    recipe, _, asked = served
    monkeypatch.setitem(downloads.RECIPES, "maestro", recipe)
    folder = downloads.fetch("maestro", tmp_path / "cache")
    found = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
    assert found == ["escape.midi", "set-1/2004/a.midi", "set-1/2004/b.midi", "set-1/LICENSE", "set-1/split.csv"]
    assert (folder / "set-1/2004/a.midi").read_bytes() == FILES["set-1/2004/a.midi"]
    assert downloads.fetch("maestro", tmp_path / "cache") == folder and asked == ["/set.zip"]
    assert sorted(p.name for p in (tmp_path / "cache").iterdir()) == ["maestro"]


def test_another_file_under_the_address_is_refused(served, tmp_path, monkeypatch):
    recipe, root, _ = served
    monkeypatch.setitem(downloads.RECIPES, "maestro", recipe)
    (root / "set.zip").write_bytes(make_zip() + b"!")
    with pytest.raises(UserError, match="known checksum"):
        downloads.fetch("maestro", tmp_path / "cache")
    assert not [p for p in (tmp_path / "cache").rglob("*") if p.is_file()]


def test_contents_are_checked_where_the_archive_is_packed_anew(served, tmp_path, monkeypatch):
    recipe, _, _ = served
    lines = [
        f"{n} {hashlib.sha256(d).hexdigest()}\n" for n, d in (("a.midi", b"MThd first"), ("b.midi", b"MThd second"))
    ]
    known = hashlib.sha256("".join(lines).encode()).hexdigest()
    members = r"set-1/2004/.*"
    monkeypatch.setitem(downloads.RECIPES, "maestro", replace(recipe, archive=None, contents=known, members=members))
    assert downloads.fetch("maestro", tmp_path / "one").is_dir()
    monkeypatch.setitem(downloads.RECIPES, "maestro", replace(recipe, archive=None, contents="0" * 64, members=members))
    with pytest.raises(UserError, match="not the maestro this version knows"):
        downloads.fetch("maestro", tmp_path / "two")


def test_no_network_is_one_sentence(tmp_path, monkeypatch):
    dead = replace(downloads.RECIPES["maestro"], url="http://127.0.0.1:9/set.zip")
    monkeypatch.setitem(downloads.RECIPES, "maestro", dead)
    with pytest.raises(UserError, match="cannot be fetched") as caught:
        downloads.fetch("maestro", tmp_path)
    assert "\n" not in str(caught.value) and "give the folder" in str(caught.value)


def test_what_is_no_zip_is_one_sentence(served, tmp_path, monkeypatch):
    recipe, root, _ = served
    (root / "set.zip").write_bytes(b"not a zip")
    monkeypatch.setitem(downloads.RECIPES, "maestro", replace(recipe, archive=None, contents="0" * 64))
    with pytest.raises(UserError, match="cannot be unpacked"):
        downloads.fetch("maestro", tmp_path / "cache")


def test_pop909_takes_the_arrangements_and_not_their_drafts():
    import re

    members = downloads.RECIPES["pop909"].members
    assert re.fullmatch(members, "POP909-Dataset-master/POP909/001/001.mid")
    assert not re.fullmatch(members, "POP909-Dataset-master/POP909/001/versions/001-v1.mid")
