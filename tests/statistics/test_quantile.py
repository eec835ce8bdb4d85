"""One quantile: its cost, listed exactly, and its rank errors."""

from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np
import pytest

from qrelease.evaluation.audit import compare
from qrelease.noise.calibration import selection_epsilon
from qrelease.privacy.costs import ZCDP, Neighbours, PureDP
from qrelease.statistics import quantile
from qrelease.statistics.base import BETA
from qrelease.statistics.grid import Numbers
from qrelease.statistics.private_columns import PrivateColumns
from qrelease.statistics.quantile import Quantile, losses
from tests.statistics.doors import column, door, outcome

PAIRS = {
    Neighbours.ADD_REMOVE: [([0, 2], [0, 2, 2]), ([1], []), ([0, 0, 2], [0, 0, 2, 0]), ([1, 1], [1, 1, None])],
    Neighbours.REPLACE_ONE: [([0, 2], [0, 0]), ([2, 2, 2], [2, 2, 0]), ([1, 1], [1, None])],
}


def audits(statistic, cost, neighbours, cells=3):
    for first, second in PAIRS[neighbours]:
        a, b = (outcome(statistic, column(values, cells), cost, neighbours) for values in (first, second))
        yield compare(a, b, cost)


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("cost", [PureDP(2.0), ZCDP(0.5)], ids=str)
@pytest.mark.parametrize("q", [0.25, 0.5])
def test_a_quantile_costs_what_it_says(q, cost, neighbours):
    found = list(audits(Quantile("x", q), cost, neighbours))
    assert not any(a.convicted for a in found)
    assert max(a.epsilon if cost == PureDP(2.0) else a.rho for a in found) > 0.05


class AllMonotone(PrivateColumns):
    """The published mistake: ε/Δ for scores of which some rise while others fall."""

    def choose(self, what, scores, sensitivity, cost, *, monotone=False):
        epsilon = selection_epsilon(cost, "permute-and-flip")
        self.spend(what, cost)
        return self.noise.choose(scores, epsilon, sensitivity, "exponential", monotone=True)


def test_scores_that_are_not_monotone_at_the_rate_of_monotone_ones_are_convicted():
    statistic, cost, replace = Quantile("x", interval=False), PureDP(2.0), Neighbours.REPLACE_ONE
    tables = [column([99, 99, 99, v], 101) for v in (0, 100)]
    assert compare(*(outcome(statistic, t, cost, replace, kind=AllMonotone) for t in tables), cost).convicted


def test_the_loss_of_a_quantile_is_zero_and_moves_by_its_sensitivity():
    grid = np.arange(4)
    for q in (Fraction(1, 2), Fraction(1, 4), Fraction(9, 10)):
        for n in range(6):
            for values in combinations_with_replacement(range(4), n):
                here = losses(Numbers.listed(values, 4), q, grid)
                assert here.min() == 0
                for other in range(4):
                    there = losses(Numbers.listed([*values, other], 4), q, grid)
                    assert abs(there - here).max() <= quantile.loss_sensitivity(q, Neighbours.ADD_REMOVE)
                    replaced = [losses(Numbers.listed([*values, v], 4), q, grid) for v in (0, 3)]
                    moved = max(abs(r - there).max() for r in replaced)
                    assert moved <= quantile.loss_sensitivity(q, Neighbours.REPLACE_ONE)


def ranks_off(values, q, v):
    """How many records too many are below a value, or above it."""
    values = np.asarray(values)
    return max((values < v).sum() - q * len(values), (values > v).sum() - (1 - q) * len(values), 0)


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("cost", [PureDP(0.5), ZCDP(0.05)], ids=str)
def test_one_quantile_and_its_interval(cost, neighbours):
    values = np.random.default_rng(3).integers(0, 1000, 4000)
    statistic, table = Quantile("x", 0.9), column(values.tolist(), 1000)
    bound = statistic.error_bound(table.domain, 4000, cost, neighbours, beta=BETA)
    late = misses = 0
    for seed in range(40):
        result = statistic.estimate(door(table, cost, neighbours, seed), cost)
        late += ranks_off(values, 0.9, result.value) > bound
        misses += not result.interval[0] <= np.quantile(values, 0.9, method="inverted_cdf") <= result.interval[1]
    assert late <= 6
    assert misses <= 6
    assert bound < 400
