"""music_transformer: music in, music out. The public names, each imported when it is first used."""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "score": ("Note", "Pedal", "Score", "Tempo", "TimeSignature", "make_score"),
    "midi": ("ImportReport", "read_midi", "write_midi"),
    "events": ("EventCodec", "decode", "describe", "encode", "from_one_hot", "normalize", "one_hot", "token_notes"),
    "pedals": ("fold_pedals",),
    "augment": ("crop", "stretch", "transpose"),
    "grammar": ("Grammar", "GrammarConfig"),
    "corpus": ("CorpusConfig", "build_corpus"),
    "arcs": ("attention",),
    "audio": ("render_wav",),
    "compose": ("continue_score", "generate_score"),
    "models": ("load",),
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
