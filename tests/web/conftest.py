"""A session over a tiny random model, and our routes without gradio, so that these tests take no time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "data" / "petzold_minuet_g.mid"


def _tiny_model():
    import torch

    from gpt_core.config import GPTConfig
    from gpt_core.model import GPT

    torch.manual_seed(0)
    return GPT(GPTConfig(vocab_size=391, context=128, n_layer=1, n_head=2, n_embd=16, position="rotary"))


def _saved(model, folder: Path) -> Path:
    from gpt_core import checkpoint
    from music_transformer.events import EventCodec

    checkpoint.save(folder, model, EventCodec(), {"kind": "test"})
    return folder


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory) -> Path:
    """A checkpoint that plays nonsense, quickly."""
    return _saved(_tiny_model(), tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture(scope="session")
def dense_model_folder(tmp_path_factory) -> Path:
    """One whose time passes in steps of 10 ms, so that a long order is long work on any machine."""
    import torch

    from music_transformer.events import MAX_SHIFT, TIME_SHIFT

    model = _tiny_model()
    weights = dict(model.named_parameters())
    with torch.no_grad():  # the last layer norm gives 20 in one direction, and the ids of longer steps lie against it
        weights["ln_f.weight"][0], weights["ln_f.bias"][0] = 0.0, 20.0
        weights["wte.weight"][:, 0] = 0.0
        weights["wte.weight"][TIME_SHIFT + 1 : TIME_SHIFT + MAX_SHIFT, 0] = -1.0
    return _saved(model, tmp_path_factory.mktemp("model") / "dense")


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


FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--autoplay-policy=no-user-gesture-required",
]  # fmt: skip
PATIENCE = 100_000  # milliseconds: what a loaded machine may take


@pytest.fixture(scope="session")
def server(model_folder, tmp_path_factory):
    """The real command in a process of its own; yields its URL."""
    import subprocess
    import sys

    folder = tmp_path_factory.mktemp("pieces")
    command = [sys.executable, "-m", "music_transformer", "serve", "--port", "0", "--no-open-browser"]
    command += ["--model", str(model_folder), "--device", "cpu", "--folder", str(folder), "--max-upload", "1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    assert "http://" in line, f"the server said {line!r} and ended with {process.poll()}"
    yield line.split(" at ")[1].split()[0]
    process.terminate()
    process.wait(60)


@pytest.fixture(scope="session")
def chromium():
    import shutil

    api = pytest.importorskip("playwright.sync_api")
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        pytest.skip("no Chromium on this machine")
    with api.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=path, headless=True, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def visit(server, chromium):
    """Open the page as a new visitor; afterwards no request has left the host and the console is clean."""
    contexts, outside, errors = [], [], []

    def go(**options):
        context = chromium.new_context(viewport=options.pop("viewport", {"width": 1360, "height": 900}), **options)
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda r: outside.append(r.url) if not local(r.url, server) else None)
        page.on("pageerror", lambda e: errors.append(str(e)))
        page.on("console", lambda m: errors.append(m.text) if m.type == "error" else None)
        page.goto(server)
        page.locator("#mt-compose[data-ready], #mt-compose [data-ready]").first.wait_for(state="attached")
        page.locator("#mt-go").wait_for()
        return page

    yield go
    for context in contexts:
        context.close()
    assert not outside, f"the page asked other hosts: {outside[:5]}"
    # A refused upload is an answer with status 400, which Chromium itself writes to the console.
    assert not [e for e in errors if "status of 4" not in e], errors


def local(url: str, server: str) -> bool:
    return url.startswith((server, "data:", "blob:", "about:"))
