"""Character codec: one id per character of an alphabet, for character-level models."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gpt_core.errors import UserError

UNKNOWN = "\N{REPLACEMENT CHARACTER}"
END = "<|endoftext|>"


class CharCodec:
    """Text <-> ids, one character each: the alphabet by code point, then an unknown character, then the end token.

    A character outside the alphabet becomes U+FFFD; ``unknown(text)`` lists them beforehand.
    """

    kind = "chars"

    def __init__(self, alphabet: Iterable[str]) -> None:
        letters = sorted(set(alphabet) - {UNKNOWN})
        if any(len(c) != 1 or "\ud800" <= c <= "\udfff" for c in letters):
            raise UserError("the alphabet holds entries that are not one character; give characters")
        self.alphabet = [*letters, UNKNOWN]
        self._ids = {c: i for i, c in enumerate(self.alphabet)}

    @property
    def vocab_size(self) -> int:
        """Characters, the unknown one, and the end token."""
        return len(self.alphabet) + 1

    @property
    def special_ids(self) -> dict[str, int]:
        """``bos`` and ``eos`` share the last id."""
        return {"bos": len(self.alphabet), "eos": len(self.alphabet)}

    def unknown(self, text: str) -> list[str]:
        """Return the characters of ``text`` that the alphabet lacks, each once."""
        return sorted(set(text) - self._ids.keys())

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        """Text -> ids; with ``special`` the letters ``<|endoftext|>`` are the end token, without they are letters."""
        parts = text.split(END) if special else [text]
        unknown, out = self._ids[UNKNOWN], []
        for n, part in enumerate(parts):
            out += [self.special_ids["eos"]] * (n > 0) + [self._ids.get(c, unknown) for c in part]
        return out

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """The same for many texts."""
        return [self.encode(t) for t in texts]

    def decode(self, ids: Sequence[int], *, special: bool = False) -> str:
        """Ids -> text. Raises UserError for an id out of the vocabulary."""
        end = END if special else ""
        return "".join(end if i == len(self.alphabet) else self._character(i) for i in ids)

    def _character(self, i: int) -> str:
        if not 0 <= i < self.vocab_size:
            raise UserError(f"id {i} is not in the vocabulary; it has 0 to {self.vocab_size - 1}")
        return self.alphabet[i] if i < len(self.alphabet) else ""

    def token_bytes(self, i: int) -> bytes:
        """Return the UTF-8 bytes of id ``i``; none for the end token."""
        return self._character(i).encode("utf-8")

    def stream(self) -> CharStream:
        """Return a decoder that takes ids one at a time."""
        return CharStream(self)

    def to_dict(self) -> dict[str, Any]:
        """The alphabet as one string."""
        return {"kind": self.kind, "alphabet": "".join(self.alphabet)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> CharCodec:
        """Mirror of ``to_dict``."""
        return cls(data["alphabet"])

    @classmethod
    def train(cls, texts: Iterable[str]) -> CharCodec:
        """Take every character of ``texts`` into the alphabet."""
        letters: set[str] = set()
        for text in texts:
            letters.update(text)
        return cls(letters)


class CharStream:
    """Ids in, characters out: nothing has to wait, a character is one id."""

    def __init__(self, codec: CharCodec) -> None:
        self.codec = codec

    def push(self, i: int) -> str:
        """Return the character of id ``i``."""
        return self.codec.decode([i])

    def finish(self) -> str:
        """Return nothing: no character is left over."""
        return ""
