"""Codec protocol: what turns the user's material into ids and back."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from gpt_core.errors import UserError

# kind -> where it lives; the classes stay in their rooms, so that the core imports neither music nor text.
CODEC_KINDS: dict[str, str] = {
    "music-events": "music_transformer.events:EventCodec",
    "byte-bpe": "gpt_core.text.bpe:BPECodec",
    "chars": "gpt_core.text.chars:CharCodec",
}


@runtime_checkable
class Codec(Protocol):
    """Encode material to ids and decode ids to material; one contract test holds for every codec."""

    kind: str

    @property
    def vocab_size(self) -> int:
        """How many ids there are: every id is in ``range(vocab_size)``."""
        ...

    @property
    def special_ids(self) -> dict[str, int]:
        """Ids that are not material: ``pad``, ``bos``, ``eos`` where the codec has them."""
        ...

    def encode(self, material: Any) -> list[int]:
        """Material -> ids, without special ids."""
        ...

    def decode(self, ids: Sequence[int]) -> Any:
        """Ids -> material; never raises on ids in range."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Everything needed to rebuild the codec, as JSON types, ``kind`` included."""
        ...

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Codec:
        """Mirror of ``to_dict``."""
        ...


def codec_from_dict(data: dict[str, Any]) -> Codec:
    """Rebuild the codec that wrote ``data``; unknown kinds are refused by name."""
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in CODEC_KINDS:
        raise UserError(f"codec kind {kind!r} is unknown; this version reads {', '.join(sorted(CODEC_KINDS))}")
    module, _, name = CODEC_KINDS[kind].partition(":")
    return getattr(importlib.import_module(module), name).from_dict(data)
