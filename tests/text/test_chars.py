"""The character codec, by hand."""

from __future__ import annotations

import pytest

from gpt_core.codec import Codec, codec_from_dict
from gpt_core.errors import UserError
from gpt_core.text.chars import END, CharCodec


def test_ids_follow_the_code_points():
    codec = CharCodec.train(["cab", "é\n"])
    assert codec.alphabet == ["\n", "a", "b", "c", "é", "\ufffd"] and codec.vocab_size == 7
    assert codec.encode("cab\n") == [3, 1, 2, 0] and codec.decode([3, 1, 2, 0]) == "cab\n"
    assert codec.special_ids == {"bos": 6, "eos": 6} and isinstance(codec, Codec)


def test_what_the_alphabet_lacks_is_named_and_becomes_unknown():
    codec = CharCodec("ab")
    assert codec.unknown("abba x🙂x") == [" ", "x", "🙂"]
    assert codec.encode("ax") == [0, 2] and codec.decode([0, 2]) == "a\ufffd"


def test_the_end_token_is_letters_unless_asked_for():
    codec = CharCodec(f"ab{END}")
    end = codec.special_ids["eos"]
    assert end not in codec.encode(f"a{END}") and codec.encode(f"a{END}b", special=True) == [
        *codec.encode("a"),
        end,
        *codec.encode("b"),
    ]
    assert codec.decode([0, end]) == codec.decode([0]) and codec.decode([end], special=True) == END
    assert codec.token_bytes(end) == b"" and codec.stream().push(end) == ""


def test_round_trips():
    codec = CharCodec("añ🙂")
    again = codec_from_dict(codec.to_dict())
    assert again.alphabet == codec.alphabet
    stream = again.stream()
    assert "".join(stream.push(i) for i in codec.encode("ñ🙂a")) + stream.finish() == "ñ🙂a"


def test_refusals():
    with pytest.raises(UserError, match="not one character"):
        CharCodec(["ab"])
    with pytest.raises(UserError, match="not one character"):
        CharCodec("a\ud800")
    with pytest.raises(UserError, match="id 9 is not in the vocabulary"):
        CharCodec("ab").decode([9])
