"""Text models by name or folder: those that ship with the package, and your own checkpoints."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from gpt_core.errors import UserError

if TYPE_CHECKING:
    from gpt_core.checkpoint import Checkpoint

DEFAULT = "text"


def _home() -> Path:
    return Path(str(files("gpt_core.text"))) / "checkpoints"


def names() -> list[str]:
    """Return the names of the models that came with the package."""
    home = _home()
    return sorted(p.name for p in home.iterdir() if (p / "config.json").is_file()) if home.is_dir() else []


def find(name_or_folder: str | Path) -> Path:
    """Return the folder of a shipped model's name, or the folder itself; UserError if it is neither."""
    name = str(name_or_folder)
    folder = _home() / name if name in names() else Path(name)
    if not folder.is_dir():
        shipped = ", ".join(names()) or "none in this version"
        raise UserError(f"there is no text model {name!r}; give a checkpoint folder, or a shipped name ({shipped})")
    return folder


def load(name_or_folder: str | Path = DEFAULT, device: str = "cpu") -> Checkpoint:
    """Load a shipped model by its name, or a checkpoint folder; UserError if it is neither, or no model of text."""
    from gpt_core import checkpoint
    from gpt_core.device import choose_device

    folder = find(name_or_folder)
    loaded = checkpoint.load(folder, choose_device(device))
    if not hasattr(loaded.codec, "token_bytes"):
        raise UserError(f"{folder} is a model of the kind {loaded.codec.kind!r}, not of text")
    return loaded
