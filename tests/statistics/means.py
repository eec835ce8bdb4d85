"""What tests of means and sums share: exact audits of neighbouring columns, estimates, and how often these miss."""

import numpy as np

from qrelease.evaluation.audit import compare
from qrelease.privacy.costs import Neighbours, PureDP
from qrelease.statistics.base import BETA
from qrelease.statistics.mean import Mean, TextbookMean
from qrelease.statistics.sums import Sum
from tests.statistics.doors import column, door, outcome

ONE = PureDP(1.0)
BOTH = [Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE]
TABLE = [0, 2, 3]
NEIGHBOURS = {
    Neighbours.ADD_REMOVE: [[0, 2], [2, 3], [0, 2, 3, 0], [0, 2, 3, 3], [0, 2, 3, None]],
    Neighbours.REPLACE_ONE: [[3, 2, 3], [0, 2, 0], [0, None, 3]],
}


def found(statistic, first, second, cost, neighbours, missing=1e-4, least=1e-13):
    """The exact audit of a pair."""
    tables = [column(values, 4) for values in (first, second)]
    return compare(*(outcome(statistic, t, cost, neighbours, missing, least=least) for t in tables), cost)


def estimates(statistic, table, cost, runs, neighbours=Neighbours.ADD_REMOVE):
    return [statistic.estimate(door(table, cost, neighbours, seed), cost) for seed in range(runs)]


def misses(statistic, cost, neighbours):
    """Of 100 runs, how many intervals do not hold the truth, and how many errors are larger than was promised."""
    values = np.random.default_rng(1).binomial(99, 0.2, 3000)
    table = column(values.tolist(), 100)
    bound = statistic.error_bound(table.domain, 3000, cost, neighbours, beta=BETA)
    missed = late = 0
    for result in estimates(statistic, table, cost, 100, neighbours):
        low, high = result.choices.get("low", 0), result.choices.get("high", 99)
        low, high = getattr(statistic, "low", None) or low, getattr(statistic, "high", None) or high
        clipped = np.clip(values, low, high)
        truth = clipped.sum() if isinstance(statistic, Sum) else clipped.mean()
        missed += not result.interval[0] <= truth <= result.interval[1]
        right = truth if isinstance(statistic, Sum | Mean | TextbookMean) else values.mean()
        late += abs(result.value - right) > bound
        if "with_clipping" in result.choices:
            assert result.choices["with_clipping"][0] <= result.interval[0]
    return missed, late
