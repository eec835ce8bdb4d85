"""The mechanisms that the command line has, by name."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from qrelease.errors import InvalidInput

if TYPE_CHECKING:
    from qrelease.mechanisms.base import Mechanism

MECHANISMS = {
    "auto": "qrelease.mechanisms.auto:Auto",
    "mwem": "qrelease.mechanisms.iterative.mwem:MWEM",
    "maxent": "qrelease.mechanisms.maxent:MaxEnt",
    "matrix": "qrelease.mechanisms.matrix:Matrix",
    "records": "qrelease.mechanisms.weighted_records:FittedRecords",
    "laplace": "qrelease.mechanisms.laplace:Laplace",
    "gaussian": "qrelease.mechanisms.gaussian:Gaussian",
    "iterative": "qrelease.mechanisms.iterative.construction:IterativeConstruction",
    "smalldb": "qrelease.mechanisms.small_db.small_db:SmallDB",
}

PYTHON_ONLY = {
    "net": "qrelease.Net, which takes a list of synopses",
    "pmw": "qrelease.PrivateMultiplicativeWeights, with Curator.open: its queries come one by one",
}

OPTIONS = {
    "rounds": ["mwem"],
    "size": ["smalldb"],
    "alpha": ["smalldb"],
    "records": ["auto", "maxent", "mwem"],
    "weighted_records": ["records"],
    "order": ["records"],
}
"""Options of `release` that belong to some mechanisms."""

DEFAULT = "auto"


def mechanism_name(text: str) -> str:
    """The type of an option that is a mechanism's name: one that is for Python alone is shown the way."""
    if text in PYTHON_ONLY:
        raise argparse.ArgumentTypeError(f"{text} is used from Python: {PYTHON_ONLY[text]}")
    return text


def options_of(name: str, **options: float | None) -> dict[str, float]:
    """The options that are given; `InvalidInput` for one that belongs to another mechanism."""
    given = {option: value for option, value in options.items() if value is not None}
    for option in given:
        if name not in OPTIONS[option]:
            spelled = option.replace("_", "-")
            raise InvalidInput(f"--{spelled} is an option of {' and '.join(OPTIONS[option])}, not of {name}")
    return given


def mechanism_of(name: str, **options: float | None) -> Mechanism:
    """The mechanism of a name, with those of its options that are given. `InvalidInput` for another's."""
    given = options_of(name, **options)
    module, _, kind = MECHANISMS[name].partition(":")
    make: Callable[..., Mechanism] = getattr(import_module(module), kind)
    return make(**given)


def check_known(name: str) -> None:
    """Raise `InvalidInput` for what is neither a mechanism's name nor MODULE:NAME."""
    if name not in MECHANISMS and ":" not in name:
        raise InvalidInput(f"mechanisms are {', '.join(MECHANISMS)}, or one of your own, MODULE:NAME, got {name!r}")


def known_or_own(name: str) -> Mechanism:
    """The mechanism of a name, or of one's own: MODULE:NAME is an object with `check` and `release`, or its class."""
    check_known(name)
    if ":" not in name:
        return mechanism_of(name)
    from qrelease.evaluation.audit import find_mechanism

    found = own_mechanism(find_mechanism(name))
    if found is None:
        raise InvalidInput(f"{name} must be a mechanism, an object with name, check and release, or its class")
    return found


def own_mechanism(found: object) -> Mechanism | None:
    """What was found by its name, as a mechanism; None where it is none. A class is called without arguments."""
    from qrelease.mechanisms.base import Mechanism

    if isinstance(found, type) and all(hasattr(found, member) for member in ("check", "release")):
        try:
            found = found()
        except TypeError as error:  # parameters without defaults
            raise InvalidInput(f"{error}; name an object of your module instead, such as own = Own(3)") from None
    return found if not isinstance(found, type) and isinstance(found, Mechanism) else None
