"""Rebuild the sample MIDI files, byte for byte: python data/make_samples.py."""

from __future__ import annotations

import sys
from pathlib import Path

import bach_prelude_c
import chopin_prelude_a
import petzold_minuet_g
import satie_gymnopedie_1

from music_transformer.midi import write_midi
from music_transformer.samples import TITLES

HERE = Path(__file__).parent
PIECES = {
    "bach_prelude_c": bach_prelude_c.score,
    "chopin_prelude_a": chopin_prelude_a.score,
    "petzold_minuet_g": petzold_minuet_g.score,
    "satie_gymnopedie_1": satie_gymnopedie_1.score,
}


def build() -> dict[str, bytes]:
    """Return the MIDI bytes of every sample, by name."""
    return {name: write_midi(score(), texts=[TITLES[name]]) for name, score in PIECES.items()}


def main(folders: list[Path]) -> None:
    """Write every sample into each folder."""
    for name, midi in build().items():
        for folder in folders:
            (folder / f"{name}.mid").write_bytes(midi)


if __name__ == "__main__":
    main([Path(a) for a in sys.argv[1:]] or [HERE, HERE.parent / "music_transformer" / "samples"])
