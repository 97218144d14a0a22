"""The app: ``python app.py`` equals ``music-transformer serve``."""

from __future__ import annotations

import sys

from music_transformer.cli import main

if __name__ == "__main__":
    sys.exit(main(["serve", *sys.argv[1:]]))
