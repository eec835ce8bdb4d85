"""χ² tests on noisy counts: their level, their power, and the uncorrected test, which convicts the innocent."""

from itertools import islice

import numpy as np
import pytest
from scipy import stats

from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.errors import InvalidInput
from qrelease.evaluation.audit import compare
from qrelease.privacy import Neighbours, PureDP
from qrelease.statistics.chi_squared import FitTest, IndependenceTest, NoisyCounts
from tests.statistics.doors import DrawsAt, door, outcome

COST = PureDP(0.5)


def pairs(n, strength, rng):
    """Two columns of three and two values; the second follows the first with some probability."""
    a = rng.integers(0, 3, n)
    b = np.where(rng.random(n) < strength, a == 0, rng.random(n) < 0.4).astype(int)
    return Table(Domain.coded({"a": 3, "b": 2}), (a, b))


def p_values(statistic, tables, neighbours):
    return np.array(
        [statistic.estimate(door(table, COST, neighbours, i), COST).value["p_value"] for i, table in enumerate(tables)]
    )


def within(rejected, runs, level):
    """Whether so many rejections are compatible with a level: neither too many nor too few, each with 1e-4."""
    return stats.binom.ppf(1e-4, runs, level) <= rejected <= stats.binom.ppf(1 - 1e-4, runs, level)


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("n", [60, 1000])
def test_the_level_of_a_fit_is_what_was_asked(n, neighbours):
    rng = np.random.default_rng(n)
    tables = [Table(Domain.coded({"a": 4}), (rng.choice(4, n, p=[0.1, 0.2, 0.3, 0.4]),)) for _ in range(400)]
    found = p_values(FitTest("a", (1, 2, 3, 4)), tables, neighbours)
    for level in (0.05, 0.2, 0.5):
        assert within((found <= level).sum(), 400, level)


@pytest.mark.parametrize("n", [100, 1000])
def test_the_level_of_independence_is_about_what_was_asked(n):
    rng = np.random.default_rng(n)
    found = p_values(IndependenceTest("a", "b"), [pairs(n, 0.0, rng) for _ in range(400)], Neighbours.ADD_REMOVE)
    assert (found <= 0.05).mean() <= 0.09
    assert (found <= 0.5).mean() >= 0.35


def test_what_is_there_is_seen_when_there_are_enough_records():
    rng = np.random.default_rng(1)

    def power(n):
        found = p_values(IndependenceTest("a", "b"), [pairs(n, 0.2, rng) for _ in range(60)], Neighbours.ADD_REMOVE)
        return (found <= 0.05).mean()

    assert power(100) < power(500) + 0.1
    assert power(2000) > 0.95


def test_the_uncorrected_test_is_convicted():
    """Broken twin: Pearson's statistic of the noisy counts against the quantile of χ²; noise taken for dependence."""
    rng, rejected, little = np.random.default_rng(2), 0, PureDP(0.1)
    for seed in range(200):
        counts = NoisyCounts.measured(door(pairs(300, 0.0, rng), little, noise=seed), ("a", "b"), little).counts
        positive = np.maximum(counts, 1)
        rejected += stats.chi2_contingency(positive, correction=False).pvalue <= 0.05
    assert not within(rejected, 200, 0.05)
    assert rejected > 30


class Counts:
    """What a χ² test measures; all else is a function of it."""

    def estimate(self, private, cost):
        return NoisyCounts.measured(private, ("a",), cost).counts


def test_counts_cost_what_they_say_and_more_with_the_noise_of_one_where_two_move():
    """Exactly; the mistake: a histogram with noise for one count, where a record that is replaced moves two."""
    pair = [Table(Domain.coded({"a": 2}), (np.array(rows),)) for rows in ([0, 0, 1], [0, 1, 1])]
    cost, replace = PureDP(2.0), Neighbours.REPLACE_ONE

    def found(statistic):
        return compare(*(outcome(statistic, t, cost, replace, 1e-6, tuple, 1e-12) for t in pair), cost)

    assert not found(Counts()).convicted
    assert found(Counts()).epsilon > 1.99
    assert found(DrawsAt(PureDP(4.0), Counts())).convicted


def test_a_cell_that_cannot_be_is_evidence_only_beyond_the_noise():
    table = Table(Domain.coded({"a": 3}), (np.array([2] * 200 + [0] * 300 + [1] * 500),))
    assert FitTest("a", (3, 5, 0)).estimate(door(table, COST), COST).value["p_value"] == 0.001
    one = Table(Domain.coded({"a": 3}), (np.array([2] * 1 + [0] * 300 + [1] * 500),))
    assert FitTest("a", (3, 5, 0)).estimate(door(one, COST), COST).value["p_value"] > 0.01


def test_tables_are_simulated_in_blocks_of_bounded_size():
    """Of 2^16 cells a thousand tables are 500 MiB, and what is computed of them several times as many."""
    cells = 1 << 16
    counts = NoisyCounts.measured(door(Table(Domain.coded({"a": cells}), (np.arange(10),)), COST), ("a",), COST)
    blocks = list(islice(counts.simulated(np.full(cells, 1 / cells), 40), 3))
    assert [block.shape for block in blocks] == [(16, cells), (16, cells), (8, cells)]
    small = NoisyCounts.measured(door(pairs(100, 0.0, np.random.default_rng(0)), COST), ("a", "b"), COST)
    (whole,) = small.simulated(np.full((3, 2), 1 / 6), 999)
    assert whole.shape == (999, 3, 2)
    assert abs(whole.sum(axis=(1, 2)).mean() - small.records) < 2


@pytest.mark.parametrize(
    "statistic", [IndependenceTest("a", "a"), FitTest("a", (1.0,)), FitTest("a", (1, -1, 1)), FitTest("a", (0, 0, 0))]
)
def test_what_is_no_test_is_refused(statistic):
    with pytest.raises(InvalidInput):
        statistic.check(Domain.coded({"a": 3, "b": 2}), COST, Neighbours.ADD_REMOVE)
