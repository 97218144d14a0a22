"""Exports: widths are the weights, arcs have apexes of their own, pictures and pages hold what they say."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET

import pytest

from gpt_core.edges import EdgeRule
from gpt_core.errors import UserError
from music_transformer import arc_export
from music_transformer.arc_page import SCRIPTS, viewer_script
from music_transformer.arc_query import Arc, ArcSet, Mass
from music_transformer.arc_scene import HEADS, Curve, Roll, answer, head_color
from music_transformer.arc_tokens import music_tokens
from music_transformer.arcs import attention
from tests.music.test_arcs import IDS, STATIC, model_of


@pytest.fixture(scope="module")
def found():
    return attention(model_of(), IDS, layer=1, rule=EdgeRule(mass=0.9))


def apex(points: tuple[float, ...]) -> float:
    _, y1, _, y2, _, y3, _, y4 = points
    at = [((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3) for t in (i / 500 for i in range(501))]
    return min(a * y1 + b * y2 + c * y3 + d * y4 for a, b, c, d in at)


def test_svg_draws_every_arc_as_wide_as_its_weight(found):
    root = ET.fromstring(arc_export.to_svg(found))
    arcs = [e for e in root.iter() if e.get("class") == "arc"]
    assert len(arcs) == len(found.arcs.arcs) > 5
    for e in arcs:
        assert float(e.get("stroke-width")) == pytest.approx(24 * float(e.get("data-weight")), abs=1e-4)
        assert e.get("stroke") == HEADS[int(e.get("data-head"))]
    got = {(int(e.get("data-head")), int(e.get("data-key"))) for e in arcs}
    assert got == {(a.head, a.key) for a in found.arcs.arcs}
    words = "".join(e.text or "" for e in root.iter())
    assert "% hidden" in words and "does not explain" in words


def test_long_arcs_have_apexes_of_their_own():
    ids = [389] + [i for p in range(60, 80) for i in (p, 355, 128 + p)]
    tokens = music_tokens(ids)
    roll = Roll(tokens)
    keys = [p for p in sorted(set(tokens.places)) if tokens.note[p] >= 0][:-1]
    for head in (0, 1):
        box = roll.box(58, "note")
        heights = [round(apex(roll.curve(box, roll.box(k, "note"), head)), 1) for k in keys]
        assert len(set(heights)) == len(keys) and min(heights) > 0
        assert heights == sorted(heights)  # the farther, the higher
    one, two = (roll.curve(roll.box(58, "note"), roll.box(keys[0], "note"), h) for h in (0, 1))
    assert apex(two) - apex(one) > 3


def test_heads_from_the_ninth_on_are_dashed():
    roll = Roll(music_tokens(IDS))
    found = ArcSet(tuple(Arc(h, 4, 1, 0.1) for h in (0, 7, 8, 9)), (Mass(0, 4, 1, 0.1, 0.9, 0),))
    curves = {s.arc.head: s for s in answer(roll, found, "note", False) if isinstance(s, Curve) and s.arc}
    assert [bool(curves[h].dash) for h in (0, 7, 8, 9)] == [False, False, True, True]
    assert curves[8].stroke == curves[0].stroke == head_color(8)


def test_png_is_twice_the_size_and_shows_the_heads_colours(found):
    from PIL import Image

    roll, _ = arc_export.strokes(found)
    image = Image.open(io.BytesIO(arc_export.to_png(found)))
    assert image.size == (2 * roll.width, 2 * (roll.height + 30))
    colors = {c for _, c in image.convert("RGB").getcolors(1 << 24)}
    for head in (0, 1):
        assert tuple(int(HEADS[head][i : i + 2], 16) for i in (1, 3, 5)) in colors


def test_json_holds_query_edges_mass_and_the_models_hash(found, tmp_path):
    data = json.loads(found.save(tmp_path / "a.json").read_text("utf-8"))
    assert data["model"]["sha"] == "ab" * 32 and data["query"]["layer"] == 1
    assert data["edges"][0]["from"] == "E4 at 0.50 s" and len(data["edges"]) == len(found.arcs.arcs)
    for m in data["mass"]:
        shown = sum(e["weight"] for e in data["edges"] if e["head"] == m["head"])
        assert m["shown"] == pytest.approx(shown) and m["shown"] + m["hidden"] == pytest.approx(m["total"])
        assert m["total"] == pytest.approx(1, abs=1e-4)  # weights are kept to 1/65535


def test_the_page_stands_alone(found, tmp_path):
    text = found.save(tmp_path / "a.html").read_text("utf-8")
    assert (
        not re.search(r"(src|href)=", text.split("<script", 1)[0])
        and "import " not in viewer_script().split("//", 1)[0]
    )
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.S)[1])
    assert data["asked"] == list(found.query.tokens) and len(data["packs"]) == 4 * 2
    script = viewer_script()
    assert not re.search(r"^(import|export) ", script, re.M)
    assert "fetch(" in script and "http" not in script.replace("http://www.w3.org/2000/svg", "")


def test_names_of_the_viewers_modules_do_not_clash():
    tops = [
        re.findall(r"^(?:export )?(?:async )?(?:function|class|const) (\w+)", part, re.M)
        for part in map(source, SCRIPTS)
    ]
    names = [n for part in tops for n in part]
    assert len(names) == len(set(names)), sorted(n for n in names if names.count(n) > 1)


def source(name: str) -> str:
    return (STATIC / f"{name}.js").read_text("utf-8")


@pytest.mark.skipif(shutil.which("node") is None, reason="no node")
def test_the_browser_bends_arcs_as_python_does(found, tmp_path):
    for name in ("arcs_data", "arcs_draw"):
        (tmp_path / f"{name}.mjs").write_text(source(name).replace('.js"', '.mjs"'), "utf-8")
    ask = """
    import { boxOf, curve, rollLayout, WIDEST, HEADS } from "WHERE";
    import { readFileSync } from "node:fs";
    const { tokens, arcs, groups } = JSON.parse(readFileSync(0, "utf8")), layout = rollLayout(tokens, 1180);
    const bend = (a, g) => curve(layout, boxOf(layout, a.query, g), boxOf(layout, a.key, g), a.head);
    console.log(JSON.stringify({ curves: groups.map((g) => arcs.map((a) => bend(a, g))), WIDEST, HEADS }));
    """.replace("WHERE", (tmp_path / "arcs_draw.mjs").as_uri())
    (tmp_path / "ask.mjs").write_text(ask, "utf-8")
    tokens = found.view.tokens
    pairs = [Arc(h, q, k, 0.1) for q in range(8) for k in range(q + 1) for h in (0, 3)]
    asked = {"tokens": tokens.to_dict(), "arcs": [vars(a) for a in pairs], "groups": ["note", "event"]}
    done = subprocess.run(["node", tmp_path / "ask.mjs"], input=json.dumps(asked), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    got, roll = json.loads(done.stdout), Roll(tokens)
    assert (got["WIDEST"], tuple(got["HEADS"])) == (24, HEADS)
    for group, curves in zip(asked["groups"], got["curves"], strict=True):
        for arc, points in zip(pairs, curves, strict=True):
            assert roll.curve(roll.box(arc.query, group), roll.box(arc.key, group), arc.head) == pytest.approx(points)


def test_other_endings_and_folders_are_refused(found, tmp_path):
    with pytest.raises(UserError, match=r"not as '.gif'"):
        found.save(tmp_path / "a.gif")
    with pytest.raises(UserError, match="can't be written"):
        found.save(tmp_path / "absent" / "a.json")
