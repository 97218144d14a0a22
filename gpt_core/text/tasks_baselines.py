"""Answers that need no model: what a taught one has to beat."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence

_WORD = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


def copy(source: str) -> str:
    """Answer with the source."""
    return source


class Dictionary:
    """Answer word by word: each source word becomes the target word it shares most sentences with (Dice coefficient)."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        left: Counter[str] = Counter()
        right: Counter[str] = Counter()
        both: Counter[tuple[str, str]] = Counter()
        for source, target in pairs:
            mine, theirs = set(words(source)), set(words(target))
            left.update(mine)
            right.update(theirs)
            both.update((a, b) for a in mine for b in theirs)
        best: dict[str, tuple[float, str]] = {}
        for (a, b), n in both.items():
            found = (2 * n / (left[a] + right[b]), b)
            best[a] = max(best.get(a, (0.0, "")), found)
        self.table = {a: b for a, (_, b) in best.items()}

    def __call__(self, source: str) -> str:
        """Translate; words never seen stay as they are."""
        text = " ".join(self.table.get(w, w) for w in words(source))
        return re.sub(r" ([.,])", r"\1", text[:1].upper() + text[1:])


def words(text: str) -> list[str]:
    """Return lower-case words and punctuation marks."""
    return _WORD.findall(text.lower())


def sentences(text: str) -> list[str]:
    """Split at sentence ends."""
    return [s for s in _SENTENCE.split(text.strip()) if s]


def lead(source: str) -> str:
    """Answer with the first sentence."""
    return next(iter(sentences(source)), "")


def random_sentences(sources: Sequence[str], seed: int = 0) -> list[str]:
    """Answer each source with one of its sentences, drawn from ``seed``."""
    rng = random.Random(seed)
    return [rng.choice(sentences(s) or [""]) for s in sources]
