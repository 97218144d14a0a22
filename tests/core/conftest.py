"""Core tests read and write checkpoints with a codec that is neither music nor text."""

from __future__ import annotations

import pytest

from gpt_core import codec


@pytest.fixture
def toy_codec(monkeypatch):
    from tests.core.peers import ToyCodec

    monkeypatch.setitem(codec.CODEC_KINDS, "toy", "tests.core.peers:ToyCodec")
    return ToyCodec()
