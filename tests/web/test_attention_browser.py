"""The viewer in a real browser, on the page it exports: hover, lock, solo, layers, keys, playback, table, downloads."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from gpt_core.edges import EdgeRule
from music_transformer import events as ev
from music_transformer.arc_page import page as page_of
from music_transformer.arc_query import ArcQuery, find_arcs
from music_transformer.arcs import AttentionView, music_view
from tests.music.test_arcs import assert_same, fixture_cases, model_of

pytestmark = pytest.mark.browser
NOTES = 40


@pytest.fixture(scope="module")
def view() -> AttentionView:
    g = np.random.default_rng(0)
    ids = [ev.BOS]
    for pitch in g.integers(48, 84, NOTES).tolist():
        ids += [ev.VELOCITY + 16, pitch, ev.TIME_SHIFT + 24, 128 + pitch]
    return music_view(model_of(context=256, heads=10), ids)


@pytest.fixture(scope="module")
def file(view, tmp_path_factory):
    out = tmp_path_factory.mktemp("page") / "attention.html"
    out.write_text(page_of(view, ArcQuery(layer=1)), "utf-8")
    return out


@pytest.fixture
def browser(chromium):
    return chromium


@pytest.fixture
def page(browser, file):
    made = browser.new_page(viewport={"width": 1280, "height": 900}, device_scale_factor=2)
    made.set_default_timeout(60_000)
    asked, errors = [], []
    made.on("request", lambda r: asked.append(r.url))
    made.on("pageerror", lambda e: errors.append(str(e)))
    made.goto(file.as_uri())
    made.wait_for_selector('[data-ready="1"]')
    yield made
    made.close()
    assert not errors
    assert all(url.startswith(("file:", "data:", "blob:")) for url in asked), asked


def view_of(page, what: str):
    return page.evaluate(
        f"(() => {{ const v = document.getElementById('arcs').arcs, p = v.panes[0]; return {what}; }})()"
    )


def spot(page, note: int) -> tuple[float, float]:
    """Where a note lies on the screen."""
    place = view_of(page, f"p.tokens.note.indexOf({note}, 1)")
    b = view_of(page, f"p.constructor && [p.place.x(p.tokens.notes[{note}][1]), p.place.y(p.tokens.notes[{note}][0])]")
    box = page.locator(".still").bounding_box()
    assert place > 0
    return box["x"] + b[0] + 3, box["y"] + b[1] + 2


def test_hover_looks_click_locks_shift_click_adds(page):
    page.mouse.move(*spot(page, 30))
    first = view_of(page, "v.asked()")
    assert view_of(page, "p.tokens.note[v.asked()[0]]") == 30
    assert "shown" in page.locator(".live").inner_text() and "hidden" in page.locator(".live").inner_text()
    page.mouse.click(*spot(page, 20))
    page.mouse.move(*spot(page, 10))
    assert view_of(page, "v.asked().map(t => p.tokens.note[t])") == [20] and first != view_of(page, "v.asked()")
    page.keyboard.down("Shift")
    page.mouse.click(*spot(page, 35))
    page.keyboard.up("Shift")
    assert view_of(page, "v.asked().map(t => p.tokens.note[t])") == [20, 35]
    page.keyboard.press("Escape")
    assert view_of(page, "v.asked()") == [] and view_of(page, "p.found.arcs.length") == 0


def test_layers_heads_directions_and_limits(page):
    page.get_by_role("button", name="layer 0").click()
    assert view_of(page, "p.layer") == 0
    page.get_by_role("button", name="head 3").click(modifiers=["Shift"])
    assert view_of(page, "[...new Set(p.found.arcs.map(a => a.head))]") == [3]
    page.get_by_role("button", name="head 9").click()
    assert sorted(view_of(page, "[...new Set(p.found.arcs.map(a => a.head))]")) == [3, 9]
    page.get_by_role("button", name="mean").click()
    page.wait_for_function("document.getElementById('arcs').arcs.panes[0].found.arcs.every(a => a.head === -1)")
    page.get_by_role("button", name="is looked at by").click()
    assert view_of(page, "p.query().direction") == "looked-at-by"
    page.get_by_label("Which arcs are shown").select_option("top_k")
    page.get_by_label("How many arcs").fill("2")
    assert view_of(page, "p.found.arcs.length") <= 2
    page.get_by_label("hide first token").check()
    assert view_of(page, "p.query().rule.first") == "hide"
    page.get_by_label("single events").check()
    assert view_of(page, "p.query().group") == "event"


def test_the_keyboard_reaches_everything(page):
    page.locator(".roll").focus()
    before = view_of(page, "p.tokens.note[v.asked()[0]]")
    page.keyboard.press("ArrowLeft")
    assert view_of(page, "p.tokens.note[v.asked()[0]]") == before - 1
    page.keyboard.press("ArrowDown")
    assert view_of(page, "p.layer") == 0
    page.keyboard.press("ArrowUp")
    assert view_of(page, "p.layer") == 1
    page.keyboard.press("4")
    assert view_of(page, "p.heads.has(4)") is False
    page.keyboard.press("Shift+Digit2")
    assert view_of(page, "[...p.heads]") == [2]
    assert page.locator(".live").get_attribute("aria-live") == "polite"


def test_arcs_follow_the_playing_note(page):
    page.locator(".roll").focus()
    page.mouse.click(*spot(page, 2))
    page.keyboard.press("Space")
    page.wait_for_function(
        "(() => { const v = document.getElementById('arcs').arcs; return v.panes[0].tokens.note[v.playing] >= 4; })()"
    )
    assert view_of(page, "p.playhead") > 0
    page.keyboard.press("Space")
    assert view_of(page, "v.playing") == -1 and page.get_by_role("button", name="play from").inner_text() == "▶ Play"


def test_what_is_drawn_is_the_softmax_weight_and_the_table_says_it(page, view):
    page.mouse.click(*spot(page, 33))
    query = ArcQuery.from_dict(view_of(page, "p.query()"))
    want = find_arcs(view.pack("heads", 1), view.tokens.places, view.tokens.leads, query)
    got = view_of(page, "p.found.arcs")
    assert [(a["head"], a["key"], a["weight"]) for a in got] == [(a.head, a.key, a.weight) for a in want.arcs]
    page.get_by_text("The arcs as a table").click()
    rows = page.locator("tbody tr")
    rows.first.wait_for()
    assert rows.count() == min(len(got), 200)
    assert f"{100 * max(a['weight'] for a in got):.2f} %" in rows.first.inner_text()
    apexes = view_of(page, "p.drawn().map(d => Math.min(d.points[3], d.points[5]))")
    far = [
        round(a, 2)
        for a, arc in zip(apexes, got, strict=True)
        if arc["query"] - arc["key"] > 30 and arc["weight"] > 0.02
    ]
    assert len(set(far)) == len(far) > 3


def test_the_canvas_is_as_fine_as_the_screen(page):
    assert view_of(page, "p.canvases[1].width") == 2 * round(page.locator(".still").bounding_box()["width"])


def test_downloads(page):
    arcs = view_of(page, "p.found.arcs.length")

    def taken(name: str) -> bytes:
        with page.expect_download() as waiting:
            page.get_by_role("button", name=f"save the {name}").click()
        with open(waiting.value.path(), "rb") as f:
            return f.read()

    root = ET.fromstring(taken("picture as SVG"))
    widths = [
        (float(e.get("stroke-width")), float(e.get("data-weight"))) for e in root.iter() if e.get("class") == "arc"
    ]
    assert len(widths) == arcs and all(w == pytest.approx(24 * x, abs=1e-4) for w, x in widths)
    assert any(e.get("stroke-dasharray") for e in root.iter() if e.get("data-head") in ("8", "9"))
    assert taken("picture as PNG").startswith(b"\x89PNG")
    data = json.loads(taken("numbers as JSON"))
    assert len(data["edges"]) == arcs and data["model"]["sha"] == "ab" * 32 and data["mass"]


def test_the_dark_theme_has_a_dark_canvas(browser, file):
    page = browser.new_page(color_scheme="dark")
    page.goto(file.as_uri())
    page.wait_for_selector('[data-ready="1"]', timeout=60_000)
    corner = "[...document.querySelector('canvas').getContext('2d').getImageData(5, 5, 1, 1).data]"
    assert max(page.evaluate(corner)[:3]) < 60
    page.close()


def test_the_browsers_edges_are_pythons(page):
    cases = fixture_cases()
    ask = """async (cases) => {
      const source = document.querySelector('script[type=module]').textContent.replace(/openPage\\(document[^]*$/, '');
      const url = URL.createObjectURL(new Blob([source + '\\nexport { edges, readPack };'], { type: 'text/javascript' }));
      const { edges, readPack } = await import(url);
      return cases.map((c) => {
        const pack = readPack(Uint8Array.from(atob(c.pack), (x) => x.charCodeAt(0)).buffer, c.heads, c.length);
        const tokens = { places: c.places, leads: c.leads };
        return c.queries.map((q) => edges(pack, tokens, q));
      });
    }"""
    asked = [{k: v for k, v in c.items() if k != "found"} for c in cases]
    assert_same(page.evaluate(ask, asked), cases)


def test_a_narrow_rule_still_adds_up(view):
    found = view.arcs(ArcQuery(layer=1, tokens=(120,), rule=EdgeRule(top_k=1)))
    assert all(m.shown + m.hidden == pytest.approx(1, abs=1e-4) for m in found.mass)
