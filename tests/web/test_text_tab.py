"""The Text tab's routes: the explorer's numbers, re-scoring, the lens, completion as a stream, and refusals."""

from __future__ import annotations

import pytest
import torch

from gpt_core import checkpoint
from gpt_core.config import GPTConfig
from gpt_core.model import GPT
from gpt_core.text.complete import CompleteConfig, TextSampling, complete
from tests.text.scripted import BYTES, writes
from tests.web.conftest import lines_of


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("texts")
    torch.manual_seed(1)
    model = GPT(GPTConfig(vocab_size=257, context=32, n_layer=2, n_head=2, n_embd=16))
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn(p.shape) * 0.3)
    checkpoint.save(root / "random", model, BYTES, {})
    checkpoint.save(root / "known", writes("ab🙂c").model, BYTES, {})
    return root


@pytest.fixture
def ask(folders, monkeypatch, request):
    """Post to a route of the tab."""
    from starlette.testclient import TestClient

    from music_transformer.web import text_tab
    from music_transformer.web.backend import build_backend, include

    monkeypatch.setenv("MUSIC_TRANSFORMER_MORE_MODELS", f"{folders / 'random'}:{folders / 'known'}")
    session = request.getfixturevalue("session")  # it reads the environment when it begins
    app = build_backend(session)
    include(app, text_tab.routes(session), session)
    with TestClient(app) as client:
        client.get("/mt/config")
        yield lambda path, **order: client.get(path) if not order else client.post(path, json=order)


def test_choices_carry_help_range_and_default(ask):
    choices = ask("/mt/text").json()
    assert {"random", "known"} <= set(choices["models"])
    assert choices["fields"]["top_k"]["default"] == 40 and choices["fields"]["top_p"]["high"] == 1.0


def test_a_text_is_read_with_surprises_and_the_ten_likeliest(ask, folders):
    answer = ask("/mt/text/read", model="random", text="héy", appended=[33]).json()
    ids, model = [*"héy".encode(), 33], checkpoint.load(folders / "random").model
    rows = model(torch.tensor([ids]))[0].detach().double().log_softmax(-1)
    start = model(torch.tensor([[256]]))[0, 0].detach().double().log_softmax(-1)
    assert [t["chip"]["label"] for t in answer["tokens"]] == ["h", "C3", "A9", "y", "!"]
    assert answer["prompt"] == 4 and answer["count"] == 5
    want = [-float(start[ids[0]]), *(-float(rows[n, i]) for n, i in enumerate(ids[1:]))]
    assert [t["nats"] for t in answer["tokens"]] == pytest.approx(want, abs=1e-4)
    best = rows[-1].sort(descending=True)
    assert [c["chip"]["id"] for c in answer["next"]] == best.indices[:10].tolist()
    assert [c["probability"] for c in answer["next"]] == pytest.approx(best.values[:10].exp().tolist(), rel=1e-4)


def test_settings_re_score_and_grey(ask):
    order = {"model": "random", "text": "hey"}
    plain = ask("/mt/text/next", **order, sampling={"top_k": 0}).json()["next"]
    narrow = ask("/mt/text/next", **order, sampling={"top_k": 2, "temperature": 0.5}).json()["next"]
    assert [c["kept"] for c in narrow] == [True, True] + [False] * 8
    assert [c["probability"] for c in narrow] == [c["probability"] for c in plain]
    p, q = (plain[n]["probability"] ** 2 for n in (0, 1))
    assert narrow[0]["drawn"] == pytest.approx(p / (p + q), rel=1e-4)


def test_the_lens_ends_with_the_models_own_list(ask):
    order = {"model": "random", "text": "hey"}
    layers = ask("/mt/text/lens", **order).json()["layers"]
    best = ask("/mt/text/next", **order).json()["next"]
    assert [row["layer"] for row in layers] == [0, 1, 2]
    assert [c["id"] for c in layers[-1]["chips"]] == [c["chip"]["id"] for c in best[:5]]
    assert layers[-1]["probabilities"] == pytest.approx([c["probability"] for c in best[:5]], rel=1e-4)


