"""What models read for the attention and how-it-works tabs: models by name, views by unguessable ids, a few kept."""

from __future__ import annotations

import os
import secrets
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any

import torch

from gpt_core.attention import trace
from gpt_core.checkpoint import Checkpoint
from gpt_core.checkpoint import load as load_checkpoint
from gpt_core.device import choose_device
from gpt_core.errors import UserError
from gpt_core.text import models as text_models
from music_transformer import models as music_models
from music_transformer.arc_tokens import text_tokens
from music_transformer.arcs import AttentionView, music_view
from music_transformer.midi import read_midi
from music_transformer.samples import TITLES, sample_path
from music_transformer.score import Score
from music_transformer.web.session import Session
from music_transformer.web.shelf import UnknownPiece

MORE_VARIABLE = "MUSIC_TRANSFORMER_MORE_MODELS"  # checkpoint folders to offer beside those that ship
_MODELS, _VIEWS = 4, 16  # kept in memory
LONGEST_TEXT = 20_000


class Models:
    """Music and text models by the names a visitor may choose; loaded when first asked for, the last few kept."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._loaded: OrderedDict[str, Checkpoint] = OrderedDict()
        self._lock = threading.Lock()
        folders = [Path(p) for p in os.environ.get(MORE_VARIABLE, "").split(os.pathsep) if p]
        self._more = {f.name: f for f in folders if (f / "config.json").is_file()}

    def names(self, kind: str) -> list[str]:
        """The names to choose from, of kind ``music`` or ``text``, the usual one first."""
        if kind == "music":
            own = self.session.about_model()
            return [own, *(n for n in [*music_models.names(), *self._of(kind)] if n != own)]
        return [*text_models.names(), *self._of(kind)]

    def _of(self, kind: str) -> list[str]:
        music = [n for n, f in self._more.items() if _plays_music(f)]
        return music if kind == "music" else [n for n in self._more if n not in music]

    def get(self, kind: str, name: str) -> Checkpoint:
        """A model by its name; UserError for a name that is not on the list."""
        if name not in self.names(kind):
            raise UserError(
                f"there is no {kind} model {name!r:.40}; choose one of {', '.join(self.names(kind)) or '(none)'}"
            )
        if kind == "music" and name == self.session.about_model():
            return self.session.piano()
        with self._lock:
            if name not in self._loaded:
                self._loaded[name] = self._load(kind, name)
            self._loaded.move_to_end(name)
            while len(self._loaded) > _MODELS:
                self._loaded.popitem(last=False)
            return self._loaded[name]

    def _load(self, kind: str, name: str) -> Checkpoint:
        device = self.session.config.device
        if name in self._more:
            return load_checkpoint(self._more[name], choose_device(device))
        return music_models.load(name, device) if kind == "music" else text_models.load(name, device)


def _plays_music(folder: Path) -> bool:
    try:
        return '"music-events"' in (folder / "codec.json").read_text("utf-8")
    except (OSError, UnicodeDecodeError):  # it is being replaced: whoever asks for it is told
        return False


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


def read_music(models: Models, visitor: str, order: dict[str, Any]) -> AttentionView:
    """Let a model read a piece: ``order`` = {piece or sample, model, at: seconds or null}."""
    at = order.get("at")
    if at is not None and (not isinstance(at, int | float) or not 0 <= at < 1e9):
        raise UserError("at is not a number of seconds; give one, or null for the end of the piece")
    name = str(order.get("model", ""))
    return music_view(models.get("music", name), score_of(models.session, visitor, order), at=at, name=name)


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
