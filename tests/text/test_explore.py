"""The explorer's numbers, against plain softmax and by hand."""

from __future__ import annotations

import pytest
import torch

from gpt_core.errors import UserError
from gpt_core.sampling import Sampling
from gpt_core.text.bpe import BPECodec
from gpt_core.text.explore import Tree, chip, next_tokens, surprises, text_surprises
from tests.text.scripted import BYTES, scripted
from tests.text.test_complete import random_model


def test_probabilities_are_over_the_whole_vocabulary():
    model = random_model()
    ids = BYTES.encode("hello")
    want = model.model(torch.tensor([ids]))[0, -1].double().softmax(-1)
    found = next_tokens(model, ids, Sampling(top_k=3))
    order = want.sort(descending=True)
    assert [c.chip.id for c in found] == order.indices[:10].tolist() and [c.rank for c in found] == list(range(1, 11))
    assert [c.probability for c in found] == pytest.approx(order.values[:10].tolist(), rel=1e-5)
    assert [c.kept for c in found] == [True] * 3 + [False] * 7
    top = order.values[:3] / order.values[:3].sum()
    assert [c.drawn for c in found] == pytest.approx([*top.tolist(), *[0.0] * 7], rel=1e-5)


def test_temperature_and_top_p_rescore():
    model = random_model()
    ids = BYTES.encode("hello")
    logits = model.model(torch.tensor([ids]))[0, -1].detach().double()
    cold = next_tokens(model, ids, Sampling(temperature=0.5))
    assert cold[0].drawn == pytest.approx(float((logits / 0.5).softmax(-1).max()), rel=1e-5)
    greedy = next_tokens(model, ids, Sampling(temperature=0.0))
    assert [c.drawn for c in greedy] == [1.0] + [0.0] * 9
    share = next_tokens(model, ids)[0].probability + next_tokens(model, ids)[1].probability
    assert sum(c.kept for c in next_tokens(model, ids, Sampling(top_p=share - 1e-6))) == 2


def test_only_the_window_is_seen():
    model = random_model(context=16)
    ids = BYTES.encode("the quick brown fox jumps")
    assert next_tokens(model, ids) == next_tokens(model, ids[-16:])
    with pytest.raises(UserError, match="no token yet"):
        next_tokens(model, [])


def test_surprise_is_the_models_cross_entropy():
    model = random_model(context=32)
    ids = BYTES.encode("some words to read")
    logits = model.model(torch.tensor([ids]))[0].detach()
    read = surprises(model, ids)
    assert read[0].nats is None and len(read) == len(ids)
    want = torch.nn.functional.cross_entropy(logits[:-1], torch.tensor(ids[1:]), reduction="none")
    assert [s.nats for s in read[1:]] == pytest.approx(want.tolist(), abs=1e-4)
    for s, row, i in zip(read[1:], logits[:-1], ids[1:], strict=True):
        assert s.rank == int((row > row[i]).sum()) + 1 and s.likeliest.id == int(row.argmax())


def test_a_known_model_is_never_surprised():
    model = scripted({ord("a"): ord("b"), ord("b"): ord("a")}, likely=60.0)
    read = surprises(model, BYTES.encode("ababb"))
    assert [s.rank for s in read[1:4]] == [1, 1, 1] and read[1].nats < 0.01
    assert read[4].nats > 10 and read[4].likeliest.text == "a"


def test_a_long_text_is_read_in_windows():
    model = random_model(context=8)
    ids = BYTES.encode("abcdefghijklmnopqrstu")
    read = surprises(model, ids)
    assert [s.chip.id for s in read] == ids
    # token 9 is the second of the second window's new half: it sees ids 4..8
    row = model.model(torch.tensor([ids[4:9]]))[0, -1].double().log_softmax(-1)
    assert read[9].nats == pytest.approx(-float(row[ids[9]]), abs=1e-4)


def test_chips_are_legible():
    codec = BPECodec.train([" the\n\tcat🙂"] * 20, 280)
    labels = {c.label: c for c in (chip(codec, i) for i in range(codec.vocab_size))}
    assert labels["␣"].text == " " and labels["⏎"].text == "\n" and labels["⇥"].text == "\t"
    assert labels["F0"].kind == "bytes" and labels["U+0000"].kind == "text"
    assert labels["<|endoftext|>"].kind == "special"
    assert any(label.startswith("␣t") for label in labels)


def test_the_tree_branches_and_undoes():
    tree = Tree([7, 8])
    a = tree.append(1)
    b = tree.append(2)
    assert tree.ids() == [7, 8, 1, 2]
    assert tree.undo() == a and tree.ids() == [7, 8, 1]
    c = tree.append(3)
    assert tree.undo() == a and tree.append(2) == b  # the same token again is the same branch
    assert tree.leaves() == [b, c] and tree.children(a) == [b, c]
    assert (tree.ids(c), tree.appended(b)) == ([7, 8, 1, 3], [1, 2])
    tree.go(c)
    assert [tree.undo() for _ in range(3)] == [a, 0, 0] and tree.ids() == [7, 8]
    with pytest.raises(UserError, match="0 to 3"):
        tree.go(9)


def test_a_text_stands_as_it_is_and_its_first_token_begins_it():
    model = random_model()
    read = text_surprises(model, BYTES.encode("hey"))
    first = model.model(torch.tensor([[256]]))[0, 0].double().log_softmax(-1)
    rest = model.model(torch.tensor([BYTES.encode("hey")]))[0].double().log_softmax(-1)
    want = [-float(first[ord("h")]), -float(rest[0, ord("e")]), -float(rest[1, ord("y")])]
    assert [s.nats for s in read] == pytest.approx(want, abs=1e-5)
    assert text_surprises(model, [256]) == []
    assert [s.chip.label for s in text_surprises(model, [256, ord("a")])] == ["a"]
