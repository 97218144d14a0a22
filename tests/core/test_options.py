"""Settings: flags, ranges, choices and JSON come from the one dataclass."""

from __future__ import annotations

import argparse
import dataclasses
import math
from dataclasses import dataclass

import pytest

from gpt_core.config import PRESETS, GPTConfig
from gpt_core.errors import UserError
from gpt_core.options import add_flags, check, from_args, from_json, option, specs, to_json
from gpt_core.sampling import Sampling
from gpt_core.train_config import TrainConfig


@dataclass(frozen=True)
class Oven:
    heat: float = option(180.0, "degrees, 100% safe", low=0, high=250)
    trays: int = option(1, "how many", low=1)
    fan: bool = option(False, "blow")
    kind: str = option("bread", "what", choices=("bread", "cake"))
    name: str | None = option(None, "whose")
    inner: int = 3  # no help: not an option


def parse(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_flags(parser, Oven)
    return parser.parse_args(words)


def test_flags_mirror_the_fields():
    made = from_args(Oven, parse("--heat", "200.5", "--trays", "2", "--fan", "--kind", "cake", "--name", "Ada"))
    assert made == Oven(200.5, 2, True, "cake", "Ada")
    assert from_args(Oven, parse()) == Oven()


def test_what_was_not_given_comes_from_the_base():
    base = Oven(heat=90, fan=True)
    assert from_args(Oven, parse("--trays", "4"), base) == Oven(heat=90, fan=True, trays=4)
    assert from_args(Oven, parse("--no-fan"), base).fan is False


def test_help_shows_range_default_and_percent(capsys):
    with pytest.raises(SystemExit):
        parse("--help")
    text = " ".join(capsys.readouterr().out.split())
    assert "degrees, 100% safe; 0 to 250 (default: 180.0)" in text
    assert "how many; at least 1 (default: 1)" in text
    assert "inner" not in text


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"heat": 251.0}, r"--heat is 251\.0; it must be 0 to 250"),
        ({"heat": -1}, "--heat is -1"),
        ({"heat": math.nan}, "--heat is not a number"),
        ({"heat": math.inf}, "--heat is inf"),
        ({"heat": "hot"}, "--heat is 'hot'; give a number"),
        ({"heat": True}, "--heat is True; give a number"),
        ({"trays": 0}, "--trays is 0; it must be at least 1"),
        ({"trays": 1.5}, r"--trays is 1\.5; give a whole number"),
        ({"kind": "pie"}, "--kind is 'pie'; choose one of bread, cake"),
        ({"kind": 3}, "--kind is 3"),
        ({"heat": None}, "--heat needs a value"),
        ({"fan": "yes"}, "--fan is 'yes'"),
        ({"name": 7}, "--name is 7"),
    ],
)
def test_values_outside_are_named(bad, words):
    with pytest.raises(UserError, match=words):
        check(Oven(**bad))


def test_optional_values_may_be_absent():
    check(Oven(name=None))


def test_json_round_trip_and_strangers():
    made = Oven(99.0, 2, True, "cake", "Ada", 5)
    assert from_json(Oven, to_json(made)) == made
    assert from_json(Oven, {"heat": 20}) == Oven(heat=20)
    with pytest.raises(UserError, match="Oven does not know colour, smell"):
        from_json(Oven, {"smell": 1, "heat": 3, "colour": 2})
    with pytest.raises(UserError, match="--heat is 900"):
        from_json(Oven, {"heat": 900})


@pytest.mark.parametrize("settings", [Sampling, TrainConfig, GPTConfig])
def test_defaults_keep_their_own_rules(settings):
    check(settings())
    assert from_json(settings, to_json(settings())) == settings()
    for s in specs(settings):
        assert s.help and not s.help.endswith("."), s.name


@pytest.mark.parametrize("name", PRESETS)
def test_presets_survive_json(name):
    assert from_json(GPTConfig, to_json(PRESETS[name])) == PRESETS[name]


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"n_embd": 10, "n_head": 3}, "n_embd is 10 and n_head is 3"),
        ({"n_embd": 9, "n_head": 3, "position": "rotary"}, "even head size; n_embd / n_head is 3"),
        ({"position": "sideways"}, "--position is 'sideways'"),
        ({"n_layer": 10**9}, "--n-layer is 1000000000"),
        ({"vocab_size": 10**12}, "--vocab-size"),
        ({"n_embd": 2.5, "n_head": 1}, "--n-embd"),
    ],
)
def test_shapes_that_cannot_be_built_are_refused(bad, words):
    with pytest.raises(UserError, match=words):
        GPTConfig(**bad)


def test_settings_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Sampling().temperature = 2.0
