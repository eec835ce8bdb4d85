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

from qrelease.audit.verdict import LARGEST_EPSILON, Audit, bounds
from qrelease.errors import InvalidInput, TooLarge
from qrelease.exact import rational
from qrelease.privacy import Cost
from qrelease.privacy.costs import positive_probability, real

Floats = npt.NDArray[np.float64]
Data = TypeVar("Data")

_SHOWN: Final = 3
_SLACK: Final = 1e-9
_MOST_VALUES: Final = 1 << 22


@dataclass(frozen=True)
class Law:
    """A distribution on any hashable outcomes, listed but for a part of known mass.

    masses   probabilities of outcomes
    missing  an upper bound on the probability of everything that the list leaves out

    Raises `InvalidInput` unless all of it is non-negative and sums to 1.
    """

    masses: Mapping[Any, float]
    missing: float = 0.0

    def __post_init__(self) -> None:
        listed = math.fsum(self.masses.values())
        if not (self.missing >= 0 and all(mass >= 0 for mass in self.masses.values())):
            raise InvalidInput("probabilities must not be negative")
        if not (listed <= 1 + _SLACK and listed + self.missing >= 1 - _SLACK):
            raise InvalidInput(f"probabilities must sum to 1, got {listed} with {self.missing} missing")

    def map(self, function: Callable[[Any], Hashable]) -> Law:
        """The distribution of a function of the outcome."""
        masses: dict[Hashable, float] = defaultdict(float)
        for outcome, mass in self.masses.items():
            masses[function(outcome)] += mass
        return Law(dict(masses), self.missing)


def laplace_law(scale: float | Fraction, *, missing: float = 1e-15) -> Law:
    """The discrete Laplace law P(y) ∝ e^(-|y|/scale), but for a tail of mass at most `missing`.

    Raises `InvalidInput` for arguments out of range, `TooLarge` for a law of too many values.
    """
    exact, tail = rational("scale", scale), positive_probability("missing", missing)
    gamma = float(1 / exact)
    grid = _grid(-math.log(tail / 2) / gamma)
    masses = np.tanh(gamma / 2) * np.exp(-gamma * np.abs(grid))
    return Law(dict(zip(grid.tolist(), masses.tolist(), strict=True)), tail)


def gaussian_law(variance: float | Fraction, *, missing: float = 1e-15) -> Law:
    """The discrete Gaussian law P(y) ∝ e^(-y²/(2 variance)), as `laplace_law`."""
    sigma, tail = math.sqrt(rational("variance", variance)), positive_probability("missing", missing)
    # Sums of the weights from m on are at most the integral from m - 1, and all of them at least √(2πσ²) by Poisson
    # summation: P(Y >= m) is at most that of a continuous Gaussian from m - 1 on, which at tσ is below e^(-t²/2)/2.
    grid = _grid(sigma * math.sqrt(-2 * math.log(tail)))
    weights = np.exp(-0.5 * (grid / sigma) ** 2)
    return Law(dict(zip(grid.tolist(), (weights / weights.sum()).tolist(), strict=True)), tail)


def _grid(reach: float) -> npt.NDArray[np.int64]:
    if reach > _MOST_VALUES:
        raise TooLarge(f"a law of {2 * reach:.3g} values is too large to be listed; at most {2 * _MOST_VALUES:,} fit")
    return np.arange(-math.ceil(reach), math.ceil(reach) + 1)


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

    def draw(self, law: Law) -> Any:
        """One outcome of the law."""
        outcome = self._path[self._drawn] if self._drawn < len(self._path) else self._branch(law)
        self._drawn += 1
        self.probability *= law.masses[outcome]
        return outcome

    def _branch(self, law: Law) -> Any:
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


def enumerated(mechanism: Callable[[Data, Choices], Hashable], data: Data, *, least: float = 1e-15) -> Law:
    """The output distribution of a mechanism on one input, by one run for each combination of its draws.

    mechanism   must draw all its randomness from the `Choices` it is given; its outputs are hashable
    least       combinations less likely than this are given up; their mass is accounted as `missing`
    """
    masses: dict[Hashable, float] = defaultdict(float)
    missing = 0.0
    paths: list[tuple[Any, ...]] = [()]
    while paths:
        choices = Choices(paths.pop(), least)
        masses[mechanism(data, choices)] += choices.probability
        missing += choices.lost
        paths += choices.untried
    return Law(dict(masses), missing)


def compare(first: Law, second: Law, claim: Cost) -> Audit:
    """The strongest exact evidence against a claim, from the output distributions on two neighbouring inputs.

    The event is the best of those that gather the outcomes of the largest likelihood ratios (Neyman & Pearson 1933),
    in either direction. Mass that a law misses is counted against the conviction.
    """
    ways: list[tuple[Law, Law, Literal["first", "second"]]] = [(first, second, "first"), (second, first, "second")]
    audits = [_against(p, q, claim, favours) for p, q, favours in ways]
    return max(audits, key=lambda audit: audit.bound)


def delta_between(first: Law, second: Law, epsilon: float) -> tuple[float, float]:
    """Bounds on the least δ for which the two distributions are (ε, δ)-close, both ways: (lower, upper).

    δ(ε) = Σ max(0, P(o) - e^ε Q(o)), the larger of the two directions; what is missing makes the gap of the bounds.
    Raises `InvalidInput` for ε outside [0, 700].
    """
    if not 0 <= real("epsilon", epsilon) <= LARGEST_EPSILON:
        raise InvalidInput(f"epsilon must be from 0 to {LARGEST_EPSILON:g}, got {epsilon}")
    factor = math.exp(epsilon)
    lows, highs = [], []
    for p, q in ((first, second), (second, first)):
        excess = [mass - factor * q.masses.get(o, 0.0) for o, mass in p.masses.items()]
        total = math.fsum(e for e in excess if e > 0)
        lows.append(total - factor * q.missing)
        highs.append(total + p.missing)
    return max(0.0, *lows), min(1.0, max(highs))


def _against(p: Law, q: Law, claim: Cost, favours: Literal["first", "second"]) -> Audit:
    outcomes = list(p.masses)
    mass = np.array([p.masses[o] for o in outcomes])
    other = np.array([q.masses.get(o, 0.0) for o in outcomes])
    with np.errstate(divide="ignore", invalid="ignore"):
        order = np.argsort(np.where(mass > 0, -(mass / other), 0), kind="stable")
    rounding = 1e-12 + len(outcomes) * 2.0**-52  # of a mass, and of a sum of them
    low = np.minimum(mass[order].cumsum(), 1.0) * (1 - rounding)
    high = np.minimum((other[order].cumsum() + q.missing) * (1 + rounding), 1.0)
    best = int(np.argmax(bounds(claim, low, high)))
    chosen = [outcomes[i] for i in order[: best + 1]]
    return Audit(claim, _described(chosen), favours, float(low[best]), float(high[best]), 1.0, 0)


def _described(outcomes: list[Any]) -> str:
    shown = ", ".join(repr(o) for o in outcomes[:_SHOWN])
    if len(outcomes) == 1:
        return f"the output {shown}"
    return f"an output among {shown}" + (f" and {len(outcomes) - _SHOWN:,} more" if len(outcomes) > _SHOWN else "")
