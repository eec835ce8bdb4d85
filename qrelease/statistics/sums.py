"""Sums of a column's values, clipped to public bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, final

from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.noise.calibration import calibrated, sensitivity_of_one
from qrelease.noise.distributions import Noise
from qrelease.privacy.costs import Cost, Neighbours
from qrelease.statistics.base import BETA, EstimateResult, Measured, spelled
from qrelease.statistics.grid import Grid
from qrelease.statistics.private_columns import PrivateColumns


@final
@dataclass(frozen=True)
class Sum:
    """The sum of a column's values, each clipped to public bounds [l, u].

    One record that comes or goes moves it by max(|l|, |u|) at most; one that is replaced by u - l, or as if it came
    where values may be missing. The noise is on the grid of the values, so nothing is rounded.

    Parameters
    ----------
    column
        Numbers on a grid that 0 is a step of. Missing ones do not count.
    low, high
        The bounds, values of the column; by default the least and the largest that it can have.

    References
    ----------
    Dwork, McSherry, Nissim & Smith 2006 for noise by sensitivity.

    Examples
    --------
    >>> from qrelease import Domain, Neighbours, PureDP
    >>> domain = Domain.coded({"visits": 100})
    >>> Sum("visits", 0, 10).error_bound(domain, 0, PureDP(1.0), Neighbours.ADD_REMOVE, beta=0.05)
    30.0
    """

    column: str
    low: float | None = None
    high: float | None = None
    name: ClassVar[str] = "sum"

    def check(self, domain: Domain, cost: Cost, neighbours: Neighbours) -> None:
        """See `Statistic`."""
        self._law(Grid.of(domain, self.column), cost, neighbours)

    def _law(self, grid: Grid, cost: Cost, neighbours: Neighbours) -> tuple[Noise, int, int]:
        """The noise in steps; the sensitivity as a cost takes it; and the code of 0."""
        low, high = grid.codes(self.low, self.high)
        zero = round(-grid.low / grid.step)
        if grid.value(zero) != 0:
            raise InvalidInput(f"0 is between the steps of column {self.column!r}: a sum needs it on the grid")
        most = max(abs(low - zero), abs(high - zero))
        if neighbours is Neighbours.REPLACE_ONE:
            most = max(high - low, most if grid.missing else 0)
        moved = sensitivity_of_one(most, cost)
        return calibrated(moved, cost)[0], moved, zero

    def estimate(self, private: PrivateColumns, cost: Cost) -> EstimateResult:
        """See `Statistic`."""
        grid, found = Grid.of(private.domain, self.column), private.numbers(self.column)
        low, high = grid.codes(self.low, self.high)
        law, moved, zero = self._law(grid, cost, private.neighbours)
        noisy, _ = private.measure("sum", [found.total(low, high) - zero * found.n], moved, cost)
        steps, reach = int(noisy[0]), law.largest_of(1, BETA)
        return EstimateResult(
            steps * grid.step,
            ((steps - reach) * grid.step, (steps + reach) * grid.step),
            f"the sum is within the reach of its noise, beta {BETA:g}",
            f"the sum of the values clipped to {grid.value(low):g}..{grid.value(high):g}",
            (Measured("sum, in steps", steps, spelled(law)),),
            typical=math.sqrt(law.variance) * grid.step,
            records=math.inf,
        )

    def error_bound(self, domain: Domain, records: float, cost: Cost, neighbours: Neighbours, *, beta: float) -> float:
        """See `Statistic`; in the unit of values, and the same for every n."""
        grid = Grid.of(domain, self.column)
        return self._law(grid, cost, neighbours)[0].largest_of(1, beta) * grid.step
