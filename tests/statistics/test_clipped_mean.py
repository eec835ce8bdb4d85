"""Means that choose their bounds: their cost, listed exactly, their promises, and what clipping is worth."""

from dataclasses import dataclass

import numpy as np
import pytest

from qrelease.privacy.costs import ZCDP, Neighbours, PureDP
from qrelease.statistics.base import EstimateResult, Measured
from qrelease.statistics.clipped_mean import ClippedMean, QuantileMean, SparseVectorMean
from qrelease.statistics.mean import Mean
from tests.statistics.doors import column
from tests.statistics.means import BOTH, NEIGHBOURS, ONE, TABLE, estimates, found, misses


@pytest.mark.parametrize("neighbours", BOTH)
@pytest.mark.parametrize(
    ("statistic", "epsilon", "missing"),
    [(ClippedMean("x"), 24.0, 1e-3), (QuantileMean("x"), 12.0, 3e-3), (SparseVectorMean("x"), 12.0, 3e-3)],
    ids=str,
)
def test_a_mean_that_chooses_its_bounds_costs_what_it_says(statistic, epsilon, missing, neighbours):
    """The bounds and the sums between them, listed together but for so much of each law; some output costs 3.5."""
    worst = 0.0
    cost = PureDP(epsilon * (2 if neighbours is Neighbours.REPLACE_ONE else 1))
    for other in NEIGHBOURS[neighbours][:2]:
        audit = found(statistic, TABLE, other, cost, neighbours, missing, 1e-8)
        assert not audit.convicted
        worst = max(worst, audit.epsilon)
    assert worst > 3.5


@dataclass(frozen=True)
class BoundOfTheData:
    """The mistake: clipped to the largest value there is, whose sum gets the noise of that bound."""

    name = "largest"

    def estimate(self, private, cost):
        values = private.numbers("x")
        high = max(int(values.values.max()), 1)
        total, _ = private.measure("sum", np.array([values.total(0, high)]), high, cost)
        return EstimateResult(0.0, None, "", "", (Measured("", high, ""), Measured("", int(total[0]), "")))


def test_a_bound_read_off_the_data_is_convicted():
    assert found(BoundOfTheData(), [0, 1, 1], [0, 1, 1, 3], PureDP(8.0), Neighbours.ADD_REMOVE, 1e-6).convicted


@pytest.mark.parametrize("cost", [ONE, ZCDP(0.05)], ids=str)
@pytest.mark.parametrize("neighbours", BOTH)
@pytest.mark.parametrize("statistic", [ClippedMean("x"), QuantileMean("x")], ids=str)
def test_intervals_and_promises_hold(statistic, neighbours, cost):
    """With probability 0.95 at least; of 100 runs more than 12 misses have a chance below 0.004."""
    assert max(misses(statistic, cost, neighbours)) <= 12


@pytest.mark.parametrize("neighbours", BOTH)
def test_intervals_and_promises_of_a_bound_found_by_the_sparse_vector_hold(neighbours):
    assert max(misses(SparseVectorMean("x"), ONE, neighbours)) <= 12


def test_clipping_helps_where_values_lie_far_within_the_grid():
    values = np.random.default_rng(2).binomial(99, 0.3, 3000)
    table = column(values.tolist(), 100_000)
    runs = [estimates(s, table, ONE, 20) for s in (Mean("x"), ClippedMean("x"))]
    wide, clipped = (np.mean([abs(r.value - values.mean()) for r in results]) for results in runs)
    assert clipped < wide / 20
