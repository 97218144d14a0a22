"""A full disk, a model folder replaced under the running server, SIGTERM and SIGKILL in the middle: nothing saved is lost."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import shutil
import signal
import time
from pathlib import Path

import httpx
import pytest
from starlette.testclient import TestClient

from music_transformer.midi import read_midi
from music_transformer.web.shelf import Piece, Shelf

from .abuse import LONG, PATIENCE, Server, Witness, listening, take_of, upload
from .conftest import SAMPLE, lines_of

pytestmark = pytest.mark.abuse


@pytest.fixture
def server(dense_model_folder, tmp_path):
    made = Server(dense_model_folder, tmp_path)
    yield made
    made.end()


@pytest.fixture
def disk(monkeypatch):
    """A disk with room for so many bytes; writing beyond them leaves half a file, as a real one does."""
    real = Path.write_bytes
    room = {"bytes": 10**9}

    def write(self: Path, data: bytes) -> int:
        if len(data) > room["bytes"]:
            real(self, data[: room["bytes"]])
            room["bytes"] = 0
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self))
        room["bytes"] -= len(data)
        return real(self, data)

    monkeypatch.setattr(Path, "write_bytes", write)
    return room


def files_of(session) -> dict[str, bytes]:
    return {str(f): f.read_bytes() for f in session.root.rglob("*") if f.is_file()}


@pytest.mark.parametrize("room", [0, 100, 5_000, 12_000])
def test_a_full_disk_while_takes_are_saved(app, client, session, disk, room):
    piece = client.post("/mt/pieces", params={"name": "a"}, content=SAMPLE.read_bytes()).json()
    with TestClient(app) as other:
        other.post("/mt/pieces", content=SAMPLE.read_bytes())
        before = files_of(session)
        disk["bytes"] = room
        end = lines_of(client.post("/mt/compose", json={"seconds": 2, "seed": 7, "piece": piece["id"], "takes": 2}))[-1]
        assert end["type"] == "error" and "No space left on device" in end["message"] and "is safe" in end["message"]
        assert str(session.root) not in end["message"]
        after = files_of(session)
        assert {n: after[n] for n in before} == before, "what was saved is as it was"
        assert not [n for n in after if n.endswith(".part")], "no half a file stays"
        assert len(other.get("/mt/pieces").json()) == 1
        renamed = client.patch(f"/mt/pieces/{piece['id']}", json={"name": "b"})
        assert renamed.status_code == 400 and "cannot be saved" in renamed.json()["error"]
        assert client.get("/mt/pieces").json()[0]["name"] == "a"
        disk["bytes"] = 10**9
        end = lines_of(client.post("/mt/compose", json={"seconds": 2, "seed": 7, "piece": piece["id"], "takes": 2}))[-1]
        assert end["type"] == "done", "with room again all works"
        ids = {p["id"] for p in client.get("/mt/pieces").json()}
        assert {
            p.id for p in Shelf(next(f for f in session.root.iterdir() if (f / f"{piece['id']}.mid").exists())).list()
        } == ids


def test_a_model_folder_replaced_while_the_server_runs(server):
    client = server.visitor()
    first, about = take_of(client), client.get("/mt/about").json()
    with Witness(server) as witness:
        weights = server.model / "model.safetensors"
        with weights.open("r+b") as file:  # over the very same file, as cp does
            file.write(os.urandom(weights.stat().st_size))
        assert take_of(client) == first
        with weights.open("r+b") as file:
            file.truncate(100)
        (server.model / "config.json").write_text("{}")
        assert take_of(client) == first, "a cut file does not end the process"
        shutil.rmtree(server.model)
        assert take_of(client) == first and client.get("/mt/about").json() == about
    assert witness.wrong == [] and witness.looks > 0


def test_sigterm_in_the_middle_saves_what_exists(server):
    client, other = server.visitor(), server.visitor()
    kept = upload(other).json()["id"]
    with listening(client, LONG) as messages:
        next(m for m in messages if m["type"] == "notes" and m["events"])
        server.process.send_signal(signal.SIGTERM)
        with contextlib.suppress(httpx.RemoteProtocolError):  # the stream is cut where the server ends
            for _ in messages:
                pass
    assert server.process.wait(PATIENCE) == 128 + signal.SIGTERM
    assert "Traceback" not in server.log.read_text()
    shelves = [Shelf(folder) for folder in server.folder.iterdir()]
    pieces = {p.id: (shelf, p) for shelf in shelves for p in shelf.list()}
    takes = [(s, p) for s, p in pieces.values() if p.kind == "take"]
    assert len(takes) == 2 and kept in pieces and pieces[kept][0].midi(kept) == SAMPLE.read_bytes()
    assert all(0 < p.seconds < 300 and s.score(p.id).notes for s, p in takes)
    assert not list(server.folder.rglob("*.part"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_killed_in_mid_write(tmp_path, number):
    """A child adds piece after piece and is ended at random moments; every piece that it told of is there and whole."""
    data, told = SAMPLE.read_bytes(), set()
    rng = random.Random(number)
    for _ in range(12):
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            try:
                shelf = Shelf(tmp_path / "pieces")
                while True:
                    made = shelf.add(Piece(id="", kind="upload", name="a", notes=1), data, data)
                    os.write(writer, made.id.encode())
            finally:
                os._exit(1)
        os.close(writer)
        told.add(os.read(reader, 16).decode())
        time.sleep(rng.uniform(0, 0.02))
        os.kill(child, number)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == number
        with os.fdopen(reader, "rb") as file:
            text = file.read().decode()
        told |= {text[i : i + 16] for i in range(0, len(text), 16)}
        shelf = Shelf(tmp_path / "pieces")
        assert told <= {p.id for p in shelf.list()}
    assert all(shelf.midi(id) == data and shelf.midi(id, "new") == data for id in told)
    for sidecar in (tmp_path / "pieces").glob("*.json"):
        assert json.loads(sidecar.read_text())["id"] == sidecar.stem and read_midi(sidecar.with_suffix(".mid"))[0].notes
