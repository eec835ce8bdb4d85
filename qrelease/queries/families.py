"""Families of linear queries over the cells of one marginal.

Every linear query that an analyst can write mentions some attributes and is a vector over the cells of the marginal
on them: one cell, a range, a prefix, a predicate, an explicit vector. So a workload is a list of families, each on
one set of attributes, and a histogram needs to do two things only: give marginals, and be scaled by them.

All entries are integers in units of a declared grid (1 for counts, `GRID` for real vectors), so that sums over
private counts and the sensitivities that privacy rests on are exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from qrelease._util.typing import Ints
from qrelease.data.conditions import cell_text, run_texts
from qrelease.errors import InvalidInput, TooLarge

if TYPE_CHECKING:
    from qrelease.data.domain import Domain
    from qrelease.data.predicates import Predicate

GRID = 2.0**-20
"""Real-valued queries are rounded to multiples of this before any private number meets them."""

MAX_COMPARED_ROOT = 2048  # up to the square of this many entries, all pairs of cells are compared for replace-one

_MAX_VECTORS = 1 << 22  # squares of numerators are below 2^41, so sums of so many are exact in int64

MAX_RESIDUAL_SCALE = 1 << 30
"""Of residuals, times the cells of their marginal: what 2^32 records add up to stays within int64."""

Number = TypeVar("Number", bound=np.generic)


class Queries(Protocol):
    """k linear queries over the cells of one marginal, with integer entries W (k, cells) in units of `unit`."""

    @property
    def count(self) -> int:
        """k, the number of queries."""

    @property
    def cells(self) -> int:
        """The number of cells of the marginal."""

    @property
    def unit(self) -> float:
        """What an entry of 1 stands for: 1 for counts."""

    @property
    def bounded(self) -> bool:
        """Whether all entries lie in [0, 1], in counts: whoever scores queries counts on it that one record moves none
        by more than 1."""

    def apply(self, table: npt.NDArray[Number]) -> npt.NDArray[Number]:
        """The answers, from the marginal.

        Parameters
        ----------
        table : ndarray, shape (cells,)
            The marginal.

        Returns
        -------
        ndarray, shape (k,)
            W · table, in units; exact for int64.
        """

    def adjoint(self, weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """How much each cell counts in a weighted sum of the queries.

        Parameters
        ----------
        weights : ndarray of float, shape (k,)
            One for each query.

        Returns
        -------
        ndarray of float, shape (cells,)
            Wᵀ · weights, in units.
        """

    def squares(self) -> npt.NDArray[np.float64]:
        """The sum of the squared entries of each query: its variance where each cell has noise of variance 1.

        Returns
        -------
        ndarray of float, shape (k,)
            In counts squared.
        """

    def sensitivity(self, order: int, *, replace: bool) -> int:
        """How far one record moves all answers together.

        Parameters
        ----------
        order : int
            1 for Σ|ΔW x|, 2 for Σ(ΔW x)².
        replace : bool
            Whether a neighbour has another record in place of one, rather than one more or fewer.

        Returns
        -------
        int
            In units, or for order 2 in units squared. Exact, but for large families of explicit vectors, and for
            residuals of order 1 under replacement, where it is an upper bound.
        """

    def texts(self, domain: Domain) -> Iterator[str]:
        """Each query in the language of `predicates`, as far as it can be said there.

        Parameters
        ----------
        domain : Domain
            The marginal's columns.

        Returns
        -------
        iterator of str
            One text for each query.
        """

    def to_json(self) -> dict[str, Any]:
        """A description from which `Workload.from_json` makes the same family."""


@dataclass(frozen=True)
class Cells:
    """Every cell of the marginal: the identity.

    Examples
    --------
    >>> Cells(3).sensitivity(1, replace=True)
    2
    """

    cells: int
    unit = 1.0
    bounded = True

    @property
    def count(self) -> int:
        """Number of queries: of cells."""
        return self.cells

    def apply(self, table: npt.NDArray[Number]) -> npt.NDArray[Number]:
        """The table itself."""
        return table

    def adjoint(self, weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """The weights themselves."""
        return weights

    def squares(self) -> npt.NDArray[np.float64]:
        """1 for each: a query is one cell."""
        return np.ones(self.cells)

    def sensitivity(self, order: int, *, replace: bool) -> int:
        """One cell changes by one; a replacement changes two (none if there is only one)."""
        return (2 if self.cells > 1 else 0) if replace else 1

    def texts(self, domain: Domain) -> Iterator[str]:
        """`sex = 'Male' and income = '>50K'`, in C order."""
        parts = [[cell_text(a, code) for code in range(a.size)] for a in domain]
        for index in np.ndindex(domain.shape):
            yield " and ".join(parts[j][code] for j, code in enumerate(index))

    def to_json(self) -> dict[str, Any]:
        """`{"type": "cells"}`."""
        return {"type": "cells"}


@dataclass(frozen=True)
class Intervals:
    """All ranges of an ordered attribute, or all its prefixes; a missing cell lies in none.

    Attributes
    ----------
    values
        Cells that can lie in a range.
    cells
        The same, with the missing cell.
    prefixes
        Whether only the ranges are asked that begin at the first cell; else all, as (0,0), (0,1), …, (1,1), ….

    Examples
    --------
    >>> Intervals(3, 3, prefixes=False).apply(np.array([5, 7, 1]))
    array([ 5, 12, 13,  7,  8,  1])
    """

    values: int
    cells: int
    prefixes: bool
    unit = 1.0
    bounded = True

    def __post_init__(self) -> None:
        if not 1 <= self.values <= self.cells:
            raise InvalidInput(f"ranges need 1 to {self.cells} values, got {self.values}")

    @cached_property
    def ends(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """The first and the last cell of each range, (k,) each."""
        if self.prefixes:
            return np.zeros(self.values, np.intp), np.arange(self.values)
        return np.triu_indices(self.values)

    @property
    def count(self) -> int:
        """Number of ranges: m(m+1)/2, or m prefixes."""
        return self.values if self.prefixes else self.values * (self.values + 1) // 2

    def apply(self, table: npt.NDArray[Number]) -> npt.NDArray[Number]:
        """Sums over ranges, as differences of running sums; of a table (cells, m) along its first axis."""
        low, high = self.ends
        zero = np.zeros_like(table[:1])
        running = np.concatenate([zero, np.cumsum(table[: self.values], axis=0, dtype=table.dtype)])
        sums: npt.NDArray[Number] = running[high + 1] - running[low]
        return sums

    def adjoint(self, weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Each cell gets the weights of the ranges that contain it."""
        low, high = self.ends
        steps = np.bincount(low, weights, self.cells + 1) - np.bincount(high + 1, weights, self.cells + 1)
        return np.cumsum(steps)[: self.cells]

    def squares(self) -> npt.NDArray[np.float64]:
        """The number of cells in each range."""
        low, high = self.ends
        return (high - low + 1).astype(np.float64)

    def sensitivity(self, order: int, *, replace: bool) -> int:
        """How many ranges contain a cell; under replacement, how many contain just one of two cells."""
        m = self.values
        if self.prefixes:  # the first cell lies in all; of two cells d apart, one lies in d more
            return m if not replace or self.cells > m else m - 1
        # Cell i lies in (i+1)(m-i) ranges; just one of two cells d apart lies in d(m+1-d): both have the same peak.
        return (m + 1) // 2 * (m // 2 + 1) if not replace or self.cells > 1 else 0

    def texts(self, domain: Domain) -> Iterator[str]:
        """`age in 30..39`."""
        (attribute,) = domain
        yield from run_texts(attribute, prefixes=self.prefixes)

    def to_json(self) -> dict[str, Any]:
        """`{"type": "prefixes"}` or `{"type": "ranges"}`."""
        return {"type": "prefixes" if self.prefixes else "ranges"}


