"""One quantile of a column by the exponential mechanism, or permute-and-flip, over the values of its grid.

Let q = a/b. A value v of the grid is a q-quantile of n numbers if at most qn of them are smaller and at most (1 - q)n
larger. Its loss is how far that fails, in b-ths of a rank: with c = 0,

    loss(v) = max(b #{x < v} - a n + c, b #{x > v} - (b - a) n - c, 0).

A quantile has loss 0, and the loss is one number for each value of the grid however many records tie there (Smith 2011
scores the gaps between sorted records, which is this where no two are equal). A record that comes or goes moves the
first term by -a or b - a, the second by a - b or a, hence the loss by at most max(a, b - a); one that is replaced by b.

**Error.** With K values and γ = ε/(2Δ), any one value of loss d is chosen with probability at most e^(-γd), so with
probability 1 - β the loss is at most (ln K + ln 1/β)/γ: a rank error of that over b.

**Interval.** With c > 0 the target is the rank qn - c/b. If c is the bound above at β/2, its loss is at most c, so
#{x < v} <= qn: some quantile is not below v. With -c some quantile is not above. So between the two lies a quantile
with probability 1 - β, and n is needed nowhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Final, final

import numpy as np

from qrelease._util.typing import Ints
from qrelease._util.validate import positive_probability
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput, TooLarge
from qrelease.noise.calibration import better_rule, currency, selection_epsilon
from qrelease.privacy.costs import ZCDP, Cost, Neighbours, PureDP, split
from qrelease.statistics.base import BETA, EstimateResult, Measured
from qrelease.statistics.grid import Grid, Numbers
from qrelease.statistics.private_columns import PrivateColumns

MAX_CELLS: Final = 1 << 20
"""Values of a grid that are scored one by one."""

PARTS: Final = 10_000
"""A quantile is a whole number of these parts of 1."""

_SHARES: Final = (2, 1, 1)  # of the quantile and the two ends of its interval


def fraction(q: float) -> Fraction:
    """A quantile as an exact fraction; `InvalidInput` unless it is in (0, 1), and a whole number of ten-thousandths."""
    found = Fraction(positive_probability("a quantile", q)).limit_denominator(PARTS)
    if round(q * PARTS) / PARTS != q or not 0 < found < 1:
        raise InvalidInput(f"a quantile must be a whole number of ten-thousandths, such as 0.25, got {q}")
    return Fraction(round(q * PARTS), PARTS)


def losses(found: Numbers, q: Fraction, cells: Ints, offset: int = 0) -> Ints:
    """How far each of some values is from being a q-quantile, in 1/b of a rank, (k,); the module has the formula."""
    a, b = q.numerator, q.denominator
    less, more = found.below(cells), found.n - found.below(cells + 1)
    worst = np.maximum(b * less - a * found.n + offset, b * more - (b - a) * found.n - offset)
    return np.maximum(worst, 0)


def loss_sensitivity(q: Fraction, neighbours: Neighbours) -> int:
    """How far one record moves any of the `losses`."""
    a, b = q.numerator, q.denominator
    return b if neighbours is Neighbours.REPLACE_ONE else max(a, b - a)


def loss_bound(cells: int, sensitivity: int, cost: PureDP | ZCDP, beta: float) -> int:
    """What the loss of the chosen one of K values is at most, with probability 1 - β."""
    epsilon = selection_epsilon(cost, better_rule(cost))
    return math.floor(2 * sensitivity / float(epsilon) * (math.log(cells) - math.log(beta)) * (1 + 1e-9))


def check_scored_cells(grid: Grid) -> None:
    """Raise `TooLarge` for a grid of more values than are scored one by one."""
    if grid.cells > MAX_CELLS:
        raise TooLarge(
            f"column {grid.name!r} has {grid.cells:,} values, and at most {MAX_CELLS:,} are scored one by one:"
            " take TreeQuantiles, or a coarser step"
        )


def choose_quantile(
    private: PrivateColumns, found: Numbers, grid: Grid, q: Fraction, cost: PureDP | ZCDP, offset: int = 0
) -> int:
    """The code of a private q-quantile, of the rank qn - offset/b."""
    scores = -losses(found, q, np.arange(grid.cells), offset)
    return private.choose(f"quantile {float(q):g}", scores, loss_sensitivity(q, private.neighbours), cost)


@final
@dataclass(frozen=True)
class Quantile:
    """A quantile of a column by the exponential mechanism (Smith 2011), or permute-and-flip under pure ε.

    Parameters
    ----------
    column
        Numbers on a grid of at most 2^20 values. Missing ones do not count.
    q
        Which one, in (0, 1); a whole number of ten-thousandths. 0.5 is the median.
    interval
        Whether half of the cost buys an interval.

    Notes
    -----
    The module's docstring has the proofs. The error is counted in ranks: how many records too many are below the
    value, or above it.

    Examples
    --------
    >>> from qrelease import Domain, Neighbours, PureDP
    >>> domain = Domain.coded({"age": 100})
    >>> Quantile("age", 0.5, interval=False).error_bound(domain, 1e6, PureDP(1.0), Neighbours.ADD_REMOVE, beta=0.05)
    7.5
    """

    column: str
    q: float = 0.5
    interval: bool = True
    name: ClassVar[str] = "quantile"

    def check(self, domain: Domain, cost: Cost, neighbours: Neighbours) -> None:
        """See `Statistic`."""
        check_scored_cells(Grid.of(domain, self.column))
        fraction(self.q)
        if not isinstance(self.interval, bool):
            raise InvalidInput(f"interval must be yes or no, True or False, got {self.interval!r}")
        for share in self._shares(cost):
            selection_epsilon(share, better_rule(share))

    def _shares(self, cost: Cost) -> tuple[PureDP | ZCDP, ...]:
        return split(currency(cost), _SHARES if self.interval else [1])

    def estimate(self, private: PrivateColumns, cost: Cost) -> EstimateResult:
        """See `Statistic`."""
        grid, q = Grid.of(private.domain, self.column), fraction(self.q)
        found, shares = private.numbers(self.column), self._shares(cost)
        value = grid.value(choose_quantile(private, found, grid, q, shares[0]))
        covers = f"a {self.q:g}-quantile of the values"
        rule = better_rule(shares[0])
        measured = [Measured(f"quantile {self.q:g}", value, rule)]
        interval, method = None, "none was asked for"
        if self.interval:
            moved = loss_sensitivity(q, private.neighbours)
            ends = []
            for side, share in zip((1, -1), shares[1:], strict=True):
                offset = side * loss_bound(grid.cells, moved, share, BETA / 2)
                ends.append(grid.value(choose_quantile(private, found, grid, q, share, offset)))
                measured.append(Measured(f"quantile {self.q:g}, {-offset / q.denominator:+g} ranks", ends[-1], rule))
            interval = min(value, *ends), max(value, *ends)
            method = f"quantiles at ranks shifted by their error, beta {BETA:g}"
        typical = loss_bound(grid.cells, loss_sensitivity(q, private.neighbours), shares[0], 0.5) / q.denominator
        return EstimateResult(value, interval, method, covers, tuple(measured), {}, typical, math.inf, "ranks")

    def error_bound(self, domain: Domain, records: float, cost: Cost, neighbours: Neighbours, *, beta: float) -> float:
        """See `Statistic`; in ranks."""
        q, cells = fraction(self.q), Grid.of(domain, self.column).cells
        loss = loss_bound(cells, loss_sensitivity(q, neighbours), self._shares(cost)[0], beta)
        error = loss / q.denominator
        return error if error < records * max(q, 1 - q) else math.inf
