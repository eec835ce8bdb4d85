"""Means: their cost, listed exactly; their promises; and that two sums are better than a sum and a count."""

import math
from dataclasses import dataclass

import numpy as np
import pytest

from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.evaluation.audit import compare
from qrelease.privacy.costs import ZCDP, Neighbours, PureDP, split
from qrelease.statistics.base import BETA, EstimateResult, Measured
from qrelease.statistics.clipped_mean import ClippedMean, QuantileMean, SparseVectorMean
from qrelease.statistics.mean import Mean, TextbookMean
from qrelease.statistics.sums import Sum
from tests.statistics.doors import column, door, outcome

ONE = PureDP(1.0)
FORMS = [
    *(Mean("x", 3, 90), TextbookMean("x", 3, 90), Sum("x")),
    *(ClippedMean("x"), QuantileMean("x"), SparseVectorMean("x")),
]
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
@pytest.mark.parametrize(
    "statistic", [Mean("x"), TextbookMean("x"), TextbookMean("x", origin="zero"), Sum("x")], ids=str
)
def test_a_mean_costs_what_it_says(statistic, neighbours):
    worst = 0.0
    for other in NEIGHBOURS[neighbours][:3]:
        audit = found(statistic, TABLE, other, PureDP(8.0), neighbours)
        assert not audit.convicted
        worst = max(worst, audit.epsilon)
    assert worst > 2


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


def test_two_sums_spend_all_of_the_cost_and_no_more():
    audit = found(Mean("x"), TABLE, [0, 2, 3, 3], PureDP(4.0), Neighbours.ADD_REMOVE)
    assert 3.8 < audit.epsilon <= 4.0


def test_a_sum_that_is_not_centred_is_convicted():
    audit = found(UncentredMean(), TABLE, [0, 2, 3, 3], PureDP(4.0), Neighbours.ADD_REMOVE)
    assert audit.convicted


def estimates(statistic, table, cost, runs, neighbours=Neighbours.ADD_REMOVE):
    return [statistic.estimate(door(table, cost, neighbours, seed), cost) for seed in range(runs)]


@pytest.mark.parametrize("cost", [ONE, ZCDP(0.05)], ids=str)
@pytest.mark.parametrize("neighbours", BOTH)
@pytest.mark.parametrize(
    "statistic",
    [Mean("x", 3, 90), TextbookMean("x", 3, 90), ClippedMean("x"), SparseVectorMean("x"), Sum("x")],
    ids=str,
)
def test_intervals_and_promises_hold(statistic, neighbours, cost):
    """With probability 0.95 at least; of 100 runs more than 12 misses have a chance below 0.004."""
    if isinstance(statistic, SparseVectorMean) and cost != ONE:
        pytest.skip("spends epsilon")
    values = np.random.default_rng(1).binomial(99, 0.2, 3000)
    table = column(values.tolist(), 100)
    bound = statistic.error_bound(table.domain, 3000, cost, neighbours, beta=BETA)
    misses = late = 0
    for result in estimates(statistic, table, cost, 100, neighbours):
        low, high = result.choices.get("low", 0), result.choices.get("high", 99)
        low, high = getattr(statistic, "low", None) or low, getattr(statistic, "high", None) or high
        clipped = np.clip(values, low, high)
        truth = clipped.sum() if isinstance(statistic, Sum) else clipped.mean()
        misses += not result.interval[0] <= truth <= result.interval[1]
        right = truth if isinstance(statistic, Sum | Mean | TextbookMean) else values.mean()
        late += abs(result.value - right) > bound
        if "with_clipping" in result.choices:
            assert result.choices["with_clipping"][0] <= result.interval[0]
    assert misses <= 12
    assert late <= 12


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


def test_clipping_helps_where_values_lie_far_within_the_grid():
    values = np.random.default_rng(2).binomial(99, 0.3, 3000)
    table = column(values.tolist(), 100_000)
    runs = [estimates(s, table, ONE, 20) for s in (Mean("x"), ClippedMean("x"))]
    wide, clipped = (np.mean([abs(r.value - values.mean()) for r in results]) for results in runs)
    assert clipped < wide / 20


def test_a_mean_takes_numbers():
    with pytest.raises(InvalidInput, match="no value of column"):
        Mean("x", 0, 4).check(Domain.coded({"x": 4}), ONE, Neighbours.ADD_REMOVE)
    with pytest.raises(InvalidInput, match="below the upper"):
        Mean("x").check(Domain.coded({"x": 1}), ONE, Neighbours.ADD_REMOVE)
