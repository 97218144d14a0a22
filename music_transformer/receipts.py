"""Receipts: what made a piece, written into one text event of its MIDI file, enough to make it again."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import hashlib
import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from gpt_core.errors import UserError

MARK = "music-transformer receipt "  # what the text event starts with; JSON follows
FORMAT = 1
PROMPT_LIMIT = 200_000  # longest embedded prompt, in bytes of text; a larger one leaves its fingerprint only
_UNPACKED_LIMIT = 16_000_000  # a hostile file could unpack without end


@dataclass(frozen=True)
class Receipt:
    """What made one piece.

    ``action`` is "continue" or "generate", ``model`` a name or folder name, ``checkpoint`` the weights' SHA-256,
    ``take`` counts from 0, ``settings`` holds JSON types. ``prompt`` is the uploaded MIDI file as it was, None where
    there was none or where it is too large to travel along; ``prompt_sha256`` is then still its fingerprint.
    """

    action: str
    version: str
    model: str
    checkpoint: str
    seed: int
    take: int = 0
    settings: dict[str, Any] = field(default_factory=dict)
    prompt_sha256: str | None = None
    prompt: bytes | None = field(default=None, repr=False)


def make_receipt(prompt: bytes | None = None, **facts: Any) -> Receipt:
    """Build a receipt whose fingerprint fits its prompt; ``facts`` are the other fields of :class:`Receipt`."""
    return Receipt(**facts, prompt=prompt, prompt_sha256=None if prompt is None else fingerprint(prompt))


def fingerprint(data: bytes) -> str:
    """SHA-256 of a file's bytes, as hex."""
    return hashlib.sha256(data).hexdigest()


def to_text(receipt: Receipt) -> str:
    """Receipt -> one line of ASCII for a text event. A prompt beyond ``PROMPT_LIMIT`` is left out."""
    facts = {"format": FORMAT, **{f.name: getattr(receipt, f.name) for f in dataclasses.fields(receipt)}}
    facts["prompt"] = None if receipt.prompt is None else _pack(receipt.prompt)
    return MARK + json.dumps(facts, sort_keys=True, separators=(",", ":"))


def from_text(text: str) -> Receipt:
    """Mirror of ``to_text``; UserError says what is wrong with a damaged or newer receipt."""
    if not text.startswith(MARK):
        raise UserError("this text is no receipt of music-transformer; it should start with " + repr(MARK.strip()))
    try:
        facts = json.loads(text[len(MARK) :])
        json.dumps(facts, ensure_ascii=False, allow_nan=False).encode()  # the facts will be shown and stored as JSON
    except (ValueError, RecursionError) as error:
        raise UserError(f"the receipt is damaged: its JSON does not parse ({error}); use the original file") from error
    if not isinstance(facts, dict):
        raise UserError("the receipt is damaged: it holds no table of facts; use the original file")
    written = facts.pop("format", None)
    if written != FORMAT:
        raise UserError(
            f"the receipt has format {written}, this version reads format {FORMAT}; update music-transformer"
        )
    return _checked(facts)


def find_receipt(texts: Iterable[str]) -> Receipt | None:
    """Return the receipt among a file's text events, the last one if there are several, or None."""
    found = [t for t in texts if t.startswith(MARK)]
    return from_text(found[-1]) if found else None


_TYPES: dict[str, tuple[type, ...]] = {
    "action": (str,),
    "version": (str,),
    "model": (str,),
    "checkpoint": (str,),
    "seed": (int,),
    "take": (int,),
    "settings": (dict,),
    "prompt_sha256": (str, type(None)),
    "prompt": (str, type(None)),
}


def _checked(facts: dict[str, Any]) -> Receipt:
    missing, strange = sorted(_TYPES.keys() - facts), sorted(facts.keys() - _TYPES)
    if missing or strange:
        what = f"it lacks {', '.join(missing)}" if missing else f"it has unknown facts {', '.join(strange)}"
        raise UserError(f"the receipt is damaged: {what}; use the original file")
    for name, types in _TYPES.items():
        if not isinstance(facts[name], types) or isinstance(facts[name], bool):
            raise UserError(f"the receipt is damaged: {name} is {facts[name]!r:.40}; use the original file")
    prompt = None if facts["prompt"] is None else _unpack(facts["prompt"])
    if prompt is not None and fingerprint(prompt) != facts["prompt_sha256"]:
        raise UserError("the receipt is damaged: its prompt does not match its fingerprint; use the original file")
    return Receipt(**{**facts, "prompt": prompt})


def _pack(prompt: bytes) -> str | None:
    packed = base64.b85encode(zlib.compress(prompt, 9)).decode("ascii")
    return packed if len(packed) <= PROMPT_LIMIT else None


def _unpack(packed: str) -> bytes:
    try:
        unzip = zlib.decompressobj()
        prompt = unzip.decompress(base64.b85decode(packed), _UNPACKED_LIMIT)
        whole = unzip.eof
    except (ValueError, binascii.Error, zlib.error) as error:
        raise UserError(
            f"the receipt is damaged: its prompt does not unpack ({error}); use the original file"
        ) from error
    if not whole:
        raise UserError("the receipt is damaged: its prompt is cut or too large; use the original file")
    return prompt
