"""Sample pieces that come with the package: public-domain works, entered and performed by code of ours."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from gpt_core.errors import UserError

TITLES: dict[str, str] = {
    "bach_prelude_c": "J. S. Bach: Prelude in C major, BWV 846 (whole)",
    "chopin_prelude_a": "F. Chopin: Prelude in A major, op. 28 no. 7 (whole)",
    "petzold_minuet_g": "C. Petzold: Minuet in G major, BWV Anh. 114 (first part)",
    "satie_gymnopedie_1": "E. Satie: Gymnopédie no. 1 (opening)",
}


def sample_names() -> list[str]:
    """Names of the sample pieces; ``TITLES`` says what they are."""
    return list(TITLES)


def sample_path(name: str) -> Path:
    """Return the MIDI file of a sample; UserError lists the names where ``name`` is none of them."""
    if name not in TITLES:
        raise UserError(f"there is no sample {name!r}; choose one of {', '.join(TITLES)}")
    return Path(str(resources.files(__package__) / f"{name}.mid"))
