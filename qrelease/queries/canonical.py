"""One canonical form for all spellings of a query: the cells that it counts, on the columns that it depends on."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import final

import numpy as np

from qrelease._util.typing import Axes, Ints, Mask
from qrelease.data.domain import Domain
from qrelease.queries.families import GRID, Vectors
from qrelease.queries.workload import Group


def canonical(domain: Domain, query: Group) -> Group:
    """The same query, of a group of one, on those columns alone that it depends on: none, for one that is constant."""
    axes, row, _ = _reduced(domain, query)
    return Group(axes, Vectors(row[None, :], query.queries.unit))


def _reduced(domain: Domain, query: Group) -> tuple[Axes, Ints, bool]:
    """The columns, the entries over their marginal in units, and whether they are those of a conjunction."""
    axes, queries = list(query.axes), query.queries
    # Entries are below 2^53: exact as floats.
    row = queries.rows[0] if isinstance(queries, Vectors) else np.rint(queries.adjoint(np.ones(1))).astype(np.int64)
    cube = row.reshape([domain.shape[a] for a in axes])
    if queries.unit == 1:
        bits = cube > 0
        admitted = [*map(np.count_nonzero, _sides(bits))]
        if np.count_nonzero(bits) == prod(admitted) > 0:  # nothing depends on a column of which all values are admitted
            kept = [count < n for count, n in zip(admitted, cube.shape, strict=True)]
            row = np.asarray(cube[tuple(slice(None) if keep else 0 for keep in kept)]).reshape(-1)
            return tuple(a for a, keep in zip(axes, kept, strict=True) if keep), row, True
    for i in reversed(range(len(axes))):
        if (cube == cube.take([0], axis=i)).all():
            cube = np.asarray(cube.take(0, axis=i))
            del axes[i]
    return tuple(axes), cube.reshape(-1), False


def canonical_name(domain: Domain, query: Group) -> tuple[CanonicalQuery, bool]:
    """The name of a group of one query, and whether it is a conjunction of one condition a column, or a weighted one.

    See `CanonicalQuery.weighted_sets`.
    """
    axes, row, conjunction = _reduced(domain, query)
    unit = query.queries.unit
    found = CanonicalQuery(axes, unit, (np.packbits(row > 0) if unit == 1 else row.astype("<i4")).tobytes())
    return found, conjunction or (unit != 1 and found.weighted_sets(domain) is not None)


@final
@dataclass(frozen=True)
class CanonicalQuery:
    """One query in its canonical form, from `canonical_name`: two are equal if and only if they ask the same.

    Parameters
    ----------
    axes
        The numbers of the columns that it depends on, ascending.
    unit
        1 for counts, `GRID` for real-valued vectors.
    row
        Its entries in units, over the cells of the marginal: bits, or int32, as bytes.
    """

    axes: Axes
    unit: float
    row: bytes

    def to_text(self) -> str:
        """`0.2:1:c0`: the columns, whether it counts, and the row in hexadecimal digits."""
        return f"{'.'.join(map(str, self.axes))}:{int(self.unit == 1)}:{self.row.hex()}"

    @classmethod
    def from_text(cls, text: str) -> CanonicalQuery:
        """The query that `to_text` named."""
        axes, counts, row = text.split(":")
        return cls(tuple(map(int, axes.split(".") if axes else ())), 1.0 if counts == "1" else GRID, bytes.fromhex(row))

    def entries(self, domain: Domain) -> Ints:
        """(cells,) in units."""
        return (np.frombuffer(self.row, "<i4") if self.unit != 1 else self._bits(domain)).astype(np.int64)

    def _bits(self, domain: Domain) -> Mask:
        """(cells,), of a counting query."""
        return np.unpackbits(np.frombuffer(self.row, np.uint8), count=domain.cells(self.axes)).view(np.bool_)

    def group(self, domain: Domain) -> Group:
        """The query as a group of one."""
        return Group(self.axes, Vectors(self.entries(domain)[None, :], self.unit))

    def sets(self, domain: Domain) -> tuple[Mask, ...] | None:
        """The values of each column that it admits, if it is a conjunction of one condition a column; else None."""
        if self.unit != 1:
            return None
        cube = self._bits(domain).reshape([domain.shape[a] for a in self.axes])
        sides = _sides(cube)
        return sides if _product(cube, sides) else None

    def weighted_sets(self, domain: Domain) -> tuple[tuple[Mask, ...], int, Ints] | None:
        """The parts of a weighted conjunction: the values that each column admits, the column of weights, and these.

        That is a real-valued query which gives a record the weight of its value in one column, where it meets a
        condition on each of the others, as sums of a column's numbers do; None for another query. It is an average of
        conjunctions: those of all records of at least a weight, over all weights from 0 to 1, w(x) = ∫ 1{w(x) >= t} dt.
        """
        if self.unit == 1 or not self.axes:
            return None
        cube = self.entries(domain).reshape([domain.shape[a] for a in self.axes])
        sides = _sides(cube > 0)
        if not all(side.any() for side in sides):
            return None
        inside = cube[np.ix_(*map(np.flatnonzero, sides))]
        for axis in range(cube.ndim):
            others = tuple(i for i in range(cube.ndim) if i != axis)
            line = np.asarray(inside.max(axis=others, keepdims=True))
            if (inside == line).all():
                weights = np.zeros(cube.shape[axis], np.int64)
                weights[sides[axis]] = line.reshape(-1)
                return sides, axis, weights
        return None


def conjunction(cube: Ints) -> bool:
    """Whether the ones of a table of zeros and ones are a product of sets, one along each axis."""
    return _product(cube, _sides(cube))


def _product(cube: Ints | Mask, sides: tuple[Mask, ...]) -> bool:
    return int(np.count_nonzero(cube)) == prod(int(np.count_nonzero(side)) for side in sides)


def _sides(cube: Ints | Mask) -> tuple[Mask, ...]:
    rest = [tuple(j for j in range(cube.ndim) if j != i) for i in range(cube.ndim)]
    return tuple(np.asarray(cube.any(axis=other)) for other in rest)
