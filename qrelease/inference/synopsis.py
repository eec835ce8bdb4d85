"""What a synopsis is: something public that answers queries; and what some synopses can do besides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, final, runtime_checkable

import numpy as np
import numpy.typing as npt

from qrelease._util.typing import Floats
from qrelease.data.domain import Domain
from qrelease.inference.histogram import Histogram
from qrelease.queries.workload import Workload

if TYPE_CHECKING:
    from qrelease.inference.measurement import Measurement


@runtime_checkable
class Synopsis(Protocol):
    """Something public that answers queries.

    Nothing is inherited: any object with these members is one. Two more methods, `error_bars(workload)` and
    `model_bars(workload)`, tell a release how far off its answers are.

    Examples
    --------
    >>> import numpy as np
    >>> import qrelease as qr
    >>> domain = qr.Domain.coded({"sex": 2})
    >>> isinstance(qr.WeightedRecords.equal(domain, np.array([0, 1]), 500.0), qr.Synopsis)
    True
    """

    @property
    def domain(self) -> Domain:
        """The universe its queries are over."""

    @property
    def total(self) -> float:
        """Its number of records: exact where that is public, else an estimate."""

    @property
    def has_table(self) -> bool:
        """Whether `sample` has records to give."""

    def answer(self, workload: Workload) -> Floats:
        """Answer queries.

        Parameters
        ----------
        workload : Workload
            k queries over its domain.

        Returns
        -------
        ndarray of float, shape (k,)
            Counts.

        Raises
        ------
        InvalidInput
            For queries that it cannot answer.
        """

    def sample(self, rows: int, rng: np.random.Generator) -> Sequence[npt.NDArray[np.integer[Any]]]:
        """Draw synthetic records.

        Parameters
        ----------
        rows : int
            How many.
        rng : Generator
            Ordinary randomness: a synopsis is public.

        Returns
        -------
        sequence of ndarray of int, each of shape (rows,)
            Codes, one array for each column.

        Raises
        ------
        InvalidInput
            Where it has no table.
        """

    def to_json(self) -> dict[str, Any]:
        """A description from which `qrelease.load` makes it again."""


@runtime_checkable
class Estimator(Protocol):
    """A synopsis that knows the unbiased answers which all its measurements together give, and how far off they are."""

    def error_bars(self, workload: Workload) -> tuple[Floats, Floats]:
        """Unbiased answers, with their 95 % error bars.

        Parameters
        ----------
        workload : Workload
            k queries over its domain.

        Returns
        -------
        tuple of ndarray of float, each of shape (k,)
            Answers and half-widths, counts; NaN for queries that it has no answers to.
        """


@runtime_checkable
class SelfAssessed(Protocol):
    """A synopsis that knows how far off its own answers are."""

    def model_bars(self, workload: Workload) -> Floats:
        """The 95 % error bars around its own answers.

        Parameters
        ----------
        workload : Workload
            k queries over its domain.

        Returns
        -------
        ndarray of float, shape (k,)
            Half-widths, counts; NaN where it cannot tell.
        """


@runtime_checkable
class Fitted(Protocol):
    """A synopsis that was fitted to measurements and knows how far it is from them."""

    @property
    def misfit(self) -> float:
        """The root mean squared distance of its records from what was measured, in units of the measurements' noise."""


MISSED = 1.1
"""The misfit from which records miss their own measurements: noise alone makes up to 1."""


@runtime_checkable
class OfMeasurements(Protocol):
    """A synopsis that is stored without the measurements that it is made of: the last ones of its release."""

    @property
    def made_of(self) -> tuple[Measurement, ...]:
        """These, where a mechanism of one's own had it made; else none."""


@runtime_checkable
class Tabulated(Protocol):
    """A synopsis that has a histogram over the whole universe, or fits one."""

    @property
    def histogram(self) -> Histogram:
        """What its records are drawn from. `TooLarge` for a universe that has none."""


@runtime_checkable
class Weighted(Protocol):
    """A synopsis that is records, each with a weight."""

    @property
    def codes(self) -> Iterable[npt.NDArray[np.integer[Any]]]:
        """The records, one array (r,) a column."""

    @property
    def weights(self) -> Floats:
        """(r,) non-negative, with sum 1."""


@final
@dataclass(frozen=True)
class Scaled:
    """Another synopsis, all its answers scaled so that it stands for `total` records."""

    synopsis: Synopsis
    total: float

    @property
    def domain(self) -> Domain:
        """The universe."""
        return self.synopsis.domain

    @property
    def has_table(self) -> bool:
        """Whether the synopsis that is scaled has a table."""
        return self.synopsis.has_table

    def answer(self, workload: Workload) -> Floats:
        """(k,) counts. Raises what the other does."""
        return self.synopsis.answer(workload) * (self.total / self.synopsis.total)

    def sample(self, rows: int, rng: np.random.Generator) -> Sequence[npt.NDArray[np.integer[Any]]]:
        """Synthetic records of the other."""
        return self.synopsis.sample(rows, rng)

    def to_json(self) -> dict[str, Any]:
        """The total, and the other."""
        return {"type": "scaled", "total": self.total, "synopsis": self.synopsis.to_json()}
