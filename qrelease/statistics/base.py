"""The contract between the engine and a statistic.

A statistic is a frozen dataclass of public parameters; nothing is inherited or registered. `Curator.estimate` checks,
charges the ledger durably, and then lets it draw through a `PrivateColumns`. It promises an error by `error_bound`, the
theorem as code.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

import numpy as np

from qrelease._util.validate import check_arguments, kind_of, lacking
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.noise.distributions import Noise
from qrelease.privacy.costs import Cost, Neighbours

if TYPE_CHECKING:
    from qrelease.statistics.private_columns import PrivateColumns

BETA: Final = 0.05
"""The probability with which an interval, or a promise, may fail."""

Value = float | int | str | bool | None | tuple["Value", ...] | Mapping[str, "Value"]
"""A number, or many of them, as JSON has it."""


@dataclass(frozen=True)
class Measured:
    """One noisy number, or choice, that an estimate is made of.

    Parameters
    ----------
    what : str
        What was measured, in words.
    value : int, float, str, or several of them
        As it was drawn.
    law : str
        The distribution of its noise, in words: `discrete Laplace, scale 20`; or the rule of the choice.

    Examples
    --------
    >>> Measured("count", 1203, "discrete Laplace, scale 2").to_json()
    {'what': 'count', 'value': 1203, 'law': 'discrete Laplace, scale 2'}
    """

    what: str
    value: Value
    law: str

    def to_json(self) -> dict[str, Any]:
        """Plain types."""
        return {"what": self.what, "value": self.value, "law": self.law}


@dataclass(frozen=True)
class EstimateResult:
    """What a statistic returns; all of it is public.

    Attributes
    ----------
    value
        The estimate: a number, or a tuple or mapping of them. None where it refused.
    interval
        (low, high), or one such pair for each number of `value`: with probability 1 - β what `covers` names lies in it,
        in all pairs at once. None where `method` says why there is none.
    method
        How the interval was made, and at which β.
    covers
        What the interval is about, as `the mean of the values clipped to 0..99`.
    measured
        The noisy numbers behind it.
    choices
        What was chosen on the way, by name.
    typical
        About the root mean square of the noise in `value`, in its unit; None where nothing is known.
    records
        A number that n reaches with probability 1 - β/2, from what was measured; None if none was. Infinity where
        `error_bound` is the same for every n that it is finite for, and true for all.
    unit
        The unit of errors, such as `ranks` in `error at most 3 ranks`.
    widths
        Where `value` has means, for each: how far apart two of the values are at most of which it is the mean.

    Examples
    --------
    >>> noisy = Measured("count", 1203, "discrete Laplace, scale 2")
    >>> EstimateResult(1203, (1196, 1210), "the reach of the noise", "the number of records", (noisy,)).unit
    'in the unit of the value'
    """

    value: Value
    interval: tuple[float, float] | tuple[tuple[float, float], ...] | None
    method: str
    covers: str
    measured: tuple[Measured, ...] = ()
    choices: Mapping[str, Any] = field(default_factory=dict)
    typical: float | None = None
    records: float | None = None
    unit: str = "in the unit of the value"
    widths: tuple[float, ...] = ()


@runtime_checkable
class Statistic(Protocol):
    """One number, or a few, of a private table: a frozen dataclass of public parameters.

    Any object with these members is one; nothing is inherited or registered. The classes that have them do not repeat
    what stands here.

    Examples
    --------
    >>> from qrelease import Mean
    >>> isinstance(Mean("age"), Statistic)
    True
    """

    @property
    def name(self) -> str:
        """The name on the command line and in the ledger, such as `mean`."""

    def check(self, domain: Domain, cost: Cost, neighbours: Neighbours) -> None:
        """Raise whatever can be known to be wrong before anything is charged or drawn.

        Parameters
        ----------
        domain : Domain
            The public columns.
        cost : Cost
            What the estimate may cost: `PureDP`, `ApproxDP` or `ZCDP`.
        neighbours : Neighbours
            Which tables the promise compares.

        Raises
        ------
        InvalidInput
            For a column or a cost that this statistic cannot take.
        TooLarge
            For what never fits in memory.
        """

    def estimate(self, private: PrivateColumns, cost: Cost) -> EstimateResult:
        """Draw, within the cost, which is charged by now.

        No table makes it fail, not an empty one nor one record.

        Parameters
        ----------
        private : PrivateColumns
            The columns behind their budget: each draw spends first.
        cost : Cost
            As `check` had it.

        Returns
        -------
        EstimateResult
            The value, its interval and what was measured for them, all of it public.
        """

    def error_bound(
        self, domain: Domain, records: float, cost: Cost, neighbours: Neighbours, *, beta: float
    ) -> float | None:
        """How far off the value may be, on every table of at least so many records.

        Parameters
        ----------
        domain, cost, neighbours
            As `check` had them.
        records : float
            The number of records n, at least.
        beta : float
            The probability with which the value may be further off.

        Returns
        -------
        float or None
            e such that with probability 1 - β |value - truth| is at most e, for the largest of several values, in the
            unit that the class says: of the value, or in ranks. Infinite where the theorem promises nothing; None where
            no theorem is about all tables.
        """


def check_statistic(statistic: object) -> None:
    """`InvalidInput` for what is no statistic, or has a method that takes other arguments than it is called with."""
    if not isinstance(statistic, Statistic):
        raise InvalidInput(
            'an estimate takes a statistic such as Mean("age"), which has name, check(domain, cost, neighbours),'
            " estimate(private, cost) and error_bound(domain, records, cost, neighbours, *, beta):"
            f" {lacking(statistic, ('name', 'check', 'estimate', 'error_bound'))}"
        )
    check_arguments(statistic, statistic.check, "domain", "cost", "neighbours")
    check_arguments(statistic, statistic.estimate, "private", "cost")
    check_arguments(statistic, statistic.error_bound, "domain", "records", "cost", "neighbours", named=("beta",))


def checked_estimate(result: object, name: str) -> EstimateResult:
    """What a statistic returned, with Python's numbers in place of numpy's; `InvalidInput` for what is no
    `EstimateResult`, or one that no estimate can be made of.

    name  of the statistic that returned it
    """
    if not isinstance(result, EstimateResult):
        raise InvalidInput(
            f"{name} returned {kind_of(result)}: its estimate must return EstimateResult(value, interval, method,"
            " covers), see qr.EstimateResult"
        )
    measured: object = result.measured
    if not isinstance(measured, list | tuple) or not all(isinstance(part, Measured) for part in measured):
        raise InvalidInput(f"{name} returned as measured what is no tuple of Measured, see qr.EstimateResult")
    result = replace(
        result,
        value=_of_python(result.value),
        interval=_of_python(result.interval),
        typical=_of_python(result.typical),
        records=_of_python(result.records),
        choices=_of_python(result.choices),
        measured=tuple(replace(part, value=_of_python(part.value)) for part in result.measured),
    )
    for part, held in (
        ("value", result.value),
        ("interval", result.interval),
        ("typical", result.typical),
        ("choices", dict(result.choices)),
        ("measured", [m.to_json() for m in result.measured]),
    ):
        try:
            json.dumps(held, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise InvalidInput(
                f"{name} returned as {part} what JSON cannot hold, which takes texts, finite numbers, and lists and"
                f" mappings of these: {error}"
            ) from None
    _check_interval(result, name)
    return result


def _check_interval(result: EstimateResult, name: str) -> None:
    """Raise `InvalidInput` unless the interval is a pair: one of a number, one for each number of several."""
    found: object = result.interval
    several = isinstance(result.value, list | tuple | Mapping)
    pairs = found if several and isinstance(found, list | tuple) and not _is_pair(found) else [found]
    if found is not None and not all(map(_is_pair, pairs)):
        raise InvalidInput(
            f"{name} returned as interval what is no pair of numbers in order: it must be (low, high), or of several"
            " numbers one such pair for each, or None"
        )


def _is_pair(found: object) -> bool:
    """Whether it is two numbers in ascending order."""
    numbers = isinstance(found, list | tuple) and len(found) == 2 and all(isinstance(end, int | float) for end in found)
    return numbers and found[0] <= found[1]  # type: ignore[index]


def _of_python(value: Any) -> Any:
    """The same with Python's numbers in place of those of numpy, which no JSON holds, and tuples for its arrays."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
        return tuple(map(_of_python, value)) if isinstance(value, list) else value
    if isinstance(value, list | tuple):
        return type(value)(map(_of_python, value))
    return {key: _of_python(part) for key, part in value.items()} if isinstance(value, Mapping) else value


def refuse_empty(statistic: Statistic, domain: Domain, records: int | None, cost: Cost, neighbours: Neighbours) -> None:
    """Raise `InvalidInput` where n is public and the theorem promises nothing for it."""
    if records is not None and statistic.error_bound(domain, records, cost, neighbours, beta=BETA) == math.inf:
        raise InvalidInput(
            f"{statistic.name} promises nothing for {records:,} records at {cost}: take a larger cost, or more records"
        )


def spelled(law: Noise) -> str:
    """A law of noise in words."""
    return f"{law.law}, scale {law.scale:.6g}"


def within(interval: tuple[float, float], low: float, high: float) -> tuple[float, float]:
    """An interval cut to what is possible; a single point of it where nothing of it is."""
    return min(max(interval[0], low), high), max(min(interval[1], high), low)
