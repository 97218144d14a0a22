"""What the Text tab asks: orders checked, texts read, the last logits kept so that sliders re-score without reading."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from gpt_core.errors import UserError
from gpt_core.options import check
from gpt_core.text.complete import CompleteConfig, Piece, TextSampling
from gpt_core.text.models import DEFAULT
from music_transformer.web.model_list import Models
from music_transformer.web.reading import LONGEST_TEXT

if TYPE_CHECKING:
    from torch import Tensor

    from gpt_core.checkpoint import Checkpoint

_KEPT = 32  # logits of this many texts: 50,257 numbers are 200 kB
_MOST_APPENDED = 4096
_LIMITS = {"max_new": 1000, "takes": 4}
_READ = ("model", "text", "appended", "sampling", "special")  # what any order may hold
_WRITE = ("max_new", "takes", "seed", "past_end")  # and one that lets the model write, and stop
_SURPRISES = 1024  # tokens at the text's end whose surprise is shown


class Readings:
    """Reads for all visitors. Nothing is kept of a text but its last logits, and those under the ids themselves."""

    def __init__(self, models: Models) -> None:
        self.models = models
        self._logits: OrderedDict[tuple[str, tuple[int, ...]], Tensor] = OrderedDict()
        self._lock = threading.Lock()

    def model(self, order: Any) -> Checkpoint:
        """The model an order names."""
        check_names(order, (*_READ, *_WRITE, "stop"))
        return self.models.get("text", str(order.get("model", DEFAULT)))

    def ids(self, order: Any) -> list[int]:
        """The text's ids and the ids appended by hand; of an empty text the end token, as completion reads it."""
        from gpt_core.text.complete import context_ids

        return context_ids(self.model(order), _text(order), self.appended(order), special=order.get("special") is True)

    def appended(self, order: Any) -> list[int]:
        """The ids appended by hand; UserError for what is no id of the order's model."""
        size, appended = self.model(order).codec.vocab_size, order.get("appended", [])
        if not isinstance(appended, list) or len(appended) > _MOST_APPENDED:
            raise UserError(f"appended is no list of at most {_MOST_APPENDED:,} ids; undo some")
        for i in appended:
            if not isinstance(i, int) or isinstance(i, bool) or not 0 <= i < size:
                raise UserError(f"{i!r:.20} is no id of this model; it has 0 to {size - 1}")
        return appended

    def read(self, order: Any) -> dict[str, Any]:
        """Chips with surprise, the next tokens, and what the model cannot see."""
        from gpt_core.text.complete import notices
        from gpt_core.text.explore import surprises, text_surprises

        model, ids, text = self.model(order), self.ids(order), _text(order)
        seen = surprises(model, ids[-_SURPRISES:])[1:] if len(ids) > _SURPRISES else text_surprises(model, ids)
        prompt = len(seen) - len(self.appended(order))
        return {
            "tokens": [s.to_dict() for s in seen], "prompt": max(0, prompt), "count": len(ids) - (not text),
            "notices": notices(model, text, len(ids), 0), "next": self.next(order),
        }  # fmt: skip

    def next(self, order: Any) -> list[dict[str, Any]]:
        """The ten likeliest next tokens under the order's settings."""
        import torch

        from gpt_core.text.explore import candidates

        model, ids = self.model(order), self.ids(order)
        found = candidates(model.codec, torch.tensor([ids]), self._last(model, ids), sampling_from(order))
        return [c.to_dict() for c in found]

    def complete(self, order: Any, notice: Callable[[str], None]) -> list[str]:
        """The whole continuations of an order, take by take."""
        texts: dict[int, str] = {}
        for piece in self.stream(order, notice):
            texts[piece.take] = texts.get(piece.take, "") + piece.text
        return [texts[take] for take in sorted(texts)]

    def stream(self, order: Any, notice: Callable[[str], None]) -> Iterator[Piece]:
        """The continuations of an order as they come: from its text and what was appended to it."""
        from gpt_core.text.complete import stream

        text, config, stop = completion_from(order)
        model, appended = self.model(order), self.appended(order)
        return stream(model, text, config, sampling_from(order), stop=stop, appended=appended, notice=notice)

    def begun(self, order: Any) -> str:
        """The text that an order's continuations follow."""
        return _text(order) + self.model(order).codec.decode(self.appended(order), special=True)

    def _last(self, model: Checkpoint, ids: list[int]) -> Tensor:
        from gpt_core.text.explore import last_logits

        key = (model.sha, tuple(ids))
        with self._lock:
            kept = self._logits.get(key)
        if kept is None:
            kept = last_logits(model, ids)
            with self._lock:
                self._logits[key] = kept
                while len(self._logits) > _KEPT:
                    self._logits.popitem(last=False)
        return kept

    def lens(self, order: Any) -> list[dict[str, Any]]:
        """What each layer would let follow the last token."""
        import torch

        from gpt_core.attention import trace
        from gpt_core.lens import guesses
        from gpt_core.text.explore import chip

        model, ids = self.model(order), self.ids(order)
        seen = trace(model.model, torch.tensor(ids[-model.config.context :]))
        rows = guesses(model.model, seen, seen.length - 1)
        return [
            {"layer": g.layer, "chips": [asdict(chip(model.codec, i)) for i in g.ids], "probabilities": g.probabilities}
            for g in rows
        ]


def check_names(order: Any, known: Sequence[str]) -> None:
    """Refuse an order that is no object, or that asks for what would be passed over."""
    if not isinstance(order, dict):
        raise UserError("the order is not an object; send {model, text, ...}")
    inner = {f.name for f in fields(TextSampling)}
    for name in order:
        if name not in known:
            place = "it belongs into sampling" if name in inner else f"there are {', '.join(known)}"
            raise UserError(f"{name!r:.40} is no setting here; {place}")


def _text(order: dict[str, Any]) -> str:
    text = order.get("text", "")
    if not isinstance(text, str):
        raise UserError("text is not a text; send a string")
    if len(text) > LONGEST_TEXT:
        raise UserError(f"the text has {len(text):,} characters and {LONGEST_TEXT:,} are read at most; shorten it")
    return text


def sampling_from(order: dict[str, Any]) -> TextSampling:
    """The settings of an order; what it leaves out has its default. UserError for other names and wrong values."""
    given = order.get("sampling", {})
    known = {f.name for f in fields(TextSampling)}
    if not isinstance(given, dict) or set(given) - known:
        raise UserError(f"sampling may set {', '.join(sorted(known))}, and nothing else")
    made = TextSampling(**given)
    check(made)
    return made


def completion_from(order: Any) -> tuple[str, CompleteConfig, list[str]]:
    """Text, length, takes and seed, and stop strings of an order; UserError beyond what one visitor may ask for."""
    check_names(order, (*_READ, *_WRITE, "stop"))
    config = CompleteConfig(**{k: order[k] for k in (*_WRITE, "special") if k in order})
    check(config)
    for name, most in _LIMITS.items():
        if getattr(config, name) > most:
            raise UserError(f"{name} is {getattr(config, name)}; here it is at most {most}")
    stop = order.get("stop", [])
    if not isinstance(stop, list) or len(stop) > 8 or not all(isinstance(s, str) and 0 < len(s) <= 100 for s in stop):
        raise UserError("stop is no list of at most 8 strings of 1 to 100 characters")
    return _text(order), config, stop
