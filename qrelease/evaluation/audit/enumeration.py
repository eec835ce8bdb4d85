"""Exact audits: output distributions listed in full, and compared.

A mechanism whose noise is discrete has an output distribution that can be written down, but for a tail whose mass is
kept account of. `enumerated` writes it down by running the mechanism once for every combination of noise values: the
mechanism draws from `Choices` instead of a random source.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal, TypeVar, final

import numpy as np
import numpy.typing as npt

from qrelease._util.typing import Floats
from qrelease._util.validate import positive_probability, rational, real
from qrelease.errors import InvalidInput, TooLarge
from qrelease.evaluation.audit.verdict import Audit, bounds
from qrelease.privacy.costs import Cost, check_cost

Data = TypeVar("Data")

_SHOWN_OUTCOMES: Final = 3
_SUM_TOLERANCE: Final = 1e-9
_MAX_VALUES: Final = 1 << 22
_MAX_EPSILON: Final = 700.0
"""e^ε is a float up to here."""

_MIN_MASS: Final = 1e-300
_ROUNDING: Final = 1e-12
"""More than the relative error of a probability that is computed in floats."""


@dataclass(frozen=True)
class Distribution:
    """A distribution on any hashable outcomes, listed but for a part of known mass.

    Attributes
    ----------
    masses
        Probabilities by outcome.
    missing
        An upper bound on the probability of everything that the list leaves out.

    Raises
    ------
    InvalidInput
        Unless all of it are non-negative numbers that sum to 1.

    Examples
    --------
    >>> Distribution({0: 0.25, 1: 0.25, 2: 0.5}).map(lambda outcome: outcome > 0).masses
    {False: 0.25, True: 0.75}
    """

    masses: Mapping[Any, float]
    missing: float = 0.0

    def __post_init__(self) -> None:
        try:
            listed = math.fsum(self.masses.values())
        except (TypeError, ValueError, ArithmeticError):
            raise InvalidInput("probabilities must be numbers") from None
        if not (self.missing >= 0 and all(mass >= 0 for mass in self.masses.values())):
            raise InvalidInput("probabilities must not be negative")
        if not (listed <= 1 + _SUM_TOLERANCE and listed + self.missing >= 1 - _SUM_TOLERANCE):
            raise InvalidInput(f"probabilities must sum to 1, got {listed} with {self.missing} missing")

    def map(self, function: Callable[[Any], Hashable]) -> Distribution:
        """The distribution of a function of the outcome."""
        masses: dict[Hashable, float] = defaultdict(float)
        for outcome, mass in self.masses.items():
            masses[_one_nan(function(outcome))] += mass
        return Distribution(dict(masses), self.missing)


def laplace_distribution(scale: float | Fraction, *, missing: float = 1e-15) -> Distribution:
    """The discrete Laplace law P(y) ∝ e^(-|y|/scale), but for a tail of mass at most `missing`, at least 1e-300.

    Raises `InvalidInput` for arguments out of range, `TooLarge` for a law of too many values.
    """
    b, tail = _within_floats(rational("scale", scale)), _mass("missing", missing)
    grid = _grid(-math.log(tail / 2) * b)
    return _listed(grid, np.tanh(0.5 / b) * np.exp(-np.abs(grid) / b), tail)


def gaussian_distribution(variance: float | Fraction, *, missing: float = 1e-15) -> Distribution:
    """The discrete Gaussian law P(y) ∝ e^(-y²/(2 variance)), as `laplace_distribution`."""
    sigma, tail = math.sqrt(_within_floats(rational("variance", variance))), _mass("missing", missing)
    # Sums of the weights from m on are at most the integral from m - 1, and all of them at least √(2πσ²) by Poisson
    # summation: P(Y >= m) is at most that of a continuous Gaussian from m - 1 on, which at tσ is below e^(-t²/2)/2.
    reach = math.ceil(sigma * math.sqrt(-2 * math.log(tail)))
    # The masses are to be right however much is left out: all but 1e-17 of the weights enter their sum.
    grid = _grid(max(9 * sigma, reach))
    weights = np.exp(-0.5 * (grid / sigma) ** 2)
    kept = np.abs(grid) <= reach
    return _listed(grid[kept], weights[kept] / weights.sum(), tail)


def _within_floats(value: Fraction) -> float:
    """A float, clipped where the noise is 0 but for less than any float, or too wide to be listed."""
    return float(min(max(value, Fraction(1, 10**6)), Fraction(10**300)))


def _mass(name: str, value: float) -> float:
    number = positive_probability(name, value)
    if number < _MIN_MASS:
        raise InvalidInput(f"{name} must be at least {_MIN_MASS:g}, got {value}")
    return number


def _grid(reach: float) -> npt.NDArray[np.int64]:
    if reach > _MAX_VALUES:
        raise TooLarge(f"a law of {2 * reach:.3g} values is too large to be listed; at most {2 * _MAX_VALUES:,} fit")
    return np.arange(-math.ceil(reach), math.ceil(reach) + 1)


def _listed(grid: npt.NDArray[np.int64], masses: Floats, missing: float) -> Distribution:
    # What a float holds with few bits, or as 0, is left out: as a probability it would be wrong.
    sound = masses >= np.finfo(np.float64).tiny
    return Distribution(dict(zip(grid[sound].tolist(), masses[sound].tolist(), strict=True)), missing)


@final
class Choices:
    """The source of noise of a mechanism that is enumerated: `draw` takes every value of a law, one run each."""

    def __init__(self, path: tuple[Any, ...], least: float) -> None:
        self._path = path
        self._least = least
        self._drawn = 0
        self.probability = 1.0
        self.untried: list[tuple[Any, ...]] = []
        self.lost = 0.0

    def draw(self, law: Distribution) -> Any:
        """One outcome of the law."""
        outcome = self._path[self._drawn] if self._drawn < len(self._path) else self._branch(law)
        self._drawn += 1
        self.probability *= law.masses[outcome]
        return outcome

    def _branch(self, law: Distribution) -> Any:
        """The likeliest outcome; the others are left to later runs, or given up where they are too unlikely."""
        self.lost += self.probability * law.missing
        likeliest = max(law.masses, key=lambda outcome: law.masses[outcome])
        for outcome, mass in law.masses.items():
            if outcome == likeliest:
                continue
            if self.probability * mass >= self._least:
                self.untried.append((*self._path, outcome))
            else:
                self.lost += self.probability * mass
        self._path = (*self._path, likeliest)
        return likeliest


def enumerated(mechanism: Callable[[Data, Choices], Hashable], data: Data, *, least: float = 1e-15) -> Distribution:
    """The output distribution of a mechanism on one input, by one run for each combination of its draws.

    mechanism   must draw all its randomness from the `Choices` it is given; its outputs are hashable
    least       combinations less likely than this are given up; their mass is accounted as `missing`

    Raises `InvalidInput` unless `least` is below 1 and at least 1e-300.
    """
    _mass("least", least)
    masses: dict[Hashable, float] = defaultdict(float)
    missing = 0.0
    paths: list[tuple[Any, ...]] = [()]
    while paths:
        choices = Choices(paths.pop(), least)
        masses[_one_nan(mechanism(data, choices))] += choices.probability
        missing += choices.lost
        paths += choices.untried
    return Distribution(dict(masses), missing)


def _one_nan(outcome: Hashable) -> Hashable:
    """The outcome with one and the same NaN wherever there is one: two NaN that are two objects are never equal."""
    if isinstance(outcome, tuple):
        return tuple(_one_nan(part) for part in outcome)
    return math.nan if isinstance(outcome, float | np.floating) and math.isnan(outcome) else outcome


def compare(first: Distribution, second: Distribution, claim: Cost) -> Audit:
    """The strongest exact evidence against a claim, from the output distributions on two neighbouring inputs.

    The event is the best of those that gather the outcomes of the largest likelihood ratios, in either direction. Mass
    that a distribution misses is counted against the conviction.

    Parameters
    ----------
    first, second
        The output distributions on the two inputs.
    claim
        The cost that the mechanism says it has.

    Returns
    -------
    Audit
        The event, and the lower bound on ε or ρ that it proves.

    Raises
    ------
    InvalidInput
        For a claim that is not a cost.

    References
    ----------
    Neyman & Pearson 1933.

    Examples
    --------
    >>> from qrelease.privacy import PureDP
    >>> fair, biased = Distribution({0: 0.5, 1: 0.5}), Distribution({0: 0.25, 1: 0.75})
    >>> found = compare(fair, biased, PureDP(0.5))
    >>> found.convicted, round(found.epsilon, 3)
    (True, 0.693)
    """
    check_cost(claim)
    ways: list[tuple[Distribution, Distribution, Literal["first", "second"]]] = [
        (first, second, "first"),
        (second, first, "second"),
    ]
    audits = [_against(p, q, claim, favours) for p, q, favours in ways]
    return max(audits, key=lambda audit: audit.bound)


def delta_between(first: Distribution, second: Distribution, epsilon: float) -> tuple[float, float]:
    """Bounds on the least δ for which two distributions are (ε, δ)-close, both ways.

    δ(ε) = Σ max(0, P(o) - e^ε Q(o)), the larger of the two directions. The bounds differ by what the distributions miss
    and by the rounding of probabilities.

    Parameters
    ----------
    first, second
        The distributions.
    epsilon
        ε, from 0 to 700.

    Returns
    -------
    tuple of float
        A lower and an upper bound.

    Raises
    ------
    InvalidInput
        For an ε out of range.
    """
    if not 0 <= real("epsilon", epsilon) <= _MAX_EPSILON:
        raise InvalidInput(f"epsilon must be from 0 to {_MAX_EPSILON:g}, got {epsilon}")
    factor = math.exp(epsilon)
    lows, highs = [], []
    for p, q in ((first, second), (second, first)):
        pairs = [(mass, factor * q.masses.get(o, 0.0)) for o, mass in p.masses.items()]
        total = math.fsum(a - b for a, b in pairs if a > b)
        rounding = _ROUNDING * math.fsum(a + b for a, b in pairs if a > b)
        lows.append(total - rounding - factor * q.missing)
        highs.append(total + rounding + p.missing)
    return max(0.0, *lows), min(1.0, max(highs))


def _against(p: Distribution, q: Distribution, claim: Cost, favours: Literal["first", "second"]) -> Audit:
    outcomes = list(p.masses)
    mass = np.array([p.masses[o] for o in outcomes])
    other = np.array([q.masses.get(o, 0.0) for o in outcomes])
    with np.errstate(divide="ignore", invalid="ignore"):
        order = np.argsort(np.where(mass > 0, -(mass / other), 0), kind="stable")
    rounding = _ROUNDING + len(outcomes) * 2.0**-52  # of a mass, and of a sum of them
    low = np.minimum(mass[order].cumsum(), 1.0) * (1 - rounding)
    high = np.minimum((other[order].cumsum() + q.missing) * (1 + rounding), 1.0)
    best = int(np.argmax(bounds(claim, low, high)))
    chosen = [outcomes[i] for i in order[: best + 1]]
    return Audit(claim, _described(chosen), favours, float(low[best]), float(high[best]), 1.0, 0)


def _described(outcomes: list[Any]) -> str:
    shown = ", ".join(repr(o) for o in outcomes[:_SHOWN_OUTCOMES])
    if len(outcomes) == 1:
        return f"the output {shown}"
    return f"an output among {shown}" + (
        f" and {len(outcomes) - _SHOWN_OUTCOMES:,} more" if len(outcomes) > _SHOWN_OUTCOMES else ""
    )
