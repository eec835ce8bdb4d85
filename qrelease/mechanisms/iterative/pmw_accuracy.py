"""The error bound of private multiplicative weights, and the parameters that achieve it.

Dwork & Roth 2014, Theorems 4.13 to 4.15, in counts and with discrete noise; the names are those of `mechanisms.pmw`.

Let a be the accuracy of the sparse vector's comparisons for 2k questions, k = `queries`, in counts: with probability
1 - β'/2 all of them are right up to a,

    a = 9c (ln 2k + ln(4c/β')) / ε,  or  (1 + √512) √(c ln(2/δ)) (ln 2k + ln(4c/β')) / ε  for an (ε, δ)

(Theorem 3.28; the smaller one is taken). Its c numbers, of Laplace noise of scale b, are with probability 1 - β'/2
within b ln(2c/β'), which is at most a for ε, and √8 a for (ε, δ). (The theorem claims a there too, which is not so for
usual k; 3a is all that is needed.) Let |ñ - n| <= m with probability 1 - β'', β' + β'' = β; n is public and m = 0 under
replace-one. If a <= A = αñ - m/2 - 2αm and T = 2αñ + (1/2 - α)m, which are αn and 2αn where n is public, then with
probability 1 - β every answer is within 3αn of q(x), and there are at most 4 ln|X| / α² updates.

*Proof.* ⊥ twice says |q(x) - q(y)| <= T + a <= 3α(ñ - m) <= 3αn. A number is off by at most 3a <= 3α(ñ - m). ⊤ says
|q(x) - q(y)| >= T - a, with that sign. Read as fractions, x/n and y/ñ, the gap is at least (T - a - m)/n, as
q(y) <= ñ; and T - a - m >= α(ñ + m) >= αn. So each update is about a gap of at least α, and `Hedge.update_bound` is the
number of those that there can be. ∎

All is asked in steps of 2^-20 of a count: q(y) and T are rounded to them, and discrete tails are those of the real
Laplace law but for one step, so two steps are kept aside. a grows as α falls: the least α that can be promised is the
one at which a = A, `Setting.least`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from qrelease._util.validate import rational
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.inference.update_rules import Hedge
from qrelease.noise.calibration import calibrated, counting_first
from qrelease.noise.distributions import Noise
from qrelease.noise.entropy import WordSource
from qrelease.noise.sparse_vector import NumericSparse
from qrelease.privacy.costs import ZCDP, ApproxDP, Cost, Neighbours, PureDP, check_cost
from qrelease.queries.families import GRID

COUNT_SHARE: Final = 0.03
"""The share of ε, and of β, that buys the number of records under add-remove."""

STEPS: Final = round(1 / GRID)
"""Steps in a count."""

ROUNDING_ERROR: Final = 2 / STEPS
"""What is kept aside for rounding, a count."""


@dataclass(frozen=True)
class PMWTerms:
    """What a session promises and how: all public.

    Parameters
    ----------
    cost
        What the sparse vector spends, and `updates` its c.
    threshold
        T, in steps.
    noise
        On the numbers.
    hypothesis_error
        T + A, a count.
    measured_error
        b ln(2c/β'), a count.
    """

    alpha: float
    queries: int
    records: int
    cost: PureDP | ApproxDP
    updates: int
    threshold: int
    noise: Noise
    hypothesis_error: float
    measured_error: float

    def stream(self, entropy: WordSource, used: int) -> NumericSparse:
        """The sparse vector, some of its positive answers used up."""
        return NumericSparse(self.cost, self.updates, STEPS, entropy, used=used)


@dataclass(frozen=True)
class PMWSetting:
    """What the promise depends on, in the names of the module's docstring.

    Parameters
    ----------
    beta
        Β'.
    costs
        Any of these may be spent.
    miss
        m, a count.
    """

    domain: Domain
    queries: int
    beta: float
    costs: tuple[PureDP | ApproxDP, ...]
    records: int
    miss: int

    @classmethod
    def of(cls, domain: Domain, queries: int, beta: float, cost: Cost, neighbours: Neighbours, n: int) -> PMWSetting:
        """The setting of a session, by its β, cost and number of records; `InvalidInput` as `pmw_costs` raises it."""
        counting, stream = pmw_costs(cost, neighbours)
        costs = _currencies(stream)
        if counting is None:
            return cls(domain, queries, beta, costs, n, 0)
        # P(|Z| > m) = 2q^(m+1) / (1 + q) <= q^m for the discrete Laplace law, q = e^-ε.
        miss = math.ceil(-math.log(COUNT_SHARE * beta) / counting.epsilon)
        return cls(domain, queries, (1 - COUNT_SHARE) * beta, costs, n, miss)

    def inaccuracy(self, alpha: float, cost: PureDP | ApproxDP) -> float:
        """a: how far answers are off by the theorem at this α, a count."""
        c = max(4 * math.log(self.domain.size) / alpha**2, 1.0)
        logs = math.log(2 * self.queries) + math.log(4 * c / self.beta)
        if isinstance(cost, ApproxDP) and cost.delta:
            return (1 + math.sqrt(512)) * math.sqrt(c * math.log(2 / cost.delta)) * logs / cost.epsilon
        return 9 * c * logs / cost.epsilon

    def room(self, alpha: float) -> float:
        """A, a count, less what rounding takes."""
        return alpha * self.records - (0.5 + 2 * alpha) * self.miss - ROUNDING_ERROR

    def surplus(self, alpha: float) -> float:
        """A - a, which grows with α: the promise holds where it is not negative."""
        return self.room(alpha) - min(self.inaccuracy(alpha, cost) for cost in self.costs)

    def least(self) -> float | None:
        """The least α below 1 that can be promised, but for rounding; None if there is none."""
        low, high = 0.0, 1 - 2.0**-30
        if self.surplus(high) < 0:
            return None
        while (middle := (low + high) / 2) not in (low, high):
            low, high = (middle, high) if self.surplus(middle) < 0 else (low, middle)
        return high

    def terms(self, asked: float | None) -> PMWTerms:
        """The terms for the α that was asked for, or for the least one; `InvalidInput` for one out of reach."""
        least = self.least()
        if least is None:
            raise InvalidInput(
                f"epsilon is too small: with {self.costs[0]}, {self.records:,} records and {self.queries:,} queries no"
                f" alpha below 1 can be promised"
            )
        alpha = least if asked is None else asked
        if alpha < least:
            raise InvalidInput(
                f"alpha={alpha:g} is out of reach: with {self.costs[0]}, {self.records:,} records and"
                f" {self.queries:,} queries the least is {_round_up(least)}"
            )
        cost = min(self.costs, key=lambda cost: self.inaccuracy(alpha, cost))
        updates = max(Hedge(alpha).update_bound(self.domain), 1)
        numeric = NumericSparse.calibrate(cost, updates, STEPS).numeric
        noise = Noise("discrete Laplace", float(rational("the numeric scale", numeric)) / STEPS, 1 / STEPS)
        threshold = round((2 * alpha * self.records + (0.5 - alpha) * self.miss) * STEPS)
        errors = threshold / STEPS + self.room(alpha), noise.scale * math.log(2 * updates / self.beta) + ROUNDING_ERROR
        return PMWTerms(alpha, self.queries, self.records, cost, updates, threshold, noise, *errors)


def pmw_costs(cost: Cost, neighbours: Neighbours) -> tuple[PureDP | None, PureDP | ApproxDP]:
    """What buys the number of records, where that is private, and what the sparse vector spends."""
    check_cost(cost)
    if isinstance(cost, ZCDP):
        raise InvalidInput(
            f"a session of private multiplicative weights spends epsilon, or epsilon and delta, got {cost}"
        )
    counting, rest = counting_first(cost, COUNT_SHARE, neighbours)
    assert not isinstance(counting, ZCDP)
    assert not isinstance(rest, ZCDP)
    if counting is not None:
        calibrated(1, counting)
    return counting, rest


def _currencies(cost: PureDP | ApproxDP) -> tuple[PureDP | ApproxDP, ...]:
    """What the sparse vector may spend: of an (ε, δ) both, or ε alone where that rule is not proved.

    It is proved for any c if it is for one run: the noise grows with √c, so of the terms of advanced composition one
    stays and the other falls.
    """
    if isinstance(cost, PureDP) or cost.delta == 0:
        return (cost,)
    try:
        NumericSparse.calibrate(cost, 1, 1)
    except InvalidInput:
        return (PureDP(cost.epsilon),)
    return cost, PureDP(cost.epsilon)


def _round_up(alpha: float) -> float:
    """A number rounded up to three digits."""
    step = 10.0 ** (math.floor(math.log10(alpha)) - 2)
    return float(f"{math.ceil(alpha / step) * step:.3g}")
