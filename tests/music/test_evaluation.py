"""Evaluation: the rates of a model whose nats are known beforehand."""

from __future__ import annotations

import json
import math

import pytest
import torch

from gpt_core import checkpoint
from gpt_core.config import GPTConfig
from gpt_core.errors import UserError
from gpt_core.evaluate import Protocol
from gpt_core.model import GPT
from gpt_core.tokens import Shard, ShardWriter
from music_transformer.cli import main
from music_transformer.evaluation import measure
from music_transformer.events import BOS, EOS, NOTE_OFF, NOTE_ON, TIME_SHIFT, VELOCITY, EventCodec
from music_transformer.midi import write_midi
from music_transformer.score import Note, make_score

# One note of 250 ms, then 750 ms of nothing: 1 velocity, 1 strike, 2 waits, 1 release, EOS = 6 targets, 1 note, 1 second.
PIECE = [BOS, VELOCITY + 10, NOTE_ON + 60, TIME_SHIFT + 24, NOTE_OFF + 60, TIME_SHIFT + 74, EOS]


@pytest.fixture
def even(tmp_path):
    """A checkpoint that gives every id the same probability: ln 391 nats for each event."""
    torch.manual_seed(0)
    model = GPT(GPTConfig(vocab_size=391, context=8, n_layer=1, n_head=1, n_embd=8, tied=False, zero_init=True))
    checkpoint.save(tmp_path / "even", model, EventCodec(), {})
    return tmp_path / "even"


def test_rates_of_an_even_model(even):
    rates = measure(checkpoint.load(even).model, Shard.of([PIECE]), Protocol())
    assert (rates["events"], rates["notes"], rates["seconds"]) == (6, 1, 1.0)
    assert rates["nats_per_event"] == pytest.approx(math.log(391), abs=1e-6)
    assert rates["nats_per_note"] == rates["nats_per_second"] == pytest.approx(6 * math.log(391), abs=1e-5)


def test_a_context_that_no_event_has_is_refused(even):
    with pytest.raises(UserError, match="no event has 7 events before it"):
        measure(checkpoint.load(even).model, Shard.of([PIECE]), Protocol(min_context=7))


def test_files_and_shards_give_the_same(even, tmp_path, capsys):
    files = tmp_path / "files"
    files.mkdir()
    write_midi(make_score([Note(60, 0.0, 0.25, 42), Note(62, 1.0, 1.5, 42)]), files / "a.mid")
    assert main(["evaluate", str(files), "--model", str(even), "--json"]) == 0
    from_files = json.loads(capsys.readouterr().out)
    # velocity, on, wait, off, wait, on, wait, off, EOS
    assert (from_files["events"], from_files["notes"], from_files["seconds"]) == (9, 2, 1.5)
    writer = ShardWriter(tmp_path / "shards", "validation", 391)
    ids = [VELOCITY + 10, 60, TIME_SHIFT + 24, NOTE_OFF + 60, TIME_SHIFT + 74, 62, TIME_SHIFT + 49, NOTE_OFF + 62]
    writer.add([BOS, *ids, EOS])
    writer.close()
    assert main(["evaluate", str(tmp_path / "shards"), "--model", str(even), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["nats_per_event"] == from_files["nats_per_event"]


def test_an_empty_folder_is_one_sentence(even, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    assert main(["evaluate", str(tmp_path / "empty"), "--model", str(even)]) == 1
    assert "holds no MIDI file and no shards" in capsys.readouterr().err


def test_an_unknown_model_is_one_sentence(tmp_path, capsys):
    assert main(["evaluate", str(tmp_path), "--model", "violin"]) == 1
    assert "there is no model 'violin'" in capsys.readouterr().err
