"""``python -m music_transformer``: the same as the command ``music-transformer``."""

from __future__ import annotations

import sys

from music_transformer.cli import main

if __name__ == "__main__":
    sys.exit(main())
