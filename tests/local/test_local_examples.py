"""The examples in the docstrings of the local model are right."""

import doctest
import importlib
from pathlib import Path

import pytest

import qrelease.local

MODULES = sorted(p.stem for p in Path(qrelease.local.__file__).parent.glob("*.py"))


@pytest.mark.parametrize("name", MODULES)
def test_docstrings_are_right(name):
    module = importlib.import_module("qrelease.local" if name == "__init__" else f"qrelease.local.{name}")
    assert doctest.testmod(module).failed == 0


def test_the_page_is_right():
    page = (Path(__file__).parents[2] / "docs" / "local.md").read_text(encoding="utf-8")
    blocks = page.split("```python\n")[1:]
    assert blocks
    for block in blocks:
        exec(block.split("```")[0], {})


def test_every_public_name_is_there():
    assert all(hasattr(qrelease.local, name) for name in qrelease.local.__all__)
    assert set(qrelease.local.__all__) < set(dir(qrelease.local))
    assert all(hasattr(qrelease.local, name) for name in dir(qrelease.local))
    with pytest.raises(AttributeError, match="no attribute 'Rcp'"):
        qrelease.local.Rcp  # noqa: B018
