"""The public names of the core and of text exist, are listed, and load nothing before they are used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import gpt_core
import gpt_core.text


@pytest.mark.parametrize("package", [gpt_core, gpt_core.text])
def test_every_name_is_there(package):
    for name in package.__all__:
        thing = getattr(package, name)
        assert thing.__doc__ if callable(thing) else thing, name
    assert set(package.__all__) <= set(dir(package)) and package.__all__ == sorted(package.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        package.nonsense  # noqa: B018


def test_no_name_hides_a_module_of_its_package():
    from pathlib import Path

    for package in (gpt_core, gpt_core.text):
        modules = {p.stem for p in Path(package.__file__).parent.glob("*.py")}
        assert not modules & set(package.__all__)


def test_importing_loads_no_torch():
    code = "import sys, gpt_core, gpt_core.text; print('torch' in sys.modules, 'tokenizers' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
