"""Arcs: every token in its place, no weight lost, and the same answers in Python and in the browser's script."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
from importlib import resources

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpt_core.checkpoint import Checkpoint
from gpt_core.config import GPTConfig
from gpt_core.edges import STORED, EdgeRule
from gpt_core.errors import UserError
from gpt_core.model import GPT
from music_transformer import events as ev
from music_transformer.arc_query import ArcPack, ArcQuery, find_arcs
from music_transformer.arc_tokens import legible, music_tokens, place_name, places, text_tokens
from music_transformer.arcs import AttentionView, attention, make_pack, music_view, note_tokens

STATIC = resources.files("music_transformer") / "web" / "static"
# VELOCITY 80 · ON 60 · SHIFT 500 ms · ON 64 · SHIFT 500 · OFF 60 · OFF 64, after BOS
IDS = [ev.BOS, ev.VELOCITY + 19, 60, ev.TIME_SHIFT + 49, 64, ev.TIME_SHIFT + 49, 128 + 60, 128 + 64]


def model_of(seed: int = 0, *, context: int = 64, heads: int = 2) -> Checkpoint:
    torch.manual_seed(seed)
    model = GPT(GPTConfig(vocab_size=ev.VOCAB_SIZE, context=context, n_layer=2, n_head=heads, n_embd=8 * heads))
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn(p.shape) * 0.3)
    return Checkpoint(model.eval(), ev.EventCodec(), {}, "ab" * 32, resources.files("music_transformer"))


def packed(rows: np.ndarray, leads: list[int], kept: EdgeRule = STORED, *, one: bool = True) -> ArcPack:
    """Pack weights [H, T, T]."""
    parts = [range(rows.shape[1])]
    return make_pack(
        lambda head: ((p, rows[head, p.start : p.stop]) for p in parts), len(rows), leads, kept, sum_to_one=one
    )


def random_rows(heads: int, length: int, seed: int) -> np.ndarray:
    g = np.random.default_rng(seed)
    rows = np.tril(g.random((heads, length, length)) ** 4)
    return (rows / rows.sum(-1, keepdims=True)).astype(np.float32)


def test_every_token_has_its_place():
    t = music_tokens(IDS)
    assert t.kinds == ("bos", "velocity", "on", "shift", "on", "shift", "off", "off")
    assert t.labels[1:5] == ("velocity 78", "C4 on", "wait 500 ms", "E4 on")
    assert t.places == (0, 1, 1, 3, 4, 5, 1, 4)  # the note C4 is its velocity, on and off; E4 its on and off
    assert t.leads == (0, 2, 2, 3, 4, 5, 2, 4)  # notes look with their note-on
    assert t.note == (-1, 0, 0, -1, 1, -1, 0, 1)
    assert t.seconds == (0, 0, 0, 0.5, 0.5, 1.0, 1.0, 1.0)
    assert [(n.pitch, n.start, n.end) for n in t.notes] == [(60, 0.0, 1.0), (64, 0.5, 1.0)]
    names = [place_name(t, p) for p in (0, 1, 3, 4)]
    assert names == ["start", "C4 at 0.00 s", "wait 500 ms at 0.50 s", "E4 at 0.50 s"]


def test_a_window_keeps_the_notes_it_touches_and_their_times():
    t = music_tokens(IDS, 4)
    assert t.kinds == ("on", "shift", "off", "off") and [n.pitch for n in t.notes] == [60, 64]
    assert t.note == (1, -1, 0, 1) and t.seconds == (0.5, 1.0, 1.0, 1.0)
    assert t.places == (0, 1, 2, 3)  # token 0 stands alone, as the first token of any window
    assert places([-1, 3, 3, -1, 3]) == (0, 1, 1, 3, 1)


def test_text_is_shown_legibly_and_words_are_joined():
    t = text_tokens([b"The", b" up", b"on", b",", b"\n", b" \xe2", b"\x82\xac", b"5"])
    assert t.labels == ("The", "␣up", "on", ",", "⏎", "⟨20 e2⟩", "⟨82 ac⟩", "5")
    assert t.places == (0, 1, 1, 3, 4, 5, 5, 5) and t.leads == (0, 2, 2, 3, 4, 7, 7, 7)
    assert place_name(t, 1) == "␣upon" and place_name(t, 1, "event") == "␣up"
    assert legible(b"\t\x00") == "⇥⟨0⟩"


def two_heads_on_one_key() -> tuple[ArcPack, list[int]]:
    rows = np.zeros((2, 4, 4), np.float32)
    rows[:, 0, 0] = rows[:, 1, 1] = rows[:, 2, 2] = 1
    rows[0, 3, 1], rows[0, 3, 0] = 0.75, 0.25
    rows[1, 3, 1], rows[1, 3, 2] = 0.5, 0.5
    return packed(rows, [0, 1, 2, 3]), [0, 1, 2, 3]


def test_two_heads_on_one_key_give_two_arcs():
    pack, places = two_heads_on_one_key()
    found = find_arcs(pack, places, places, ArcQuery(tokens=(3,), group="event"))
    assert [(a.head, a.key) for a in found.arcs if a.key == 1] == [(0, 1), (1, 1)]
    assert [a.weight for a in found.arcs if a.key == 1] == pytest.approx([0.75, 0.5], abs=1e-5)


def test_mass_is_shown_or_hidden_and_the_first_token_is_named():
    pack, places = two_heads_on_one_key()
    rule = EdgeRule(mass=1.0, first="hide")
    found = find_arcs(pack, places, places, ArcQuery(tokens=(3,), group="event", heads=(0,), rule=rule))
    (mass,) = found.mass
    assert [a.key for a in found.arcs] == [1]
    assert (mass.shown, mass.hidden, mass.first) == pytest.approx((0.75, 0.25, 0.25), abs=1e-5)


def test_looked_at_by_is_the_same_arcs_from_the_other_end():
    view = AttentionView_of(random_rows(2, 12, 3), places=[0, 1, 1, 3, 4, 1, 4, 7, 8, 8, 10, 3])
    wide = EdgeRule(top_k=99, mass=1.0)
    for group in ("note", "event"):
        forward, backward = set(), set()
        for token in range(12):
            q = ArcQuery(tokens=(token,), group=group, rule=wide)
            forward |= {dataclasses.astuple(a) for a in find_arcs(*view, q).arcs}
            q = dataclasses.replace(q, direction="looked-at-by")
            backward |= {dataclasses.astuple(a) for a in find_arcs(*view, q).arcs}
        assert forward == backward and len(forward) > 40


def AttentionView_of(rows: np.ndarray, places: list[int]) -> tuple[ArcPack, list[int], list[int]]:
    last = {p: t for t, p in enumerate(places)}
    leads = [last[p] for p in places]
    return packed(rows, leads, EdgeRule(top_k=99, mass=1.0, first="keep")), places, leads


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 30), st.integers(1, 4), st.integers(0, 10**6), st.data())
def test_answers_equal_brute_force_over_the_dense_rows(length, heads, seed, data):
    rows = random_rows(heads, length, seed)
    groups = data.draw(st.lists(st.integers(-1, 4), min_size=length, max_size=length))
    place = places(groups)
    pack, place, leads = AttentionView_of(rows, list(place))
    token, head = data.draw(st.integers(0, length - 1)), data.draw(st.integers(0, heads - 1))
    top = data.draw(st.integers(1, 8))
    query = ArcQuery(tokens=(token,), heads=(head,), rule=EdgeRule(top_k=top, mass=1.0))
    found = find_arcs(pack, place, leads, query)
    joined: dict[int, float] = {}
    for key in range(length):
        joined[place[key]] = joined.get(place[key], 0.0) + float(rows[head, leads[token], key])
    best = sorted(((w, -k) for k, w in joined.items() if w > 1e-4), reverse=True)[:top]
    assert [a.weight for a in found.arcs][: len(best)] == pytest.approx([w for w, _ in best], abs=length / 65535)
    (mass,) = found.mass
    assert mass.shown + mass.hidden == pytest.approx(1.0, abs=1e-3)
    back = find_arcs(pack, place, leads, dataclasses.replace(query, direction="looked-at-by")).mass[0]
    received = sum(rows[head, q, k] for q in set(leads) for k in range(length) if place[k] == place[token])
    assert back.total == pytest.approx(float(received), rel=2e-3, abs=2e-3)


def test_bytes_there_and_back():
    pack, _, _ = AttentionView_of(random_rows(3, 20, 1), list(range(20)))
    data = pack.to_bytes()
    again = ArcPack.from_bytes(data, 3, 20)
    assert again.to_bytes() == data and np.array_equal(again.received, pack.received)
    with pytest.raises(UserError, match="don't fit"):
        ArcPack.from_bytes(data[:-2], 3, 20)


def test_packs_of_a_model_keep_the_mass_of_its_softmax():
    view = music_view(model_of(), IDS)
    for how in ("heads", "mean", "rollout"):
        pack = view.pack(how, 1)
        assert (pack.totals == 1).all() and pack.received.astype(float).sum() == pytest.approx(
            pack.totals.sum(), rel=1e-2
        )
    assert (view.pack("max", 1).totals >= 1).all()
    assert view.pack("rollout", 1) is view.pack("rollout", 1)
    with pytest.raises(UserError, match="there is no layer 7"):
        view.pack("heads", 7)
    with pytest.raises(UserError, match="view is 'median'"):
        view.pack("median", 0)


def test_rollout_grown_layer_by_layer_is_rollout():
    from gpt_core.attention import rollout

    view = music_view(model_of(), IDS)
    for layer in (0, 1, 0):
        flow = rollout(view.trace, range(len(IDS)), layer)
        assert torch.allclose(view._rollout(layer), flow, atol=1e-6)


def test_one_call_finds_the_note_at_a_second():
    found = attention(model_of(), IDS, layer=1, at=0.6)
    assert [IDS[i] for i in found.query.tokens] == [64, 128 + 64]
    assert {a.query for a in found.arcs.arcs} == {4} and {a.head for a in found.arcs.arcs} == {0, 1}
    assert attention(model_of(), IDS).query.tokens == found.query.tokens  # without `at`: the last note
    with pytest.raises(UserError, match=r"--at is 1e[+]09 s and the piece lasts"):
        attention(model_of(), IDS, layer=1, at=1e9)
    with pytest.raises(UserError, match="no note"):
        attention(model_of(), [ev.BOS, ev.TIME_SHIFT])
    with pytest.raises(UserError, match="there is no head 5"):
        attention(model_of(), IDS, heads=(5,))
    with pytest.raises(UserError, match="joins all heads"):
        attention(model_of(), IDS, heads=(1,), view="mean")


def test_where_the_window_slid_the_view_says_what_was_in_reach():
    ids = [ev.BOS] + [i for p in range(40, 90) for i in (p, ev.TIME_SHIFT + 99, 128 + p)]
    view = music_view(model_of(context=48), ids)
    assert (view.start, view.whole, view.trace.length) == (len(ids) - 48, 151, 48)
    assert view.reach() == "The window holds 48 events: numbers 104 to 151 were in reach, the 103 before were not."
    assert music_view(model_of(), IDS).reach() == "All 8 events were in reach."
    early = music_view(model_of(context=48), ids, at=20.0)
    asked = note_tokens(early.tokens, 20.0)
    assert early.tokens.notes[early.tokens.note[asked[0]]].start == 20.0
    assert early.start + early.trace.length == 1 + 3 * 20 + 3 + 12  # a quarter of the context beyond the note
    assert early.reach().endswith(f"were in reach, the {early.start} before were not; {151 - 76} more follow, unread.")
    at_once = music_view(model_of(context=48), ids, at=0.0)
    assert at_once.start == 0 and at_once.trace.length == 48 and at_once.whole == 151 and at_once.seconds == 50.0
    assert at_once.reach() == "The window holds 48 events: numbers 1 to 48 were in reach; 103 more follow, unread."


NODE = """
import { edges, readPack } from %r;
import { readFileSync } from "node:fs";
const cases = JSON.parse(readFileSync(0, "utf8")), out = [];
for (const c of cases) {
  const bytes = Uint8Array.from(atob(c.pack), (x) => x.charCodeAt(0));
  const pack = readPack(bytes.buffer, c.heads, c.length);
  const tokens = { places: c.places, leads: c.leads };
  out.push(c.queries.map((q) => edges(pack, tokens, q)));
}
console.log(JSON.stringify(out));
"""


def fixture_cases() -> list[dict]:
    """Packs of several sizes, every kind of query and every token, as JSON; the browser test asks the same."""
    import base64

    out = []
    for heads, length, seed, one in (
        (1, 1, 0, True),
        (2, 9, 1, True),
        (3, 40, 2, True),
        (4, 90, 3, True),
        (1, 50, 4, False),
    ):
        g = np.random.default_rng(seed)
        place = places(g.integers(-1, length // 2, length).tolist())
        last = {p: t for t, p in enumerate(place)}
        leads = [last[p] for p in place]
        rows = random_rows(heads, length, seed) * (1 if one else np.float32(1.75))
        pack = packed(np.minimum(rows, 1), leads, one=one)
        queries = []
        for direction in ("looks-at", "looked-at-by"):
            for group in ("note", "event"):
                for rule in (
                    EdgeRule(),
                    EdgeRule(3, 0.5),
                    EdgeRule(16, 0.9, 0.05, "hide"),
                    EdgeRule(2, 0.3, first="keep"),
                ):
                    tokens = tuple(g.integers(0, length, 3).tolist())
                    some = tuple(sorted(set(g.integers(0, heads, 2).tolist())))
                    queries.append(ArcQuery(0, "heads", direction, group, some, tokens, rule))
                queries += [ArcQuery(0, "heads" if one else "max", direction, group, (), (t,)) for t in range(length)]
        found = [find_arcs(pack, place, leads, q).to_dict() for q in queries]
        data = base64.b64encode(pack.to_bytes()).decode()
        facts = {"heads": heads, "length": length, "places": list(place), "leads": leads, "pack": data}
        out.append(facts | {"queries": [q.to_dict() for q in queries], "found": found})
    return out


def assert_same(theirs: list[list[dict]], cases: list[dict]) -> None:
    for answers, case in zip(theirs, cases, strict=True):
        for got, want in zip(answers, case["found"], strict=True):
            assert [list(a.values()) for a in got["arcs"]] == [list(a.values()) for a in want["arcs"]]
            assert len(got["mass"]) == len(want["mass"])
            for a, b in zip(got["mass"], want["mass"], strict=True):
                assert a == pytest.approx(b, abs=1e-12)


@pytest.mark.skipif(shutil.which("node") is None, reason="no node; the browser test asks the same of a browser")
def test_the_browsers_edges_are_pythons(tmp_path):
    script = tmp_path / "arcs_data.mjs"
    script.write_text((STATIC / "arcs_data.js").read_text("utf-8"), "utf-8")
    (tmp_path / "ask.mjs").write_text(NODE % script.as_uri(), "utf-8")
    cases = fixture_cases()
    asked = json.dumps([{k: v for k, v in c.items() if k != "found"} for c in cases])
    done = subprocess.run(["node", tmp_path / "ask.mjs"], input=asked, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    assert_same(json.loads(done.stdout), cases)
    assert sum(len(f["arcs"]) for c in cases for f in c["found"]) > 500


def test_queries_there_and_back_and_refused():
    query = ArcQuery(3, "mean", "looked-at-by", "event", (), (4, 5), EdgeRule(3))
    assert ArcQuery.from_dict(json.loads(json.dumps(query.to_dict()))) == query
    with pytest.raises(UserError, match="--view"):
        ArcQuery.from_dict({"view": "median"})


def test_a_view_refuses_tokens_of_another_length():
    view = music_view(model_of(), IDS)
    with pytest.raises(ValueError, match="8 tokens"):
        AttentionView(view.trace, music_tokens(IDS[:-1]), {})
