"""The Laplace baseline: the scale of its noise, what it spends, and what it promises of the worst answer."""

import math
from fractions import Fraction

import numpy as np
import pytest
from worlds import BOTH, PEOPLE, full_matrix, mixed, moved, private, random_table, true_answers

from qrelease.errors import InvalidInput
from qrelease.mechanisms.laplace import Laplace
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ZCDP, ApproxDP, Neighbours, PureDP
from qrelease.queries.workload import Workload

TABLE = random_table(PEOPLE, 200, 0)
PAIRS = Workload.marginals(PEOPLE, 2)
PREDICATES = Workload.predicates(PEOPLE, "sex = F", "age in 0..39", "sex = M and grade = 1")


@pytest.mark.parametrize("neighbours", BOTH)
@pytest.mark.parametrize("asked", [PAIRS, mixed(), PREDICATES], ids=["pairs", "mixed", "predicates"])
def test_the_noise_is_as_wide_as_one_record_moves_all_answers_over_epsilon(asked, neighbours):
    """The sensitivity is at least that of the dense matrix, and no more than twice it, where it is an upper bound."""
    epsilon = 0.5
    made = Laplace().release(private(TABLE, PureDP(epsilon), neighbours), asked, PureDP(epsilon))
    assert {m.noise.law for m in made.measurements} == {"discrete Laplace"}
    (scale,) = {m.noise.scale for m in made.measurements}
    exact = moved(full_matrix(asked), 1, neighbours)
    assert exact <= scale * epsilon * (1 + 1e-9)
    assert scale * epsilon <= 2 * exact


def test_of_epsilon_and_delta_it_spends_epsilon_alone():
    cost = ApproxDP(0.5, 1e-6)
    door = private(TABLE, cost)
    Laplace().release(door, PAIRS, cost)
    assert [s.cost for s in door.spends] == [PureDP(0.5)]


@pytest.mark.parametrize("use", ["check", "release", "error"])
def test_a_rho_is_refused_by_name(use):
    cost, message = ZCDP(0.1), "the Laplace baseline spends epsilon, got rho=0.1; use the Gaussian"
    uses = {
        "check": lambda: Laplace().check(PAIRS, cost, Neighbours.ADD_REMOVE),
        "release": lambda: Laplace().release(private(TABLE, cost), PAIRS, cost),
        "error": lambda: Laplace().error(PAIRS, 200, cost, Neighbours.ADD_REMOVE, beta=0.1),
    }
    with pytest.raises(InvalidInput, match=message):
        uses[use]()


@pytest.mark.parametrize("neighbours", BOTH)
@pytest.mark.parametrize("asked", [PAIRS, PREDICATES], ids=["pairs", "predicates"])
def test_the_promise_is_kept_and_is_not_empty(asked, neighbours):
    cost, truth = PureDP(1.0), true_answers(asked, TABLE)
    promised = Laplace().error(asked, 200, cost, neighbours, beta=0.1)
    worst = []
    for seed in range(200):
        made = Laplace().release(private(TABLE, cost, neighbours, Entropy.insecure(seed)), asked, cost)
        worst.append(np.abs(made.synopsis.answer(asked) - truth).max() / 200)
    assert np.mean(np.array(worst) > promised) <= 0.1 + 3 * math.sqrt(0.1 * 0.9 / 200)
    # With marginals it is that of any table, twice the noise and what the total is off by.
    assert np.quantile(worst, 0.9) > promised * (0.8 if asked is PREDICATES else 1 / 6)
    assert promised > Laplace().error(asked, 200, PureDP(2.0), neighbours, beta=0.1)
    with_delta = Laplace().error(asked, 200, ApproxDP(1.0, 1e-6), neighbours, beta=0.1)
    assert Fraction(with_delta) == Fraction(promised)
