"""What the mechanisms of one choice share, SmallDB and Net: a count of the records, exact answers, one draw.

Both score a synopsis y, read as a distribution, by u = -max_q |q(x) - ñ q(y)|, in counts. With ñ fixed, one record
added, removed or replaced moves every q(x) by at most 1, so it moves u by at most Δ = 1. Under replace-one ñ = n is
public. Under add-remove ñ is a noisy count, bought first from the same budget; given ñ, the choice is private at the
cost of the choice, so both together are at the sum, by composition.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

import numpy as np
import numpy.typing as npt

from qrelease.errors import InvalidInput
from qrelease.measure import Measurement, Private, calibrated
from qrelease.privacy import ZCDP, ApproxDP, Cost, Neighbours, PureDP, split
from qrelease.privacy.costs import check_cost
from qrelease.workload import Workload

I64 = npt.NDArray[np.int64]

COUNTING: Final = 0.125
"""The share of the budget that buys the number of records under add-remove."""

MAX_COUNT: Final = 1 << 29
"""Larger counts are clipped, which moves no two of them further apart: so all scores are below 2^62."""


def shares(cost: Cost, neighbours: Neighbours) -> tuple[PureDP | ZCDP | None, PureDP | ZCDP]:
    """What buys the number of records, where that is private, and what pays for the choice.

    Of an (ε, δ) the ε is spent: the exponential mechanism has no use for δ, and as zCDP it would buy less.
    `InvalidInput` for what is no cost, or one too small for either draw.
    """
    check_cost(cost)
    pure = PureDP(cost.epsilon) if isinstance(cost, ApproxDP) else cost
    if neighbours is Neighbours.REPLACE_ONE:
        epsilon_of(pure)
        return None, pure
    counting, choosing = split(pure, [COUNTING, 1 - COUNTING])
    calibrated(1, counting)
    epsilon_of(choosing)
    return counting, choosing


def epsilon_of(cost: PureDP | ZCDP) -> Fraction:
    """ε of the exponential mechanism at a cost, as `Private.select` has it: √(8ρ) under zCDP, rounded down.

    Bounded range: Cesar & Rogers 2021. `InvalidInput` where that is 0.
    """
    if isinstance(cost, PureDP):
        return Fraction(cost.epsilon)
    square = 8 * Fraction(cost.rho)
    root = Fraction(math.isqrt((square.numerator << 120) // square.denominator), 1 << 60)
    if not root:
        raise InvalidInput(f"rho must be at least 2^-123 for a selection, got {cost.rho}")
    return root


def count(private: Private, counting: PureDP | ZCDP | None) -> tuple[int, tuple[Measurement, ...]]:
    """ñ, from 1 to `MAX_COUNT`, and the measurement that it comes from: none where the number of records is public."""
    found, measured = private.count(counting)
    return min(max(round(found), 1), MAX_COUNT), () if measured is None else (measured,)


def exact_answers(private: Private, workload: Workload) -> tuple[I64, float]:
    """q(x), (k,) integers in the finest unit of the groups, and that unit. Private."""
    unit = min(g.queries.unit for g in workload.groups)
    pairs = zip(private.exact(workload), workload.groups, strict=True)
    answers = np.concatenate([a * int(g.queries.unit / unit) for a, g in pairs])
    return np.minimum(answers, int(MAX_COUNT / unit)), unit


def choice_error(candidates: int, cost: Cost, neighbours: Neighbours, beta: float) -> float:
    """t, a count: with probability 1 - β the chosen synopsis is off by at most t more than the best of the range.

    2 (ln N + ln(1/β)) / ε (Dwork & Roth 2014, Corollary 3.12, with Δ = 1). Under add-remove half of β goes to the
    count: what is within r of the truth when scaled by n is within r + |ñ - n| when scaled by ñ, which comes on top.
    """
    _, choosing = shares(cost, neighbours)
    missed = count_error(cost, neighbours, beta)
    left = beta if neighbours is Neighbours.REPLACE_ONE else beta / 2
    return missed + 2 * (math.log(candidates) - math.log(left)) / float(epsilon_of(choosing))


def count_error(cost: Cost, neighbours: Neighbours, beta: float) -> float:
    """t, a count: |ñ - n| > t with probability at most β/2; 0 where n is public.

    Discrete Laplace: P(|Z| >= t) = 2q^t/(1 + q), q = e^-ε. Discrete Gaussian: at most 2e^(-t²/2σ²) (Canonne, Kamath &
    Steinke 2020). Between 1 and `MAX_COUNT`, clipping only brings them closer.
    """
    counting, _ = shares(cost, neighbours)
    if counting is None:
        return 0.0
    noise, _ = calibrated(1, counting)
    if noise.law == "discrete Laplace":
        return noise.scale * max(0.0, math.log(4 / (beta * (1 + math.exp(-1 / noise.scale)))))
    return noise.scale * math.sqrt(2 * math.log(4 / beta))
