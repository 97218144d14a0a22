"""Session: what all tabs share: the models, the queue, the visitors and their shelves."""

from __future__ import annotations

import os
import re
import secrets
import tempfile
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from fastapi import Request, Response

from gpt_core.errors import UserError
from music_transformer.web.model_list import Models
from music_transformer.web.settings import AUTH_VARIABLE, ServeConfig
from music_transformer.web.shelf import Shelf, shelf_folder
from music_transformer.web.turns import Turns

COOKIE = "mt_visitor"
_SECRET = re.compile(r"[A-Za-z0-9_-]{43}")
_YEAR = 365 * 24 * 3600
_SHELVES = 64  # kept in memory; the others are read again from disk when their visitor comes back


class Session:
    """One per process. Methods are safe in any thread."""

    def __init__(self, config: ServeConfig | None = None) -> None:
        self.config = config or ServeConfig()
        self.turns = Turns(self.config.queue_size)
        self.models = Models(self.config)
        self.root = Path(self.config.folder) if self.config.folder else default_folder()
        self.scratch = tempfile.TemporaryDirectory(prefix="music-transformer-")
        self.login: Callable[[Request], str | None] = lambda request: None  # who is logged in; page.py sets it
        self.jobs: dict[tuple[str, str], Any] = {}  # (visitor, id) -> the composition that runs; see stream.py
        self._shelves: WeakValueDictionary[str, Shelf] = WeakValueDictionary()  # one object per visitor at any time
        self._recent: deque[Shelf] = deque(maxlen=_SHELVES)
        self._shelving = threading.Lock()

    @property
    def accounts(self) -> list[tuple[str, str]] | None:
        """The logins asked for, as (name, password), or None where the page is open."""
        text = self.config.auth or os.environ.get(AUTH_VARIABLE)
        return accounts_from(text) if text else None

    def warm_up(self) -> threading.Thread:
        """Load the model and render the page's sounds in the background, so that the first click finds them ready."""
        thread = threading.Thread(target=self._warm_up, name="warm-up", daemon=True)
        thread.start()
        return thread

    def _warm_up(self) -> None:
        from music_transformer.sample_bank import sample_bank

        for load in (self.models.music, sample_bank):
            try:
                load()
            except UserError:
                continue  # the page says it when it needs it

    def visitor(self, request: Request, response: Response) -> str:
        """Who asks: the login's name, or the secret of a cookie that is given to newcomers."""
        user = self.login(request)
        if user is not None:
            return f"login {user}"
        secret = request.cookies.get(COOKIE, "")
        if not _SECRET.fullmatch(secret):
            secret = secrets.token_urlsafe(32)
            secure = request.url.scheme == "https"
            response.set_cookie(COOKIE, secret, max_age=_YEAR, httponly=True, samesite="strict", secure=secure)
        return secret

    def shelf(self, visitor: str) -> Shelf:
        """The visitor's pieces."""
        with self._shelving:
            shelf = self._shelves.get(visitor) or Shelf(shelf_folder(self.root, visitor))
            self._shelves[visitor] = shelf
            if shelf not in self._recent:
                self._recent.append(shelf)
            return shelf

    def about(self, model: str | None = None) -> dict[str, Any]:
        """What plays and what composes, as JSON types, for the page's foot."""
        from music_transformer.audio import sound_line
        from music_transformer.version import package_version

        piano = self.models.music(model)
        size = sum(p.numel() for p in piano.model.parameters())
        return {
            "version": package_version(),
            "model": model or self.models.usual,
            "parameters": size,
            "checkpoint": piano.sha[:12],
            "sound": sound_line(),
            "max_upload": self.config.max_upload,
        }

    def close(self) -> None:
        """End what is being composed, keeping what exists, and delete the temporary files."""
        running = list(self.jobs.values())
        for job in running:
            job.stop()
        for job in running:
            job.join(10)
        self.scratch.cleanup()


def default_folder() -> Path:
    """The folder for visitors' pieces inside the user's data folder."""
    from platformdirs import user_data_path

    return user_data_path("music-transformer") / "pieces"


def accounts_from(text: str) -> list[tuple[str, str]]:
    """``"ann:secret,ben:other"`` -> name and password of each; UserError without quoting the password."""
    accounts = []
    for number, part in enumerate(text.split(","), start=1):
        name, colon, password = part.partition(":")
        if not (name and colon and password):
            raise UserError(f"login {number} of --auth is not NAME:PASSWORD; write for instance ann:a-long-password")
        accounts.append((name, password))
    return accounts
