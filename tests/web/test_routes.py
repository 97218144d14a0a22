"""The routes: upload, tree, downloads, isolation of visitors, other sites, wrong files, in plain sentences."""

from __future__ import annotations

import io
import wave

import pytest
from starlette.testclient import TestClient

from music_transformer.midi import read_midi, read_texts
from music_transformer.receipts import find_receipt

from .conftest import SAMPLE, lines_of

FAST = {"seconds": 2, "seed": 7, "temperature": 1.0}


def upload(client, name: str = "minuet.mid", data: bytes | None = None) -> dict:
    answer = client.post("/mt/pieces", params={"name": name}, content=data or SAMPLE.read_bytes())
    assert answer.status_code == 200, answer.text
    return answer.json()


def compose(client, **order) -> list[dict]:
    return lines_of(client.post("/mt/compose", json={**FAST, **order}))


def test_upload_tells_what_was_read_and_is_the_same_piece_twice(client):
    piece = upload(client)
    score, report = read_midi(SAMPLE)
    assert piece["name"] == "minuet" and piece["kind"] == "upload" and piece["notes"] == len(score.notes)
    assert piece["facts"]["summary"] == report.summary() and piece["facts"]["report"] == list(report.lines)
    assert upload(client, "other name.mid")["id"] == piece["id"]
    assert [p["id"] for p in client.get("/mt/pieces").json()] == [piece["id"]]
    assert client.get(f"/mt/pieces/{piece['id']}/midi").content == SAMPLE.read_bytes()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty"),
        (b"hello, I am a text", "MIDI"),
        (b"\x89PNG\r\n\x1a\n" + bytes(200), "MIDI"),
        (bytes(9_000_000), "8 MB"),
    ],
)
def test_wrong_files_are_refused_in_a_sentence(client, data, words):
    answer = client.post("/mt/pieces", params={"name": "x.mid"}, content=data)
    assert answer.status_code == 400 and words in answer.json()["error"]
    assert "\n" not in answer.json()["error"] and client.get("/mt/pieces").json() == []


def test_names_from_outside_stay_names(client):
    piece = upload(client, '../../<img src=x onerror="alert(1)">.mid')
    assert piece["name"] == '<img src=x onerror="alert(1)">'
    header = client.get(f"/mt/pieces/{piece['id']}/midi").headers["content-disposition"]
    assert header.startswith('attachment; filename="_img src_x onerror__alert(1)__.mid"') and "\n" not in header


def test_continue_streams_and_saves(client):
    piece = upload(client)
    messages = compose(client, piece=piece["id"], takes=2)
    kinds = [m["type"] for m in messages]
    assert kinds[0] == "job" and "start" in kinds and "notes" in kinds and kinds[-1] == "done"
    start = next(m for m in messages if m["type"] == "start")
    assert start["takes"] == 2 and start["seed"] == 7 and start["join"] > piece["seconds"] - 0.1
    takes = [p for p in client.get("/mt/pieces").json() if p["kind"] == "take"]
    assert [t["id"] for t in takes] == messages[-1]["pieces"] and all(t["parent"] == piece["id"] for t in takes)
    strikes = [e for m in messages if m["type"] == "notes" for e in m["events"] if e[0] == "on"]
    for index, take in enumerate(takes):
        saved = read_midi(client.get(f"/mt/pieces/{take['id']}/midi").content)[0]
        new = sorted((n.pitch, round(n.start, 2), n.velocity) for n in saved.notes if n.start >= start["join"] - 1e-6)
        live = sorted((p, round(t, 2), v) for _, t_, p, t, v in strikes if t_ == index)
        assert new == live, "what was seen while composing is what was saved"
    first = client.get(f"/mt/pieces/{takes[0]['id']}/midi").content
    receipt = find_receipt(read_texts(first))
    assert receipt is not None and receipt.seed == 7 and receipt.prompt == SAMPLE.read_bytes()
    new_only = read_midi(client.get(f"/mt/pieces/{takes[0]['id']}/midi?part=new").content)[0]
    assert new_only.notes[0].start < 2.5 and new_only.end < 5


def test_the_same_order_gives_the_same_bytes_and_the_receipt_holds(client):
    one = compose(client)[-1]["pieces"][0]
    two = compose(client)[-1]["pieces"][0]
    assert one != two
    assert client.get(f"/mt/pieces/{one}/midi").content == client.get(f"/mt/pieces/{two}/midi").content
    answer = client.post(f"/mt/pieces/{one}/recreate").json()
    assert answer["same"] is True
    assert "no receipt" in client.post(f"/mt/pieces/{upload(client)['id']}/recreate").json()["error"]


def test_rewriting_a_range_keeps_what_stands_around_it(client):
    piece = upload(client)
    take = compose(client, piece=piece["id"], at=4.0, until=6.0)[-1]["pieces"][0]
    before = read_midi(SAMPLE)[0].notes
    after = read_midi(client.get(f"/mt/pieces/{take}/midi").content)[0].notes

    def around(notes, a, b):
        return sorted((n.pitch, round(n.start, 3), round(n.end, 3), n.velocity) for n in notes if a <= n.start < b)

    assert around(after, 0, 4) == around(before, 0, 4) and around(after, 6, 99) == around(before, 6, 99)
    assert around(after, 4, 6) != around(before, 4, 6)
    assert client.post(f"/mt/pieces/{take}/recreate").json()["same"] is True


