"""A benchmark may add a codec of its own; other tests must not see it."""

from __future__ import annotations

import pytest

from gpt_core import codec


@pytest.fixture(autouse=True)
def codecs_stay_as_they_were(monkeypatch):
    monkeypatch.setitem(codec.CODEC_KINDS, "chorale", "benchmarks.jsb:ChoraleCodec")
