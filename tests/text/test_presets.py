"""The articles' shapes: GPT-2's four sizes by their parameter counts, and the Transformer-Decoder at 4,096 tokens."""

from __future__ import annotations

import pytest
import torch

from gpt_core.config import PRESETS
from gpt_core.model import GPT


@pytest.mark.parametrize(
    ("name", "parameters"),
    # Counts of the released models (their config through transformers' num_parameters), tied head counted once.
    [("gpt2", 124_439_808), ("gpt2-medium", 354_823_168), ("gpt2-large", 774_030_080), ("gpt2-xl", 1_557_611_200)],
)
def test_gpt2s_sizes(name, parameters):
    with torch.device("meta"):
        assert GPT(PRESETS[name]).parameter_count() == parameters


def test_the_text_preset_fits_25_megabytes_at_half_precision():
    with torch.device("meta"):
        assert 2 * GPT(PRESETS["text"]).parameter_count() <= 25_000_000


@pytest.mark.slow
def test_the_transformer_decoder_reads_4096_tokens():
    config = PRESETS["transformer-decoder"]
    assert (config.n_layer, config.context) == (6, 4096)
    torch.manual_seed(0)
    model = GPT(config).eval()
    ids = torch.randint(0, config.vocab_size, (1, 4096))
    with torch.inference_mode():
        last = model(ids, last_only=True)
        changed = ids.clone()
        changed[0, 0] = (changed[0, 0] + 1) % config.vocab_size
        assert last.shape == (1, 1, config.vocab_size) and bool(last.isfinite().all())
        assert (model(changed, last_only=True) - last).abs().max() > 0  # the last token sees the first
