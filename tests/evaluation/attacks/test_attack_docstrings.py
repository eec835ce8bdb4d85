"""What the docstrings of the attacks show is what comes out."""

import doctest
from importlib import import_module

import pytest

SHOWN = [
    "publishers",
    "reconstruction",
    "census",
    "differencing",
    "floating",
    "games",
    "membership",
    "inference",
    "study",
]


@pytest.mark.parametrize("name", SHOWN)
def test_the_examples_of_a_docstring_run(name):
    found = doctest.testmod(import_module(f"qrelease.evaluation.attacks.{name}"))
    assert found.attempted > 0
    assert found.failed == 0
