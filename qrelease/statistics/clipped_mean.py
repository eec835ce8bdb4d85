"""Means whose clipping bounds are chosen privately first: `ClippedMean`, and two forms of texts.

The mean of clipped values is measured by `mean.two_sums`. A record that is clipped biases it by at most its distance to
the bound over n, so `interval` is about the clipped mean, and the choice `with_clipping` is the wider interval of the
mean of the values as they are: at most so many records are outside, each by at most the rest of the grid.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, Final, final

import numpy as np

from qrelease._util.typing import Ints
from qrelease._util.validate import whole
from qrelease.data.domain import Domain
from qrelease.noise.calibration import better_rule, calibrated, currency, selection_epsilon
from qrelease.noise.sparse_vector import AboveThreshold, SparseVector
from qrelease.privacy.costs import ZCDP, Cost, Neighbours, PureDP, check_cost, split
from qrelease.statistics.base import BETA, EstimateResult, Measured, spelled
from qrelease.statistics.grid import Grid, Numbers
from qrelease.statistics.mean import ClippedSums, result_of, two_sums
from qrelease.statistics.private_columns import PrivateColumns, moves
from qrelease.statistics.quantile import check_scored_cells, choose_quantile, loss_bound

_SHARES: Final = (1, 1, 6)
"""Of the lower bound, the upper bound and the sums: bounds need to be about right, sums as right as can be."""

_LOOKING: Final = (1, 3)
"""Of looking for both bounds by sparse vector, and of the sums."""

_PARTS: Final = 16
"""Parts of the upper bound that the lower one is looked for among."""


@final
@dataclass(frozen=True)
class ClippedMean:
    """The mean of a column whose values may lie far within its grid: clipped to private bounds first.

    A fourth of the cost is for one sparse vector stream of two positives. It asks minus the number of records above b,
    for b that grow by a fourth each, until it is at least 0: that is b, when about so many records are left above as
    the noise is large. Then it asks minus the number of records below fifteen sixteenths of b, fourteen, …, for the
    lower bound. All of these move by at most 1, and the same way where records come and go. The rest buys `Mean`.

    Looking from inside, where many records are beyond, the stream halts when few are; a choice among all bounds, as
    `QuantileMean` makes, has to clip enough that it does not fall beyond all records.

    Parameters
    ----------
    column
        Numbers on a grid. Missing ones do not count.

    Notes
    -----
    With probability 1 - β/2 at most α records are clipped on either side, the α of `Calibration.alpha`; the sums are as
    exact as `Mean`'s at β/2 and the whole width. So the error is at most that of `Mean` plus α(K - 1)/n steps for each
    side. On most tables it is much less; where the bounds are known, `Mean` is better.

    References
    ----------
    Lyu, Su & Li 2017 and Liu, Wang, Liu, Li & Chen 2024 for the stream, whose proof is in `noise.sparse_vector`.

    Examples
    --------
    >>> from qrelease import Domain, Neighbours, PureDP
    >>> domain = Domain.coded({"gain": 100_000})
    >>> ClippedMean("gain").error_bound(domain, 1_000_000, PureDP(1.0), Neighbours.ADD_REMOVE, beta=0.05) < 100
    True
    """

    column: str
    name: ClassVar[str] = "clipped-mean"

    def check(self, domain: Domain, cost: Cost, neighbours: Neighbours) -> None:
        """See `Statistic`."""
        grid = Grid.of(domain, self.column)
        grid.codes(None, None)
        looking, rest = split(currency(cost), _LOOKING)
        self._outside(grid, looking, neighbours, BETA)
        ClippedSums(grid.cells - 1, grid, neighbours).law(rest)

    def _outside(self, grid: Grid, cost: PureDP | ZCDP, neighbours: Neighbours, beta: float) -> int:
        """α of both bounds, with probability 1 - β."""
        stream = SparseVector.calibrate(cost, 2, 1, monotone=neighbours is Neighbours.ADD_REMOVE)
        return max(stream.alpha(len(_upper_bounds(grid.cells)) + _PARTS, beta))

    def estimate(self, private: PrivateColumns, cost: Cost) -> EstimateResult:
        """See `Statistic`."""
        grid, found = Grid.of(private.domain, self.column), private.numbers(self.column)
        looking, rest = split(currency(cost), _LOOKING)
        monotone = private.neighbours is Neighbours.ADD_REMOVE
        stream = private.stream("bounds by sparse vector", looking, SparseVector, 2, 1, monotone=monotone)
        uppers = _upper_bounds(grid.cells)
        halted = stream.ask_many(found.below(uppers + 1) - found.n, 0)
        high = int(uppers[-1] if halted is None else uppers[halted[0]])
        lowers = np.arange(_PARTS - 1, 0, -1) * high // _PARTS
        halted = stream.ask_many(-found.below(lowers), 0)
        low = 0 if halted is None else int(lowers[halted[0]])
        drawn = (
            Measured("lower bound", grid.value(low), "SparseVector"),
            Measured("upper bound", grid.value(high), "SparseVector"),
        )
        outside = self._outside(grid, looking, private.neighbours, BETA / 2)
        return _clipped(private, grid, found, (low, high), rest, outside, drawn)

    def error_bound(self, domain: Domain, records: float, cost: Cost, neighbours: Neighbours, *, beta: float) -> float:
        """See `Statistic`; about the mean of the values as they are, in their unit."""
        grid, (looking, rest) = Grid.of(domain, self.column), split(currency(cost), _LOOKING)
        return _error(grid, self._outside(grid, looking, neighbours, beta / 2), rest, neighbours, records, beta)


def _upper_bounds(cells: int) -> Ints:
    """Candidates for the upper bound: they grow by a fourth, or by 1, up to the last code."""
    found = [1]
    while found[-1] < cells - 1:
        found.append(min(max(found[-1] + 1, found[-1] * 5 // 4), cells - 1))
    return np.array(found, np.int64)


@final
@dataclass(frozen=True)
class QuantileMean:
    """The mean of a column whose values may lie far within its grid: clipped to two private quantiles first.

    The bounds are the private ranks c from below and c from above, c = (ln K)/γ: with fewer, the choice would often
    fall among the values beyond all records. A quarter of the cost chooses them.

    Parameters
    ----------
    column
        Numbers on a grid of K values, at most 2^20. Missing ones do not count.

    Notes
    -----
    With probability 1 - β/2 at most c + r records are clipped on either side, r the error of `quantile.loss_bound` at
    β/4; the sums are as exact as `Mean`'s at β/2 and the whole width. So the error is at most that of `Mean` plus
    (c + r)(K - 1)/n steps for each side. `ClippedMean` clips fewer: it looks for its bounds from inside.

    References
    ----------
    Smith 2011 for the quantiles; that about 1/ε records should be clipped: Amin, Kulesza, Muñoz & Vassilvitskii 2019.

    Examples
    --------
    >>> from qrelease import Domain, Neighbours, PureDP
    >>> asked = Domain.coded({"gain": 100_000}), 1_000_000, PureDP(1.0), Neighbours.ADD_REMOVE
    >>> QuantileMean("gain").error_bound(*asked, beta=0.05) < 100
    True
    """

    column: str
    name: ClassVar[str] = "quantile-mean"

    def check(self, domain: Domain, cost: Cost, neighbours: Neighbours) -> None:
        """See `Statistic`."""
        grid = Grid.of(domain, self.column)
        grid.codes(None, None)
        check_scored_cells(grid)
        *bounds, sums = _shares(cost)
        for share in bounds:
            selection_epsilon(share, better_rule(share))
        ClippedSums(grid.cells - 1, grid, neighbours).law(sums)

    def estimate(self, private: PrivateColumns, cost: Cost) -> EstimateResult:
        """See `Statistic`."""
        grid, found = Grid.of(private.domain, self.column), private.numbers(self.column)
        lower, upper, rest = _shares(cost)
        aim = _aim(grid, lower)
        chosen = (
            choose_quantile(private, found, grid, Fraction(0), lower, -aim),
            choose_quantile(private, found, grid, Fraction(1), upper, aim),
        )
        low, high = min(chosen), max(chosen)
        low, high = (low, high) if low < high else (max(low - 1, 0), max(low, 1))
        outside = aim + loss_bound(grid.cells, 1, lower, BETA / 4)
        drawn = (
            Measured("lower bound", grid.value(chosen[0]), better_rule(lower)),
            Measured("upper bound", grid.value(chosen[1]), better_rule(upper)),
        )
        return _clipped(private, grid, found, (low, high), rest, outside, drawn)

    def error_bound(self, domain: Domain, records: float, cost: Cost, neighbours: Neighbours, *, beta: float) -> float:
        """See `Statistic`; about the mean of the values as they are, in their unit."""
        grid, (lower, _, rest) = Grid.of(domain, self.column), _shares(cost)
        outside = _aim(grid, lower) + loss_bound(grid.cells, 1, lower, beta / 4)
        return _error(grid, outside, rest, neighbours, records, beta)


def _error(grid: Grid, outside: int, cost: PureDP | ZCDP, neighbours: Neighbours, records: float, beta: float) -> float:
    """How far off a clipped mean is, with probability 1 - β, where at most `outside` records are beyond each bound.

    That these are so few fails with probability β/2; the cost is that of the sums. Infinite where nothing is promised.
    """
    if records <= 0:
        return math.inf
    biased = 2 * outside * (grid.high - grid.low) / records
    error = biased + ClippedSums(grid.cells - 1, grid, neighbours).error(records, cost, beta / 2)
    return error if error < grid.high - grid.low else math.inf


def _clipped(
    private: PrivateColumns,
    grid: Grid,
    found: Numbers,
    bounds: tuple[int, int],
    cost: PureDP | ZCDP,
    outside: int,
    drawn: tuple[Measured, ...],
) -> EstimateResult:
    """The mean between bounds that were chosen; at most `outside` records are beyond each, but for β/2."""
    low, high = bounds
    sums, measured = two_sums(private, grid, found, low, high, cost)
    result, clipped = result_of(sums, measured, BETA), sums.interval(BETA)
    n = max(sums.least_records(BETA / 2), 1.0)
    spread = (
        max(clipped[0] - outside * (grid.value(low) - grid.low) / n, grid.low),
        min(clipped[1] + outside * (grid.high - grid.value(high)) / n, grid.high),
    )
    choices = {"low": grid.value(low), "high": grid.value(high), "with_clipping": spread}
    return replace(result, measured=(*drawn, *measured), choices=choices)


def _shares(cost: Cost) -> tuple[PureDP | ZCDP, ...]:
    return split(currency(cost), _SHARES)


def _aim(grid: Grid, cost: PureDP | ZCDP) -> int:
    """c, so many records from the end."""
    return loss_bound(grid.cells, 1, cost, 1.0) + 1


@final
@dataclass(frozen=True)
class SparseVectorMean:
    """The mean by an upper bound found by sparse vector, then a noisy sum over a noisy count (`auto_avg` of lectures).

    With S(b) = Σ min(x, b), x in steps above the grid's least value, AboveThreshold at ε/3 asks S(b) - S(b + 1) for b =
    0, 1, 2, …, which is minus the number of records above b and moves by at most 1, until it is above T. Then come
    S(b) + Lap(3b/ε) and the count + Lap(3/ε).

    Parameters
    ----------
    column
        Numbers on a grid. Missing ones do not count.
    early
        -T, in records; 0 in the notes. T < 0 halts sooner, when about so many records more are above b.

    Notes
    -----
    Neighbours that replace a record move each of the three by at most twice as much, and its noise is doubled.
    `ClippedMean` chooses both bounds with less noise, and needs no count.

    References
    ----------
    Dwork & Roth 2014, Algorithm 1 and Theorem 3.23, for AboveThreshold.

    Examples
    --------
    >>> from qrelease import Domain, Neighbours, PureDP
    >>> asked = Domain.coded({"gain": 100_000}), 1_000_000, PureDP(1.0), Neighbours.ADD_REMOVE
    >>> SparseVectorMean("gain").error_bound(*asked, beta=0.05) < 100
    True
    """

    column: str
    early: int = 0
    name: ClassVar[str] = "sparse-vector-mean"

    def check(self, domain: Domain, cost: Cost, neighbours: Neighbours) -> None:
        """See `Statistic`."""
        whole("early", self.early, least=0)
        grid = Grid.of(domain, self.column)
        grid.codes(None, None)
        check_scored_cells(grid)
        calibrated((grid.cells - 1) * moves(neighbours), _thirds(cost)[1])

    def estimate(self, private: PrivateColumns, cost: Cost) -> EstimateResult:
        """See `Statistic`."""
        grid, found = Grid.of(private.domain, self.column), private.numbers(self.column)
        bound, summing, counting = _thirds(cost)
        stream = private.stream("an upper bound by sparse vector", bound, AboveThreshold, private.moves)
        above = found.n - found.below(np.arange(1, grid.cells))
        halted = stream.ask_many(-above, -self.early)
        high = max(grid.cells - 1 if halted is None else halted[0], 1)
        total, law = private.measure("clipped sum", np.array([found.total(0, high)]), high * private.moves, summing)
        count, counted = private.measure("count", np.array([found.n]), private.moves, counting)
        s, n = int(total[0]), int(count[0])
        reach, miss = law.reach(BETA / 2), counted.reach(BETA / 2)
        ends = grid.low, grid.value(high)

        def mean(up: float, records: float) -> float:
            return min(max(grid.value(up / records), ends[0]), ends[1]) if records > 0 else ends[1]

        value = mean(s, n) if n > 0 else ends[0]
        corners = [mean(s + a, n + b) for a in (-reach, reach) for b in (-miss, miss)]
        return EstimateResult(
            value,
            (min(corners), max(corners)) if n > miss else ends,
            f"sum and count are within the reach of their noise, beta {BETA:g}",
            f"the mean of the values clipped to {ends[0]:g}..{ends[1]:g}",
            (
                Measured("upper bound", ends[1], "AboveThreshold"),
                Measured("clipped sum, in steps", s, spelled(law)),
                Measured("count", n, spelled(counted)),
            ),
            {"high": ends[1]},
            min(grid.step * math.hypot(math.sqrt(law.variance), s / n * math.sqrt(counted.variance)) / n, ends[1])
            if n > 0
            else ends[1] - ends[0],
            n - counted.reach(BETA / 2),
            widths=(ends[1] - ends[0],),
        )

    def error_bound(self, domain: Domain, records: float, cost: Cost, neighbours: Neighbours, *, beta: float) -> float:
        """See `Statistic`; about the mean of the values as they are, in their unit.

        If sparse vector is right but for α records, at most α + `early` are above b. It may halt nowhere,
        and then b is the largest value.
        """
        grid = Grid.of(domain, self.column)
        bound, summing, counting = _thirds(cost)
        most = (grid.cells - 1) * moves(neighbours)
        reach = calibrated(most, summing)[0].reach(beta / 3)
        miss = calibrated(moves(neighbours), counting)[0].reach(beta / 3)
        alpha = AboveThreshold.calibrate(bound, moves(neighbours)).alpha(grid.cells, beta / 3)[0]
        outside = alpha + self.early
        if records <= miss:
            return math.inf
        steps = (reach + miss * (grid.cells - 1)) / (records - miss) + outside * (grid.cells - 1) / records
        return grid.step * steps if steps < grid.cells - 1 else math.inf


def _thirds(cost: Cost) -> tuple[PureDP, ...]:
    """The costs of the bound, of the sum and of the count; `InvalidInput` for another cost than a pure ε."""
    check_cost(cost, PureDP)
    return split(PureDP(cost.to_json()["epsilon"]), [1, 1, 1])
