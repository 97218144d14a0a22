"""Which model composes is the visitor's choice, and a piece remembers it."""

from __future__ import annotations

import pytest

from gpt_core.checkpoint import WEIGHTS, file_sha
from gpt_core.errors import UserError
from music_transformer.models import find
from music_transformer.web.model_list import MORE_VARIABLE, Models
from music_transformer.web.settings import MODEL_VARIABLE, ServeConfig
from tests.web.conftest import SAMPLE, lines_of


def test_the_names(client, session):
    assert client.get("/mt/config").json()["models"][:2] == ["tiny", "piano"]
    assert session.models.music() is session.models.music("tiny") and session.models.music("piano").config.n_layer == 6
    assert client.get("/mt/about").json()["model"] == "tiny"
    about = client.get("/mt/about", params={"model": "piano"}).json()
    assert about["parameters"] == 4_918_784 and about["checkpoint"] == file_sha(find("piano") / WEIGHTS)[:12]


def test_a_piece_remembers_its_model(client):
    order = {"seconds": 2, "seed": 1, "model": "piano"}
    id = lines_of(client.post("/mt/compose", json=order))[-1]["pieces"][0]
    piece = next(p for p in client.get("/mt/pieces").json() if p["id"] == id)
    weights = file_sha(find("piano") / WEIGHTS)
    assert piece["facts"]["model"] == "piano" and piece["facts"]["checkpoint"] == weights
    assert client.get(f"/mt/pieces/{id}/meters").json()["checkpoint"] == weights
    assert client.post(f"/mt/pieces/{id}/recreate").json()["same"] is True


def test_the_models_differ_in_what_they_write_and_expect(client):
    piece = client.post("/mt/pieces", params={"name": "minuet.mid"}, content=SAMPLE.read_bytes()).json()["id"]
    asked = {
        name: client.post("/mt/next", json={"piece": piece, "model": name}).json()["events"]
        for name in ("tiny", "piano")
    }
    assert asked["tiny"] == client.post("/mt/next", json={"piece": piece}).json()["events"]
    assert asked["piano"][0]["share"] > 2 * asked["tiny"][0]["share"], "one of them has learned something"
    own = client.get(f"/mt/pieces/{piece}/meters").json()
    assert own["checkpoint"].startswith(client.get("/mt/about").json()["checkpoint"])


@pytest.mark.parametrize("path", ["/mt/compose", "/mt/next"])
@pytest.mark.parametrize("name", ["nobody", "../piano", ""])
def test_a_name_that_is_not_on_the_list_is_refused(client, path, name):
    answer = client.post(path, json={"seconds": 1, "model": name} if path == "/mt/compose" else {"model": name})
    text = answer.text
    assert f"there is no music model '{name}'; choose one of tiny, piano" in text and "Traceback" not in text


def test_a_model_that_is_no_name_is_refused(client):
    assert "model is 3, not a name" in client.post("/mt/compose", json={"model": 3}).json()["error"]


def test_a_piece_of_a_model_that_is_gone_is_measured_by_our_own(session):
    assert session.models.maker({"model": "gone"}) is session.models.music()
    assert session.models.maker({}) is session.models.music()
    assert session.models.maker({"model": "piano"}) is session.models.music("piano")


def test_more_models_may_be_named(monkeypatch, model_folder):
    monkeypatch.setenv(MORE_VARIABLE, str(model_folder))
    models = Models(ServeConfig(device="cpu"))
    assert models.usual == "piano" and "tiny" in models.names("music") and "tiny" not in models.names("text")
    assert models.music("tiny").config.n_embd == 16
    monkeypatch.setenv(MODEL_VARIABLE, str(model_folder))
    assert Models(ServeConfig()).usual == "tiny"
    with pytest.raises(UserError, match="no text model 'piano'; choose one of text"):
        models.get("text", "piano")
