"""The checkpoints that ship, and loading one by its name or by a folder."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from gpt_core.errors import UserError

if TYPE_CHECKING:
    from gpt_core.checkpoint import Checkpoint

DEFAULT = "piano"


def names() -> list[str]:
    """List the models that come with the package."""
    root = _root()
    return sorted(p.name for p in root.iterdir() if (p / "config.json").is_file()) if root.is_dir() else []


def find(model: str | Path) -> Path:
    """Return the folder of a shipped model's name or of a path; UserError lists the names where neither fits."""
    shipped = _root() / str(model)
    if str(model) in names():
        return shipped
    if Path(model).is_dir():
        return Path(model)
    raise UserError(
        f"there is no model {str(model)!r}; give a checkpoint folder or one of: {', '.join(names()) or '(none)'}"
    )


def load(model: str | Path = DEFAULT, device: str = "auto") -> Checkpoint:
    """Load weights and codec of a music model: a shipped name or a checkpoint folder.

    The result has ``.model`` (ids [B, T] -> logits [B, T, vocab]), ``.codec`` (Score <-> ids), ``.config``, ``.run``, ``.sha``.
    """
    from gpt_core.checkpoint import load as load_checkpoint
    from gpt_core.device import choose_device

    checkpoint = load_checkpoint(find(model), choose_device(device))
    if checkpoint.codec.kind != "music-events":
        raise UserError(f"{model} is a model of {checkpoint.codec.kind}, not of music; give a music checkpoint")
    return checkpoint


def _root() -> Path:
    return Path(str(files("music_transformer"))) / "checkpoints"
