"""The Compose tab: the instrument (drawn by static/compose.js over our routes), and the same actions as an API."""

from __future__ import annotations

from music_transformer.web.component import mount
from music_transformer.web.session import Session

TITLE = "Compose"


def build(session: Session) -> None:
    """The instrument."""
    mount("compose", "mt-compose")
