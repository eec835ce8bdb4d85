"""Means of values clipped to public bounds: one form that is best, and the two of textbooks.

Between neighbours one record's value x in [l, u] comes or goes. `Mean` releases A = Σ(x - l) and B = Σ(u - x) with
noise: they move by x - l and u - x, together by w = u - l whatever x is, in L1 and hence in L2, so each has noise for
Δ = w at the whole cost. The mean is l + w A/(A + B): no part of the budget is set aside for the number of records,
which is (A + B)/w. All of these are whole numbers of steps of the column's grid.

*Error.* With noise a, b, the released mean is off by |(1 - p)a - pb| / (n + (a + b)/w), where p = A/(nw). So its
variance is about s²((1 - p)² + p²)/n², with s² the variance of a draw: under pure ε from w²/(ε²n²) in the middle to
2w²/(ε²n²) at a bound. A centred sum and a count at ε/2 each have from 2 to 4 times w²/(ε²n²). If neither draw is beyond
t, the error is at most t/(n - 2t/w).

Neighbours that replace a record move A and B by at most w each, and by 2w together. But where n is public and no value
is missing, B is nw - A: then A alone is measured, for Δ = w, and the error is at most t/n.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, final

import numpy as np

from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.noise.calibration import calibrated, sensitivity_of_one
from qrelease.noise.distributions import Noise
from qrelease.privacy.costs import Cost, Neighbours, split
from qrelease.statistics.base import BETA, EstimateResult, Measured, spelled
from qrelease.statistics.grid import Grid, Numbers
from qrelease.statistics.private_columns import PrivateColumns, moves


@final
@dataclass(frozen=True)
class TwoSums:
    """What `Mean` measures: noisy A and B of one clipping, in steps of the grid; public.

    low, high  the codes of the bounds
    law        of each one's noise
    one        whether only A was measured, and B follows from it
    """

    grid: Grid
    low: int
    high: int
    above: int
    below: int
    law: Noise
    one: bool

    @property
    def width(self) -> int:
        """The width of the clipping, in steps."""
        return self.high - self.low

    @property
    def records(self) -> float:
        """The noisy number of records that have a value."""
        return (self.above + self.below) / self.width

    def mean(self, shift: float = 0.0) -> float:
        """The mean if A is larger by `shift` and B smaller; the middle where no records show."""
        total = self.above + self.below
        part = 0.5 if total <= 0 else min(max((self.above + shift) / total, 0.0), 1.0)
        return self.grid.value(self.low + self.width * part)

    def interval(self, beta: float) -> tuple[float, float]:
        """The interval of the clipped mean, with probability 1 - β, where the table has a value at all.

        If both draws are within ±t, A is from A' - t to A' + t and so is B. The mean grows with A and falls with B: it
        is between the means of (A' - t, B' + t) and (A' + t, B' - t), as neither changes the total.
        """
        if self.above + self.below <= 0:
            return self.grid.value(self.low), self.grid.value(self.high)
        reach = self.law.largest_of(1 if self.one else 2, beta)
        return self.mean(-reach), self.mean(reach)

    @property
    def typical(self) -> float:
        """About the root mean square error of the mean; at most the width."""
        total = self.above + self.below
        width = self.grid.step * self.width
        if total <= 0:
            return width
        part = min(max(self.above / total, 0.0), 1.0)
        noise = math.sqrt(self.law.variance * (1 if self.one else (1 - part) ** 2 + part**2))
        return min(self.grid.step * noise * self.width / total, width)

    def least_records(self, beta: float) -> float:
        """A number that n reaches with probability 1 - β."""
        return self.records - (0 if self.one else 2 * self.law.largest_of(2, beta) / self.width)


def two_sums(
    private: PrivateColumns, grid: Grid, found: Numbers, low: int, high: int, cost: Cost
) -> tuple[TwoSums, tuple[Measured, ...]]:
    """Measure A and B at a cost: the sums of the distances to both bounds; A alone where that gives B too."""
    width = high - low
    up = found.total(low, high) - low * found.n
    plan = ClippedSums(width, grid, private.neighbours)
    if plan.one:
        noisy, law = private.measure("sum of the distances to the lower bound", np.array([up]), plan.moved(cost), cost)
        sums = TwoSums(grid, low, high, int(noisy[0]), width * found.n - int(noisy[0]), law, one=True)
    else:
        exact = np.array([up, width * found.n - up], np.int64)
        noisy, law = private.measure("sums of the distances to both bounds", exact, plan.moved(cost), cost)
        sums = TwoSums(grid, low, high, int(noisy[0]), int(noisy[1]), law, one=False)
    names = ("sum of steps above the lower bound", "sum of steps below the upper bound")
    return sums, tuple(Measured(n, int(v), spelled(law)) for n, v in zip(names, noisy, strict=False))


@final
@dataclass(frozen=True)
class ClippedSums:
    """What is public of measuring the sums of a clipping of so many steps."""

    width: int
    grid: Grid
    neighbours: Neighbours

    @property
    def one(self) -> bool:
        """Whether A is enough: n is public and all have a value."""
        return self.neighbours is Neighbours.REPLACE_ONE and not self.grid.missing

    def moved(self, cost: Cost) -> int:
        """Δ₁ under pure ε, else Δ₂².

        (p, 1 - p)w has both norms at most w; a replaced record moves by (d, -d), d <= w, and one that gets or loses its
        value as if it came or went.
        """
        twice = 2 if self.neighbours is Neighbours.REPLACE_ONE and not self.one else 1
        return twice * sensitivity_of_one(self.width, cost)

    def law(self, cost: Cost) -> Noise:
        """The distribution of the noise; `InvalidInput` where it is beyond the samplers' range."""
        return calibrated(self.moved(cost), cost)[0]

    def error(self, records: float, cost: Cost, beta: float) -> float:
        """t/(n - 2t/w), or t/n, in the unit of values; infinite where that is not below the width."""
        reach = self.law(cost).largest_of(1 if self.one else 2, beta)
        left = records - (0 if self.one else 2 * reach / self.width)
        return self.grid.step * reach / left if left > 0 and reach / left < self.width else math.inf


