"""Turn a training checkpoint into one to ship: fp16 weights, no optimizer state.

python tools/ship_model.py CHECKPOINT music_transformer/checkpoints/piano
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from gpt_core import checkpoint


def ship(source: Path, target: Path) -> None:
    """Write ``target`` as an fp16 copy of ``source``; a MODEL_CARD.md that is there already stays."""
    card = target / "MODEL_CARD.md"
    text = card.read_text("utf-8") if card.is_file() else None
    loaded = checkpoint.load(source)
    checkpoint.save(target, loaded.model, loaded.codec, loaded.run, dtype=torch.float16)
    if text is not None:
        card.write_text(text, encoding="utf-8")
    weights = target / checkpoint.WEIGHTS
    print(f"{target}: {weights.stat().st_size:,} bytes, sha256 {checkpoint.file_sha(weights)}")


if __name__ == "__main__":
    ship(Path(sys.argv[1]), Path(sys.argv[2]))