class Explicit:
    """What families that hold their rows W (k, cells) share; `rows` are int64, in units of `unit`."""

    rows: Ints
    unit: float

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Explicit) and type(other) is type(self) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @cached_property
    def _key(self) -> tuple[bytes, float, int]:
        return self.rows.tobytes(), self.unit, len(self.rows)

    @property
    def cells(self) -> int:
        """Number of columns."""
        return int(self.rows.shape[1])

    @property
    def count(self) -> int:
        """Number of rows."""
        return len(self.rows)

    def apply(self, table: npt.NDArray[Number]) -> npt.NDArray[Number]:
        """Matrix times vector, or times a matrix (cells, m)."""
        # Exact for integer tables; numpy's stubs do not know what a product of two number types is.
        return self.rows @ table  # type: ignore[operator, no-any-return]

    def adjoint(self, weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Vector times matrix."""
        product: npt.NDArray[np.float64] = weights @ self.rows
        return product

    def squares(self) -> npt.NDArray[np.float64]:
        """Sums over the columns."""
        total: npt.NDArray[np.float64] = ((self.rows * self.unit) ** 2).sum(axis=1)
        return total


@dataclass(frozen=True, eq=False)
class Vectors(Explicit):
    """Explicit queries with entries in [0, 1].

    Attributes
    ----------
    rows
        (k, cells) int64: the entries in units.
    unit
        1 for counting queries, else 2^-20.
    conditions
        The condition that each query counts, where they come from predicates.

    Raises
    ------
    InvalidInput
        For another unit, shape or type, and for entries outside [0, 1].
    TooLarge
        For more than 2^22 queries.

    Examples
    --------
    >>> Vectors.rounded([[1, 0, 1]], 3).apply(np.array([5, 7, 1]))
    array([6])
    """

    rows: Ints
    unit: float
    conditions: tuple[str, ...] = ()
    bounded = True

    def __post_init__(self) -> None:
        if self.unit not in (1.0, GRID):
            raise InvalidInput(f"query vectors have the unit 1 or {GRID}, got {self.unit}")
        if self.rows.ndim != 2 or not self.rows.size or self.rows.dtype != np.int64:
            raise InvalidInput(
                f"query vectors must be int64 of shape (k, cells), got {self.rows.dtype} of {self.rows.shape}"
            )
        if self.rows.min() < 0 or self.rows.max() > round(1 / self.unit):
            raise InvalidInput("query vectors must have entries in [0, 1]")
        if len(self.rows) > _MAX_VECTORS:
            raise TooLarge(f"{len(self.rows):,} query vectors are too many; at most {_MAX_VECTORS:,} fit")
        # Sensitivities are computed from these numbers, so nobody may change them afterwards.
        object.__setattr__(self, "rows", self.rows.copy())
        self.rows.setflags(write=False)

    @classmethod
    def of_predicate(cls, predicate: Predicate) -> Vectors:
        """The one query that counts the records for which a predicate holds."""
        return cls(predicate.mask().astype(np.int64)[None, :], 1.0, (str(predicate),))

    @classmethod
    def rounded(cls, vectors: npt.ArrayLike, cells: int) -> Vectors:
        """Real vectors (k, cells) with entries in [0, 1], rounded to the grid."""
        try:
            dense = np.asarray(vectors, np.float64)
        except (TypeError, ValueError):
            raise InvalidInput("query vectors must be real numbers of one shape (k, cells)") from None
        if dense.ndim != 2 or dense.shape[1] != cells or not len(dense):
            raise InvalidInput(f"query vectors must have shape (k, {cells}), got {dense.shape}")
        if not (np.isfinite(dense).all() and dense.min() >= 0 and dense.max() <= 1):
            raise InvalidInput("query vectors must have entries in [0, 1]")
        unit = 1.0 if (dense == np.rint(dense)).all() else GRID
        return cls(np.rint(dense / unit).astype(np.int64), unit)

    def sensitivity(self, order: int, *, replace: bool) -> int:
        """The largest norm of a column, or of a difference of two columns."""
        if replace and len(self.rows) == 1:
            span = int(self.rows.max() - self.rows.min())
            return span * span if order == 2 else span
        most = int((np.abs(self.rows) ** order).sum(axis=0).max())
        if not replace:
            return most
        columns = np.unique(self.rows, axis=1).T if self.rows.size <= MAX_COMPARED_ROOT**2 else self.rows.T
        if columns.size * len(columns) <= MAX_COMPARED_ROOT**2:
            return max(int((np.abs(columns - c) ** order).sum(axis=1).max()) for c in columns)
        spans = self.rows.max(axis=1) - self.rows.min(axis=1)
        return min(int((spans**order).sum()), int(most * 2**order))

    def texts(self, domain: Domain) -> Iterator[str]:
        """The predicates, or `vector 0`, `vector 1`, …."""
        yield from self.conditions or (f"vector {i}" for i in range(self.count))

    def to_json(self) -> dict[str, Any]:
        """Predicates by their texts, vectors by their numerators."""
        if self.conditions:
            return {"type": "predicates", "texts": list(self.conditions)}
        return {"type": "vectors", "unit": self.unit, "rows": self.rows.tolist()}


@dataclass(frozen=True)
class Residuals:
    """What a marginal says beyond all smaller ones, as an integer tight frame: F = `scale` ⊗ᵢ (nᵢI - J).

    F is `scale`·N·P, N = Π nᵢ, for the orthogonal projection P onto the tables of shape (n₁, …, n_k) whose sums along
    each axis are zero. So its N rows are integers of one norm, and so are its columns: `scale`² Π nᵢ(nᵢ - 1) squared.
    With independent noise of variance v on each row, P/(`scale` N) of what comes out is an unbiased estimate of the
    residual with covariance v/(`scale` N)² P: no other basis of that space with columns of this norm does better.
    The shape () is the number of records, times `scale`.
    """

    shape: tuple[int, ...]
    scale: int = 1
    unit = 1.0
    bounded = False

    def __post_init__(self) -> None:
        if not all(n >= 2 for n in self.shape):
            raise InvalidInput(f"residuals need attributes of at least 2 cells, got {self.shape}")
        if not 1 <= self.multiple <= MAX_RESIDUAL_SCALE:
            raise InvalidInput(
                f"the scale of residuals times {prod(self.shape):,} cells must be 1 to 2^30, got {self.scale}"
            )

    @property
    def cells(self) -> int:
        """Number of cells of the marginal."""
        return prod(self.shape)

    @property
    def count(self) -> int:
        """k, which is the number of cells, though the residuals have only Π(nᵢ - 1) dimensions."""
        return self.cells

    @property
    def multiple(self) -> int:
        """`scale` N: how many times the projection F is."""
        return self.scale * self.cells

    def apply(self, table: npt.NDArray[Number]) -> npt.NDArray[Number]:
        """Along each axis, n times the table minus its sums; of one table, or of each of several, (…, cells)."""
        cube: Any = table.reshape((*table.shape[:-1], *self.shape))  # the stubs know no product of number types
        for axis, n in enumerate(self.shape, start=table.ndim - 1):
            cube = n * cube - cube.sum(axis=axis, keepdims=True)
        rows: npt.NDArray[Number] = self.scale * cube.reshape(table.shape)
        return rows

    def adjoint(self, weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """The adjoint, which is `apply` itself: F is symmetric."""
        return self.apply(weights)

    def squares(self) -> npt.NDArray[np.float64]:
        """The squared norm of each query, which is the same for all."""
        return np.full(self.count, float(self._norm))

    @property
    def _norm(self) -> int:
        return self.scale**2 * prod(n * (n - 1) for n in self.shape)

    def sensitivity(self, order: int, *, replace: bool) -> int:
        """The norm of a column, or of the difference of two; under order 1 and replacement an upper bound.

        Two columns a, b that differ along the axes D have the product N²P_ab = Π_{i∉D} nᵢ(nᵢ-1) Π_{i∈D} (-nᵢ), times
        `scale`²: least, hence the difference largest, where D is one axis, the shortest.
        """
        if replace and not self.shape:
            return 0
        if order == 1:
            return self.scale * prod(2 * (n - 1) for n in self.shape) * (2 if replace else 1)
        return self.replaced((min(self.shape),)) if replace else self._norm

    def replaced(self, apart: Sequence[int]) -> int:
        """The squared distance of two columns whose cells differ along axes of these lengths, and only along these."""
        product = self._norm // prod(1 - n for n in apart)
        return 2 * (self._norm - product)

    def texts(self, domain: Domain) -> Iterator[str]:
        """`residual of sex = 'Male' and income = '>50K'`, in C order."""
        for text in Cells(self.cells).texts(domain):
            yield f"residual of {text}"

    def to_json(self) -> dict[str, Any]:
        """The scale; the shape is the columns'."""
        return {"type": "residuals", "multiplier": self.scale}
