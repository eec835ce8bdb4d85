"""Mechanisms and inputs of audits, read from the texts of a command line."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from qrelease.errors import InvalidInput
from qrelease.evaluation.audit.sampling import Vectorised


def has_module(name: str) -> bool:
    """Whether there is a module of this name, in the current folder or installed; of a package in one, without dots."""
    _look_here()
    return name.partition(".")[0].isidentifier() and find_spec(name.partition(".")[0]) is not None


def _look_here() -> None:
    """Let modules of the current folder be imported, as `python -m` does."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())


def find_own(text: str) -> Callable[..., Any] | Vectorised[Any]:
    """What `module:name` names, from the current folder or an installed package; `name` may have dots.

    That is a mechanism, a statistic or a function. Runs the module, as any import does. Raises `InvalidInput` where
    there is no such module or name, where importing it fails, or where it is neither a callable, nor marked
    `vectorised`, nor an object with a method `release` or `estimate`.
    """
    module, colon, name = text.partition(":")
    if not (module and colon and name):
        raise InvalidInput(f"one's own is named as module:name, got {text!r}")
    _look_here()
    try:
        found: Any = import_module(module)
    except ImportError as error:
        advice = f"; name it without .py: {module.removesuffix('.py')}:{name}" if module.endswith(".py") else ""
        raise InvalidInput(f"{module} cannot be imported: {error}{advice}") from None
    except Exception as error:  # of a module that somebody is writing
        raise InvalidInput(f"{module} cannot be imported: {failure(error)}") from None
    for part in name.split("."):
        if not hasattr(found, part):
            raise InvalidInput(f"{module} has no {name}")
        found = getattr(found, part)
    if not (
        callable(found)
        or isinstance(found, Vectorised)
        or any(hasattr(found, part) for part in ("release", "estimate"))
    ):
        raise InvalidInput(f"{text} must be a function of data and entropy, got {type(found).__name__}")
    named: Callable[..., Any] | Vectorised[Any] = found
    return named


def failure(error: Exception) -> str:
    """An error of somebody's code in a line: its type, what it says, and where it was raised."""
    where = traceback.extract_tb(error.__traceback__)[-1:]
    place = "".join(f" ({os.path.basename(frame.filename)}, line {frame.lineno})" for frame in where)
    said = " ".join(str(error).split())
    return f"{type(error).__name__}{f': {said}' if said else ''}{place}"


def read_input(text: str) -> Any:
    """One input as JSON, as in `3`, `[0, 1, 1]` or `{"age": 40}`; a list of numbers becomes an array.

    Raises `InvalidInput` for text that is not JSON.
    """
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidInput(f"an input must be JSON, got {text!r}: {error}") from None
    if not isinstance(value, list):
        return value
    try:
        array = np.asarray(value)
    except ValueError:  # rows of different lengths
        return value
    return array if array.dtype.kind in "biuf" else value
