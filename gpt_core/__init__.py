"""gpt_core: ids in, ids out. A decoder-only transformer with its sampling, training, checkpoints and views inside."""

from __future__ import annotations

import importlib
from typing import Any

# public name -> where it lives; nothing is imported before it is used
_NAMES = {
    "GPT": "model",
    "PRESETS": "config",
    "Checkpoint": "checkpoint",
    "Codec": "codec",
    "GPTConfig": "config",
    "KVCache": "cache",
    "Sampling": "sampling",
    "SelfAttention": "model",
    "TrainConfig": "train_config",
    "UserError": "errors",
    "generators_for": "sampling",
    "load": "checkpoint",
    "save": "checkpoint",
    "trace": "attention",
}
# ``generate`` and ``train`` are not here: as names of this package they are the modules of those functions.
__all__ = sorted(_NAMES)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_NAMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
