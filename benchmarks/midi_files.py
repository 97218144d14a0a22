"""Which MIDI files of a folder a benchmark reads."""

from __future__ import annotations

from pathlib import Path

from gpt_core.errors import UserError


def spread(folder: Path, files: int | None = None) -> list[Path]:
    """The MIDI files of a folder, or so many of them, evenly spread; UserError where there is none."""
    found = sorted(p for p in folder.rglob("*") if p.suffix.lower() in (".mid", ".midi"))
    if not found:
        raise UserError(f"{folder} holds no MIDI files; name a folder that does")
    return found[:: max(1, len(found) // files)][:files] if files else found
