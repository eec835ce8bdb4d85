"""The Gaussian baseline: the variance of its noise, what it refuses, and what it promises of the worst answer."""

import math

import numpy as np
import pytest
from scipy.stats import norm
from worlds import BOTH, PEOPLE, coded, full_matrix, mixed, moved, private, random_table, true_answers

from qrelease.errors import InvalidInput
from qrelease.mechanisms.gaussian import Gaussian
from qrelease.mechanisms.laplace import Laplace
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ZCDP, ApproxDP, Neighbours, PureDP
from qrelease.queries.workload import Workload

TABLE = random_table(PEOPLE, 200, 0)
PAIRS = Workload.marginals(PEOPLE, 2)
PREDICATES = Workload.predicates(PEOPLE, "sex = F", "age in 0..39", "sex = M and grade = 1")


def released_scale(asked, cost, neighbours):
    made = Gaussian().release(private(TABLE, cost, neighbours), asked, cost)
    (scale,) = {m.noise.scale for m in made.measurements}
    return scale


@pytest.mark.parametrize("neighbours", BOTH)
@pytest.mark.parametrize("asked", [PAIRS, mixed()], ids=["pairs", "mixed"])
def test_a_rho_buys_the_squared_sensitivity_over_twice_itself(asked, neighbours):
    exact = moved(full_matrix(asked), 2, neighbours)  # squared
    found = released_scale(asked, ZCDP(0.125), neighbours) ** 2 * 2 * 0.125
    assert exact * (1 - 1e-9) <= found <= 2 * exact


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-6), (4.0, 1e-3)])
def test_an_epsilon_and_a_delta_buy_noise_that_has_just_that_delta(epsilon, delta):
    """Balle & Wang 2018, Theorem 8, for three marginals, which one record moves by √3."""
    sigma = released_scale(PAIRS, ApproxDP(epsilon, delta), Neighbours.ADD_REMOVE)

    def failure(sigma):
        half, ratio = math.sqrt(3) / (2 * sigma), epsilon * sigma / math.sqrt(3)
        return norm.cdf(half - ratio) - math.exp(epsilon) * norm.cdf(-half - ratio)

    assert failure(sigma) <= delta * (1 + 1e-6)
    assert failure(0.999 * sigma) > delta


@pytest.mark.parametrize("cost", [PureDP(1.0), ApproxDP(1.0, 0.0)])
def test_without_a_delta_it_is_refused_and_laplace_named(cost):
    for use in (
        lambda: Gaussian().check(PAIRS, cost, Neighbours.ADD_REMOVE),
        lambda: Gaussian().error(PAIRS, 200, cost, Neighbours.ADD_REMOVE, beta=0.1),
    ):
        with pytest.raises(InvalidInput, match=r"needs a delta above 0, got .*or use laplace"):
            use()


@pytest.mark.parametrize("neighbours", BOTH)
@pytest.mark.parametrize("asked", [PAIRS, PREDICATES], ids=["pairs", "predicates"])
def test_the_promise_is_kept_and_is_not_empty(asked, neighbours):
    cost, truth = ZCDP(0.5), true_answers(asked, TABLE)
    promised = Gaussian().error(asked, 200, cost, neighbours, beta=0.1)
    worst = []
    for seed in range(200):
        made = Gaussian().release(private(TABLE, cost, neighbours, Entropy.insecure(seed)), asked, cost)
        worst.append(np.abs(made.synopsis.answer(asked) - truth).max() / 200)
    assert np.mean(np.array(worst) > promised) <= 0.1 + 3 * math.sqrt(0.1 * 0.9 / 200)
    # With marginals it is that of any table, twice the noise and what the total is off by.
    assert np.quantile(worst, 0.9) > promised * (0.8 if asked is PREDICATES else 1 / 6)


def test_of_many_answers_it_promises_to_be_off_by_less_than_laplace():
    """One record is in all of 120 marginals: it moves them by 120 together, and by the root of that in L2."""
    asked, cost = Workload.marginals(coded(*[2] * 10), 3), ApproxDP(1.0, 1e-6)
    for neighbours in BOTH:
        own, other = (m.error(asked, 10_000, cost, neighbours, beta=0.05) for m in (Gaussian(), Laplace()))
        assert own < 0.6 * other
