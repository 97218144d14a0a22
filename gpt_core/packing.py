"""What an engine prepares from a model's weights, kept as long as the model lives and made again when they change."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Generic, TypeVar

from gpt_core.model import GPT

T = TypeVar("T")


class Shelf(Generic[T]):
    """One prepared thing per model and name; safe to ask from several threads, and holds no model alive."""

    def __init__(self) -> None:
        self._kept: weakref.WeakKeyDictionary[GPT, dict[str, tuple[object, T]]] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    def get(self, model: GPT, name: str, make: Callable[[], T]) -> T:
        """Return what ``make`` returned for these weights; asked again once they were replaced or written to."""
        with self._lock:
            kept = self._kept.setdefault(model, {})
            state = _state(model)
            if name not in kept or kept[name][0] != state:
                kept[name] = (state, make())
            return kept[name][1]


def _state(model: GPT) -> object:
    return [(p.data_ptr(), 0 if p.is_inference() else p._version) for p in model.parameters()]
