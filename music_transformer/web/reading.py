"""What models read for the attention and how-it-works tabs: views by unguessable ids, a few kept."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from typing import Any

import torch

from gpt_core.attention import trace
from gpt_core.checkpoint import Checkpoint
from gpt_core.errors import UserError
from music_transformer.arc_tokens import text_tokens
from music_transformer.arcs import AttentionView, music_view
from music_transformer.midi import read_midi
from music_transformer.samples import TITLES, sample_path
from music_transformer.score import Score
from music_transformer.web.model_list import Models
from music_transformer.web.session import Session
from music_transformer.web.shelf import UnknownPiece

_VIEWS = 16  # kept in memory
LONGEST_TEXT = 20_000


class Views:
    """The attention views of all visitors: each only for whoever opened it, the oldest dropped."""

    def __init__(self) -> None:
        self._views: OrderedDict[tuple[str, str], AttentionView] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, visitor: str, view: AttentionView) -> str:
        """Keep a view; returns its id."""
        id = secrets.token_urlsafe(12)
        with self._lock:
            self._views[visitor, id] = view
            while len(self._views) > _VIEWS:
                self._views.popitem(last=False)
        return id

    def get(self, visitor: str, id: str) -> AttentionView:
        """The view of an id; UnknownPiece where it is another's or was dropped."""
        with self._lock:
            view = self._views.get((visitor, id))
            if view is None:
                raise UnknownPiece("this view is no longer open; choose the piece again")
            self._views.move_to_end((visitor, id))
            return view


def score_of(session: Session, visitor: str, order: dict[str, Any]) -> Score:
    """The score an order names: ``{"sample": name}`` or ``{"piece": id}``."""
    if "sample" in order:
        name = order["sample"]
        if not isinstance(name, str) or name not in TITLES:
            raise UnknownPiece("there is no such sample; choose one from the list")
        return read_midi(sample_path(name))[0]
    return session.shelf(visitor).score(order.get("piece", ""))


def read_music(session: Session, visitor: str, order: dict[str, Any]) -> AttentionView:
    """Let a model read a piece: ``order`` = {piece or sample, model, at: seconds or null}."""
    at = order.get("at")
    if at is not None and (not isinstance(at, int | float) or not 0 <= at < 1e9):
        raise UserError("at is not a number of seconds; give one, or null for the end of the piece")
    name = str(order.get("model", ""))
    return music_view(session.models.get("music", name), score_of(session, visitor, order), at=at, name=name)


def read_text(models: Models, order: dict[str, Any]) -> AttentionView:
    """Let a model read a text: ``order`` = {text, model}."""
    name, text = str(order.get("model", "")), order.get("text")
    if not isinstance(text, str) or not text.strip():
        raise UserError("there is no text to look into; write a sentence or two")
    if len(text) > LONGEST_TEXT:
        raise UserError(f"the text has {len(text):,} characters and {LONGEST_TEXT:,} are read at most; shorten it")
    model = models.get("text", name)
    return text_view(model, model.codec.encode(text), name)


def text_view(model: Checkpoint, ids: list[int], name: str) -> AttentionView:
    """Return the view of a text model on ``ids``."""
    seen = trace(model.model, torch.tensor(ids, dtype=torch.long))
    return AttentionView(seen, text_tokens(pieces_of(model.codec, ids[seen.start :])), {"name": name, "sha": model.sha})


def pieces_of(codec: Any, ids: list[int]) -> list[bytes]:
    """The bytes of each id; a special token shows its name in angle brackets."""
    names = {i: f"⟨{name.strip('<|>')}⟩".encode() for name, i in codec.special_ids.items()}
    return [names.get(i) or codec.token_bytes(i) for i in ids]
