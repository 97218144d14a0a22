"""``python -m gpt_core.text`` is ``gpt-core``."""

import sys

from gpt_core.text.cli import main

if __name__ == "__main__":
    sys.exit(main())
