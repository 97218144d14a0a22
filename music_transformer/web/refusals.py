"""How a refusal speaks to a page or a program: settings by the names that orders have, not by the command line's."""

from __future__ import annotations

import re

from gpt_core.errors import UserError

_FLAG = re.compile(r"(?<![\w-])--([a-z][a-z-]*[a-z])")


def sentence(error: UserError) -> str:
    """The error's sentence with ``--max-new`` as ``max_new``."""
    return _FLAG.sub(lambda m: m[1].replace("-", "_"), str(error))
