"""The server under hostile and heavy traffic: other visitors are not affected, nothing is lost, memory comes back."""

from __future__ import annotations

import gzip
import json
import os
import struct
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from music_transformer.midi import read_midi

from .abuse import LONG, Server, Witness, compose, listening, take_of, upload
from .conftest import SAMPLE

pytestmark = pytest.mark.abuse

BOUND = 120.0  # seconds that another visitor waits at most for a page on a loaded machine; on a quiet one it is a fraction of one
GROWTH = 60.0  # megabytes


@pytest.fixture(scope="module")
def server(dense_model_folder, tmp_path_factory):
    made = Server(dense_model_folder, tmp_path_factory.mktemp("abuse"))
    made.warm = None
    yield made
    made.end()


@pytest.fixture
def witness(server, request):
    """Another visitor looks on; afterwards they have seen nothing of it, and the server is as it was."""
    client = server.visitor()
    if server.warm is None:
        server.warm = take_of(client)  # loads the model, the first time
        upload(client)
    before = server.megabytes()
    with Witness(server) as looking:
        yield looking
    after = server.settled(before + GROWTH)
    print(
        f"\n{request.node.name}: {before:.0f} MB before, {after:.0f} MB after; others waited {looking.slowest:.2f} s at most"
    )
    assert looking.looks > 0 and looking.wrong == []
    assert looking.slowest < BOUND
    assert server.process.poll() is None and after < before + GROWTH
    assert take_of(client) == server.warm, "the same order gives the same piece as before"


def test_slow_uploads(server, witness):
    data = SAMPLE.read_bytes()
    head = f"POST /mt/pieces?name=slow HTTP/1.1\r\nContent-Length: {len(data)}"
    slow = [server.raw(head, b"\r\n" + data[:9]) for _ in range(60)]
    for byte in range(9, 19):
        for each in slow:
            each.sendall(data[byte : byte + 1])
        time.sleep(0.1)
    assert upload(server.visitor()).status_code == 200, "a quick upload is not held up by slow ones"
    for each in slow[:59]:
        each.close()
    slow[59].sendall(data[19:])
    assert slow[59].recv(12) == b"HTTP/1.1 200", "a slow upload that ends well is taken"
    slow[59].close()


def test_a_hundred_at_once(server, witness):
    visitors = [server.visitor() for _ in range(100)]
    with ThreadPoolExecutor(100) as pool:
        answers = list(pool.map(compose, visitors))
    ends = [a[-1] for a in answers]
    done = [v for v, e in zip(visitors, ends, strict=True) if e["type"] == "done"]
    refused = [e["message"] for e in ends if e["type"] == "error"]
    assert len(done) + len(refused) == 100 and len(done) >= 17
    assert all("others are waiting" in r and "try again" in r for r in refused)
    for visitor, end in zip(visitors, ends, strict=True):
        assert [p["id"] for p in visitor.get("/mt/pieces").json()] == end.get("pieces", [])
    with ThreadPoolExecutor(100) as pool:
        codes = list(pool.map(lambda v: v.get("/mt/about").status_code, visitors))
    assert codes == [200] * 100


def test_oversized_and_bomb_like_inputs(server, witness):
    client = server.visitor()
    endless = (b"\x00" * 65536 for _ in range(4000))  # 262 MB, if anyone listened
    answer = client.post("/mt/pieces", content=endless)
    assert answer.status_code == 400 and "larger than 8 MB" in answer.json()["error"]
    packed = gzip.compress(b"MThd" + b"\x00" * 100_000_000, 1)
    for data, header in ((packed, {}), (packed, {"Content-Encoding": "gzip"})):
        said = client.post("/mt/pieces", content=data, headers=header)
        assert said.status_code == 400 and "gzip archive; unpack it first" in said.json()["error"]
    notes = b"\x00\x90" + b"\x3c\x40\x00" * 1_300_000  # 4 MB of strikes by running status
    many = b"MThd" + struct.pack(">IHHH", 6, 0, 1, 96) + b"MTrk" + struct.pack(">I", len(notes)) + notes
    assert "500,000 notes" in upload(client, many).json()["error"]
    tracks = (
        b"MThd"
        + struct.pack(">IHHH", 6, 1, 65535, 96)
        + (b"MTrk" + struct.pack(">I", 4) + b"\x00\xff\x2f\x00") * 300_000
    )
    assert "no notes" in upload(client, tracks).json()["error"]
    assert client.get("/mt/pieces").json() == []


