"""The mechanisms that the command line has, by name."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from qrelease._util.validate import lacking
from qrelease.errors import InvalidInput, QReleaseError

if TYPE_CHECKING:
    from qrelease.mechanisms.base import Mechanism
    from qrelease.statistics.base import Statistic

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

SUMS: Final = "sums"
"""The mechanism of `--numbers`, which measures the workload too; it is made of the questions, and not by name."""

AUDITED_STATISTIC: Final = (
    "whole estimates are audited by `qrelease audit estimate --doors`, and a statistic of your own by a function"
    " MODULE:NAME that makes a table of the data and returns all that an estimate says, its value and its interval too:"
    " Curator(table, ledger, entropy).estimate(own, cost).to_json()"
)
"""How a statistic is audited."""


def mechanism_name(text: str) -> str:
    """The type of an option that is a mechanism's name or MODULE:NAME; for one of Python alone the way is shown."""
    if text in PYTHON_ONLY:
        raise argparse.ArgumentTypeError(f"{text} is used from Python: {PYTHON_ONLY[text]}")
    if text != SUMS:
        try:
            check_known(text, SUMS)
        except InvalidInput as error:
            raise argparse.ArgumentTypeError(str(error)) from None
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


def check_known(name: str, *others: str) -> None:
    """Raise `InvalidInput` for what is neither a mechanism's name nor MODULE:NAME.

    others  further names, which the caller knows
    """
    if name not in MECHANISMS and ":" not in name:
        known = ", ".join([*MECHANISMS, *others])
        raise InvalidInput(f"mechanisms are {known}, or one of your own, MODULE:NAME, got {name!r}")


def known_or_own(name: str, **options: float | None) -> Mechanism:
    """The mechanism of a name, or of one's own: MODULE:NAME is an object with `check` and `release`, or its class.

    options  as `mechanism_of` has them; `InvalidInput` for any that is given with one's own
    """
    check_known(name)
    if ":" not in name:
        return mechanism_of(name, **options)
    options_of(name, **options)
    from qrelease.evaluation.audit import find_own

    found = own_mechanism(find_own(name))
    if found is None:
        raise InvalidInput(f"{name} must be a mechanism, an object with name, check and release, or its class")
    return found


def own_mechanism(found: object) -> Mechanism | None:
    """What was found by its name, as a mechanism; None where it is a function, or any other object without `release`.

    A class is called without arguments. `InvalidInput` for a statistic, and where a mechanism lacks something.
    """
    from qrelease.mechanisms.base import Mechanism

    if hasattr(found, "estimate") and not hasattr(found, "release"):
        raise InvalidInput(f"{_named(found)} is a statistic, as it has estimate: {AUDITED_STATISTIC}")
    if not hasattr(found, "release"):
        return None
    made = _made(found)
    if not isinstance(made, Mechanism):
        raise InvalidInput(
            "a mechanism is an object with name, check(workload, cost, neighbours) and release(private, workload,"
            f" cost), or its class: {lacking(made, ('name', 'check', 'release'))}"
        )
    return made


def statistic_of(text: str) -> Statistic:
    """The statistic that a text names: one of the catalogue with its column, or MODULE:NAME, an object of one's own.

    `InvalidInput` for anything else; a module is looked for where the catalogue does not have the name.
    """
    from qrelease.statistics.base import check_statistic
    from qrelease.statistics.catalogue import STATISTICS, parse_statistic

    module = text.partition(":")[0]
    if ":" not in text or module in STATISTICS:
        return parse_statistic(text)  # type: ignore[no-any-return]
    from qrelease.evaluation.audit.texts import find_own, has_module

    if not has_module(module):
        try:
            return parse_statistic(text)  # type: ignore[no-any-return]
        except InvalidInput as error:
            raise InvalidInput(f"{error}, and there is no module {module!r} with one of your own") from None
    found = find_own(text)
    if not hasattr(found, "estimate"):
        raise InvalidInput(
            f"{text} must be a statistic, an object with name, check, estimate and error_bound, or its class"
        )
    made: Any = _made(found)
    check_statistic(made)
    own: Statistic = made
    return own


def _made(found: object) -> object:
    """An object of a class, which is called without arguments; what is no class as it is."""
    if not isinstance(found, type):
        return found
    try:
        return found()
    except TypeError as error:  # parameters without defaults
        raise InvalidInput(f"{error}; name an object of your module instead, such as own = Own(3)") from None


def _named(found: object) -> str:
    """The name of a class, or of that of an object."""
    return found.__name__ if isinstance(found, type) else type(found).__name__


@contextmanager
def own_failures(arguments: argparse.Namespace, name: str) -> Iterator[None]:
    """Where MODULE:NAME names one's own code, an error of it as one line that says where it was raised.

    name  what of the arguments may be MODULE:NAME; where it is none, errors pass as they are
    """
    try:
        yield
    except (QReleaseError, MemoryError, OSError):
        raise
    except Exception as error:
        from qrelease.evaluation.audit import failure
        from qrelease.statistics.catalogue import STATISTICS

        if ":" not in name or name.partition(":")[0] in STATISTICS:
            raise
        notes = [] if hasattr(arguments, "charged") else getattr(error, "__notes__", [])  # that it was charged
        said = "; ".join([failure(error), *(note.removeprefix("qrelease: ") for note in notes)])
        raise InvalidInput(f"{name} failed: {said}") from error
