"""Tracing from a mean: it finds people where a mean is too accurate, and nobody where it is private."""

import math

import numpy as np
import pytest

from qrelease.privacy import PureDP
from qrelease.statistics.lower_bounds import mean_bound
from tests.evaluation.attacks.traced_means import D, N, game, sigma


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
