"""Means: their cost, listed exactly; their promises; and that two sums are better than a sum and a count."""

import math
from dataclasses import dataclass

import numpy as np
import pytest

from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.privacy.costs import ZCDP, Neighbours, PureDP, split
from qrelease.statistics.base import EstimateResult, Measured
from qrelease.statistics.mean import Mean, TextbookMean
from tests.statistics.doors import column
from tests.statistics.means import BOTH, NEIGHBOURS, ONE, TABLE, estimates, found, misses


@dataclass(frozen=True)
class UncentredMean:
    """The mistake: Σ(x - l) with the noise of a centred sum, (u - l)/2, and a count."""

    name = "uncentred"

    def estimate(self, private, cost):
        numbers, (one, two) = private.numbers("x"), split(cost, [1, 1])
        total, _ = private.measure("sum", np.array([2 * numbers.total(0, 3)]), 3, one)
        count, _ = private.measure("count", np.array([numbers.n]), 1, two)
        return EstimateResult(0.0, None, "", "", (Measured("", int(total[0]), ""), Measured("", int(count[0]), "")))


@pytest.mark.parametrize("neighbours", BOTH)
@pytest.mark.parametrize("statistic", [Mean("x"), TextbookMean("x"), TextbookMean("x", origin="zero")], ids=str)
def test_a_mean_costs_what_it_says(statistic, neighbours):
    worst = 0.0
    for other in NEIGHBOURS[neighbours][:3]:
        audit = found(statistic, TABLE, other, PureDP(8.0), neighbours)
        assert not audit.convicted
        worst = max(worst, audit.epsilon)
    assert worst > 2


def test_two_sums_spend_all_of_the_cost_and_no_more():
    audit = found(Mean("x"), TABLE, [0, 2, 3, 3], PureDP(4.0), Neighbours.ADD_REMOVE)
    assert 3.8 < audit.epsilon <= 4.0


def test_a_sum_that_is_not_centred_is_convicted():
    audit = found(UncentredMean(), TABLE, [0, 2, 3, 3], PureDP(4.0), Neighbours.ADD_REMOVE)
    assert audit.convicted


@pytest.mark.parametrize("cost", [ONE, ZCDP(0.05)], ids=str)
@pytest.mark.parametrize("neighbours", BOTH)
@pytest.mark.parametrize("statistic", [Mean("x", 3, 90), TextbookMean("x", 3, 90)], ids=str)
def test_intervals_and_promises_hold(statistic, neighbours, cost):
    """With probability 0.95 at least; of 100 runs more than 12 misses have a chance below 0.004."""
    assert max(misses(statistic, cost, neighbours)) <= 12


def test_intervals_are_not_empty_words():
    """An interval 30 % narrower than the noise fails: so the interval is no wider than it needs to be."""
    values = np.random.default_rng(1).binomial(99, 0.2, 3000)
    narrow = 0
    for result in estimates(Mean("x"), column(values.tolist(), 100), ONE, 300):
        half = 0.5 * (result.interval[1] - result.interval[0]) / 2
        narrow += abs(result.value - values.mean()) > half
    assert narrow > 30


def test_two_sums_are_better_than_a_sum_and_a_count():
    values = np.random.default_rng(2).binomial(99, 0.3, 1000)
    table = column(values.tolist(), 100)

    def error(statistic):
        return math.sqrt(np.mean([(r.value - values.mean()) ** 2 for r in estimates(statistic, table, ONE, 150)]))

    ours, centred, naive = (error(s) for s in (Mean("x"), TextbookMean("x"), TextbookMean("x", origin="zero")))
    assert ours < 0.8 * centred < centred < 0.8 * naive


def test_a_mean_takes_numbers():
    with pytest.raises(InvalidInput, match="no value of column"):
        Mean("x", 0, 4).check(Domain.coded({"x": 4}), ONE, Neighbours.ADD_REMOVE)
    with pytest.raises(InvalidInput, match="below the upper"):
        Mean("x").check(Domain.coded({"x": 1}), ONE, Neighbours.ADD_REMOVE)