@final
@dataclass(frozen=True)
class Mean:
    """The mean of a column's values, each clipped to public bounds.

    Parameters
    ----------
    column
        Numbers on a grid. Missing ones do not count.
    low, high
        The bounds, values of the column; by default the least and the largest that it can have.

    Notes
    -----
    The module's docstring has the proof. `error_bound` is about the mean of the clipped values of a table in which at
    least so many records have one.

    References
    ----------
    Dwork, McSherry, Nissim & Smith 2006 for noise by sensitivity; Ghosh, Roughgarden & Sundararajan 2009 and
    Canonne, Kamath & Steinke 2020 for the discrete laws. That both sums move by w together is proved in the
    module's docstring.

    Examples
    --------
    >>> from qrelease import Domain, Neighbours, PureDP
    >>> domain = Domain.coded({"age": 100})
    >>> round(Mean("age", 0, 80).error_bound(domain, 10_000, PureDP(1.0), Neighbours.ADD_REMOVE, beta=0.05), 3)
    0.03
    """

    column: str
    low: float | None = None
    high: float | None = None
    name: ClassVar[str] = "mean"

    def check(self, domain: Domain, cost: Cost, neighbours: Neighbours) -> None:
        """See `Statistic`."""
        grid = Grid.of(domain, self.column)
        low, high = grid.codes(self.low, self.high)
        ClippedSums(high - low, grid, neighbours).law(cost)

    def estimate(self, private: PrivateColumns, cost: Cost) -> EstimateResult:
        """See `Statistic`."""
        grid = Grid.of(private.domain, self.column)
        low, high = grid.codes(self.low, self.high)
        sums, measured = two_sums(private, grid, private.numbers(self.column), low, high, cost)
        return result_of(sums, measured, BETA)

    def error_bound(self, domain: Domain, records: float, cost: Cost, neighbours: Neighbours, *, beta: float) -> float:
        """See `Statistic`; in the unit of values."""
        grid = Grid.of(domain, self.column)
        low, high = grid.codes(self.low, self.high)
        return ClippedSums(high - low, grid, neighbours).error(records, cost, beta)


def result_of(sums: TwoSums, measured: tuple[Measured, ...], beta: float, **choices: float) -> EstimateResult:
    """What follows from two sums."""
    grid = sums.grid
    return EstimateResult(
        sums.mean(),
        sums.interval(beta),
        f"both sums are within the reach of their noise, beta {beta:g}",
        f"the mean of the values clipped to {grid.value(sums.low):g}..{grid.value(sums.high):g}",
        measured,
        choices,
        sums.typical,
        sums.least_records(beta / 2),
        widths=(grid.step * sums.width,),
    )


