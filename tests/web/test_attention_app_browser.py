"""The Attention and How it works tabs of the running app in a real browser: every control, two views side by side, downloads."""

from __future__ import annotations

import json
import re
import socket
import struct
import threading
import time
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from gpt_core import checkpoint
from gpt_core.config import GPTConfig
from gpt_core.model import GPT
from music_transformer.arc_query import ArcQuery, find_arcs
from music_transformer.arcs import AttentionView, music_view
from music_transformer.events import EventCodec
from music_transformer.midi import read_midi
from music_transformer.samples import sample_path
from tests.text.scripted import BYTES

from .conftest import PATIENCE, local

pytestmark = pytest.mark.browser
MUSIC = GPTConfig(vocab_size=391, context=256, n_layer=3, n_head=3, n_embd=24, position="rotary")
MODELS = {
    "first": (MUSIC, EventCodec()),
    "relative": (replace(MUSIC, position="relative", n_layer=2), EventCodec()),
    "letters": (GPTConfig(vocab_size=257, context=128, n_layer=2, n_head=2, n_embd=16), BYTES),
}
FOUND = "[...document.querySelectorAll('#mt-arcs .arcs')].map((e) => e.arcs).find(Boolean)"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("arcs")
    for seed, (name, (config, codec)) in enumerate(MODELS.items()):
        torch.manual_seed(seed)
        model = GPT(config)
        with torch.no_grad():
            for p in model.parameters():
                p.add_(torch.randn(p.shape) * 0.3)
        checkpoint.save(root / name, model, codec, {})
    return root


@pytest.fixture(scope="module")
def address(folder):
    import uvicorn

    from music_transformer.web.page import build_app
    from music_transformer.web.settings import ServeConfig

    with pytest.MonkeyPatch.context() as patch, socket.socket() as free:
        patch.setenv("MUSIC_TRANSFORMER_MORE_MODELS", f"{folder / 'relative'}:{folder / 'letters'}")
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        app = build_app(ServeConfig(model=str(folder / "first"), device="cpu", folder=str(folder / "pieces")))
        server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error"))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
        server.should_exit = True
        thread.join(20)


@pytest.fixture(scope="module")
def page(address, chromium):
    """One page for the whole file: no request leaves the host, and the console stays clean."""
    outside, complaints = [], []
    made = chromium.new_page(viewport={"width": 1360, "height": 1000})
    made.set_default_timeout(PATIENCE)
    made.on("request", lambda r: None if local(r.url, address) else outside.append(r.url))
    made.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
    made.on("pageerror", lambda e: complaints.append(str(e)))
    made.goto(address)
    made.get_by_role("tab", name="Attention").click()
    opened(made)
    yield made
    made.close()
    assert not outside and not complaints


@pytest.fixture(scope="module")
def view(folder) -> AttentionView:
    """What the app should show first: the beginning of the first sample."""
    return music_view(checkpoint.load(folder / "first"), read_midi(sample_path("bach_prelude_c"))[0], at=0)


def opened(page) -> None:
    page.wait_for_function(f"{FOUND}?.element.dataset.ready === '1'")


def of(page, what: str):
    return page.evaluate(f"(() => {{ const v = {FOUND}, p = v.panes[0]; return {what}; }})()")


def choose(page, label: str, value: str) -> None:
    """Choose in a list and wait for the view that replaces the one there is."""
    page.evaluate(f"delete {FOUND}.element.dataset.ready")
    page.get_by_label(label, exact=True).locator("visible=true").select_option(value)
    opened(page)


def press(page, button: str) -> None:
    """Press one of the buttons that need another packed layer, and wait for that."""
    page.get_by_role("button", name=button, exact=True).click()
    page.evaluate(f"{FOUND}.refresh(true)")


def taken(page, name: str) -> Path:
    with page.expect_download() as waiting:
        page.locator("#mt-arcs").locator(f"[title='{name}']").click()
    return Path(waiting.value.path())


def slide(page, share: float) -> None:
    script = "(e, x) => { e.value = x; e.dispatchEvent(new Event('input')); }"
    page.get_by_label("How many arcs").evaluate(script, share)


