"""Tests of uniform rows: level, power, what one row moves, and the text's constants against those that are proved."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.errors import InvalidInput
from qrelease.evaluation.audit import compare
from qrelease.privacy import ZCDP, ApproxDP, Neighbours, PureDP, split
from qrelease.statistics import uniformity
from qrelease.statistics.uniformity import EfficientTester, GaussianMeanTest, UniformityTest
from tests.statistics.doors import Compares, DrawsAt, door, outcome

COST = ApproxDP(1.0, 1e-6)
REPLACE = Neighbours.REPLACE_ONE


def names(d):
    return tuple(f"b{i}" for i in range(d))


def table(rows):
    return Table(Domain.coded(dict.fromkeys(names(rows.shape[1]), 2)), tuple((rows.T + 1) // 2))


def signs(n, d, norm, rng):
    return np.where(rng.random((n, d)) < (1 + norm / math.sqrt(d)) / 2, 1, -1)


def rejections(statistic, d, n, norm, runs, neighbours, cost=COST, seed=0):
    rng = np.random.default_rng(seed)
    tables = [table(signs(n, d, norm, rng)) for _ in range(runs)]
    found = [statistic.estimate(door(t, cost, neighbours, i), cost).value["p_value"] for i, t in enumerate(tables)]
    return sum(p <= 0.05 for p in found)


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize(
    ("d", "n", "cost"),
    [(10, 100, COST), (10, 100, PureDP(1.0)), pytest.param(300, 60, ZCDP(0.1), marks=pytest.mark.slow)],
)
def test_the_level_is_what_was_asked(d, n, cost, neighbours):
    """The last one is small enough for two rounds: the columns are many."""
    found = rejections(UniformityTest(names(d)), d, n, 0.0, 150, neighbours, cost)
    assert stats.binom.ppf(1e-4, 150, 0.05) <= found <= stats.binom.ppf(1 - 1e-4, 150, 0.05)


def test_the_power_grows_with_the_number_of_records():
    statistic = UniformityTest(names(10))
    assert rejections(statistic, 10, 100, 0.5, 40, REPLACE) < 30
    bound = statistic.error_bound(Domain.coded(dict.fromkeys(names(10), 2)), 299, COST, REPLACE, beta=0.05)
    assert bound <= 0.5
    assert rejections(statistic, 10, 450, 0.5, 40, REPLACE) >= 38


@pytest.mark.parametrize("dimension", [4, 1000])
@pytest.mark.parametrize("neighbours", Neighbours)
def test_a_row_moves_each_round_by_its_sensitivity_and_no_more(dimension, neighbours):
    plan = uniformity.Rounds.of(dimension, ZCDP(0.1), neighbours, missing=False)
    one, other = np.ones(dimension), -np.ones(dimension)
    moved = one - other if neighbours is REPLACE else np.append(one, plan.weight)
    assert plan.moved == moved @ moved if neighbours is REPLACE else plan.moved >= moved @ moved
    assert (plan.second is None) == (dimension == 4)
    if plan.second is not None:
        clip = plan.clip(500)
        scores = np.clip([one @ one * 1e9, other @ one * 1e9], -clip, clip)
        most = abs(scores[0] - scores[1]) if neighbours is REPLACE else abs(scores[0])
        assert plan.second_moved(500) == most**2


def test_the_variance_under_the_null_is_what_is_simulated():
    for plan in (uniformity.Rounds.of(d, ZCDP(0.1), REPLACE, missing=False) for d in (10, 800)):
        a = plan.best(300)
        assert plan.null(300, a).var() == pytest.approx(plan.variance(300, a), rel=0.2)
        if plan.second is not None:
            assert plan.variance(300, a) <= min(plan.variance(300, a + step) for step in (-0.1, 0.1))


def test_the_signs_of_whitened_gaussians_keep_the_distance():
    rng = np.random.default_rng(3)
    covariance = np.array([[25.0, 12.0], [12.0, 16.0]])

    def estimate(means):
        n, cost = 4000, ZCDP(0.5)
        values = rng.multivariate_normal(means, covariance, n)
        codes = np.clip(np.rint(values * 10), 0, 999).astype(int)  # a grid of tenths
        domain = Domain.coded({"a": 1000, "b": 1000})
        fine = GaussianMeanTest(("a", "b"), (502.5, 497.5), tuple(map(tuple, (100 * covariance).tolist())))
        return fine.estimate(door(Table(domain, tuple(codes.T)), cost), cost).value

    assert estimate((50.25, 49.75))["p_value"] > 0.01
    shift = np.linalg.cholesky(covariance) @ np.array([0.6, 0.8])  # a Mahalanobis distance of 1
    assert estimate(np.array([50.25, 49.75]) + shift)["squared_norm"] >= 0.594**2 * 0.9


def test_the_printed_constant_of_the_signs_is_too_small_and_the_right_one_holds():
    gaps = np.linspace(1e-3, math.sqrt(2), 200)
    assert (2 * stats.norm.cdf(gaps) - 1 >= 0.594 * gaps).all()
    assert 2 * stats.norm.cdf(math.sqrt(2)) - 1 == pytest.approx(0.594 * math.sqrt(2), rel=5e-3)


def test_a_row_moves_the_squared_length_by_no_more_than_is_proved():
    """All tables of small size, all neighbours, and noise up to what is granted: the proof's S is not exceeded."""
    d, n = 2, 3
    _, second, third = split(COST, [5, 2, 3])
    sigma, clip = 3.0, 4
    bound = uniformity.ProvedConstants.moved(d, clip, sigma, second, third)
    t = sigma * math.sqrt(2 * d * math.log(4 / third.delta))
    kinds = [np.array(r) for r in itertools.product((1, -1), repeat=d)]
    worst = 0
    for common in itertools.product(kinds, repeat=n - 1):
        for x, other in itertools.product(kinds, repeat=2):
            for noise in itertools.product(range(-6, 7, 2), repeat=d):
                if max(abs(x @ noise), abs(other @ noise)) > t:
                    continue
                seen = sum(common) + x + np.array(noise)
                lengths = []
                for rows in ((*common, x), (*common, other)):
                    good = [row for row in rows if abs(row @ seen) <= clip]
                    total = sum(good, np.zeros(d, int))
                    lengths.append(total @ total)
                worst = max(worst, abs(lengths[0] - lengths[1]))
    assert 0 < worst <= bound