@final
@dataclass(frozen=True)
class TextbookMean:
    """The textbook's mean: a noisy sum around an origin m, divided by a noisy count; each gets half the cost.

    Parameters
    ----------
    column, low, high
        As those of `Mean`.
    origin
        `middle`: m = (l + u)/2, and one record moves Σ(x - m) by at most (u - l)/2. `zero`: m = 0, and one record moves
        Σx by max(|l|, |u|), which is never less.

    Notes
    -----
    With h the most that one record moves the sum, and draws that are at most s and c, the mean m + sum/count is off by
    at most (s + c h)/(n - c), as |x - m| <= h.

    References
    ----------
    Dwork & Roth 2014, Theorem 3.6, for each of the two numbers.

    Examples
    --------
    >>> from qrelease import Domain, Neighbours, PureDP
    >>> asked = Domain.coded({"age": 81}), 10_000, PureDP(1.0), Neighbours.ADD_REMOVE
    >>> [round(f("age").error_bound(*asked, beta=0.05), 2) for f in (Mean, TextbookMean)]
    [0.03, 0.06]
    """

    column: str
    low: float | None = None
    high: float | None = None
    origin: Literal["middle", "zero"] = "middle"
    name: ClassVar[str] = "textbook-mean"

    def check(self, domain: Domain, cost: Cost, neighbours: Neighbours) -> None:
        """See `Statistic`."""
        if self.origin not in ("middle", "zero"):
            raise InvalidInput(f"the origin must be 'middle' or 'zero', got {self.origin!r}")
        parts = split(cost, [1, 1])
        calibrated(_sensitivity(self._half_steps(Grid.of(domain, self.column))[1], parts[0], neighbours), parts[0])
        calibrated(_sensitivity(1, parts[1], neighbours), parts[1])

    def _half_steps(self, grid: Grid) -> tuple[int, int]:
        """Twice the code of the origin, and twice the most that a value is away from it, in steps."""
        low, high = grid.codes(self.low, self.high)
        middle = low + high
        if self.origin == "zero":
            middle = round(-2 * grid.low / grid.step)
            if grid.value(middle / 2) != 0:
                raise InvalidInput(f"0 is between the steps of column {self.column!r}")
        return middle, max(abs(2 * low - middle), abs(2 * high - middle))

    def estimate(self, private: PrivateColumns, cost: Cost) -> EstimateResult:
        """See `Statistic`."""
        grid, found = Grid.of(private.domain, self.column), private.numbers(self.column)
        low, high = grid.codes(self.low, self.high)
        middle, most = self._half_steps(grid)
        parts = split(cost, [1, 1])
        exact = 2 * found.total(low, high) - middle * found.n
        sums, law = private.measure(
            "sum around the origin", [exact], _sensitivity(most, parts[0], private.neighbours), parts[0]
        )
        counts, counting = private.measure(
            "count", np.array([found.n]), _sensitivity(1, parts[1], private.neighbours), parts[1]
        )
        total, count = int(sums[0]), int(counts[0])
        reach, miss = law.reach(BETA / 2), counting.reach(BETA / 2)
        ends = grid.value(low), grid.value(high)

        def mean(up: float, n: float) -> float:
            return min(max(grid.value((middle + up / n) / 2), ends[0]), ends[1])

        interval = ends
        if count > miss:
            corners = [mean(total + a, count + b) for a in (-reach, reach) for b in (-miss, miss)]
            interval = min(corners), max(corners)
        ratio = total / count if count > 0 else 0.0
        noise = math.sqrt(law.variance + ratio**2 * counting.variance) * grid.step / 2
        return EstimateResult(
            mean(total, count) if count > 0 else (ends[0] + ends[1]) / 2,
            interval,
            f"sum and count are within the reach of their noise, beta {BETA:g}",
            f"the mean of the values clipped to {ends[0]:g}..{ends[1]:g}",
            (
                Measured("sum around the origin, in half steps", total, spelled(law)),
                Measured("count", count, spelled(counting)),
            ),
            typical=min(noise / count, ends[1] - ends[0]) if count > 0 else ends[1] - ends[0],
            records=count - counting.reach(BETA / 2),
            widths=(ends[1] - ends[0],),
        )

    def error_bound(self, domain: Domain, records: float, cost: Cost, neighbours: Neighbours, *, beta: float) -> float:
        """See `Statistic`; in the unit of values."""
        grid = Grid.of(domain, self.column)
        low, high = grid.codes(self.low, self.high)
        _, most = self._half_steps(grid)
        parts = split(cost, [1, 1])
        reach = calibrated(_sensitivity(most, parts[0], neighbours), parts[0])[0].reach(beta / 2)
        miss = calibrated(_sensitivity(1, parts[1], neighbours), parts[1])[0].reach(beta / 2)
        error = (reach + miss * most) / 2 / (records - miss) if records > miss else math.inf
        return error * grid.step if error < high - low else math.inf


def _sensitivity(most: int, cost: Cost, neighbours: Neighbours) -> int:
    """The sensitivity of one number that a record moves by at most so much."""
    return sensitivity_of_one(most * moves(neighbours), cost)
