"""What a visitor may ask for, checked: which piece, how long, how many takes, how adventurous."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from gpt_core.errors import UserError
from gpt_core.options import OptionSpec, check, specs
from gpt_core.sampling import Sampling
from music_transformer.compose_config import DEFAULT_PRESET, PRESETS, ComposeConfig

MOST_TAKES = 4
LONGEST = 300.0  # seconds of one request: others wait meanwhile
_LARGEST = 2**63  # JSON knows numbers of any length
_COMPOSE_FIELDS = ("seconds", "takes", "seed", "at", "until")


@dataclass(frozen=True)
class Order:
    """One request of a visitor: continue ``piece`` (None: from nothing) with ``model`` (None: the app's own)."""

    piece: str | None = None
    model: str | None = None
    preset: str = DEFAULT_PRESET
    compose: ComposeConfig = field(default_factory=ComposeConfig)
    sampling: Sampling = field(default_factory=Sampling)


def order_from(data: Any) -> Order:
    """JSON of a request -> Order; UserError names what is unknown, missing or out of range.

    Keys: piece, model, preset, seconds, takes, seed, at, until, and every field of Sampling, which then overrides the preset.
    """
    if not isinstance(data, dict):
        raise UserError('an order must be a JSON object, for instance {"seconds": 20}')
    given = {key: value for key, value in data.items() if value is not None}
    preset = given.pop("preset", DEFAULT_PRESET)
    piece, model = given.pop("piece", None), given.pop("model", None)
    if model is not None and not isinstance(model, str):
        raise UserError(f"model is {model!r:.40}, not a name; give one as a text")
    if not isinstance(preset, str) or preset not in PRESETS:
        raise UserError(f"there is no preset {preset!r:.40}; choose one of {', '.join(PRESETS)}")
    asked = {s.name: _plain(s, given.pop(s.name)) for s in _asked() if s.name in given}
    drawn = {s.name: _plain(s, given.pop(s.name)) for s in specs(Sampling) if s.name in given}
    if given:
        raise UserError(f"an order does not know {', '.join(sorted(map(str, given)))[:80]}")
    compose = ComposeConfig(**asked)
    sampling = dataclasses.replace(PRESETS[preset], **drawn)
    check(compose)
    check(sampling)
    length = compose.seconds if compose.until is None else compose.until - (compose.at or 0.0)
    if compose.takes > MOST_TAKES or length > LONGEST:
        raise UserError(f"ask for at most {MOST_TAKES} takes and {LONGEST:g} seconds at once; you can go on from there")
    return Order(piece, model, preset, compose, sampling)


def _asked() -> list[OptionSpec]:
    return [s for s in specs(ComposeConfig) if s.name in _COMPOSE_FIELDS]


def _plain(spec: OptionSpec, value: Any) -> Any:
    """JSON does not tell 3 from 3.0; settings do, and receipts are compared byte for byte."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if isinstance(value, int) and abs(value) > _LARGEST:
        raise UserError(f"{spec.name} is far out of range; give a smaller number")
    if spec.type is float:
        return float(value)
    return int(value) if float(value).is_integer() else value


def form() -> dict[str, Any]:
    """The fields of the page's form, from the settings themselves: help, range, default; and the presets."""
    fields = [*_asked(), *specs(Sampling)]
    limits = {"takes": MOST_TAKES, "seconds": LONGEST}
    return {
        "fields": {
            s.name: {"help": s.help, "low": s.low, "high": limits.get(s.name, s.high), "default": s.default}
            for s in fields
        },
        "presets": {name: dataclasses.asdict(sampling) for name, sampling in PRESETS.items()},
        "preset": DEFAULT_PRESET,
    }