def test_path_tricks(server, witness):
    client = server.visitor()
    outside = sorted(p.name for p in server.folder.parent.iterdir() if not p.name.startswith("music-transformer"))
    names = [
        "../../evil",
        "/etc/passwd",
        "..\\..\\evil",
        "a\x00b",
        "x" * 3000,
        ".",
        "con",
        "\u202efdp.mid",
        "~root",
        "$(id)",
    ]
    for name in names:
        piece = upload(client, SAMPLE.read_bytes() + name.encode(), name).json()
        kept = client.get(f"/mt/pieces/{piece['id']}/midi")
        assert kept.status_code == 200 and kept.headers["content-disposition"].isascii()
        assert "/" not in piece["name"] and piece["name"].isprintable() and len(piece["name"]) <= 120
    secret = server.model / "config.json"
    for path in (
        *(f"/mt/static/{t}" for t in ("../session.py", "..%2f..%2fsession.py", "%2e%2e/%2e%2e/version.py", "roll.js%00.py")),
        *(f"/mt/pieces/{t}/midi" for t in ("..", "%2e%2e%2f%2e%2e", "..%2f" * 8 + "etc%2fpasswd", "a%00b", "*")),
        *(f"/mt/samples/{t}" for t in ("..%2f..%2fsession", "%2fetc%2fpasswd")),
        "/mt/steps/inventory/music/..%2f..%2ftiny", "/mt/attention/..%2f..%2fx/page",
        f"/gradio_api/file={secret}", "/gradio_api/file=/etc/passwd",
        "/gradio_api/file=../../../etc/passwd", "/static/..%2f..%2f..%2fetc/passwd",
    ):  # fmt: skip
        answer = client.post(path) if "samples" in path else client.get(path)
        assert answer.status_code in (400, 403, 404, 405, 422), (path, answer.status_code)
        assert "root:" not in answer.text and "n_embd" not in answer.text
    files = {"files": ("../../../evil.mid", SAMPLE.read_bytes(), "audio/midi")}
    put = client.post("/gradio_api/upload", files=files)
    assert put.status_code == 200 and os.path.realpath(put.json()[0]).startswith(str(server.folder.parent))
    left = sorted(p.name for p in server.folder.parent.iterdir() if not p.name.startswith("music-transformer"))
    assert left == outside, "nothing was written beside the folders of the server"


def test_huge_json(server, witness):
    client = server.visitor()
    big = json.dumps({"seconds": 1.0, "preset": "x" * 5_000_000})
    for path in ("/mt/compose", "/mt/next", "/mt/text/read", "/mt/attention/music", "/gradio_api/queue/join"):
        answer = client.post(path, content=big, headers={"Content-Type": "application/json"})
        assert answer.status_code == 413 and "1 MB" in answer.text, (path, answer.status_code)
    for odd in (
        "[" * 900_000,
        '{"a":' * 150_000,
        "9" * 900_000,
        '{"seed":' + "9" * 900_000 + "}",
        '"' + "\\ud800" * 150_000 + '"',
    ):
        for path in ("/mt/compose", "/mt/next"):
            answer = client.post(path, content=odd, headers={"Content-Type": "application/json"})
            assert answer.status_code in (400, 422), (path, odd[:9], answer.status_code)
    events = client.post("/mt/next", json={"events": [60] * 200_000})
    assert events.status_code == 400 and "2,000" in events.json()["error"]


def test_streams_dropped_in_the_middle(server, witness):
    visitors = [server.visitor() for _ in range(8)]
    with listening(visitors[0], LONG) as messages:
        next(m for m in messages if m["type"] == "notes" and m["events"])
        for other in visitors[1:]:  # they wait in the queue, and leave it
            with listening(other, LONG) as theirs:
                next(m for m in theirs if m["type"] == "queue")
    begun = time.monotonic()
    assert compose(server.visitor())[-1]["type"] == "done"
    assert time.monotonic() - begun < BOUND, "whoever left holds nobody up"
    kept = visitors[0].get("/mt/pieces").json()
    assert len(kept) == 2 and all(0 < p["seconds"] < 300 for p in kept), "what existed when they left is saved"
    for piece in kept:
        assert read_midi(visitors[0].get(f"/mt/pieces/{piece['id']}/midi").content)[0].notes
    assert all(v.get("/mt/pieces").json() == [] for v in visitors[1:])


def test_stop_storms(server, witness):
    client, stranger = server.visitor(), server.visitor()
    with listening(client, LONG) as messages:
        job = next(messages)["job"]
        next(m for m in messages if m["type"] == "notes" and m["events"])
        with ThreadPoolExecutor(20) as pool:
            theirs = list(pool.map(lambda n: stranger.post(f"/mt/jobs/{job}/stop").status_code, range(100)))
            mine = list(pool.map(lambda n: client.post(f"/mt/jobs/{job}/stop").status_code, range(200)))
        end = list(messages)[-1]
    assert set(theirs) == {400}, "nobody stops another's composition"
    assert mine[0] == 200 and set(mine) <= {200, 400}
    assert end["type"] == "done" and end["stopped"] and len(end["pieces"]) == 2
    assert {p["id"] for p in client.get("/mt/pieces").json()} == set(end["pieces"])
