"""Strongest edges and packed layers against brute force."""

from __future__ import annotations

import struct
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt_core.edges import STORED, EdgeRule, kept_mask, pack, stored_for, strongest, unpack
from gpt_core.errors import UserError

rules = st.builds(
    EdgeRule,
    top_k=st.integers(1, 9),
    mass=st.sampled_from([0.0, 0.25, 0.5, 0.9, 1.0]),
    threshold=st.sampled_from([0.0, 0.125, 0.5]),
    first=st.sampled_from(["rule", "keep", "hide"]),
)
shapes = st.tuples(st.integers(1, 20), st.integers(1, 4), st.integers(0, 2**31))


def causal_rows(tokens: int, heads: int, seed: int) -> np.ndarray:
    """Rows of multiples of 1/256 that sum to 1: every sum is exact, and ties abound."""
    rng = np.random.default_rng(seed)
    out = np.zeros((heads, tokens, tokens))
    for h in range(heads):
        for t in range(tokens):
            p = rng.dirichlet(np.full(t + 1, 0.5))
            out[h, t, : t + 1] = rng.multinomial(256, p) / 256
    return out


def brute(row: list[float], rule: EdgeRule) -> dict[int, float]:
    left = {j: w for j, w in enumerate(row) if w > 0 and not (j == 0 and rule.first == "hide")}
    pool, kept = sum(left.values()), {}
    for j in sorted(left, key=lambda j: (-left[j], j)):
        if len(kept) == rule.top_k or sum(kept.values()) >= rule.mass * pool or left[j] < rule.threshold:
            break
        kept[j] = left[j]
    if rule.first == "keep" and row[0] > 0:
        kept[0] = row[0]
    return kept


@given(shapes, rules)
def test_rows_one_by_one_and_all_at_once_equal_brute_force(shape, rule):
    for head in causal_rows(*shape):
        mask = kept_mask(head, rule)
        for t, row in enumerate(head):
            wanted = brute(row.tolist(), rule)
            seen = strongest(range(len(row)), row, rule)
            assert dict(zip(seen.keys, seen.weights, strict=True)) == wanted
            assert list(seen.weights) == sorted(seen.weights, reverse=True)
            assert seen.shown == sum(wanted.values()) and seen.hidden == 1 - seen.shown
            assert seen.first == (row[0] if rule.first == "hide" else 0)
            assert np.flatnonzero(mask[t]).tolist() == sorted(wanted)


@given(shapes, rules, st.integers(1, 7))
def test_packed_edges_equal_brute_force(shape, rule, chunk):
    rows = causal_rows(*shape)
    heads, tokens, _ = rows.shape
    parts = [head[i : i + chunk] for head in rows for i in range(0, tokens, chunk)]
    data = pack(parts, heads, tokens, rule).to_bytes()
    counts = struct.unpack_from(f"<I{heads * tokens}B", data)[1:]
    pointers = [sum(counts[:r]) for r in range(heads * tokens + 1)]
    numbers = struct.unpack_from(f"<{2 * pointers[-1]}H", data, 4 + len(counts))
    assert len(data) == 4 + len(counts) + 4 * pointers[-1]
    back = unpack(data, heads, tokens)
    for r in range(heads * tokens):
        wanted = brute(rows[r // tokens, r % tokens].tolist(), rule)
        span = range(pointers[r], pointers[r + 1])
        assert [numbers[i] for i in span] == sorted(wanted)
        assert [numbers[pointers[-1] + i] for i in span] == [round(wanted[j] * 65535) for j in sorted(wanted)]
        keys, weights = back.row(r // tokens, r % tokens)
        assert keys.tolist() == sorted(wanted) and np.allclose(weights, [wanted[j] for j in sorted(wanted)], atol=1e-5)


def test_what_was_not_stored_counts_as_hidden():
    row = np.array([[0.25, 0.5, 0.125, 0.125]])
    packed = pack([np.repeat(row, 4, 0)], 1, 4, EdgeRule(top_k=2, mass=1.0))
    seen = packed.edges(0, 3, EdgeRule(top_k=4, mass=1.0))
    assert seen.keys == (1, 0)
    assert seen.shown == pytest.approx(0.75, abs=1e-4) and seen.hidden == pytest.approx(0.25, abs=1e-4)
    hidden_sink = packed.edges(0, 3, EdgeRule(first="hide"))
    assert hidden_sink.keys == (1,) and hidden_sink.first == pytest.approx(0.25, abs=1e-4)
    assert hidden_sink.hidden == pytest.approx(0.5, abs=1e-4)
    assert set(seen.to_dict()) == {"keys", "weights", "shown", "hidden", "first"}


def test_the_largest_layer_of_2048_tokens_and_8_heads_stays_below_1_14_megabytes():
    flat = np.full((256, 2048), 1 / 2048, np.float32)
    flat[:, 0] = 1 / 4096  # the first token is never among the strongest here, and is kept beside them
    packed = pack((flat for _ in range(64)), 8, 2048, STORED)
    assert packed.manifest() == {"heads": 8, "tokens": 2048, "edges": 8 * 2048 * 17, "scale": 65535}
    assert len(packed.to_bytes()) == 4 + 8 * 2048 * (1 + 4 * 17) < 1_140_000


@pytest.mark.parametrize(("rows", "top_k"), [(8 * 2048, 16), (4 * 1024, 48), (12 * 1024, 21), (1, 48), (40_000, 16)])
def test_smaller_layers_keep_more_edges_in_the_same_room(rows, top_k):
    rule = stored_for(rows)
    assert (rule.top_k, rule.mass, rule.first) == (top_k, 0.9, "keep")
    assert rows > 8 * 2048 or rows * (1 + 4 * (top_k + 1) + 4) + 4 < 1_200_000  # counts, edges, and a viewer's sums


@pytest.mark.parametrize(("tokens", "width"), [(255, 1), (256, 2), (65_536, 4)])
def test_counts_are_as_wide_as_the_longest_row_needs(tokens, width):
    row = np.full((1, tokens), 1 / tokens)
    packed = pack([row], 1, 1, EdgeRule(top_k=65_536, mass=1.0))
    data = packed.to_bytes()
    assert int.from_bytes(data[:4], "little") == width and len(data) == 4 + width + 4 * tokens
    assert unpack(data, 1, 1).to_bytes() == data and unpack(data, 1, 1).indptr.tolist() == [0, tokens]


def test_more_tokens_than_two_bytes_can_number_are_refused():
    with pytest.raises(UserError, match="at most 65,536 tokens and 65537"):
        pack([], 1, 65537)


def test_missing_rows_and_damaged_bytes_are_refused():
    with pytest.raises(ValueError, match="need 6 rows; 3 came"):
        pack([np.eye(3)], 2, 3)
    data = pack([np.eye(3)], 1, 3).to_bytes()
    for broken in (data[:-1], data + b"\0", b"", data[:5], b"\3" + data[1:]):
        with pytest.raises(UserError, match="don't fit"):
            unpack(broken, 1, 3)


def test_rules_out_of_range_are_named():
    with pytest.raises(UserError, match=r"--mass is 1\.5"):
        strongest([0], [1.0], EdgeRule(mass=1.5))
    with pytest.raises(UserError, match="--first is 'last'"):
        strongest([0], [1.0], EdgeRule(first="last"))


def test_the_module_imports_without_torch():
    code = "import sys, gpt_core.edges; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
