"""The models a visitor may choose, by name: the app's own, those that ship, and folders named in the environment."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpt_core.errors import UserError
from music_transformer import models as music_models
from music_transformer.web.settings import MODEL_VARIABLE, ServeConfig

if TYPE_CHECKING:
    from gpt_core.checkpoint import Checkpoint

MORE_VARIABLE = "MUSIC_TRANSFORMER_MORE_MODELS"  # checkpoint folders to offer beside those that ship
_MODELS = 4  # kept in memory beside the app's own


class Models:
    """Music and text models, loaded when first asked for, the last few kept. Methods are safe in any thread."""

    def __init__(self, config: ServeConfig) -> None:
        self.config = config
        self._own: Checkpoint | None = None
        self._loaded: OrderedDict[str, Checkpoint] = OrderedDict()
        self._lock = threading.Lock()
        folders = [Path(p) for p in os.environ.get(MORE_VARIABLE, "").split(os.pathsep) if p]
        self._more = {f.name: f for f in folders if (f / "config.json").is_file()}

    @property
    def source(self) -> str:
        """The app's own music model: a name or a folder."""
        chosen = self.config.model
        return os.environ.get(MODEL_VARIABLE, chosen) if chosen == ServeConfig.model else chosen

    @property
    def usual(self) -> str:
        """The short name of the app's own music model, as receipts carry it."""
        return Path(self.source).name

    def names(self, kind: str) -> list[str]:
        """The names to choose from, of kind ``music`` or ``text``, the usual one first."""
        if kind == "music":
            return list(dict.fromkeys([self.usual, *music_models.names(), *self._of(kind)]))
        from gpt_core.text import models as text_models

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
        with self._lock:
            if kind == "music" and name == self.usual:
                self._own = self._own or music_models.load(self.source, self.config.device)
                return self._own
            if name not in self._loaded:
                self._loaded[name] = self._load(kind, name)
            self._loaded.move_to_end(name)
            while len(self._loaded) > _MODELS:
                self._loaded.popitem(last=False)
            return self._loaded[name]

    def music(self, name: str | None = None) -> Checkpoint:
        """A music model; None is the app's own."""
        return self.get("music", self.usual if name is None else name)

    def maker(self, facts: dict[str, Any]) -> Checkpoint:
        """The music model that a piece's facts (or a receipt's) name, where it is on the list; else the app's own."""
        name = facts.get("model")
        return self.music(name if name in self.names("music") else None)

    def _load(self, kind: str, name: str) -> Checkpoint:
        if name in self._more:
            from gpt_core.checkpoint import load
            from gpt_core.device import choose_device

            return load(self._more[name], choose_device(self.config.device))
        if kind == "music":
            return music_models.load(name, self.config.device)
        from gpt_core.text import models as text_models

        return text_models.load(name, self.config.device)


def _plays_music(folder: Path) -> bool:
    try:
        return '"music-events"' in (folder / "codec.json").read_text("utf-8")
    except (OSError, UnicodeDecodeError):  # it is being replaced: whoever asks for it is told
        return False
