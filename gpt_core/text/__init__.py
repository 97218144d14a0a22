"""Text on the core: byte-level BPE, GPT-2's weights, completion, the explorer, tasks; names load when they are used.

``complete`` is the module of the function of that name: ``from gpt_core.text.complete import complete``.
"""

from __future__ import annotations

import importlib
from typing import Any

# public name -> where it lives
_NAMES = {
    "BPECodec": "bpe",
    "CharCodec": "chars",
    "CompleteConfig": "complete",
    "CorpusConfig": "corpus",
    "Tree": "explore",
    "build_corpus": "corpus",
    "export_gpt2": "gpt2",
    "import_gpt2": "gpt2",
    "load": "models",
    "next_tokens": "explore",
    "read_tokenizer": "bpe_files",
    "stream": "complete",
    "surprises": "explore",
    "write_tokenizer": "bpe_files",
}
__all__ = sorted(_NAMES)


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_NAMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
