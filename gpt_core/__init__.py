"""gpt_core: ids in, ids out. The public names, each imported when it is first used.

The verbs live in modules of their own names: ``from gpt_core.generate import generate``, ``from gpt_core.train import train``.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "cache": ("KVCache",),
    "checkpoint": ("Checkpoint", "load", "save"),
    "codec": ("Codec", "codec_from_dict"),
    "config": ("PRESETS", "GPTConfig"),
    "errors": ("UserError",),
    "model": ("GPT",),
    "sampling": ("Sampling", "generators_for"),
    "tokens": ("Shard", "ShardWriter"),
    "train_config": ("TrainConfig",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
