"""A frozen settings dataclass is the one source of its flags, its range checks, its JSON and its widgets."""

from __future__ import annotations

import argparse
import dataclasses
import types
import typing
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from gpt_core.errors import UserError

S = TypeVar("S")


@dataclasses.dataclass(frozen=True)
class OptionSpec:
    """What is known of one field: its help, its range, its choices, its command-line flag."""

    name: str
    type: Any
    default: Any
    help: str
    low: float | None
    high: float | None
    choices: tuple[str, ...] | None
    flag: str
    optional: bool


def option(
    default: Any,
    help: str,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: Sequence[str] | None = None,
) -> Any:
    """Return a dataclass field with its help and its inclusive range or choices in the metadata."""
    meta = {"help": help, "low": low, "high": high, "choices": tuple(choices) if choices else None}
    return dataclasses.field(default=default, metadata=meta)


def specs(settings: type) -> list[OptionSpec]:
    """List the options of a settings dataclass in their written order; fields without help are internal."""
    hints = typing.get_type_hints(settings)
    out = []
    for f in dataclasses.fields(settings):
        if "help" not in f.metadata:
            continue
        kind, optional = _plain(hints[f.name])
        m = f.metadata
        flag = "--" + f.name.replace("_", "-")
        out.append(OptionSpec(f.name, kind, f.default, m["help"], m["low"], m["high"], m["choices"], flag, optional))
    return out


def _plain(hint: Any) -> tuple[Any, bool]:
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        args = [a for a in typing.get_args(hint) if a is not type(None)]
        return args[0], True
    return hint, False


def add_flags(parser: argparse.ArgumentParser, settings: type, *, skip: Iterable[str] = ()) -> None:
    """Add one flag per option; an absent flag leaves the attribute at None, so that presets can show through."""
    group = parser.add_argument_group(settings.__name__)
    for s in specs(settings):
        if s.name in skip:
            continue
        text = s.help + _range_text(s) + f" (default: {s.default})"
        text = text.replace("%", "%%")
        if s.type is bool:
            group.add_argument(s.flag, action=argparse.BooleanOptionalAction, default=None, help=text)
        else:
            group.add_argument(s.flag, type=s.type, choices=s.choices, default=None, help=text, metavar=_metavar(s))


def _metavar(s: OptionSpec) -> str | None:
    return None if s.choices else s.name.upper()


def _range_text(s: OptionSpec) -> str:
    if s.low is None:
        return "" if s.high is None else f"; at most {_bound(s.high)}"
    if s.high is None:
        return f"; at least {_bound(s.low)}"
    return f"; {_bound(s.low)} to {_bound(s.high)}"


def _bound(bound: float) -> str:
    return f"{int(bound):,}" if float(bound).is_integer() else f"{bound:g}"


def given(settings: type, args: argparse.Namespace) -> dict[str, Any]:
    """Return the options that parsed flags name, with their values."""
    return {s.name: getattr(args, s.name) for s in specs(settings) if getattr(args, s.name, None) is not None}


def from_args(settings: type[S], args: argparse.Namespace, base: S | None = None) -> S:
    """Build checked settings from parsed flags; what was not given comes from ``base`` or from the defaults."""
    flags = given(settings, args)
    made = dataclasses.replace(base, **flags) if base is not None else settings(**flags)  # type: ignore[type-var]
    check(made)
    return made


def check(settings: Any) -> None:
    """Raise UserError naming the flag, the value and the range where a value is outside it."""
    for s in specs(type(settings)):
        value = getattr(settings, s.name)
        if value is None:
            if not s.optional:
                raise UserError(f"{s.flag} needs a value")
            continue
        _check_type(s, value)
        if s.choices and value not in s.choices:
            raise UserError(f"{s.flag} is {value!r}; choose one of {', '.join(s.choices)}")
        if s.type in (int, float) and value != value:
            raise UserError(f"{s.flag} is not a number; give one{_range_text(s)}")
        if (s.low is not None and value < s.low) or (s.high is not None and value > s.high):
            raise UserError(f"{s.flag} is {value}; it must be{_range_text(s).replace(';', '')}")


def _check_type(s: OptionSpec, value: Any) -> None:
    fits = {int: int, float: int | float}.get(s.type, s.type)
    if not isinstance(value, fits) or (isinstance(value, bool) and s.type is not bool):
        wanted = {int: "a whole number", float: "a number", bool: "true or false", str: "a word"}[s.type]
        raise UserError(f"{s.flag} is {value!r}; give {wanted}")


def to_json(settings: Any) -> dict[str, Any]:
    """Settings -> a dict of JSON types."""
    return dataclasses.asdict(settings)


def from_json(settings: type[S], data: dict[str, Any]) -> S:
    """Mirror of ``to_json``; unknown keys are refused by name, missing ones take their default."""
    known = {f.name for f in dataclasses.fields(settings)}  # type: ignore[arg-type]
    strange = sorted(set(data) - known)
    if strange:
        raise UserError(
            f"{settings.__name__} does not know {', '.join(strange)}; this file may come from a newer version"
        )
    made = settings(**data)
    check(made)
    return made
