"""Lower bounds: no mechanism beats them, and the attack behind them works where a mean is too accurate."""

import math

import numpy as np
import pytest

from qrelease.evaluation.attacks.mean_tracing import trace
from qrelease.privacy import ZCDP, ApproxDP, Neighbours, PureDP
from qrelease.statistics.lower_bounds import mean_bound, mean_rate, sparse_mean_rate

D, N = 600, 60


def signs(n, means, rng):
    return np.where(rng.random((n, len(means))) < (1 + means) / 2, 1, -1)


def game(noise, rng, d=D, n=N):
    """A mean published with noise of that standard deviation in each coordinate, and what is traced from it."""
    means = rng.uniform(-1, 1, d)
    rows, others = signs(n, means, rng), signs(300, means, rng)
    published = rows.mean(axis=0) + rng.normal(0, noise, d)
    return trace(published, rows, others, means), float(((np.clip(published, -1, 1) - means) ** 2).sum())


def sigma(rho, d=D, n=N):
    """Of the Gaussian mechanism on the mean, one row being replaced."""
    return 2 * math.sqrt(d) / n / math.sqrt(2 * rho)


@pytest.mark.parametrize("rho", [1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0])
def test_the_gaussian_mechanism_does_not_beat_the_bound(rho):
    rng = np.random.default_rng(0)
    errors = np.mean([game(sigma(rho), rng)[1] for _ in range(20)])
    assert mean_bound(D, N, ZCDP(rho)) <= errors * 1.02


@pytest.mark.parametrize("noise", [0.0, 0.3, 1.0, 3.0])
def test_the_scores_sum_to_what_the_lemma_says(noise):
    rng = np.random.default_rng(1)
    found = [game(noise, rng, n=20)[0] for _ in range(60)]
    assert np.mean([f.total for f in found]) >= np.mean([f.floor for f in found]) - 0.01 * D


def test_the_attack_succeeds_below_the_bound_and_fails_above():
    rng = np.random.default_rng(2)
    below = [game(0.0, rng) for _ in range(10)]
    assert np.mean([found.advantage for found, _ in below]) > 0.5
    # No mean of so small an error is private at ε = 0.2: the bound says so, and the attack shows it.
    assert np.mean([error for _, error in below]) < mean_bound(D, N, PureDP(0.2))
    above = [game(sigma(0.005), rng)[0] for _ in range(20)]
    assert np.mean([f.advantage for f in above]) < 0.1
    assert np.mean([f.outside for f in above]) == pytest.approx(0.05, abs=0.03)


def test_a_private_mean_traces_nobody_beyond_what_its_cost_allows():
    """(e^ε − 1)/(e^ε + 1) is the largest advantage; ρ = 0.02 is (1, 1e-5) and more."""
    rng = np.random.default_rng(3)
    found = [game(sigma(0.02), rng)[0].advantage for _ in range(20)]
    assert np.mean(found) < (math.e - 1) / (math.e + 1)


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
