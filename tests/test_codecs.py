"""One contract for every codec: ids in range, mirrored both ways, rebuilt from its own JSON, never a crash."""

from __future__ import annotations

import importlib.util
import json
import random

import pytest

from gpt_core.codec import CODEC_KINDS, Codec, codec_from_dict
from gpt_core.errors import UserError
from music_transformer.score import Score
from tests.music.scores import random_score

TEXTS = ["", "Call me Ishmael.", "naïve café — “quoted”\n\tand tabs", "日本語 🎹", "a" * 300]


def _events() -> tuple[Codec, list]:
    from music_transformer.events import EventCodec

    return EventCodec(), [Score(), *(random_score(seed, 40) for seed in range(3))]


def _chars() -> tuple[Codec, list]:
    from gpt_core.text.chars import CharCodec

    return CharCodec.train(TEXTS), TEXTS


def _bpe() -> tuple[Codec, list]:
    from gpt_core.text.bpe import BPECodec

    return BPECodec.train(TEXTS, vocab_size=300), TEXTS


MAKERS = {"music-events": _events, "chars": _chars, "byte-bpe": _bpe}


def _present(kind: str) -> bool:
    return importlib.util.find_spec(CODEC_KINDS[kind].partition(":")[0]) is not None


def test_every_kind_is_under_contract():
    assert MAKERS.keys() == CODEC_KINDS.keys()


@pytest.fixture(params=sorted(CODEC_KINDS), scope="module")
def made(request):
    if not _present(request.param):
        pytest.skip(f"{request.param} is not in this version")
    codec, materials = MAKERS[request.param]()
    assert codec.kind == request.param
    return codec, materials


def test_it_is_a_codec(made):
    codec, _ = made
    assert isinstance(codec, Codec)
    assert 0 < codec.vocab_size < 2_000_000
    assert all(0 <= id < codec.vocab_size for id in codec.special_ids.values())


def test_ids_are_plain_numbers_in_range_and_none_is_special(made):
    codec, materials = made
    for material in materials:
        ids = codec.encode(material)
        assert isinstance(ids, list) and all(type(i) is int and 0 <= i < codec.vocab_size for i in ids)
        assert not set(ids) & set(codec.special_ids.values())


def test_decoding_mirrors_encoding(made):
    codec, materials = made
    for material in materials:
        ids = codec.encode(material)
        again = codec.decode(ids)
        assert codec.encode(again) == ids
        if isinstance(material, str):
            assert again == material


def test_it_is_rebuilt_from_its_own_json(made):
    codec, materials = made
    data = json.loads(json.dumps(codec.to_dict()))
    assert data["kind"] == codec.kind
    twin = codec_from_dict(data)
    assert type(twin) is type(codec) and twin.to_dict() == codec.to_dict()
    assert (twin.vocab_size, twin.special_ids) == (codec.vocab_size, codec.special_ids)
    assert [twin.encode(m) for m in materials] == [codec.encode(m) for m in materials]


def test_decode_never_raises_on_ids_in_range(made):
    codec, _ = made
    rng = random.Random(2)
    for _ in range(300):
        codec.decode([rng.randrange(codec.vocab_size) for _ in range(rng.randrange(40))])
    for special in codec.special_ids.values():
        codec.decode([special])


def test_an_unknown_kind_is_refused_by_name():
    with pytest.raises(UserError, match="morse"):
        codec_from_dict({"kind": "morse"})
    with pytest.raises(UserError, match="None"):
        codec_from_dict({})