def test_a_piece_opens_at_its_beginning_and_says_what_follows(page, view):
    assert of(page, "p.manifest.whole") == view.whole > 256 == view.trace.length
    assert of(page, "p.manifest.start") == 0 and page.get_by_label("Which part of the piece").input_value() == "0"
    assert view.reach() in page.locator("#mt-arcs").inner_text() and "unread" in view.reach()


def test_the_slider_shows_the_share_it_says_with_the_fewest_arcs(page):
    token = of(page, "p.tokens.kinds.lastIndexOf('on')")
    of(page, f"(v.locked = [{token}], v.answer(true))")
    counts = []
    for share in (0.2, 0.4, 0.7):
        slide(page, share)
        found = of(page, "p.found")
        assert f"{round(100 * share)} %" in page.locator("#mt-arcs output").all_inner_texts()
        for m in found["mass"]:
            weights = [a["weight"] for a in found["arcs"] if a["head"] == m["head"]]
            assert sum(weights) == pytest.approx(m["shown"]) and m["shown"] >= share > m["shown"] - min(weights)
        shown = sum(m["shown"] for m in found["mass"]) / len(found["mass"])
        assert (
            f"shown {100 * shown:.0f} %, hidden {100 - 100 * shown:.0f} %"
            in page.locator("#mt-arcs .live").inner_text()
        )
        counts.append(len(found["arcs"]))
    assert counts[0] < counts[1] < counts[2]
    slide(page, 0.6)


def test_joined_heads_and_both_directions_are_pythons(page, view):
    of(page, "(v.locked = [p.tokens.kinds.indexOf('on', 100)], v.answer(true))")  # with tokens before and after it
    directions = {"is looked at by": "looked-at-by", "looks at": "looks-at"}
    for name, how in (("mean", "mean"), ("max", "max"), ("rollout", "rollout"), ("per head", "heads")):
        press(page, name)
        for button, direction in directions.items():
            page.get_by_role("button", name=button, exact=True).click()
            query, got = ArcQuery.from_dict(of(page, "p.query()")), of(page, "p.find()")
            assert (query.view, query.direction) == (how, direction)
            want = find_arcs(view.pack(how, query.layer), view.tokens.places, view.tokens.leads, query)
            assert len(got["arcs"]) == len(want.arcs) > 0
            for a, b in zip(got["arcs"], want.arcs, strict=True):
                assert (a["head"], a["query"], a["key"]) == (b.head, b.query, b.key)
                assert a["weight"] == pytest.approx(b.weight, abs=3e-5)


def test_a_double_click_on_a_head_is_solo_and_another_brings_all_back(page):
    head = page.get_by_role("button", name="head 1")
    head.dblclick()
    assert of(page, "[...p.heads]") == [1] and {a["head"] for a in of(page, "p.found.arcs")} == {1}
    head.click(modifiers=["Shift"])
    assert of(page, "[...p.heads].sort()") == [0, 1, 2]


def test_pictures_numbers_and_a_page_that_works_offline(page, chromium):
    arcs = of(page, "p.found.arcs.length")
    root = ET.parse(taken(page, "save the picture as SVG")).getroot()
    assert len([e for e in root.iter() if e.get("class") == "arc"]) == arcs
    png = taken(page, "save the picture as PNG").read_bytes()
    size = of(page, "[Math.round(2 * p.place.width), Math.round(2 * p.place.height)]")
    assert png.startswith(b"\x89PNG") and list(struct.unpack(">2I", png[16:24])) == size
    data = json.loads(taken(page, "save the numbers as JSON").read_text("utf-8"))
    assert len(data["edges"]) == arcs and len(data["model"]["sha"]) == 64 and "were in reach" in data["reach"]
    file = taken(page, "one page that works by itself, offline")
    alone = chromium.new_context(offline=True).new_page()
    alone.goto(file.rename(file.with_suffix(".html")).as_uri())
    alone.wait_for_selector('[data-ready="1"]', timeout=PATIENCE)
    assert alone.evaluate("document.getElementById('arcs').arcs.panes[0].found.arcs.length") > 0
    alone.get_by_role("button", name="layer 2").click()
    alone.wait_for_function("document.getElementById('arcs').arcs.panes[0].layer === 2")
    alone.context.close()


