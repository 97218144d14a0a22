"""Byte-level BPE against Hugging Face's GPT-2 tokenizer, and by hand."""

from __future__ import annotations

import json

import pytest

from gpt_core.codec import codec_from_dict
from gpt_core.errors import UserError
from gpt_core.text.bpe import END, BPECodec, byte_alphabet
from gpt_core.text.bpe_files import read_tokenizer, write_tokenizer
from tests.text.varied import archive, texts


@pytest.fixture(scope="module")
def codec():
    return BPECodec.train(texts(800, seed=5) + ["the cat sat on the mat, the cat sat"] * 40, 700)


def their_tokenizer(folder):
    from transformers import GPT2TokenizerFast

    vocab = folder / "encoder.json" if (folder / "encoder.json").is_file() else folder / "vocab.json"
    merges = folder / "vocab.bpe" if (folder / "vocab.bpe").is_file() else folder / "merges.txt"
    return GPT2TokenizerFast(vocab=str(vocab), merges=str(merges))


def assert_same_ids(ours, theirs, strings):
    wanted = theirs(strings, split_special_tokens=True)["input_ids"]
    for text, ids, right in zip(strings, ours.encode_many(strings), wanted, strict=True):
        assert ids == ours.encode(text) == right, repr(text)
        assert ours.decode(ids) == text
    for text, right in zip(strings, theirs(strings)["input_ids"], strict=True):
        ids = ours.encode(text, special=True)
        assert ids == right, repr(text)
        assert ours.decode(ids, special=True) == text


def test_ids_are_those_of_hugging_face_for_a_vocabulary_of_our_own(codec, tmp_path):
    write_tokenizer(codec, tmp_path)
    assert_same_ids(codec, their_tokenizer(tmp_path), texts(1000))


@pytest.mark.corpus
def test_ids_are_gpt2s_on_ten_thousand_texts(tmp_path):
    folder = archive("gpt2-bpe", tmp_path)
    ours = read_tokenizer(folder)
    assert ours.vocab_size == 50257 and ours.special_ids == {"bos": 50256, "eos": 50256}
    # Of the released model's own examples (its README and paper's code): well-known ids.
    assert ours.encode("Hello world") == [15496, 995] and ours.encode(" the") == [262]
    assert_same_ids(ours, their_tokenizer(folder), texts(10_000))


def test_the_byte_alphabet_is_gpt2s():
    table = byte_alphabet()
    assert len(set(table.values())) == 256
    # Known from the released vocabulary: space, newline, tab, soft hyphen, and what stands for itself.
    assert [table[b] for b in (0x20, 0x0A, 0x09, 0xAD, 0x41, 0xE9)] == ["Ġ", "Ċ", "ĉ", "Ń", "A", "é"]


def test_merges_are_learned_from_the_text():
    # 'aa' is the commonest pair of "aaab", then 'aaa'... by hand: a+a, then aa+a is as common as a+b, then aaa+b.
    codec = BPECodec.train(["aaab"] * 10, 256 + 3 + 1)
    assert codec.merges[0] == ("a", "a") and codec.vocab_size == 260
    assert len(codec.encode("aaab")) < 4 and codec.decode(codec.encode("aaab")) == "aaab"


def test_the_letters_of_a_special_token_are_text_unless_asked_for(codec):
    eos = codec.special_ids["eos"]
    assert eos == codec.vocab_size - 1
    assert eos not in codec.encode(f"a{END}b") and codec.decode(codec.encode(f"a{END}b")) == f"a{END}b"
    assert codec.encode(f"a{END}b", special=True) == [*codec.encode("a"), eos, *codec.encode("b")]
    assert codec.decode([*codec.encode("a"), eos]) == "a"
    assert codec.decode([*codec.encode("a"), eos], special=True) == f"a{END}"


def test_streaming_holds_back_half_a_character(codec):
    emoji = [codec.vocab[byte_alphabet()[b]] for b in "🙂".encode()]
    stream = codec.stream()
    assert [stream.push(i) for i in emoji] == ["", "", "", "🙂"] and stream.finish() == ""
    stream = codec.stream()
    assert [stream.push(i) for i in [*emoji[:2], codec.vocab["a"]]] == ["", "", "\ufffda"]
    stream = codec.stream()
    assert stream.push(emoji[0]) == "" and stream.finish() == "\ufffd"
    assert codec.decode(emoji[:3]) == "\ufffd"


def test_streamed_text_is_the_decoded_text(codec):
    for text in texts(300, seed=2):
        stream, ids = codec.stream(), codec.encode(text)
        assert "".join(stream.push(i) for i in ids) + stream.finish() == text
        part = ids[: len(ids) // 2 + 1]  # may end inside a character
        stream = codec.stream()
        assert "".join(stream.push(i) for i in part) + stream.finish() == codec.decode(part)


def test_the_dictionary_rebuilds_the_codec(codec):
    data = json.loads(json.dumps(codec.to_dict()))
    again = codec_from_dict(data)
    assert (again.vocab, again.merges, again.special) == (codec.vocab, codec.merges, codec.special)


def test_a_special_token_in_the_middle_of_the_ids_survives():
    vocab = {c: i + (i >= 100) for i, c in enumerate(sorted(byte_alphabet().values()))}
    codec = BPECodec(vocab, [], {END: 100})
    assert codec_from_dict(codec.to_dict()).vocab == codec.vocab


def test_tokenizer_json_reads_the_same(codec, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    write_tokenizer(codec, tmp_path / "a")
    their_tokenizer(tmp_path / "a").backend_tokenizer.save(str(tmp_path / "b" / "tokenizer.json"))
    a, b = read_tokenizer(tmp_path / "a"), read_tokenizer(tmp_path / "b")
    assert (
        (a.vocab, a.merges, a.special) == (b.vocab, b.merges, b.special) == (codec.vocab, codec.merges, codec.special)
    )


def test_further_special_tokens_take_the_next_ids(codec, tmp_path):
    more = codec.with_special(["<to-fr>", END])
    assert more.special_ids["<to-fr>"] == codec.vocab_size and more.vocab_size == codec.vocab_size + 1
    write_tokenizer(more, tmp_path)
    assert read_tokenizer(tmp_path).special == more.special


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda v, m: v.pop("a"), "not 0 to"),
        (lambda v, m: v.update({"漢": len(v) + 1}), "not written in bytes"),
        (lambda v, m: m.append(("zq", "zq")), "do not belong together"),
    ],
)
def test_a_damaged_vocabulary_is_refused(codec, change, words):
    vocab, merges = dict(codec.vocab), list(codec.merges)
    change(vocab, merges)
    with pytest.raises(UserError, match=words):
        BPECodec(vocab, merges, codec.special)


def test_refusals_name_what_is_wrong(codec, tmp_path):
    with pytest.raises(UserError, match="character 2"):
        codec.encode("a\ud800b")
    with pytest.raises(UserError, match=f"id {codec.vocab_size} .* 0 to {codec.vocab_size - 1}"):
        codec.decode([codec.vocab_size])
    with pytest.raises(UserError, match="256 bytes"):
        BPECodec.train(["a"], 100)
    with pytest.raises(UserError, match=r"no tokenizer; it needs encoder.json"):
        read_tokenizer(tmp_path)
    (tmp_path / "vocab.json").write_text("[1]")
    (tmp_path / "merges.txt").write_text("a b c\n")
    with pytest.raises(UserError, match="not an object"):
        read_tokenizer(tmp_path)
    (tmp_path / "vocab.json").write_text("{}")
    with pytest.raises(UserError, match="'a b c' does not name two tokens"):
        read_tokenizer(tmp_path)
