"""The routes behind the Attention and How-it-works tabs: manifests, layers as bytes, pages, and what is refused."""

from __future__ import annotations

import pytest
import torch

from gpt_core.text.gpt2 import import_gpt2
from music_transformer.arc_query import ArcPack, ArcQuery, find_arcs
from music_transformer.events import decode, encode
from music_transformer.midi import read_midi
from music_transformer.vocabulary import BOS
from music_transformer.web.model_list import MORE_VARIABLE, Models
from music_transformer.web.reading import read_text
from tests.text.gpt2_folders import hugging_face_model, small_codec, write_folder

from .conftest import SAMPLE, lines_of


@pytest.fixture
def app(app, session):
    """The backend with the two tabs' routes."""
    from music_transformer.web import attention_tab, steps_tab
    from music_transformer.web.backend import include

    for tab in (attention_tab, steps_tab):
        include(app, tab.routes(session), session)
    return app


def opened(client, **order) -> dict:
    answer = client.post("/mt/attention/music", json={"model": "tiny", "sample": "petzold_minuet_g", **order})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_sample_is_read_and_its_layers_are_bytes(client):
    assert client.get("/mt/attention").json()["models"]["music"][0] == "tiny"
    view = opened(client)
    m = view["manifest"]
    assert (m["kind"], m["model"]["layers"], m["model"]["heads"], m["model"]["context"]) == ("music", 1, 2, 128)
    assert len(m["tokens"]["labels"]) == 128 and m["start"] == m["whole"] - 128 > 0
    assert "were in reach" in m["reach"]
    data = client.get(f"/mt/attention/{view['id']}/heads/0")
    assert data.headers["content-type"] == "application/octet-stream"
    pack = ArcPack.from_bytes(data.content, 2, 128)
    found = find_arcs(pack, m["tokens"]["places"], m["tokens"]["leads"], ArcQuery(tokens=(100,)))
    assert all(0.89 < x.shown + x.hidden < 1.01 for x in found.mass) and found.arcs
    assert ArcPack.from_bytes(client.get(f"/mt/attention/{view['id']}/rollout/0").content, 1, 128)


def test_a_part_is_chosen_by_the_second(client):
    view = opened(client, at=3.0)["manifest"]
    assert view["start"] + 128 < view["whole"] == opened(client)["manifest"]["whole"] and "unread" in view["reach"]
    assert min(n[1] for n in view["tokens"]["notes"]) <= 3.0 < view["seconds"] == opened(client)["manifest"]["seconds"]


def test_uploads_and_takes_are_read_too(client):
    piece = client.post("/mt/pieces", params={"name": "minuet.mid"}, content=SAMPLE.read_bytes()).json()
    order = {"piece": piece["id"], "seconds": 2, "seed": 7, "temperature": 1.0}
    take = lines_of(client.post("/mt/compose", json=order))[-1]["pieces"][0]
    for id in (piece["id"], take):
        answer = client.post("/mt/attention/music", json={"model": "tiny", "piece": id}).json()
        ids = [BOS, *encode(read_midi(client.get(f"/mt/pieces/{id}/midi").content)[0])]
        assert answer["manifest"]["whole"] == len(ids)
        last = answer["manifest"]["tokens"]["notes"][-1]
        assert last[0] == decode(ids).notes[-1].pitch


def test_an_imported_gpt2_shows_the_weights_that_transformers_computes(tmp_path, monkeypatch, session):
    codec, text = small_codec(), "the cat € sat\non the log"
    theirs, ids = hugging_face_model(codec, n_layer=3, n_head=3, n_embd=48), codec.encode(text)
    import_gpt2(write_folder(theirs, codec, tmp_path / "theirs"), tmp_path / "imported", say=lambda _: None)
    monkeypatch.setenv(MORE_VARIABLE, str(tmp_path / "imported"))
    models = Models(session.config)
    assert "imported" in models.names("text") and "imported" not in models.names("music")
    view = read_text(models, {"model": "imported", "text": text})
    assert {"⏎", "⟨82⟩", "⟨ac⟩"} <= set(view.tokens.labels) and view.manifest()["kind"] == "text"
    with torch.no_grad():
        wanted = theirs(torch.tensor([ids]), output_attentions=True).attentions
    assert len(wanted) == 3 and wanted[1].max() > 0.5
    for layer, rows in enumerate(wanted):
        pack = view.pack("heads", layer).packed
        for head in range(3):
            for query in range(len(ids)):
                keys, weights = pack.row(head, query)
                assert (rows[0, head, query, keys] - torch.tensor(weights)).abs().max() < 2e-5


def test_a_page_to_pass_on_is_downloaded(client):
    view = opened(client)
    answer = client.get(f"/mt/attention/{view['id']}/page")
    assert answer.text.startswith("<!doctype html>") and "attachment" in answer.headers["content-disposition"]


def test_views_belong_to_whoever_opened_them(client, app):
    from starlette.testclient import TestClient

    id = opened(client)["id"]
    with TestClient(app) as other:
        other.get("/mt/config")
        assert other.get(f"/mt/attention/{id}/heads/0").status_code == 404
    assert client.get(f"/mt/attention/{id}/heads/0").status_code == 200


@pytest.mark.parametrize(
    ("order", "status", "said"),
    [
        ({"model": "tiny", "sample": "../secret"}, 404, "no such sample"),
        ({"model": "tiny", "sample": ["bach_prelude_c"]}, 404, "no such sample"),
        ({"model": "tiny", "piece": "absent"}, 404, "not among yours"),
        ({"model": "tiny", "piece": {}}, 404, "not among yours"),
        ({"model": "/etc", "sample": "petzold_minuet_g"}, 400, "there is no music model '/etc'"),
        ({"model": "tiny", "sample": "petzold_minuet_g", "at": "now"}, 400, "at is not a number"),
    ],
)
def test_what_is_not_there_is_a_sentence(client, order, status, said):
    answer = client.post("/mt/attention/music", json=order)
    assert answer.status_code == status and said in answer.json()["error"]


def test_layers_and_views_that_are_not_there(client):
    id = opened(client)["id"]
    assert "there is no layer 4" in client.get(f"/mt/attention/{id}/heads/4").json()["error"]
    assert "view is 'median'" in client.get(f"/mt/attention/{id}/median/0").json()["error"]
    assert client.post("/mt/attention/text", json={"text": "a", "model": "x"}).status_code == 400


def test_the_walk_speaks_of_the_first_events_of_a_piece(client):
    order = {"kind": "music", "model": "tiny", "sample": "petzold_minuet_g", "position": -1, "layer": 0, "head": 1}
    found = client.post("/mt/steps", json=order).json()
    assert found["labels"][0] == "start" and len(found["labels"]) == 32 == len(found["matrices"]["weights"])
    assert found["walk"]["position"] == 31 and len(found["next"]) == 10
    assert sum(found["matrices"]["weights"][31]) == pytest.approx(1, abs=1e-5)
    total = client.get("/mt/steps/inventory/music/tiny").json()["total"]
    assert total == 391 * 16 + 12 * 16**2 + 13 * 16 + 2 * 16  # shared embedding, one block with biases, last norm
    assert "there is no head 2" in client.post("/mt/steps", json=order | {"head": 2}).json()["error"]
    assert "not a whole number" in client.post("/mt/steps", json=order | {"layer": "x"}).json()["error"]
