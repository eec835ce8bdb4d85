"""Propose, test, release: a bound on the sensitivity is proposed, tested privately, and used (Dwork & Lei 2009).

Let D(x) = min{k : A(x, k) > b}, how many changes x is away from a table on which one record moves f by more than b. It
is 0 where LS(x) > b, and moves by at most 1 between neighbours. Release f + Lap(b/ε₂) if D + Lap(1/ε₁) reaches t, else
refuse.

**Proof of (ε₁ + ε₂, δ).** What the test says costs ε₁. *If D(x) > 0*, |f(x) - f(x')| <= LS(x) <= b for every neighbour,
and the noise costs ε₂. *If D(x) = 0*, the test is passed with probability P(Z >= t) = q^t/(1 + q), q = e^-ε₁; t is the
least whole number with q^t/(1 + q) <= δ: about ln(1/(2δ))/ε₁, as of continuous noise. ∎ D is cut off at a public number
beyond t, which keeps that it moves by 1.

Lecture notes print the threshold ln(2/δ)/(2ε): at it the test is passed with probability √(δ/8) where D = 0, whatever ε
is; and their text refuses where it should release.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar, Final, final

import numpy as np

from qrelease._util.validate import check_part, positive
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.noise.distributions import MAX_SCALE, Noise
from qrelease.privacy.costs import ApproxDP, Cost, Neighbours, PureDP, check_cost, split
from qrelease.statistics.base import BETA, EstimateResult, Measured, within
from qrelease.statistics.grid import Grid, Numbers
from qrelease.statistics.local_sensitivity import LocallyStable, Median
from qrelease.statistics.private_columns import PrivateColumns

_BEYOND: Final = 40
"""Scales of the test's noise past its threshold at which distances are cut off."""

_MAX_DISTANCE: Final = 1 << 17
_MAX_RECORDS: Final = 1 << 24


def threshold(epsilon: float, delta: float) -> int:
    """t, the least whole number with P(Z >= t) <= δ for discrete Laplace noise of scale 1/ε; rounded up if in doubt.

    Examples
    --------
    >>> threshold(1.0, 1e-6), threshold(0.1, 1e-6)
    (14, 132)
    """
    exact = -(math.log(delta) + math.log1p(math.exp(-epsilon))) / epsilon
    return max(math.ceil(exact * (1 + 1e-12) + 1e-12), 1)


def distance(function: LocallyStable, found: Numbers, bound: int, most: int, neighbours: Neighbours) -> int:
    """D, at most `most`: how many changes away from a table is this that moves f by more than `bound` units."""
    over = np.flatnonzero(function.sensitivities(found, most - 1, neighbours) > bound)
    return int(over[0]) if over.size else most


