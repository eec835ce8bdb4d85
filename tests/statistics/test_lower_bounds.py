"""Lower bounds: no mechanism beats them, and the attack behind them works where a mean is too accurate."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

import qrelease as qr
from qrelease.errors import InvalidInput
from qrelease.privacy import ZCDP, ApproxDP, Neighbours, PureDP
from qrelease.statistics.lower_bounds import _by_fingerprints, least_error, mean_bound, mean_rate, sparse_mean_rate
from tests.evaluation.attacks.traced_means import D, N, game, sigma


@pytest.mark.parametrize("rho", [1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0])
def test_the_gaussian_mechanism_does_not_beat_the_bound(rho):
    rng = np.random.default_rng(0)
    errors = np.mean([game(sigma(rho), rng)[1] for _ in range(20)])
    assert mean_bound(D, N, ZCDP(rho)) <= errors * 1.02


def test_rates_grow_as_they_are_printed():
    cost = ApproxDP(1.0, 1e-6)
    first, second = 100 / 500, 100**2 * math.log(1e6) / 500**2
    assert mean_rate(100, 500, cost) == pytest.approx(first + second)
    assert mean_rate(100, 500, cost, 2.0) == pytest.approx(4 * (first + second))
    assert mean_rate(10, 10**6, PureDP(1.0)) == pytest.approx(1e-5 + 1e-9)
    assert sparse_mean_rate(10_000, 5, 1000, cost) < mean_rate(10_000, 1000, cost) / 1e4


def test_the_bound_falls_to_that_without_privacy():
    for d, n in ((10, 100), (1000, 100)):
        free = 2 * d / (3 * (n + 2))
        assert mean_bound(d, n, PureDP(50.0)) == pytest.approx(free)
        costs = [ZCDP(r) for r in (1e-5, 1e-3, 1e-1, 10.0)]
        bounds = [mean_bound(d, n, cost) for cost in costs]
        assert bounds == sorted(bounds, reverse=True)
        added = mean_bound(d, n, ZCDP(1e-3), Neighbours.ADD_REMOVE)
        assert added == mean_bound(d, n, ZCDP(4e-3)) <= mean_bound(d, n, ZCDP(1e-3))
    assert mean_bound(1000, 100, ApproxDP(0.1, 0.4), Neighbours.ADD_REMOVE) >= 2000 / 306


REPLACE, ADD = Neighbours.REPLACE_ONE, Neighbours.ADD_REMOVE


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("delta", [0.0, 0.25])
def test_one_bit_has_exactly_the_error_of_randomised_response(epsilon, delta):
    """It tells the bit with probability δ, and else lies with probability 1/(1 + e^ε): the best guess is the mean."""
    lie = 1 / (1 + math.exp(epsilon))
    best = math.sqrt((1 - delta) * lie * (1 - lie))
    assert least_error([1.0], 1, ApproxDP(epsilon, delta), REPLACE) == pytest.approx(best)


@pytest.mark.parametrize("rho", [0.001, 0.1, 0.5])
def test_of_one_record_the_gaussian_mechanism_does_not_beat_the_bound_and_nearly_reaches_it(rho):
    sigma = 1 / math.sqrt(2 * rho)

    def overlap(y):
        p, q = norm.pdf(y, 0, sigma), norm.pdf(y, 1, sigma)
        return p * q / (p + q)

    best = math.sqrt(quad(overlap, -9 * sigma, 1 + 9 * sigma)[0] / 2)
    assert 0.85 * best <= least_error([1.0], 1, ZCDP(rho), REPLACE) <= best
    if rho == 0.001:
        assert least_error([1.0], 1, ZCDP(rho), REPLACE) == pytest.approx(best, rel=1e-3)


@pytest.mark.parametrize("of_records", [True, False])
@pytest.mark.parametrize("cost", [ZCDP(1e-4), ApproxDP(0.01, 1e-6), PureDP(0.02)])
def test_fingerprints_give_the_error_at_which_the_third_step_holds_with_equality(cost, of_records):
    d, n = 400, 100
    c, delta = {
        ZCDP(1e-4): (math.sqrt(math.expm1(2e-4)), 0.0),
        ApproxDP(0.01, 1e-6): (math.sinh(0.01), 1e-6),
        PureDP(0.02): (math.sinh(0.02), 0.0),
    }[cost]
    found = _by_fingerprints(d, n, cost, REPLACE, of_records=of_records)
    other = found + math.sqrt(2 / (3 * n))
    alpha, beta = (other, found) if of_records else (found, other)
    assert found > 0.1
    assert d * (1 / 3 - beta**2) == pytest.approx(n * (c * math.sqrt(d) * alpha + 8 * delta * d))


@pytest.mark.parametrize("rho", [1e-4, 1e-2, 0.1])
@pytest.mark.parametrize("d", [1, 30, 1000])
def test_the_bound_is_a_good_part_of_what_the_gaussian_mechanism_does(rho, d):
    n = 10_000
    achieved = math.sqrt(d) * 2 / n / math.sqrt(2 * rho)
    assert achieved / 20 <= least_error([2.0] * d, n, ZCDP(rho), REPLACE) <= achieved / 2


def test_the_least_error_grows_with_the_width_the_privacy_and_fewer_records():
    found = least_error([3.0], 1000, PureDP(0.1), REPLACE)
    assert least_error([6.0], 1000, PureDP(0.1), REPLACE) == pytest.approx(2 * found)
    assert least_error([3.0], 100, PureDP(0.1), REPLACE) > 5 * found
    assert least_error([3.0], 1000, PureDP(0.01), REPLACE) > 5 * found
    assert least_error([3.0], 10, PureDP(1000.0), REPLACE) < 1e-100
    many = [1.0] * 100
    assert least_error(many, 1000, ZCDP(0.001), REPLACE) > least_error([1.0], 1000, ZCDP(0.001), REPLACE)
    # One column that can be anything does not make the others any harder.
    assert least_error([1.0, 1e-9], 1000, PureDP(0.1), REPLACE) == pytest.approx(
        least_error([1.0], 1000, PureDP(0.1), REPLACE) / math.sqrt(2)
    )
    for widths in ([], [0.0], [-1.0], [math.nan]):
        with pytest.raises(InvalidInput):
            least_error(widths, 10, PureDP(1.0), REPLACE)


def test_where_records_come_and_go_the_worst_table_has_them_all_at_one_end():
    assert least_error([1.0], 1000, PureDP(1.0), ADD) == pytest.approx(
        least_error([1.0], 1000, PureDP(1.0), REPLACE), rel=0.01
    )


MEANS = [
    *(qr.Mean("x"), qr.TextbookMean("x"), qr.ClippedMean("x"), qr.QuantileMean("x"), qr.SparseVectorMean("x")),
    *(qr.TruncatedMean(("x", "y")), qr.VectorMean(("x", "y")), qr.SparseMean(1), qr.PeelingMean(1)),
]


@pytest.mark.parametrize("statistic", MEANS, ids=lambda s: s.name)
@pytest.mark.parametrize("neighbours", [ADD, REPLACE])
def test_every_estimate_of_means_says_what_none_undercuts_and_has_more(statistic, neighbours):
    """More than 1.3 times as much, so that a bound of which a third is too much fails."""
    rng = np.random.default_rng(0)
    table = qr.Table(qr.Domain.coded({"x": 50, "y": 100}), (rng.integers(0, 50, 4000), rng.integers(0, 100, 4000)))
    cost = ApproxDP(1.0, 1e-6)
    if isinstance(statistic, qr.TextbookMean | qr.SparseVectorMean):
        cost = PureDP(1.0)
    with qr.Ledger.open(None, cost, dataset="people", neighbours=neighbours) as ledger:
        found = qr.Curator(table, ledger, qr.Entropy.insecure(1)).estimate(statistic, cost)
    assert 0 < 1.3 * found.least_error < found.typical
    assert f"least     {found.least_error:.6g}" in str(found)
    assert "least error" in found.html()
    assert qr.Estimate.from_json(found.to_json()) == found
    older = {name: value for name, value in found.to_json().items() if name != "least_error"}
    assert qr.Estimate.from_json(older).least_error is None


def test_what_is_no_mean_has_no_such_bound():
    table = qr.Table(qr.Domain.coded({"x": 50}), (np.arange(4000) % 50,))
    with qr.Ledger.open(None, PureDP(1.0), dataset="people") as ledger:
        found = qr.Curator(table, ledger, qr.Entropy.insecure(1)).estimate(qr.Quantile("x"), PureDP(1.0))
    assert found.least_error is None
    assert "least" not in str(found)
    assert "least error" not in found.html()
