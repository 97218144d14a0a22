"""The logit lens ends in the model's own logits and norms every layer."""

from __future__ import annotations

import json

import pytest
import torch

from gpt_core.attention import trace
from gpt_core.errors import UserError
from gpt_core.lens import guesses, lens
from tests.core.peers import SCHEMES, gpt2_twins, small_model


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_last_layer_is_the_model_itself(scheme):
    model, ids = small_model(scheme), torch.arange(14)
    with torch.no_grad():  # the fused kernels differ by a bit where gradients are kept
        assert torch.equal(lens(model, trace(model, ids), 2), model(ids[None])[0])


def test_every_layer_is_normed_as_hugging_face_norms_its_hidden_states():
    ours, theirs = gpt2_twins(context=64)
    ids = torch.arange(40)
    with torch.no_grad():
        hidden = theirs(ids[None], output_hidden_states=True).hidden_states
        wanted = [theirs.lm_head(theirs.transformer.ln_f(x))[0] for x in hidden[:-1]]
        wanted.append(theirs.lm_head(hidden[-1])[0])  # the last one comes normed already
    seen = trace(ours, ids)
    for layer, logits in enumerate(wanted):
        assert (lens(ours, seen, layer) - logits).abs().max() < 1e-4


def test_guesses_name_the_likeliest_and_where_the_truth_stands():
    model, ids = small_model("rotary"), torch.arange(10, 24)
    seen = trace(model, ids)
    found = guesses(model, seen, 6, top=3)
    assert [g.layer for g in found] == [0, 1, 2]
    for g in found:
        p = lens(model, seen, g.layer)[6].softmax(-1)
        order = p.argsort(descending=True).tolist()
        assert g.ids == order[:3] and g.probabilities == pytest.approx(p[order[:3]].tolist(), abs=1e-6)
        assert order[g.next_rank - 1] == 17 and g.next_probability == pytest.approx(float(p[17]), abs=1e-6)
    assert json.loads(json.dumps(found[0].to_dict()))["layer"] == 0
    assert guesses(model, seen, 13)[0].next_rank is None


def test_what_is_not_there_is_named():
    model = small_model("learned")
    seen = trace(model, torch.arange(5))
    with pytest.raises(UserError, match="no layer 3; the lens reads after 0 to 2 blocks"):
        lens(model, seen, 3)
    with pytest.raises(UserError, match="no token 5; this trace has tokens 0 to 4"):
        guesses(model, seen, 5)
