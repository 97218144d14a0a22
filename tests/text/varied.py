"""Texts to try codecs on: prose, code, spaces, every plane of Unicode, made from a seed."""

from __future__ import annotations

import os
import random
import tarfile
from pathlib import Path

import pytest

PIECES = (
    "the", "The", "naïve", "don't", "we'll", "'s", "I'M", " ", "  ", "    ", "\t", "\n", "\r\n", "\n\n\n",
    "\u00a0", "\u200b", "\ufeff",
    "if (x == 1) {", "def f(a, b=None):", "0x1F", "3.14159", "1,000,000", "http://a.example/?q=1&r=%20",
    "###", "---", "…", "“quoted”", "—",
    "🙂", "👩‍👩‍👧‍👦", "🇫🇷", "e\u0301", "日本語", "한국어", "Привет", "مرحبا", "שלום", "ไทย",
    "\u0000", "\u0007", "½", "Ⅷ", "𝔘𝔫𝔦", "\U0010ffff",
    "<|endoftext|>", "<|endoftext", "|>", "<script>alert(1)</script>", "&amp;", "\\n", "Ġ", "Ċ", "ĠĠ",
)  # fmt: skip


def texts(count: int, seed: int = 0) -> list[str]:
    rng = random.Random(seed)
    return [_text(rng) for _ in range(count)]


def _text(rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.6:
        return rng.choice(["", " "]).join(rng.choice(PIECES) for _ in range(rng.randint(0, 12)))
    if kind < 0.8:
        return "".join(chr(rng.randint(32, 126)) for _ in range(rng.randint(1, 40)))
    points = (rng.randint(0, 0x10FFFF) for _ in range(rng.randint(1, 12)))
    return "".join(chr(p) for p in points if not 0xD800 <= p <= 0xDFFF)


def archive(name: str, tmp: Path) -> Path:
    """The unpacked folder of a data archive: $MT_DATA/name, else ../shared/data/name.tar.xz unpacked into ``tmp``."""
    ready = Path(os.environ.get("MT_DATA", "absent")) / name
    if ready.is_dir():
        return ready
    packed = Path(__file__).parents[2].parent / "shared" / "data" / f"{name}.tar.xz"
    if not packed.is_file():
        pytest.skip(f"the data archive {name} is not here; set MT_DATA to the folder that holds it")
    with tarfile.open(packed) as tar:
        tar.extractall(tmp, filter="data")
    return tmp / name
