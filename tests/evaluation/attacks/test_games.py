"""The bound on the advantage of any membership test, and that it is met."""

import numpy as np
import pytest

import qrelease as qr
from qrelease.evaluation.attacks.games import Advantage, advantage_bound, advantage_bound_of
from tests.evaluation.attacks.members import APPROX, PURE


def test_the_bound_is_that_of_the_theorem():
    assert advantage_bound(1.0) == pytest.approx((np.e - 1) / (np.e + 1))
    assert advantage_bound(0.5, 0.01) == pytest.approx((np.exp(0.5) - 1 + 0.02) / (np.exp(0.5) + 1))
    assert advantage_bound(1000.0) == 1.0
    assert advantage_bound_of(PURE) == advantage_bound(1.0)
    assert advantage_bound_of(APPROX) == advantage_bound(1.0, 1e-6)
    # Two normals one σ apart have ρ = 1/2 and a total variation distance of 0.383.
    assert 0.383 < advantage_bound_of(qr.ZCDP(0.5)) <= 0.5


def test_randomised_response_meets_the_bound():
    """Neither a bound that is too low, which would convict, nor one that is far too high."""
    rng, runs = np.random.default_rng(0), 100_000
    truthful = np.e / (1 + np.e)
    hits, false = rng.binomial(runs, truthful), rng.binomial(runs, 1 - truthful)
    found = Advantage.of(hits, false, runs, 0.99, advantage_bound(1.0))
    assert not found.convicts
    assert Advantage.of(hits, false, runs, 0.99, advantage_bound(0.9)).convicts
