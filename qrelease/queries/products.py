"""Integer matrices as queries, and Kronecker products of families: boxes, and strategies to measure them by."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, reduce
from math import frexp, prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from qrelease._util.typing import Floats, Ints
from qrelease.errors import InvalidInput
from qrelease.queries.families import Cells, Explicit, Intervals, Number, Queries

if TYPE_CHECKING:
    from qrelease.data.domain import Domain

_MAX_SQUARED_NORM = (
    1 << 50
)  # squared norm of a column of integers: inner products are exact in float64, however BLAS adds

_BLOCK_ENTRIES = 1 << 20  # of a matrix of queries at a time


@dataclass(frozen=True, eq=False)
class IntegerRows(Explicit):
    """Integer rows (k, cells) of either sign, in units of a power of two: a strategy to measure, not to ask."""

    rows: Ints
    unit: float
    bounded = False

    def __post_init__(self) -> None:
        if self.rows.ndim != 2 or not self.rows.size or self.rows.dtype != np.int64:
            raise InvalidInput(
                f"integer rows must be int64 of shape (k, cells), got {self.rows.dtype} of {self.rows.shape}"
            )
        if not 0 < self.unit <= 1 or frexp(self.unit)[0] != 0.5:
            raise InvalidInput(f"the unit of integer rows must be a power of two up to 1, got {self.unit}")
        object.__setattr__(self, "rows", self.rows.copy())
        self.rows.setflags(write=False)
        if not (self.rows.astype(np.float64) ** 2).sum(axis=0).max() < _MAX_SQUARED_NORM:
            raise InvalidInput("a column of integer rows must have a squared norm below 2^50")

    @cached_property
    def products(self) -> Floats:
        """The inner products of all columns, (cells, cells), exact integers, in units squared."""
        dense = self.rows.astype(np.float64)
        return dense.T @ dense

    def sensitivity(self, order: int, *, replace: bool) -> int:
        """The largest norm of a column, or of a difference of two; under order 1 and replacement an upper bound."""
        if order == 1:
            return int(np.abs(self.rows).sum(axis=0).max()) * (2 if replace and self.cells > 1 else 1)
        norms = np.diag(self.products)
        if not replace:
            return int(norms.max())
        return int((norms[:, None] + norms - 2 * self.products).max())

    def texts(self, domain: Domain) -> Iterator[str]:
        """`row 0`, `row 1`, …."""
        yield from (f"row {i}" for i in range(self.count))

    def to_json(self) -> dict[str, Any]:
        """The numerators and their unit."""
        return {"type": "rows", "unit": self.unit, "rows": self.rows.tolist()}


Factor = Cells | Intervals | IntegerRows


@dataclass(frozen=True)
class Product:
    """Every product of one query a column, as `age in 30..39 and hours in 40..49`: the Kronecker product of families.

    factors  one a column, in the columns' order; the last one's queries vary fastest
    """

    factors: tuple[Factor, ...]

    @property
    def bounded(self) -> bool:
        """Whether all factors are bounded."""
        return all(f.bounded for f in self.factors)

    @property
    def count(self) -> int:
        """The product of the factors' numbers of queries."""
        return prod(f.count for f in self.factors)

    @property
    def cells(self) -> int:
        """Number of cells of the marginal."""
        return prod(f.cells for f in self.factors)

    @property
    def unit(self) -> float:
        """The product of the factors' units."""
        return prod(f.unit for f in self.factors)

    def apply(self, table: npt.NDArray[Number]) -> npt.NDArray[Number]:
        """Each factor along its axis."""
        cube = table.reshape([f.cells for f in self.factors])
        for axis, factor in enumerate(self.factors):
            front = np.moveaxis(cube, axis, 0)
            applied = factor.apply(front.reshape(factor.cells, -1))
            cube = np.moveaxis(applied.reshape(factor.count, *front.shape[1:]), 0, axis)
        return cube.reshape(-1)

    def adjoint(self, weights: Floats) -> Floats:
        """Each factor's adjoint along its axis, the longest first."""
        cube = weights.reshape([f.count for f in self.factors])
        for axis in sorted(range(len(self.factors)), key=lambda i: -self.factors[i].count):
            front = np.moveaxis(cube, axis, -1)
            rows = [self.factors[axis].adjoint(row) for row in front.reshape(-1, front.shape[-1])]
            cube = np.moveaxis(np.stack(rows).reshape(*front.shape[:-1], -1), -1, axis)
        return cube.reshape(-1)

    def squares(self) -> Floats:
        """Products of the factors' sums of squares."""
        return reduce(np.multiply.outer, (f.squares() for f in self.factors)).reshape(-1)

    def sensitivity(self, order: int, *, replace: bool) -> int:
        """The largest norm of a column: the product of the factors'. Under replacement an upper bound.

        ‖a - b‖² = ‖a‖² + ‖b‖² - 2⟨a, b⟩, where the inner product is one of the factors' at each column.
        """
        most = prod(f.sensitivity(order, replace=False) for f in self.factors)
        if not replace or self.cells == 1:
            return most if not replace else 0
        if order == 1:
            return 2 * most
        return 2 * (most - min(prod(ends) for ends in itertools.product(*map(_inner, self.factors))))

    def texts(self, domain: Domain) -> Iterator[str]:
        """`age in 30..39 and hours in 40..49`."""
        parts = [list(f.texts(domain.project([i]))) for i, f in enumerate(self.factors)]
        yield from map(" and ".join, itertools.product(*parts))

    def to_json(self) -> dict[str, Any]:
        """The factors."""
        return {"type": "product", "factors": [f.to_json() for f in self.factors]}


def _inner(factor: Factor) -> tuple[int, int]:
    """Bounds on the inner product of two columns; none is larger than a norm, and none negative if no entry is."""
    least = int(factor.products.min()) if isinstance(factor, IntegerRows) else 0
    return least, factor.sensitivity(2, replace=False)


def query_rows(queries: Queries) -> Iterator[Floats]:
    """The matrix of any family, in its units, some rows (m, cells) at a time."""
    step = max(_BLOCK_ENTRIES // queries.cells, 1)
    for first in range(0, queries.count, step):
        rows = []
        for i in range(first, min(first + step, queries.count)):
            one = np.zeros(queries.count)
            one[i] = 1
            rows.append(queries.adjoint(one))
        yield np.stack(rows)
