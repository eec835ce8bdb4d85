"""Smooth sensitivity: noise scaled to how far a function moves near the given table (Nissim et al. 2007).

S(x) = max over k of e^(-βk) A(x, k) is at least LS(x), and ln S moves by at most β between neighbours, for A(x, k) <=
A(x', k + 1). So is max(S, c) for a public c, which ends the list: k with e^(-βk) (K - 1) <= c need no A. Values are
whole numbers of units, and so is all noise.

**Rounding.** S is computed in floats as some S' with S <= S' <= (1 + 2^-40) S. Then S' >= LS, and ln S' moves by at
most β(1 - 2^-20) + 2^-40 <= β, as S is computed with β(1 - 2^-20) and β >= 2^-20. The noise has exactly the scale that
follows from the float S', a fraction. So the proofs below hold for what is drawn.

**Laplace noise, (ε, δ).** With b = 2S'/ε and β = ln(1 + ε/(2 ln(2/δ))), f + the discrete Laplace noise of scale b is
(ε, δ)-DP for δ <= 1/2. Let b' be the scale on the neighbour. *If b' < b*: for |z| <= b ln(2/δ), all but δ of the mass,
p_b(z)/p_b'(z) <= e^(|z|(1/b' - 1/b)) <= exp(ln(2/δ)(e^β - 1)) = e^(ε/2), for the constant tanh(1/2b) of the mass
function is no larger than that of b'. To slide from f(x) to f(x') under b' costs |f(x) - f(x')|/b' <= S'(x')/b' =
ε/2. *If b' >= b*: slide under b for ε/2; then p_b/p_b' <= tanh(1/2b)/tanh(1/2b') <= b'/b <= e^β <= e^(ε/2), as tanh is
concave. ∎ The β = ε/(2 ln(2/δ)) of the texts is larger, and the step (e^β - 1) ln(2/δ) <= ε/2 fails with it; with the
normalising constants it is proved for small ε alone.

**Cauchy noise, pure ε.** P(z) ∝ 1/(b² + z²) with b = 2S'/ε >= 1 and β = ε/(2 * 1.03): to slide costs at most LS/b <=
ε/2, and to change b at most 1.03 β = ε/2, by the derivatives in `noise.cauchy`. The rule of Nissim, Raskhodnikova &
Smith for noise ∝ 1/(1 + |z|^γ), b = 2(γ + 1)S/ε and β = ε/(2(γ + 1)), has three times this scale at γ = 2 and a third
of this β. Its tail is heavy: the noise has no variance, and is beyond 12.7 b with probability 1/20.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar, Final, Literal, final

import numpy as np

from qrelease._util.validate import check_part
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.noise.cauchy import DILATION
from qrelease.noise.distributions import MAX_SCALE, Noise
from qrelease.privacy.costs import ApproxDP, Cost, Neighbours, PureDP, check_cost, split
from qrelease.statistics.base import BETA, EstimateResult, Measured, within
from qrelease.statistics.grid import Grid, Numbers
from qrelease.statistics.local_sensitivity import LocallyStable, Median
from qrelease.statistics.private_columns import PrivateColumns

_MIN_SENSITIVITY: Final = 2.0**-10
"""c, in units, under Laplace noise."""

_MARGIN: Final = 1 + 2.0**-41
_MIN_BETA: Final = 2.0**-20
_MAX_DISTANCE: Final = 1 << 17
"""Distances at which A is asked for at most."""

_MAX_RECORDS: Final = 1 << 24
"""The noise of a function whose unit depends on n is in the samplers' range up to so many records."""

_LOG_STEPS: Final = 64
"""ln S is released in steps of β over this: with the rounding it moves by at most one more between neighbours."""


