"""Byte-level byte-pair encoding: text <-> ids as GPT-2 does it, trained on any text or read from GPT-2's own files."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gpt_core.errors import UserError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

END = "<|endoftext|>"  # GPT-2's one special token: it stands before every document and ends it


def byte_alphabet() -> dict[int, str]:
    """Return the printable character that stands for each byte in a byte-level vocabulary.

    Visible Latin-1 characters stand for themselves, the others for the characters from U+0100 on, in byte order
    (Radford et al. 2019, section 2.2; the released ``encoder.json`` is written in it).
    """
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [b for b in range(256) if b not in visible]
    return {b: chr(b) if b in visible else chr(0x100 + hidden.index(b)) for b in range(256)}


class BPECodec:
    """Text <-> ids by merges of bytes; every text has ids and comes back unchanged.

    Special tokens: in ``encode(text)`` the letters ``<|endoftext|>`` are ordinary text, whoever typed them; only
    ``encode(text, special=True)`` reads them as the special token. ``decode`` leaves special tokens out; with
    ``special=True`` it writes their names. Bytes that are not UTF-8 decode to U+FFFD.
    """

    kind = "byte-bpe"

    def __init__(self, vocab: Mapping[str, int], merges: Sequence[tuple[str, str]], special: Mapping[str, int]) -> None:
        """Take the byte-level vocabulary (token -> id), the merges by rank, and the special tokens (name -> id)."""
        self.vocab = {t: i for t, i in vocab.items() if t not in special}
        self.merges = list(merges)
        self.special = dict(special)
        self.vocab_size = len(self.vocab) + len(self.special)
        _check_table(self.vocab, self.special, self.merges)

    @property
    def special_ids(self) -> dict[str, int]:
        """``bos`` and ``eos`` (one id in GPT-2), and every further special token under its own name."""
        roles = {"bos": self.special[END], "eos": self.special[END]} if END in self.special else {}
        return {**roles, **{name: i for name, i in self.special.items() if name != END}}

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        from tokenizers import Tokenizer, models, pre_tokenizers

        made = Tokenizer(models.BPE(vocab=self.vocab, merges=self.merges))
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)  # type: ignore[assignment]
        return made

    @cached_property
    def _bytes(self) -> list[bytes]:
        byte = {c: b for b, c in byte_alphabet().items()}
        table = [b""] * self.vocab_size
        for token, i in self.vocab.items():
            table[i] = bytes(byte[c] for c in token)
        return table

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        """Text -> ids. Lone surrogates, which no file can hold, are refused with a UserError."""
        if not special or not self.special:
            return self._plain(text)
        names = "|".join(re.escape(n) for n in sorted(self.special, key=len, reverse=True))
        out: list[int] = []
        for part in re.split(f"({names})", text):
            out += [self.special[part]] if part in self.special else self._plain(part)
        return out

    def _plain(self, text: str) -> list[int]:
        try:
            return self._tokenizer.encode(text).ids
        except (UnicodeEncodeError, TypeError):
            where = next((i for i, c in enumerate(text) if 0xD800 <= ord(c) <= 0xDFFF), 0)
            raise UserError(f"character {where + 1} of the text is half a surrogate pair; remove it") from None

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """The same for many texts at once, on all cores."""
        return [e.ids for e in self._tokenizer.encode_batch_fast(list(texts))]

    def decode(self, ids: Sequence[int], *, special: bool = False) -> str:
        """Ids -> text. Raises UserError for an id out of the vocabulary."""
        names = {i: n.encode() for n, i in self.special.items()} if special else {}
        return b"".join(names.get(i) or self.token_bytes(i) for i in ids).decode("utf-8", errors="replace")

    def token_bytes(self, i: int) -> bytes:
        """Return the bytes that id ``i`` stands for; none for a special token."""
        if not 0 <= i < self.vocab_size:
            raise UserError(f"id {i} is not in the vocabulary; it has 0 to {self.vocab_size - 1}")
        return self._bytes[i]

    def stream(self) -> Stream:
        """Return a decoder that takes ids one at a time and holds back half a character."""
        return Stream(self)

    def with_special(self, names: Iterable[str]) -> BPECodec:
        """Return a codec with further special tokens, their ids behind all others."""
        fresh = [n for n in names if n not in self.special]
        return BPECodec(
            self.vocab, self.merges, {**self.special, **{n: self.vocab_size + k for k, n in enumerate(fresh)}}
        )

    def to_dict(self) -> dict[str, Any]:
        """The whole vocabulary as JSON types: tokens by rising id, merges by rank, special names with their ids."""
        tokens = sorted(self.vocab, key=self.vocab.__getitem__)
        return {
            "kind": self.kind,
            "special": self.special,
            "tokens": tokens,
            "merges": [" ".join(m) for m in self.merges],
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> BPECodec:
        """Mirror of ``to_dict``: the tokens take the ids that the special ones leave free."""
        if not all(isinstance(data[k], k_) for k, k_ in (("special", dict), ("tokens", list), ("merges", list))):
            raise UserError("the vocabulary is not tokens, merges and special tokens; the file is damaged")
        if not all(isinstance(t, str) for t in data["tokens"]) or len(set(data["tokens"])) < len(data["tokens"]):
            raise UserError("the tokens are not texts, each there once; the vocabulary is damaged")
        taken = {i for i in data["special"].values() if isinstance(i, int)}
        free = (i for i in range(len(data["tokens"]) + len(taken)) if i not in taken)
        vocab = dict(zip(data["tokens"], free, strict=False))
        return cls(vocab, [pair(m) for m in data["merges"]], data["special"])

    @classmethod
    def train(cls, texts: Iterable[str], vocab_size: int = 8192, *, special: Sequence[str] = (END,)) -> BPECodec:
        """Learn merges from ``texts`` (an iterator will do) until there are ``vocab_size`` ids, special ones included.

        Too little text for so many merges gives a smaller vocabulary. Raises UserError below 256 + the special tokens.
        """
        from tokenizers import Tokenizer, models, pre_tokenizers, trainers

        if vocab_size < 256 + len(special):
            raise UserError(
                f"the vocabulary size is {vocab_size}; 256 bytes and the special tokens need {256 + len(special)}"
            )
        learner = Tokenizer(models.BPE())
        learner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)  # type: ignore[assignment]
        alphabet = sorted(byte_alphabet().values())
        trainer = trainers.BpeTrainer(
            vocab_size=vocab_size - len(special), initial_alphabet=alphabet, show_progress=False, special_tokens=[]
        )
        learner.train_from_iterator(texts, trainer)
        return cls.from_tokenizer(learner, special)

    @classmethod
    def from_tokenizer(cls, tokenizer: Tokenizer, special: Sequence[str] = (END,)) -> BPECodec:
        """Take vocabulary and merges out of a ``tokenizers`` BPE; ``special`` get the ids behind them."""
        import json

        model = json.loads(tokenizer.to_str())["model"]
        vocab = {t: i for t, i in model["vocab"].items() if t not in special}
        return cls(vocab, [pair(m) for m in model["merges"]], {n: len(vocab) + k for k, n in enumerate(special)})


class Stream:
    """Ids in, text out as soon as it is certain: the bytes of an unfinished UTF-8 character wait for the next id."""

    def __init__(self, codec: BPECodec) -> None:
        self.codec = codec
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, i: int) -> str:
        """Return the text that id ``i`` completes, perhaps none."""
        return self._decoder.decode(self.codec.token_bytes(i))

    def finish(self) -> str:
        """Return what still waits, as U+FFFD: no further byte will complete it."""
        return self._decoder.decode(b"", final=True)


def pair(merge: Any) -> tuple[str, str]:
    """``"a b"`` or ``["a", "b"]`` -> ``("a", "b")``; UserError for anything else."""
    parts = merge.split(" ") if isinstance(merge, str) else merge
    if not isinstance(parts, list | tuple) or len(parts) != 2 or not all(isinstance(p, str) for p in parts):
        raise UserError(f"the merge {merge!r:.60} does not name two tokens; the merges are damaged")
    return parts[0], parts[1]


def _check_table(vocab: Mapping[str, int], special: Mapping[str, int], merges: Sequence[tuple[str, str]]) -> None:
    values = [*vocab.values(), *special.values()]
    wrong = [i for i in values if type(i) is not int]
    if wrong:
        raise UserError(f"the id {wrong[0]!r:.60} of a token is not a whole number; the vocabulary is damaged")
    ids = sorted(values)
    if ids != list(range(len(ids))):
        raise UserError(f"the vocabulary has {len(ids)} tokens but their ids are not 0 to {len(ids) - 1}, each once")
    alphabet = set(byte_alphabet().values())
    strange = next((t for t in vocab if not t or not set(t) <= alphabet), None)
    if strange is not None:
        raise UserError(f"the token {strange!r:.60} is not written in bytes; this is no byte-level vocabulary")
    lacking = sorted(alphabet - vocab.keys())
    if lacking:
        raise UserError(f"the vocabulary lacks {len(lacking)} of the 256 bytes; this is no byte-level vocabulary")
    for a, b in merges:
        if not (a in vocab and b in vocab and a + b in vocab):
            raise UserError(
                f"the merge of {a!r:.60} and {b!r:.60} is not in the vocabulary; the two files do not belong together"
            )
