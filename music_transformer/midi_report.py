"""ImportReport: what an import found, kept, repaired and lost, in sentences for a musician."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ImportReport:
    """``notes`` and ``end_seconds`` count everything readable in the file; ``drums`` of the notes are not in the Score."""

    notes: int
    end_seconds: float
    lines: tuple[str, ...] = ()
    drums: int = 0

    def to_dict(self) -> dict[str, Any]:
        """As JSON types: notes, end_seconds, drums, report."""
        return {
            "notes": self.notes,
            "end_seconds": round(self.end_seconds, 3),
            "drums": self.drums,
            "report": list(self.lines),
        }

    def summary(self) -> str:
        """One line: how much music was read."""
        return f"{self.notes:,} notes, {clock_text(self.end_seconds)}"


def clock_text(seconds: float) -> str:
    """Seconds -> ``m:ss`` or ``h:mm:ss``."""
    whole = int(seconds + 0.5)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"
