"""Rebuild the sample MIDI files, byte for byte, and their fingerprints in README.md: python data/make_samples.py."""

from __future__ import annotations

import hashlib
import re
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


def main() -> None:
    """Write every sample into data/ and into the package, and its SHA-256 into data/README.md."""
    readme = HERE / "README.md"
    text = readme.read_text(encoding="utf-8")
    for name, midi in build().items():
        for folder in (HERE, HERE.parent / "music_transformer" / "samples"):
            (folder / f"{name}.mid").write_bytes(midi)
        fingerprint = hashlib.sha256(midi).hexdigest()
        text = re.sub(rf"(`{name}\.mid` .*`)[0-9a-f]{{64}}`", rf"\g<1>{fingerprint}`", text)
    readme.write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