@final
@dataclass(frozen=True)
class ProposeTestRelease:
    """A function of a column, with noise for a proposed bound of its sensitivity; None where the bound fails the test.

    Parameters
    ----------
    column
        Numbers on a grid. Missing ones do not count.
    bound
        b, how far one record may move the function on tables near this one, in the unit of values; public.
    of
        The function: `Median()`, `StableMean()`, `TrimmedMean(0.1)`, `WinsorisedMean(0.1)`, or one of your own.

    Notes
    -----
    The module's docstring has the proof. ε is halved between test and release; the cost is an `ApproxDP`.
    `error_bound` is about what is released, if it is.

    References
    ----------
    Dwork & Lei 2009; Dwork & Roth 2014, §7.2. The notes' threshold is wrong, as the module's docstring says.

    Examples
    --------
    >>> from qrelease import ApproxDP, Domain, Neighbours
    >>> domain, cost = Domain.coded({"age": 100}), ApproxDP(1.0, 1e-6)
    >>> ProposeTestRelease("age", 1.0).error_bound(domain, 10_000, cost, Neighbours.ADD_REMOVE, beta=0.05) < 8
    True
    """

    column: str
    bound: float
    of: LocallyStable = field(default_factory=Median)
    name: ClassVar[str] = "propose-test-release"

    def check(self, domain: Domain, cost: Cost, neighbours: Neighbours) -> None:
        """See `Statistic`."""
        check_part("the function", self.of, LocallyStable, "Median()")
        test, _ = _shares(cost)
        grid = Grid.of(domain, self.column)
        self.of.check(grid, neighbours)
        if positive("bound", self.bound) >= grid.high - grid.low:
            raise InvalidInput(f"the bound must be below the range of column {self.column!r}, got {self.bound:g}")
        if self.of.units(_MAX_RECORDS) == 1 and self.bound < grid.step:
            raise InvalidInput(f"the bound must be at least a step of column {self.column!r}, got {self.bound:g}")
        if _most(test) > _MAX_DISTANCE or 1 / Fraction(test.epsilon) > MAX_SCALE:
            raise InvalidInput(f"a test of distances needs a larger epsilon than {cost}")
        self._check_noise(grid, cost, _MAX_RECORDS)

    def _check_noise(self, grid: Grid, cost: Cost, records: int) -> None:
        """Raise `InvalidInput` where the noise for so many records is beyond the samplers."""
        if self._units(grid, records) / Fraction(_shares(cost)[1].epsilon) > MAX_SCALE:
            raise InvalidInput(f"the noise for a bound of {self.bound:g} is beyond 2^50 at {cost}")

    def _units(self, grid: Grid, records: int) -> int:
        """b in units, at least 1."""
        return max(math.floor(self.bound / grid.step * self.of.units(records)), 1)

    def estimate(self, private: PrivateColumns, cost: Cost) -> EstimateResult:
        """See `Statistic`."""
        grid, found = Grid.of(private.domain, self.column), private.numbers(self.column)
        test, release = _shares(cost)
        records = private.public_records or 0
        units, bound = self.of.units(records), self._units(grid, records)
        near = distance(self.of, found, bound, _most(test), private.neighbours)
        needed = threshold(test.epsilon, test.delta)
        noisy = private.perturb("distance to a table that moves more", near, 1 / Fraction(test.epsilon), test)
        covers = f"the {self.of.name} of the values"
        tested = Measured("distance", noisy, f"discrete Laplace, scale {1 / test.epsilon:.6g}")
        choices = {"threshold": needed, "bound": self.bound, "refused": noisy < needed}
        if noisy < needed:
            method = "none: the table may be near one that moves more than the bound; the cost is spent"
            return EstimateResult(None, None, method, covers, (tested,), choices, records=math.inf)
        scale = bound / Fraction(release.epsilon)
        law = Noise("discrete Laplace", float(scale))
        drawn = private.perturb(self.of.name, self.of.value(found, private.neighbours), scale, release)
        reach = law.reach(BETA)
        value = within((grid.value(drawn / units),) * 2, grid.low, grid.high)[0]
        return EstimateResult(
            value,
            within((grid.value((drawn - reach) / units), grid.value((drawn + reach) / units)), grid.low, grid.high),
            f"the value is within the reach of its noise, beta {BETA:g}",
            covers,
            (
                tested,
                Measured(f"{self.of.name}, in 1/{units} of a step", drawn, f"discrete Laplace, scale {law.scale:.6g}"),
            ),
            choices,
            math.sqrt(law.variance) * grid.step / units,
            math.inf,
        )

    def error_bound(self, domain: Domain, records: float, cost: Cost, neighbours: Neighbours, *, beta: float) -> float:
        """See `Statistic`; in the unit of values, of what is not refused, and the same for every n.

        `InvalidInput` where n is public, and too large for the noise.
        """
        grid = Grid.of(domain, self.column)
        if neighbours is Neighbours.REPLACE_ONE and math.isfinite(records):
            self._check_noise(grid, cost, max(int(records), 0))
        unit = self.bound if self.of.units(_MAX_RECORDS) > 1 else math.floor(self.bound / grid.step) * grid.step
        error = unit / _shares(cost)[1].epsilon * math.log(2 / beta)
        return error if error < grid.high - grid.low else math.inf


def _shares(cost: Cost) -> tuple[ApproxDP, PureDP]:
    """The shares of the test, which has all of δ, and of the release."""
    check_cost(cost, ApproxDP)
    if not isinstance(cost, ApproxDP) or not 0 < cost.delta <= 0.5:
        raise InvalidInput(f"propose-test-release needs a delta above 0 and at most 0.5, got {cost}")
    test, release = split(PureDP(cost.epsilon), [1, 1])
    return ApproxDP(test.epsilon, cost.delta), release


def _most(test: ApproxDP) -> int:
    """The distance beyond which distances are not told apart."""
    return threshold(test.epsilon, test.delta) + math.ceil(_BEYOND / test.epsilon)
