"""The round points of a grid, at which people heap what they report: 3 000 rather than 2 987, a quarter past.

How round a point is, is public. So all points that are as round make one class, and how many records each class has
is one histogram: a record is in one cell of it. A heap that no single count tells from its noise shows there together
with all others of its kind (Roberts & Brewer 2001, *Measures and tests of heaping in discrete quantitative
distributions*, measure heaps so; `point_tree` has what follows from it).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Self

import numpy as np

from qrelease._util.typing import Floats, Ints
from qrelease.data.grids import PointGrid

_DECIMAL: Final = (1, 5)  # and ten, a hundred, … times these
_SPANS: Final = tuple(Fraction(seconds, 86_400) for seconds in (60, 300, 900, 1800, 3600, 21_600, 43_200, 86_400))


@dataclass(frozen=True)
class RoundPoints:
    """Classes of the points of a grid: its first, its last, then the others by how round they are, and 0.

    What lies beyond the ends of a grid is put to them, and 0 is often another thing than a small number.

    origin   the place of 0, which may be beyond the ends
    size     points of the grid
    periods  in points, each a multiple of the one before, from 1 on: of a class are the multiples of its own period,
             but not of the next

    Examples
    --------
    >>> tens = RoundPoints(origin=0, size=101, periods=(1, 5, 10))
    >>> tens.classes(np.array([0, 3, 15, 40, 100])).tolist(), tens.number
    ([0, 2, 3, 4, 1], 6)
    >>> tens.numbers(np.array([0, 11]), np.array([11, 101])).tolist()
    [[1, 0, 8, 1, 1, 0], [0, 1, 72, 9, 8, 0]]
    """

    origin: int
    size: int
    periods: tuple[int, ...] = (1,)

    @classmethod
    def of(cls, grid: PointGrid) -> Self:
        """Those of a grid: 1, 5, 10, 50, … in its own unit, or minutes, five, fifteen, …, hours, days.

        Where 0 would not be a point, none is rounder than another.
        """
        origin = -grid.low / grid.step
        if origin.denominator != 1:
            return cls(-1, grid.size)
        farthest = max(abs(grid.low), abs(grid.high))
        periods = [1]
        for span in _SPANS if grid.begins else _decimals(grid.step, farthest):
            steps = span / grid.step
            if steps.denominator == 1 and steps > 1 and steps % periods[-1] == 0 and span <= farthest:
                periods.append(int(steps))
        return cls(int(origin), grid.size, tuple(p for p in periods if p < grid.size))

    @property
    def number(self) -> int:
        """Of classes."""
        return len(self.periods) + 3

    def classes(self, points: Ints) -> Ints:
        """The class of each point, (m,)."""
        found = np.full(len(points), 1, np.int64)
        for period in self.periods:
            found += (points - self.origin) % period == 0
        found[points == self.origin] = self.number - 1
        found[points == self.size - 1] = 1
        found[points == 0] = 0
        return found

    def counts(self, points: Ints, counts: Ints) -> Ints:
        """How many records each class has, (number,), of how many there are at some points: private as these are."""
        found = np.zeros(self.number, np.int64)
        np.add.at(found, self.classes(points), counts)
        return found

    def numbers(self, starts: Ints, stops: Ints) -> Ints:
        """How many points of each class lie from each start on before its stop, (k, number)."""
        found = np.zeros((len(starts), self.number), np.int64)
        found[:, 2:-1] = np.stack([self._multiples(stops, p) - self._multiples(starts, p) for p in self.periods], 1)
        found[:, 2:-2] -= found[:, 3:-1]
        special = np.array([0, self.size - 1, self.origin])
        for point, own in dict(zip(special.tolist(), self.classes(special).tolist(), strict=True)).items():
            if not 0 <= point < self.size:
                continue
            within = (starts <= point) & (point < stops)
            natural = 1 + sum((point - self.origin) % period == 0 for period in self.periods)
            found[within, natural] -= 1
            found[within, own] += 1
        return found

    def _multiples(self, stops: Ints, period: int) -> Ints:
        """How many there are of a period before each stop, up to a constant."""
        return -((self.origin - stops) // period)

    def roundest(self, near: Floats, least: Floats, most: Floats) -> Ints:
        """Of the points from `least` to `most` the roundest, of some that are as round the nearest to `near`.

        Each array is (k,), of whole numbers; `near` itself where there are no points between.

        Examples
        --------
        >>> years = RoundPoints(origin=0, size=101, periods=(1, 5, 10))
        >>> years.roundest(np.array([37.0, 52.0]), np.array([34.0, 51.0]), np.array([39.0, 54.0])).tolist()
        [35, 52]
        """
        found = near.astype(np.int64)
        for period in self.periods[1:]:
            first = np.ceil((least - self.origin) / period)
            last = np.floor((most - self.origin) / period)
            nearest = self.origin + period * np.clip(np.rint((near - self.origin) / period), first, last)
            found = np.where(first <= last, nearest.astype(np.int64), found)
        return found

    def places(self, found: int, start: int, stop: int) -> Ints:
        """The points of a class from a start on before a stop, ascending."""
        if found in (0, 1, self.number - 1):
            points = np.array([self.origin if found > 1 else (0, self.size - 1)[found]], np.int64)
            points = points[(start <= points) & (points < stop)]
        else:
            period = self.periods[found - 2]
            points = np.arange(start + (self.origin - start) % period, stop, period, dtype=np.int64)
        kept: Ints = points[self.classes(points) == found]
        return kept


def _decimals(step: Fraction, farthest: Fraction) -> list[Fraction]:
    """1, 5, 10, 50, … and 0.5, 0.1, …, from a step on, up to what is farthest from 0."""
    power = Fraction(1)
    while power > step:
        power /= 10
    found = []
    while power <= farthest:
        found += [factor * power for factor in _DECIMAL]
        power *= 10
    return found
