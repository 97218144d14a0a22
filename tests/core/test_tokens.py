"""Token shards, the rows drawn from them, and evaluation windows that score each token once."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gpt_core.errors import UserError
from gpt_core.tokens import IGNORE, Batches, Shard, ShardWriter, windows

PIECES = [list(range(10, 40)), [5, 6, 7], list(range(50, 61))]


def write(folder, pieces, masks=None, split="train", vocab=61):
    writer = ShardWriter(folder, split, vocab)
    for i, piece in enumerate(pieces):
        writer.add(piece, masks[i] if masks else None)
    writer.close()
    return Shard.open(folder, split)


@pytest.mark.parametrize(("vocab", "width"), [(61, 2), (65536, 2), (65537, 4)])
def test_pieces_come_back(tmp_path, vocab, width):
    pieces = [*PIECES, [vocab - 1]]
    shard = write(tmp_path, pieces, vocab=vocab)
    assert [shard.piece(i).tolist() for i in range(len(shard))] == pieces
    assert (tmp_path / "train.bin").read_bytes()[-width:] == (vocab - 1).to_bytes(width, "little")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["train.bin", "train.idx.npy"]


def test_fingerprints_see_ids_and_borders(tmp_path):
    seen = {write(tmp_path / str(i), pieces).fingerprint() for i, pieces in enumerate([PIECES, PIECES[::-1], [[1, 2]]])}
    seen.add(Shard.of([[1], [2]]).fingerprint())
    assert len(seen) == 4
    assert write(tmp_path / "again", PIECES).fingerprint() == write(tmp_path / "0", PIECES).fingerprint()


def test_nothing_is_visible_before_close(tmp_path):
    writer = ShardWriter(tmp_path, "train", 61)
    writer.add([1, 2, 3])
    with pytest.raises(UserError, match="holds no split 'train'"):
        Shard.open(tmp_path, "train")
    writer.close()
    assert Shard.open(tmp_path, "train").piece(0).tolist() == [1, 2, 3]


@pytest.mark.parametrize("ids", [[61], [-1]])
def test_ids_out_of_the_vocabulary_are_refused(tmp_path, ids):
    with pytest.raises(UserError, match="the vocabulary has 61"):
        ShardWriter(tmp_path, "train", 61).add(ids)


def test_masks_of_another_length_are_refused(tmp_path):
    with pytest.raises(UserError, match="2 entries for 3 ids"):
        ShardWriter(tmp_path, "train", 61).add([1, 2, 3], [1, 0])


def test_shards_that_do_not_fit_together_are_refused(tmp_path):
    write(tmp_path, PIECES)
    (tmp_path / "train.bin").write_bytes(b"\0" * 10)
    with pytest.raises(UserError, match="10 bytes but its index counts 44 tokens"):
        Shard.open(tmp_path, "train")
    with pytest.raises(UserError, match="0 tokens"):
        write(tmp_path, [])


def test_a_mask_of_an_earlier_build_does_not_survive(tmp_path):
    write(tmp_path, [[1, 2, 3]], [[0, 1, 1]])
    assert write(tmp_path, [[4, 5]]).mask is None


def test_rows_are_windows_of_the_stream():
    shard = Shard.of([list(range(61))])
    x, y = Batches(shard, 8).rows(0, range(40))
    assert x.shape == y.shape == (40, 8)
    for row, target in zip(x.tolist(), y.tolist(), strict=True):
        assert row == list(range(row[0], row[0] + 8)) and target == [i + 1 for i in row]
    assert len({int(row[0]) for row in x}) > 15


def test_every_window_of_the_stream_can_come_the_last_included():
    batches = Batches(Shard.of([[0, 1, 2, 3, 4]]), 3)
    assert {int(batches.rows(step, [0])[0][0, 0]) for step in range(50)} == {0, 1}


def test_a_row_depends_on_seed_step_and_number_alone():
    shard = Shard.of([list(np.random.default_rng(0).integers(0, 61, 500))])
    batches = Batches(shard, 16, seed=3)
    together = batches.rows(7, range(6))[0]
    for r in (5, 2, 0):
        assert torch.equal(batches.rows(7, [r])[0][0], together[r])
    assert not torch.equal(Batches(shard, 16, seed=4).rows(7, [0])[0], together[:1])
    assert not torch.equal(batches.rows(8, [0])[0], together[:1])
    assert not torch.equal(together[0], together[1])


def test_pieces_stay_apart_and_are_as_wide_as_the_longest_of_their_batch():
    batches = Batches(Shard.of(PIECES), 12, crops="pieces")
    seen = set()
    for step in range(60):
        x, y = batches.rows(step, [0])
        ids = x[0].tolist()
        if ids[0] == 5:
            seen.add("short")
            assert ids == [5, 6] and y[0].tolist() == [6, 7]
        elif ids[0] >= 50:
            seen.add("middle")
            assert ids == PIECES[2][:-1] and y[0].tolist() == PIECES[2][1:]
        else:
            seen.add("long")
            assert ids == list(range(ids[0], ids[0] + 12)) and ids[0] <= 27
    assert seen == {"short", "middle", "long"}


def test_shorter_pieces_of_a_batch_are_padded_unscored():
    batches = Batches(Shard.of([[5, 6, 7], [20, 21, 22, 23, 24]]), 12, crops="pieces")
    wide = {int(x[0, 0]): (x, y) for x, y in (batches.rows(step, [0, 1]) for step in range(40)) if x[0, 0] != x[1, 0]}
    x, y = wide[5]
    assert x.tolist() == [[5, 6, 7, 0], [20, 21, 22, 23]]
    assert y.tolist() == [[6, 7, IGNORE, IGNORE], [21, 22, 23, 24]]
    assert wide[20][0].tolist() == [[20, 21, 22, 23], [5, 6, 7, 0]]


def test_masked_tokens_are_no_targets(tmp_path):
    shard = write(tmp_path, [[1, 2, 3, 4, 5]], [[0, 0, 0, 1, 1]])
    x, y = Batches(shard, 6, crops="pieces").rows(0, [0])
    assert x[0].tolist() == [1, 2, 3, 4]
    assert y[0].tolist() == [IGNORE, IGNORE, 4, 5]


def test_transforms_change_each_row_by_its_own_generator():
    shard = Shard.of([[20] * 100])

    def shift(ids: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return ids + rng.integers(-3, 4)

    x, y = Batches(shard, 8, transform=shift).rows(0, range(30))
    assert {int(row[0]) for row in x} == set(range(17, 24))
    assert torch.equal(x, y)
    assert torch.equal(Batches(shard, 8, transform=shift).rows(0, [4])[0][0], x[4])
    assert int(shard.ids.max()) == 20


@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=5),
    st.integers(1, 16).flatmap(lambda c: st.tuples(st.just(c), st.integers(1, c))),
)
def test_windows_score_every_token_but_a_pieces_first_once(lengths, shape):
    context, stride = shape
    pieces, n = [], 0
    for length in lengths:
        pieces.append(list(range(n, n + length)))
        n += length
    scored = []
    for ids, first in windows(Shard.of(pieces), context, stride):
        assert 2 <= len(ids) <= context + 1 and ids.tolist() == list(range(ids[0], ids[0] + len(ids)))
        home = next(p for p in pieces if ids[0] in p)
        assert ids[-1] in home
        for at in range(1 + first, len(ids)):
            scored.append(int(ids[at]))
            assert at >= context - stride + 1 or ids[0] == home[0]
    assert sorted(scored) == [i for piece in pieces for i in piece[1:]]


def test_limited_windows_are_spread_over_the_split():
    shard = Shard.of([list(range(60))] * 4)
    every = [ids.tolist() for ids, _ in windows(shard, 8, 4)]
    few = [ids.tolist() for ids, _ in windows(shard, 8, 4, limit=5)]
    assert len(few) == 5 and few[0] == every[0] and few[-1] == every[-1]
    assert all(w in every for w in few)
    assert len(list(windows(shard, 8, 4, limit=10**6))) == len(every)
