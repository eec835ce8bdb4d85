"""The success of guessing which of two tables a release came from, with confidence bounds and the bound by ε and δ."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self, final

import numpy as np

from qrelease._util.validate import positive
from qrelease.evaluation.audit.verdict import clopper_pearson
from qrelease.privacy.conversions import zcdp_delta
from qrelease.privacy.costs import ZCDP, ApproxDP, Cost


def advantage_bound(epsilon: float, delta: float = 0.0) -> float:
    """The largest advantage that any attack has against (ε, δ) privacy: (e^ε - 1 + 2δ)/(e^ε + 1).

    Advantage is the probability of saying "in" when it is so, less that of saying so when it is not (Kairouz, Oh &
    Viswanath 2015, Theorem 2.1, at the corner of the region they draw).

    Examples
    --------
    >>> round(advantage_bound(1.0), 3)
    0.462
    """
    positive("epsilon", epsilon)
    return min(1.0, math.tanh(epsilon / 2) + 2 * delta / (math.exp(min(epsilon, 700.0)) + 1))


def advantage_bound_of(cost: Cost) -> float:
    """`advantage_bound` of a cost; for ρ the least over the (ε, δ) that it implies, and Pinsker's √(ρ/2)."""
    if isinstance(cost, ZCDP):
        implied = (advantage_bound(e, zcdp_delta(cost.rho, e)) for e in np.geomspace(1e-3, 50.0, 60).tolist())
        return min(math.sqrt(cost.rho / 2), *implied)
    return advantage_bound(cost.epsilon, cost.delta if isinstance(cost, ApproxDP) else 0.0)


@final
@dataclass(frozen=True)
class Advantage:
    """How much more often an attack says "in" of what is in than of what is not.

    Attributes
    ----------
    value : float
        The observed difference of the two frequencies, -1 to 1.
    low, high : float
        Bounds that hold together with the confidence asked for (Clopper & Pearson 1934, for both frequencies).
    bound : float
        What the claimed privacy allows at most; 1 where none is claimed.
    """

    value: float
    low: float
    high: float
    bound: float

    @classmethod
    def of(cls, hits: int, false: int, runs: int, confidence: float, bound: float) -> Self:
        """The advantage, from how often "in" was said of `runs` people who were in and of as many who were not."""
        miss = (1 - confidence) / 4  # two bounds of two frequencies
        low, high = clopper_pearson(np.array([hits, false], np.float64), runs, miss)
        return cls((hits - false) / runs, float(low[0] - high[1]), float(high[0] - low[1]), bound)

    @property
    def convicts(self) -> bool:
        """Whether the advantage is surely above what is allowed: the privacy claimed is not there."""
        return self.low > self.bound