def test_two_layers_and_two_models_side_by_side(page):
    for beside, titles, layers in (("layer", ["first", "first"], [1, 2]), ("relative", ["first", "relative"], [1, 1])):
        choose(page, "Beside it", beside)
        assert of(page, "v.panes.map((p) => p.title.textContent)") == titles
        assert of(page, "v.panes.map((p) => p.layer)") == layers
        boxes = [r.bounding_box() for r in page.locator("#mt-arcs .roll").all()]
        assert boxes[0]["y"] == boxes[1]["y"] and boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"]
        page.locator("#mt-arcs .roll").first.focus()
        page.keyboard.press("ArrowLeft")
        asked = of(page, "v.panes.map((p) => [...new Set(p.found.mass.map((m) => m.place))])")
        assert asked[0] == asked[1] and len(asked[0]) == 1, "one question, two answers"
        assert of(page, "v.panes.every((p) => p.found.arcs.length > 0)")
        assert of(page, "JSON.stringify(v.panes[0].found.arcs) !== JSON.stringify(v.panes[1].found.arcs)")
        said = page.locator("#mt-arcs .live").inner_text().splitlines()
        assert [line.split(":")[0] for line in said] == [f"{t}, layer {n}" for t, n in zip(titles, layers, strict=True)]
    both = json.loads(taken(page, "save the numbers as JSON").read_text("utf-8"))
    assert [d["model"]["name"] for d in both] == titles and all(d["edges"] for d in both)
    choose(page, "Beside it", "")
    assert of(page, "v.panes.length") == 1


def test_a_text_is_words_and_speaks_of_words(page):
    choose(page, "Music or text", "text")
    assert of(page, "p.manifest.model.name") == "text", "the shipped model is the first"
    choose(page, "Model", "letters")
    assert of(page, "p.manifest.kind") == "text" and of(page, "p.manifest.model.name") == "letters"
    words = page.locator("#mt-arcs").inner_text()
    assert "Click a word" in words and "writes what it writes" in words and "← → word" in words
    assert not re.search(r"\bnotes?\b|\bplay", words.replace("first token", ""), re.I)
    before = of(page, "v.asked()[0]")
    page.locator("#mt-arcs .roll").focus()
    page.keyboard.press("ArrowLeft")
    assert of(page, "v.asked()[0]") < before and "“" in page.locator("#mt-arcs .live").inner_text()
    of(page, "delete v.element.dataset.ready")
    page.get_by_label("Text to look into").fill("a € b\nb")
    page.get_by_role("button", name="Look", exact=True).click()
    page.wait_for_function(f"{FOUND}?.element.dataset.ready === '1' && {FOUND}.panes[0].tokens.labels.includes('⏎')")
    assert of(page, "p.tokens.labels") == ["a", "␣", "⟨e2⟩", "⟨82⟩", "⟨ac⟩", "␣", "b", "⏎", "b"]


def test_how_it_works_walks_in_whole_numbers_and_uncut_headings(page):
    page.get_by_role("tab", name="How it works").click()
    page.wait_for_selector("#mt-steps [data-ready='1']", state="attached")
    total = GPT(MODELS["letters"][0]).parameter_count()
    page.get_by_label("Model", exact=True).locator("visible=true").select_option("letters")
    page.wait_for_function(f"document.querySelector('#mt-steps .total')?.innerText === '{total:,}'")
    page.get_by_text("The whole matrix of this head").click()
    labels = page.locator("#mt-steps .words button").all_inner_texts()
    matrices = page.locator("#mt-steps .grid table").all()
    assert len(matrices) == 3
    for matrix in matrices:
        heads = matrix.locator("th[scope=col]").all_inner_texts()
        assert [h.strip() for h in heads] == [label.strip() for label in labels]
        assert matrix.evaluate("(t) => [...t.querySelectorAll('th')].every((h) => h.scrollWidth <= h.clientWidth + 1)")
    assert page.locator("#mt-steps .total").inner_text() == f"{total:,}"
    page.locator("#mt-steps .words button").nth(3).click()
    page.wait_for_function("document.querySelector('#mt-steps .words button:nth-child(4)').ariaPressed === 'true'")
    page.get_by_text("looks most at").first.wait_for()
    assert page.locator("#mt-steps h3").count() == 7
