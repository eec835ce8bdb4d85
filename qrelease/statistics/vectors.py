"""Records as vectors of whole numbers: some columns of numbers together, each on a public scale."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from qrelease._util.typing import Floats, Ints
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.noise.calibration import calibrated
from qrelease.noise.distributions import Noise
from qrelease.privacy.costs import Cost, PureDP
from qrelease.statistics.grid import Grid
from qrelease.statistics.private_columns import PrivateColumns

_MAX_CELLS: Final = 1 << 20
"""Values of a column: so that sums over 2^24 records, and squared lengths, are far from the largest integer."""


@final
@dataclass(frozen=True)
class VectorColumns:
    """The columns of a vector, and their scale: public.

    A value is a whole number of half steps from the middle of its column's grid, z = 2 code - (cells - 1). So |z| is at
    most cells - 1, and grids with an even number of values have a middle too.
    """

    grids: tuple[Grid, ...]

    @classmethod
    def of(cls, domain: Domain, columns: tuple[str, ...]) -> VectorColumns:
        """The frame of columns of numbers; `InvalidInput` for none, one named twice, or one with a single value."""
        if not isinstance(columns, tuple) or not columns or len(set(columns)) < len(columns):
            raise InvalidInput(f"columns must be a tuple of different names, got {columns!r}")
        grids = tuple(Grid.of(domain, name) for name in columns)
        constant = [grid.name for grid in grids if grid.cells < 2]
        if constant:
            raise InvalidInput(f"column {constant[0]!r} has one value only")
        wide = [grid.name for grid in grids if grid.cells > _MAX_CELLS]
        if wide:
            raise InvalidInput(f"column {wide[0]!r} has more than {_MAX_CELLS:,} values: sums of vectors take fewer")
        return cls(grids)

    def __len__(self) -> int:
        """d."""
        return len(self.grids)

    @property
    def reach(self) -> Ints:
        """The largest |z| of each column, (d,)."""
        return np.array([grid.cells - 1 for grid in self.grids], np.int64)

    @property
    def missing(self) -> bool:
        """Whether a record may lack one of the values."""
        return any(grid.missing for grid in self.grids)

    def values(self, z: Floats) -> tuple[float, ...]:
        """The numbers that half steps from the middles stand for, (d,)."""
        return tuple(grid.value((grid.cells - 1 + v) / 2) for grid, v in zip(self.grids, z.tolist(), strict=True))

    @property
    def half_steps(self) -> Floats:
        """What one half step is in the unit of each column, (d,)."""
        return np.array([grid.step / 2 for grid in self.grids])

    def widths(self, low: Ints | Floats, high: Ints | Floats) -> tuple[float, ...]:
        """How far apart two values of each column are at most that are from `low` to `high`, (d,) half steps.

        Empty where some column has no two of them.
        """
        first, last = np.ceil((low + self.reach) / 2), np.floor((high + self.reach) / 2)
        apart = 2 * (last - first) * self.half_steps
        return tuple(apart.tolist()) if apart.min() > 0 else ()

    def rows(self, private: PrivateColumns) -> Ints:
        """The records that have all values, (m, d) half steps. Private.

        A record's row depends on that record alone.
        """
        codes = [private.codes(grid.name) for grid in self.grids]
        complete = np.ones(len(codes[0]), bool)
        for column in codes:
            complete &= column >= 0
        return np.stack([2 * c[complete] - (g.cells - 1) for g, c in zip(self.grids, codes, strict=True)], axis=1)

    def clipped_sums(self, private: PrivateColumns, reach: Ints) -> tuple[Ints, int]:
        """The sum of `rows`, each coordinate clipped to ±reach, (d,), and their number. Private.

        Where no value is missing it is counted column by column, in memory that does not grow with the records.
        """
        if self.missing:
            rows = np.clip(self.rows(private), -reach, reach)
            return rows.sum(axis=0), len(rows)
        weights = {
            grid.name: np.clip(2 * np.arange(grid.cells, dtype=np.int64) - (grid.cells - 1), -r, r)
            for grid, r in zip(self.grids, reach.tolist(), strict=True)
        }
        return private.sums(weights), private.count()


@final
@dataclass(frozen=True)
class SumAndCount:
    """How a sum of vectors and their number are measured together, as one vector with one law of noise; public.

    The number of records is one more coordinate, of weight w: a record moves the whole by √(L² + w²) in L2, or by
    L + w in L1, where L is what it moves the sum by. With s² the variance of a draw the mean is off by about
    √(d + (m/w)²) s/n, where m is the mean's distance from the origin, at most L. w = L/d^(3/4), or L/d^(2/3) in L1, is
    the best for m = L: the mean is then off by 1 + 1/√d times what it would be if n were known.

    length  L, squared for L2 noise
    moves   how many records come or go between neighbours
    """

    length: int
    dimension: int
    moves: int
    cost: Cost

    @property
    def weight(self) -> int:
        """w, the weight of the number of records beside the coordinates."""
        pure = isinstance(self.cost, PureDP)
        length = self.length if pure else math.sqrt(self.length)
        return max(1, round(length / math.pow(self.dimension, 2 / 3 if pure else 3 / 4)))

    @property
    def sensitivity(self) -> int:
        """How far one record moves all that is released: Δ₁ under pure ε, else Δ₂²."""
        if isinstance(self.cost, PureDP):
            return self.moves * (self.length + self.weight)
        return self.moves**2 * (self.length + self.weight**2)

    @property
    def law(self) -> Noise:
        """The distribution of the noise on each coordinate."""
        return calibrated(self.sensitivity, self.cost)[0]

    def measure(self, private: PrivateColumns, what: str, total: Ints, records: int) -> Sums:
        """The noisy sum of vectors of length at most L each, from the exact one, (d,), and their noisy number."""
        exact = np.append(total, np.int64(self.weight) * np.int64(records))
        noisy, law = private.measure(what, exact, self.sensitivity, self.cost)
        return Sums(noisy[:-1], int(noisy[-1]), self.weight, law)

    def error_bound(self, records: float, reach: float, beta: float) -> float:
        """The error of each coordinate of the mean, with probability 1 - β in all at once; none is beyond `reach`.

        (S + a)/(n + b/w) is off by |a - (S/n) b/w|/(n + b/w).
        """
        t = self.law.largest_of(self.dimension + 1, beta)
        left = records - t / self.weight
        return t * (1 + reach / self.weight) / left if left > 0 else math.inf


@final
@dataclass(frozen=True)
class Sums:
    """A noisy sum of vectors and w times their noisy number; public."""

    sums: Ints
    weighted_count: int
    weight: int
    law: Noise

    @property
    def records(self) -> float:
        """The noisy number of vectors."""
        return self.weighted_count / self.weight

    def mean(self, reach: Ints) -> Floats:
        """The mean of the vectors, none beyond `reach`, (d,): the middle where no record shows."""
        if self.weighted_count <= 0:
            return np.zeros(len(self.sums))
        return np.asarray(np.clip(self.sums / self.records, -reach, reach), np.float64)

    def intervals(self, reach: Ints, beta: float) -> Floats:
        """(d, 2): of the mean of the vectors that were summed, in all coordinates with probability 1 - β."""
        t = self.law.largest_of(len(self.sums) + 1, beta)
        fewest, most = (self.weighted_count - t) / self.weight, (self.weighted_count + t) / self.weight
        if fewest <= 0:
            return np.stack([-reach, reach], axis=1).astype(np.float64)
        low, high = self.sums - t, self.sums + t
        ends = np.stack([low / np.where(low < 0, fewest, most), high / np.where(high > 0, fewest, most)], axis=1)
        return np.asarray(np.clip(ends, -reach[:, None], reach[:, None]), np.float64)

    def least_records(self, beta: float) -> float:
        """A number that n reaches with probability 1 - β."""
        return (self.weighted_count - self.law.reach(beta)) / self.weight

    def typical(self, reach: Ints) -> Floats:
        """About the root mean square error of each coordinate, (d,)."""
        if self.weighted_count <= 0:
            return np.asarray(2.0 * reach, np.float64)
        spread = np.sqrt(self.law.variance * (1 + (self.mean(reach) / self.weight) ** 2))
        return np.asarray(np.minimum(spread / self.records, 2.0 * reach), np.float64)
