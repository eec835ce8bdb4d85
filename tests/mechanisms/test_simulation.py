"""Stand-in tables are public, and what is simulated on them is the worst error."""

import numpy as np
import pytest
from worlds import PEOPLE, true_answers

import qrelease as qr
from qrelease.errors import TooLarge
from qrelease.mechanisms.laplace import Laplace
from qrelease.mechanisms.simulation import Simulation, stand_in
from qrelease.privacy import PureDP
from tests.mechanisms.chosen import PAIRS, SWAP, errors


def test_the_stand_in_is_public_and_always_the_same():
    one, two = stand_in(PEOPLE, 1000), stand_in(PEOPLE, 1000)
    assert len(one) == 1000
    assert all((a == b).all() for a, b in zip(one.columns, two.columns, strict=True))
    with pytest.raises(TooLarge, match="too many to be made up"):
        stand_in(PEOPLE, 1 << 24)


def test_a_trial_measures_the_errors_of_all_answers():
    simulation = Simulation.of(PAIRS, 2000)
    truth = true_answers(PAIRS, simulation.table)
    np.testing.assert_array_equal(simulation.answers, truth)
    found = errors(Laplace(), simulation.table, PAIRS, PureDP(1.0), SWAP, 3)
    worst = [np.abs(simulation.trial(Laplace(), PureDP(1.0), SWAP, seed)).max() / 2000 for seed in range(3)]
    np.testing.assert_allclose(worst, found)
    session = simulation.trial(qr.PrivateMultiplicativeWeights(queries=16), PureDP(100.0), SWAP, 0)
    assert 0 < np.abs(session).max() < 1000