def test_completion_streams_whole_characters(ask, folders):
    begun, *lines = lines_of(
        ask("/mt/text/complete", model="known", text=" ", max_new=20, sampling={"temperature": 0.0})
    )
    assert begun == {"begun": " "}
    assert [line["text"] for line in lines] == ["a", "b", "🙂", "c", ""] and lines[-1]["finished"] == "end"
    stopped = lines_of(
        ask("/mt/text/complete", model="known", text=" ", max_new=20, sampling={"temperature": 0.0}, stop=["🙂"])
    )
    assert "".join(line["text"] for line in stopped[1:]) == "ab" and stopped[-1]["finished"] == "stop"
    lines = lines_of(ask("/mt/text/complete", model="random", text="x" * 40, max_new=6, takes=2, seed=5))
    assert lines[1]["notice"].startswith("the prompt has 40 tokens")
    want = complete(
        checkpoint.load(folders / "random"), "x" * 40, CompleteConfig(max_new=6, takes=2, seed=5), TextSampling()
    )
    for take in (0, 1):
        assert "".join(line["text"] for line in lines[2:] if line["take"] == take) == want[take].text


def test_completion_goes_on_from_what_was_appended(ask):
    half = "🙂".encode()[:2]
    order = {
        "model": "known",
        "text": " a",
        "appended": [ord("b"), *half],
        "max_new": 20,
        "sampling": {"temperature": 0.0},
    }
    begun, *lines = lines_of(ask("/mt/text/complete", **order))
    assert begun == {"begun": " ab\ufffd"}
    assert [line["text"] for line in lines] == ["🙂", "c", ""] and lines[-1]["finished"] == "end"


def test_the_explorer_reads_a_text_as_completion_does(ask):
    """The likeliest token again and again is what completion writes at temperature 0, from a text and from nothing."""
    for text in ("hey", ""):
        order, ids = {"model": "random", "text": text}, []
        for _ in range(6):
            ids.append(ask("/mt/text/next", **order, appended=ids).json()["next"][0]["chip"]["id"])
        cold = {**order, "max_new": 6, "past_end": True, "sampling": {"temperature": 0.0}}
        written = "".join(line.get("text", "") for line in lines_of(ask("/mt/text/complete", **cold)))
        assert written == BYTES.decode(ids)


@pytest.mark.parametrize(
    ("path", "order", "words"),
    [
        ("read", {"model": "absent", "text": "a"}, "no text model 'absent'"),
        ("read", {"model": "random", "text": 3}, "text is not a text"),
        ("read", {"model": "random", "text": "a" * 20_001}, "20,001 characters and 20,000"),
        ("read", {"model": "random", "text": "a", "appended": [257]}, "257 is no id of this model; it has 0 to 256"),
        ("read", {"model": "random", "text": "a", "appended": "12"}, "appended is no list"),
        ("next", {"model": "random", "text": "a", "sampling": {"top_p": 2}}, "top_p is 2"),
        ("next", {"model": "random", "text": "a", "sampling": {"evil": 2}}, "nothing else"),
        (
            "next",
            {"model": "random", "text": "a", "temperature": 2},
            "'temperature' is no setting here; it belongs into sampling",
        ),
        ("read", {"model": "random", "text": "a", "sed": 2}, "'sed' is no setting here; there are model, text"),
        ("complete", {"model": "random", "text": "a", "max_new": 100_000}, "at most 1000"),
        ("complete", {"model": "random", "text": "a", "max_new": 0}, "max_new is 0; it must be 1 to 1,000,000"),
        ("complete", {"model": "random", "text": "a", "appended": [300]}, "300 is no id"),
        ("complete", {"model": "random", "text": "a", "stop": [""]}, "stop is no list"),
        ("complete", {"model": "random", "text": "a", "seed": "x"}, "seed is 'x'"),
    ],
)
def test_a_bad_order_is_refused_in_a_sentence(ask, path, order, words):
    answer = ask(f"/mt/text/{path}", **order)
    assert answer.status_code == 400 and words in answer.json()["error"]
