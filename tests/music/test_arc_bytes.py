"""How many bytes a packed layer takes: below 1.2 MB for 2,048 tokens and 8 heads, and nothing is sent twice."""

from __future__ import annotations

import numpy as np
import pytest

from music_transformer import events as ev
from music_transformer.arc_query import ArcPack, ArcQuery
from music_transformer.arcs import music_view
from tests.music.test_arcs import IDS, model_of


def bytes_of(pack: ArcPack) -> int:
    return len(pack.to_bytes())


def test_a_layer_of_2048_tokens_and_8_heads_is_less_than_1_2_megabytes():
    g = np.random.default_rng(0)
    ids = [
        ev.BOS,
        *(i for p in g.integers(40, 80, 520).tolist() for i in (ev.VELOCITY + p % 32, p, ev.TIME_SHIFT + 9, 128 + p)),
    ]
    view = music_view(model_of(context=2048, heads=8), ids[:2048])
    weights = view.pack("heads", 1)
    rows, edges = 8 * 2048, len(weights.packed.index)
    assert bytes_of(weights) == 4 + rows + 4 * edges + 4 * rows and max(np.diff(weights.packed.indptr)) <= 17
    assert (
        4 + rows + 4 * 17 * rows + 4 * rows == 1_196_036 < 1_200_000
    )  # no row has more edges: 16, and the first token
    again = ArcPack.from_bytes(weights.to_bytes(), 8, 2048)
    assert np.array_equal(again.packed.indptr, weights.packed.indptr) and (again.totals == 1).all()
    for token in (0, 5, 1000, 2047):  # every head keeps 90 % of the row or its 16 strongest, and says what it left out
        for m in view.arcs(ArcQuery(1, group="event", tokens=(token,))).mass:
            kept = again.packed.row(m.head, token)[1]
            assert m.shown + m.hidden == pytest.approx(1, abs=1e-4) and (kept.sum() > 0.8999 or len(kept) >= 16)


def test_totals_are_sent_only_where_rows_do_not_sum_to_one():
    view = music_view(model_of(), IDS)
    mean, most = view.pack("mean", 1), view.pack("max", 1)
    assert (
        bytes_of(mean) == len(mean.packed.to_bytes()) + 4 * 8 and bytes_of(most) == len(most.packed.to_bytes()) + 6 * 8
    )
    for pack in (mean, most):
        assert np.array_equal(ArcPack.from_bytes(pack.to_bytes(), 1, 8).totals, pack.totals)