@pytest.mark.parametrize(
    ("order", "words"),
    [
        ({"takes": 9}, "at most 4 takes"),
        ({"seconds": 1000}, "300 seconds"),
        ({"temperature": -1}, "temperature"),
        ({"preset": "loud"}, "calm, balanced, wild"),
        ({"seed": "x"}, "seed"),
        ({"depth": 3}, "depth"),
        ({"at": 4.0}, "no piece"),
        ({"until": 3.0}, "until is 3.0 and at is "),
    ],
)
def test_orders_out_of_range(client, order, words):
    answer = client.post("/mt/compose", json=order)
    said = answer.json()["error"] if answer.status_code == 400 else lines_of(answer)[-1]["message"]
    assert words in said and client.get("/mt/pieces").json() == []


def test_tree_rename_keep_delete_restore(client):
    piece = upload(client)
    path = f"/mt/pieces/{piece['id']}"
    assert client.patch(path, json={"name": "Tanz", "kept": True}).json()["name"] == "Tanz"
    assert client.patch(path, json={"kind": "take"}).status_code == 400
    client.delete(path)
    assert client.get("/mt/pieces").json() == []
    client.post(f"{path}/restore")
    assert client.get("/mt/pieces").json()[0]["kept"] is True


def test_one_visitor_never_sees_anothers_pieces(app, client):
    piece = upload(client)
    with TestClient(app) as stranger:
        assert stranger.get("/mt/pieces").json() == []
        for path in ("midi", "notes", "wav", "bars", "meters"):
            assert stranger.get(f"/mt/pieces/{piece['id']}/{path}").status_code == 404
        assert stranger.patch(f"/mt/pieces/{piece['id']}", json={"name": "mine"}).status_code == 404
        assert stranger.delete(f"/mt/pieces/{piece['id']}").status_code == 404
        assert stranger.post("/mt/compose", json={**FAST, "piece": piece["id"]}).status_code == 404
        assert stranger.post("/mt/next", json={"piece": piece["id"]}).status_code == 404
    forged = TestClient(app, cookies={"mt_visitor": "../" * 10})
    assert forged.get("/mt/pieces").json() == []
    cookie = client.get("/mt/config", headers={"cookie": ""}).headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie and len(cookie.split("=")[1].split(";")[0]) == 43


def test_another_sites_page_is_refused_and_a_login_is_asked_for(client, session):
    assert client.get("/mt/pieces", headers={"origin": "http://evil.example"}).status_code == 403
    assert client.get("/mt/pieces", headers={"origin": "http://testserver"}).status_code == 200
    object.__setattr__(session.config, "auth", "ann:secret")
    for path in ("/mt/pieces", "/mt/static/dom.js", "/mt/config", "/mt/sounds"):
        assert client.get(path).status_code == 401
    session.login = lambda request: "ann"
    assert client.get("/mt/pieces").status_code == 200


def test_answers_carry_a_policy(client):
    headers = client.get("/mt/static/roll.js").headers
    assert "default-src 'self'" in headers["content-security-policy"] and headers["x-content-type-options"] == "nosniff"
    assert headers["content-type"].startswith("text/javascript")
    for name in ("../session.py", "..%2fsession.py", "nothing.js", "roll.py"):
        assert client.get(f"/mt/static/{name}").status_code == 404


def test_next_events_grow_a_piece_by_hand(client):
    piece = upload(client)
    first = client.post("/mt/next", json={"piece": piece["id"], "at": 3.0}).json()
    shares = [e["share"] for e in first["events"]]
    assert len(shares) == 10 and shares == sorted(shares, reverse=True) and 0 < sum(shares) <= 1
    assert first["seconds"] == 3.0 and first["notes"] == []
    assert len(first["strikes"]) == 10 and all(e["pitch"] == e["id"] >= 21 for e in first["strikes"])
    second = client.post("/mt/next", json={"piece": piece["id"], "at": 3.0, "events": [72, 256 + 49]}).json()
    assert second["seconds"] == 3.5 and [n[:2] for n in second["notes"]] == [[72, 3.0]]
    kept = client.post("/mt/next/keep", json={"piece": piece["id"], "at": 3.0, "events": [72, 256 + 49]}).json()
    assert kept["parent"] == piece["id"] and kept["kind"] == "edit"
    notes = read_midi(client.get(f"/mt/pieces/{kept['id']}/midi").content)[0].notes
    assert (notes[-1].pitch, round(notes[-1].start, 2), round(notes[-1].end, 2)) == (72, 3.0, 3.5)
    refused = client.post("/mt/next/keep", json={"piece": piece["id"], "events": []})
    assert refused.status_code == 400 and "no note" in refused.json()["error"]
    assert client.post("/mt/next", json={"piece": piece["id"], "events": [400]}).status_code == 400


def test_meters_stand_beside_the_prompts(client):
    piece = upload(client)
    take = compose(client, piece=piece["id"])[-1]["pieces"][0]
    rows = client.get(f"/mt/pieces/{take}/meters").json()["rows"]
    assert rows["prompt"]["notes"] == piece["notes"]
    assert rows["prompt"]["nats"] == pytest.approx(5.9, abs=0.5), "a random model is about ln 391 surprised"
    assert rows["new"]["nats"] > 0 and rows["new"]["lowest"] >= 21
    assert client.get(f"/mt/pieces/{piece['id']}/meters").json()["rows"]["piece"]["notes"] == piece["notes"]


@pytest.mark.slow
def test_wav(client):
    piece = upload(client)
    answer = client.get(f"/mt/pieces/{piece['id']}/wav")
    with wave.open(io.BytesIO(answer.content)) as sound:
        assert sound.getnframes() / sound.getframerate() > piece["seconds"]


def test_a_sample_is_found_by_name(client):
    names = client.get("/mt/config").json()["samples"]
    piece = client.post(f"/mt/samples/{next(iter(names))}").json()
    assert piece["kind"] == "sample" and client.get(f"/mt/pieces/{piece['id']}/bars").json()[0] == 0.0
    assert client.post("/mt/samples/nothing").status_code == 400