@final
@dataclass(frozen=True)
class Smoothing:
    """The public constants of a cost: β of the smoothing, c, and the noise.

    Raises `InvalidInput` for another cost than (ε, δ) or pure ε, and out of the proofs' range.
    """

    beta: float
    least: float
    epsilon: float
    noise: Literal["Laplace", "Cauchy"]

    @classmethod
    def of(cls, cost: Cost) -> Smoothing:
        """How S is smoothed, and which noise is drawn, for a cost."""
        check_cost(cost, PureDP, ApproxDP)
        epsilon = cost.to_json()["epsilon"]
        delta = cost.to_json().get("delta", 0.0)
        if delta > 0.5:
            raise InvalidInput(f"smooth sensitivity needs a delta of at most 0.5, got {delta:g}")
        exact = math.log1p(epsilon / (2 * math.log(2 / delta))) if delta else epsilon / (2 * DILATION)
        if exact < _MIN_BETA:
            raise InvalidInput(f"smooth sensitivity needs a larger epsilon than {epsilon:g}")
        if delta:
            return cls(exact, _MIN_SENSITIVITY, epsilon, "Laplace")
        return cls(exact, max(_MIN_SENSITIVITY, epsilon / 2), epsilon, "Cauchy")

    def distances(self, widest: int) -> int:
        """The largest k that matters where A is at most `widest` units."""
        return max(math.ceil(math.log(max(widest / self.least, 1.0)) / (self.beta * (1 - 2.0**-20))) + 1, 1)

    def smooth(self, sensitivities: np.ndarray[tuple[int], np.dtype[np.int64]]) -> float:
        """S', in units, from A(x, 0), …"""
        decay = np.exp(-self.beta * (1 - 2.0**-20) * np.arange(len(sensitivities)))
        return max(float((decay * sensitivities).max()) * _MARGIN, self.least)

    def scale(self, smooth: float) -> Fraction:
        """b = 2S/ε, the scale of the noise."""
        return 2 * Fraction(smooth) / Fraction(self.epsilon)

    def reach(self, scale: float, beta: float) -> float:
        """What the noise is beyond with probability at most β: b ln(2/β), or b cot(πβ/2) + 1."""
        if self.noise == "Laplace":
            return Noise("discrete Laplace", scale).reach(beta)
        return scale / math.tan(math.pi * beta / 2) + 1


def smooth_sensitivity(
    function: LocallyStable, found: Numbers, records: int, smoothing: Smoothing, neighbours: Neighbours
) -> float:
    """S' of a function of a column, in units; A counts as the widest that there is from `_MAX_DISTANCE` on."""
    widest = (found.cells - 1) * function.units(records) + 1
    most = min(smoothing.distances(widest), _MAX_DISTANCE)
    rest = math.exp(-smoothing.beta * (1 - 2.0**-20) * (most + 1)) * widest * _MARGIN
    return max(smoothing.smooth(function.sensitivities(found, most, neighbours)), rest)


