"""The grid of a column of numbers, which is public, and how many records have each of its values, which is not.

Every number of a table is low + step * code for a whole code, so sums, ranks and scores are exact integers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import final

import numpy as np

from qrelease._util.typing import Ints
from qrelease._util.validate import real
from qrelease.data.attribute import Attribute
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput

_MAX_CELLS = 1 << 28  # as many as a table counts
_SAFE_SUM = 1 << 62


@final
@dataclass(frozen=True)
class Grid:
    """The values low, low + step, … that a column can have; public.

    Attributes
    ----------
    name
        The column.
    low, step
        The least value, and what lies between two of them.
    cells
        K, how many values there are.
    missing
        Whether a record may have none of them.

    Examples
    --------
    >>> grid = Grid.of(Domain.coded({"age": 100}), "age")
    >>> grid.value(30), grid.code(42.0), grid.high
    (30.0, 42, 99.0)
    """

    name: str
    low: float
    step: float
    cells: int
    missing: bool = False

    @classmethod
    def of(cls, domain: Domain, name: str) -> Grid:
        """The grid of a column; `InvalidInput` where its values are not single numbers.

        A column with `within` and `step` has that grid, whatever its bins are.
        """
        attribute = domain[name]
        exact = attribute.grid if attribute.kind == "number" else None
        if max(attribute.size, 0 if exact is None else exact.size) > _MAX_CELLS:
            raise InvalidInput(f"column {name!r} has more than {_MAX_CELLS:,} values: take a coarser grid")
        if exact is not None:
            return cls(name, float(exact.low), float(exact.step), exact.size, bool(attribute.missing))
        if attribute.kind == "coded":
            return cls(name, 0.0, 1.0, attribute.codes, bool(attribute.missing))
        if attribute.kind != "number" or not _single(attribute):
            raise InvalidInput(
                f"column {name!r} has no exact numbers: a statistic takes codes, whole numbers in bins of one, or"
                " numbers with within and step in the schema"
            )
        return cls(name, attribute.edges[0], 1.0, attribute.values, bool(attribute.missing))

    @property
    def high(self) -> float:
        """The largest value."""
        return self.value(self.cells - 1)

    def value(self, code: float) -> float:
        """The number that a code, or a place between two, stands for."""
        return self.low + self.step * code

    def code(self, value: float) -> int:
        """The code of a number; `InvalidInput` where it is not on the grid."""
        number = real("a value", value)
        place = (Fraction(number) - Fraction(self.low)) / Fraction(self.step)
        code = round(place)
        if not 0 <= code < self.cells or not math.isclose(self.value(code), number, rel_tol=1e-12, abs_tol=0):
            raise InvalidInput(
                f"{value:g} is no value of column {self.name!r}, which has {self.low:g} to {self.high:g}"
                f" in steps of {self.step:g}"
            )
        return code

    def codes(self, low: float | None, high: float | None) -> tuple[int, int]:
        """The codes of two bounds, the grid's ends where one is None; `InvalidInput` unless the first is below."""
        bounds = 0 if low is None else self.code(low), self.cells - 1 if high is None else self.code(high)
        if bounds[0] >= bounds[1]:
            raise InvalidInput(f"the lower bound of column {self.name!r} must be below the upper one")
        return bounds


def _single(attribute: Attribute) -> bool:
    """Whether each bin holds one whole number."""
    edges = attribute.edges
    return attribute.whole and edges[-1] - edges[0] == len(edges) - 1


@final
@dataclass(frozen=True, eq=False, repr=False)
class Numbers:
    """The values of one column without its missing ones, as private as the table: sorted, with how often each stands.

    Attributes
    ----------
    values
        The codes that stand in the column, ascending, (m,) int64.
    counts
        How many records have each, all positive, (m,) int64.
    cells
        K of the grid.
    """

    values: Ints
    counts: Ints
    cells: int

    @classmethod
    def counted(cls, histogram: Ints) -> Numbers:
        """From the number of records with each code, (K,)."""
        values = np.flatnonzero(histogram).astype(np.int64)
        return cls(values, histogram[values].astype(np.int64), histogram.size)

    @classmethod
    def listed(cls, codes: Sequence[int] | Ints, cells: int) -> Numbers:
        """From one code a record, in any order; negative ones are missing."""
        row = np.asarray(codes, np.int64)
        values, counts = np.unique(row[row >= 0], return_counts=True)
        return cls(values, counts.astype(np.int64), cells)

    @cached_property
    def n(self) -> int:
        """How many records have a value."""
        return int(self.counts.sum())

    @cached_property
    def cumulative(self) -> Ints:
        """How many records have a value of at most each of `values`, (m,)."""
        return np.cumsum(self.counts)

    def below(self, codes: Ints) -> Ints:
        """How many records have a smaller code than each of these."""
        return np.concatenate([[0], self.cumulative])[np.searchsorted(self.values, codes, side="left")]

    def total(self, low: int, high: int) -> int:
        """The exact sum of the codes, each clipped to [low, high]."""
        return exact_dot(np.clip(self.values, low, high), self.counts)

    def order(self, places: Ints) -> Ints:
        """The order statistics at some places, counted from 1, (k,); before the first 0, and after the last K - 1."""
        found = np.searchsorted(self.cumulative, np.clip(places, 1, max(self.n, 1)))
        inside = self.values[np.minimum(found, self.values.size - 1)] if self.n else np.zeros(found.shape, np.int64)
        codes: Ints = np.where(places < 1, 0, np.where(places > self.n, self.cells - 1, inside))
        return codes

    def __repr__(self) -> str:
        return "Numbers(private)"


def exact_dot(values: Ints, counts: Ints) -> int:
    """Σ values * counts as a Python integer, however large."""
    if not values.size:
        return 0
    largest = int(np.abs(values).max())
    if largest * int(counts.sum()) < _SAFE_SUM:
        return int(values @ counts)
    return sum(map(int.__mul__, values.tolist(), counts.tolist()))
