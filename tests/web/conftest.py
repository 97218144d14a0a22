"""A session over a tiny random model, and our routes without gradio, so that these tests take no time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "data" / "petzold_minuet_g.mid"


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory) -> Path:
    """A checkpoint that plays nonsense, quickly."""
    import torch

    from gpt_core import checkpoint
    from gpt_core.config import GPTConfig
    from gpt_core.model import GPT
    from music_transformer.events import EventCodec

    torch.manual_seed(0)
    model = GPT(GPTConfig(vocab_size=391, context=128, n_layer=1, n_head=2, n_embd=16, position="rotary"))
    folder = tmp_path_factory.mktemp("model") / "tiny"
    checkpoint.save(folder, model, EventCodec(), {"kind": "test"})
    return folder


@pytest.fixture
def session(model_folder, tmp_path):
    from music_transformer.web.session import Session
    from music_transformer.web.settings import ServeConfig

    made = Session(ServeConfig(model=str(model_folder), device="cpu", folder=str(tmp_path / "pieces")))
    yield made
    made.close()


@pytest.fixture
def app(session):
    from music_transformer.web.backend import build_backend

    return build_backend(session)


@pytest.fixture
def client(app):
    """One visitor's browser."""
    from starlette.testclient import TestClient

    with TestClient(app) as made:
        made.get("/mt/config")
        yield made


def lines_of(response) -> list[dict]:
    """The messages of a composition."""
    assert response.status_code == 200, response.text
    return [json.loads(line) for line in response.text.splitlines()]
