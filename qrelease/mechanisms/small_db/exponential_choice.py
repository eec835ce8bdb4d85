"""What SmallDB and Net share: they count the records, compute exact answers, and draw one synopsis.

Both score a synopsis y, read as a distribution, by u = -max_q |q(x) - ñ q(y)|, in counts. With ñ fixed, one record
added, removed or replaced moves every q(x) by at most 1, so it moves u by at most Δ = 1. Under replace-one ñ = n is
public. Under add-remove ñ is a noisy count, bought first from the same budget; given ñ, the choice is private at the
cost of the choice, so both together are at the sum, by composition. A ñ below 1 counts as 1.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from qrelease._util.typing import Ints
from qrelease.inference.measurement import Measurement
from qrelease.mechanisms.private_data import Private
from qrelease.noise.calibration import calibrated, counting_first, selection_epsilon
from qrelease.privacy.costs import ZCDP, ApproxDP, Cost, Neighbours, PureDP, check_cost
from qrelease.queries.workload import Workload

COUNT_SHARE: Final = 0.125
"""The share of the budget that buys the number of records under add-remove."""

MAX_COUNT: Final = 1 << 29
"""Larger counts are clipped, which moves no two of them further apart: so all scores are below 2^62.

Nothing is promised to a table of more records.
"""

CANDIDATE_BYTES: Final = 400
"""Bytes for each candidate whose score is listed.

Rarely a draw is decided by the exact law alone, which is made of large integers; else it takes an eighth of that.
"""


def choice_costs(cost: Cost, neighbours: Neighbours) -> tuple[PureDP | ZCDP | None, PureDP | ZCDP]:
    """What buys the number of records, where that is private, and what pays for the choice.

    Of an (ε, δ) the ε is spent: the exponential mechanism has no use for δ, and as zCDP it would buy less.
    `InvalidInput` for what is no cost, or one too small for either draw.
    """
    check_cost(cost)
    pure = PureDP(cost.epsilon) if isinstance(cost, ApproxDP) else cost
    counting, choosing = counting_first(pure, COUNT_SHARE, neighbours)
    assert not isinstance(choosing, ApproxDP)
    if counting is not None:
        calibrated(1, counting)
    selection_epsilon(choosing, "exponential")
    return counting, choosing


def count_records(private: Private, counting: PureDP | ZCDP | None) -> tuple[int, tuple[Measurement, ...]]:
    """ñ, from 0 to `MAX_COUNT`, and the measurement that it comes from: none where the number of records is public."""
    found, measured = private.count(counting)
    return min(max(round(found), 0), MAX_COUNT), () if measured is None else (measured,)


def exact_answers(private: Private, workload: Workload) -> tuple[Ints, float]:
    """q(x), (k,) integers in the finest unit of the groups, and that unit. Private."""
    unit = min(g.queries.unit for g in workload.groups)
    pairs = zip(private.exact(workload), workload.groups, strict=True)
    answers = np.concatenate([a * int(g.queries.unit / unit) for a, g in pairs])
    return np.minimum(answers, int(MAX_COUNT / unit)), unit


def excess(candidates: int, cost: Cost, neighbours: Neighbours, beta: float) -> float:
    """t, a count: with probability 1 - β the chosen synopsis is off by at most t more than the best, both scaled by ñ.

    2 (ln N + ln(1/β)) / ε (Dwork & Roth 2014, Corollary 3.12, with Δ = 1).
    """
    _, choosing = choice_costs(cost, neighbours)
    return 2 * (math.log(candidates) - math.log(beta)) / float(selection_epsilon(choosing, "exponential"))


def promised_choice_error(
    radius: float, candidates: int, n: float, cost: Cost, neighbours: Neighbours, beta: float, largest: float = 1.0
) -> float:
    """With probability 1 - β the chosen one of so many synopses is off by at most this fraction of n.

    Provided that one of them is within `radius` of any table, as fractions: radius + t/n, with t from `excess`. Under
    add-remove half of β goes to the count: what is within r of the truth when scaled by n is within r + |ñ - n| p when
    scaled by ñ, for p = `largest`, the largest fraction that it answers with. Infinite from an n of `MAX_COUNT`
    on, which may stand for more.
    """
    if n >= MAX_COUNT:
        return math.inf
    left = beta if neighbours is Neighbours.REPLACE_ONE else beta / 2
    missed = largest * count_error(cost, neighbours, beta)
    return radius + (missed + excess(candidates, cost, neighbours, left)) / n


def count_error(cost: Cost, neighbours: Neighbours, beta: float) -> float:
    """t, a count: |ñ - n| > t with probability at most β/2; 0 where n is public.

    Clipping to at most `MAX_COUNT` only brings them closer. A ñ of 1 may stand for no record at all: t is at least 1.
    """
    counting, _ = choice_costs(cost, neighbours)
    return 0.0 if counting is None else max(calibrated(1, counting)[0].reach(beta / 2), 1.0)