def test_fewer_records_are_needed_with_the_constants_that_are_proved():
    domain = Domain.coded(dict.fromkeys(names(10), 2))

    def needed(constants):
        statistic, n = EfficientTester(names(10), 0.5, constants), 100
        while statistic.error_bound(domain, n, COST, REPLACE, beta=0.05) > 0.5:
            n = int(n * 1.05) + 1
        return n

    assert 5 * needed("proved") < needed("printed") < 15_000


@pytest.mark.parametrize(("constants", "n"), [("proved", 2100), ("printed", 13_000)])
def test_the_efficient_tester_accepts_uniform_rows_and_rejects_others(constants, n):
    statistic, rng = EfficientTester(names(10), 0.5, constants), np.random.default_rng(5)
    for seed in range(8):
        for norm in (0.0, 0.5):
            private = door(table(signs(n, 10, norm, rng)), COST, REPLACE, seed)
            assert statistic.estimate(private, COST).value["rejects"] == (norm > 0)
            assert len(private.spends) == (3 if constants == "proved" else 4)


def test_what_the_efficient_tester_cannot_know_is_refused():
    domain = Domain.coded(dict.fromkeys(names(3), 2))
    with pytest.raises(InvalidInput, match="replace-one"):
        EfficientTester(names(3), 0.5).check(domain, COST, Neighbours.ADD_REMOVE)
    with pytest.raises(InvalidInput, match="delta"):
        EfficientTester(names(3), 0.5).check(domain, PureDP(1.0), REPLACE)
    with pytest.raises(InvalidInput, match="two values"):
        UniformityTest(("a",)).check(Domain.coded({"a": 3}), COST, REPLACE)


# --- exactly, on tables of one column ----------------------------------------------------------------------------


def of_one(test, cost):
    """The exact audit of the tests of one column, of a row that is replaced by the other one."""

    def seen(result):
        return tuple(m.value for m in result.measured)

    pair = [Table(Domain.coded({"x": 2}), (np.array(rows),)) for rows in ([0, 0, 1], [0, 1, 1])]
    return compare(*(outcome(test, t, cost, REPLACE, 1e-5, seen, least=1e-9) for t in pair), cost)


@pytest.mark.parametrize(
    "test", [UniformityTest(("x",)), GaussianMeanTest(("x",), (0.5,), (1.0,))], ids=lambda t: t.name
)
def test_a_test_of_uniform_rows_costs_what_it_says(test):
    """A row that is replaced moves a sum of signs by 2: all of ε. The mistake: by 1, as it moves a sum of bits."""
    found = of_one(test, PureDP(1.0))
    assert not found.convicted
    assert found.epsilon > 0.99
    assert of_one(DrawsAt(PureDP(2.0), test), PureDP(1.0)).convicted


def of_the_efficient(test, cost):
    """The exact audit of the efficient tester on one column whose squared sum is near the threshold.

    What is seen is the noisy sum and why it rejects; each comparison is drawn with its exact chance.
    """

    def seen(result):
        return tuple(m.value for m in result.measured)

    pair = [Table(Domain.coded({"x": 2}), ((np.arange(400) < ones).astype(int),)) for ones in (250, 251)]
    return compare(*(outcome(test, t, cost, REPLACE, 1e-9, seen, 1e-12, Compares) for t in pair), cost)


def test_the_efficient_tester_costs_what_it_says_and_its_steps_more_than_one_of_them():
    """The mistake: (4ε, 14δ), as the text has it for ε and δ a step, taken for (ε, δ)."""
    test, cost = EfficientTester(("x",), 0.5), ApproxDP(4.0, 0.01)
    found = of_the_efficient(test, cost)
    assert not found.convicted
    assert found.epsilon > 2.0
    assert of_the_efficient(DrawsAt(ApproxDP(4 * cost.epsilon, 14 * cost.delta), test), cost).convicted