@final
@dataclass(frozen=True)
class SmoothSensitivity:
    """A function of a column, with noise scaled to its smooth sensitivity; the module's docstring has the proofs.

    Parameters
    ----------
    column
        Numbers on a grid. Missing ones do not count.
    of
        The function: `Median()`, `TrimmedMean(0.1)`, `WinsorisedMean(0.1)`, `StableMean()`, or one of your own.

    Notes
    -----
    Under (ε, δ) the noise is Laplace, and a tenth of ε buys a noisy ln S, which moves by at most β: from it comes the
    interval. Under pure ε it is Cauchy noise without an interval, for how wide it is is private, and ln S would cost
    too much there. No theorem bounds the error on every table: on some, S is the whole grid.

    References
    ----------
    Nissim, Raskhodnikova & Smith 2007.

    Examples
    --------
    >>> from qrelease import ApproxDP, Domain, Neighbours
    >>> SmoothSensitivity("age").check(Domain.coded({"age": 100}), ApproxDP(1.0, 1e-6), Neighbours.ADD_REMOVE)
    """

    column: str
    of: LocallyStable = field(default_factory=Median)
    name: ClassVar[str] = "smooth-sensitivity"

    def check(self, domain: Domain, cost: Cost, neighbours: Neighbours) -> None:
        """See `Statistic`."""
        check_part("the function", self.of, LocallyStable, "Median()")
        grid = Grid.of(domain, self.column)
        self.of.check(grid, neighbours)
        self._check_widest(grid, cost, _MAX_RECORDS)

    def _check_widest(self, grid: Grid, cost: Cost, records: int) -> None:
        """Raise where the noise of some table of so many records is beyond the samplers: then that of all is refused.

        Else whether there is an estimate would tell how wide it is, which is private.
        """
        smoothing = Smoothing.of(_shares(cost)[0])
        if smoothing.scale(float(grid.cells * self.of.units(records))) > MAX_SCALE:
            raise InvalidInput(f"column {self.column!r} has too many values for noise at epsilon {smoothing.epsilon:g}")

    def estimate(self, private: PrivateColumns, cost: Cost) -> EstimateResult:
        """See `Statistic`."""
        grid, found = Grid.of(private.domain, self.column), private.numbers(self.column)
        main, small = _shares(cost)
        smoothing, records = Smoothing.of(main), private.public_records or 0
        smooth = smooth_sensitivity(self.of, found, records, smoothing, private.neighbours)
        exact, what = self.of.value(found, private.neighbours), f"{self.of.name} by its smooth sensitivity"
        units, covers = self.of.units(records), f"the {self.of.name} of the values"
        draw = private.perturb if smoothing.noise == "Laplace" else private.perturb_widely
        noisy = draw(what, exact, smoothing.scale(smooth), main)
        value = within((grid.value(noisy / units),) * 2, grid.low, grid.high)[0]
        law = f"discrete {smoothing.noise}, a scale that depends on the table"
        measured = [Measured(f"{self.of.name}, in 1/{units} of a step", noisy, law)]
        if small is None:
            method = "none: how wide the noise is depends on the table"
            return EstimateResult(value, None, method, covers, tuple(measured))
        step = smoothing.beta / _LOG_STEPS
        scale = Fraction(_LOG_STEPS + 1) / Fraction(small.epsilon)
        level = private.perturb(
            "logarithm of the smooth sensitivity", math.floor(math.log(smooth) / step), scale, small
        )
        measured.append(Measured("ln S, in steps", level, f"discrete Laplace, scale {float(scale):.6g}"))
        above = Noise("discrete Laplace", float(scale)).reach(BETA)  # β/2 of one side
        bound = min(math.exp(min((level + above + 1) * step, 700.0)), float((grid.cells - 1) * units + 1))
        widest = float(smoothing.scale(bound))
        reach = smoothing.reach(widest, BETA / 2)
        return EstimateResult(
            value,
            within((grid.value((noisy - reach) / units), grid.value((noisy + reach) / units)), grid.low, grid.high),
            f"a noisy bound of the smooth sensitivity, and the reach of the noise for it, beta {BETA:g}",
            covers,
            tuple(measured),
            {"smooth_sensitivity_at_most": bound * grid.step / units},
            math.sqrt(2) * widest * grid.step / units,
        )

    def error_bound(self, domain: Domain, records: float, cost: Cost, neighbours: Neighbours, *, beta: float) -> None:
        """See `Statistic`: there is none, and `InvalidInput` where n is public, and too large for any noise."""
        if neighbours is Neighbours.REPLACE_ONE and math.isfinite(records):
            self._check_widest(Grid.of(domain, self.column), cost, max(int(records), 0))


def _shares(cost: Cost) -> tuple[PureDP | ApproxDP, PureDP | None]:
    """The shares of the value, and of ln S."""
    check_cost(cost, PureDP, ApproxDP)
    if not isinstance(cost, ApproxDP) or not cost.delta:
        return PureDP(cost.to_json()["epsilon"]), None
    main, small = split(PureDP(cost.epsilon), [9, 1])
    return ApproxDP(main.epsilon, cost.delta), small
