"""Measurements: repeated ones are averaged, the noise of a cost is an exact fraction, and what is none is refused."""

from fractions import Fraction

import numpy as np
import pytest
from worlds import (
    BOTH,
    PEOPLE,
    coded,
    mixed,
    private,
    random_table,
)

from qrelease.errors import InvalidInput
from qrelease.inference.measurement import Measurement, noise_for
from qrelease.noise.calibration import currency
from qrelease.noise.distributions import Noise
from qrelease.privacy import ZCDP, ApproxDP, Neighbours, PureDP, zcdp_of
from qrelease.queries.families import GRID
from qrelease.queries.workload import Workload


@pytest.mark.parametrize("relation", BOTH)
def test_noise_parameters_are_exact_fractions(relation):
    asked = mixed()
    moves = {o: asked.sensitivity(o, replace=relation is Neighbours.REPLACE_ONE) for o in (1, 2)}
    _, scale = noise_for(asked, PureDP(0.1), relation)
    _, variance = noise_for(asked, ZCDP(0.1), relation)
    assert scale == Fraction(moves[1]) / Fraction(GRID) / Fraction(0.1)
    assert variance == Fraction(moves[2]) / Fraction(GRID) ** 2 / (2 * Fraction(0.1))


def test_queries_that_no_record_moves_get_noise_too():
    """A single public number would be exact under replace-one; noise on it costs nothing and keeps the code honest."""
    law, scale = noise_for(Workload.marginals(coded(1), 1), PureDP(1.0), Neighbours.REPLACE_ONE)
    assert (law.scale, scale) == (1.0, 1)


@pytest.mark.parametrize("cost", [ApproxDP(1.0, 0.0), 1.0, None])
def test_only_a_cost_buys_noise(cost):
    with pytest.raises(InvalidInput, match=r"delta above 0|cost must be"):
        noise_for(mixed(), cost, Neighbours.ADD_REMOVE)


@pytest.mark.parametrize("cost", [PureDP(1e-310), ZCDP(1e-310)])
def test_a_cost_that_buys_nothing_is_an_error_in_words(cost):
    with pytest.raises(InvalidInput):
        private(random_table(PEOPLE, 5, 0), cost).measure(mixed(), cost)


def test_currency():
    assert currency(PureDP(0.3)) == PureDP(0.3)
    assert currency(ZCDP(0.3)) == ZCDP(0.3)
    assert currency(ApproxDP(1.0, 1e-9)) == zcdp_of(ApproxDP(1.0, 1e-9))
    with pytest.raises(InvalidInput, match="delta"):
        currency(ApproxDP(1.0, 0.0))


def test_repeated_measurements_are_averaged():
    asked = Workload.marginals(coded(3), 1)
    door = private(random_table(asked.domain, 30, 0), PureDP(3.0))
    (a,), (b,), (c,) = (door.measure(asked, PureDP(1.0)) for _ in range(3))
    both = a.averaged(b).averaged(c)
    np.testing.assert_allclose(both.values, (a.values + b.values + c.values) / 3)
    assert (both.repeats, both.group, both.noise) == (3, a.group, a.noise)
    assert both.variance == pytest.approx(a.variance / 3)
    np.testing.assert_allclose(c.averaged(a.averaged(b)).values, both.values)


def test_different_measurements_are_not_averaged():
    asked = Workload.marginals(coded(3, 3), 1)
    door = private(random_table(asked.domain, 30, 0))
    (a, other), (finer, _) = door.measure(asked, PureDP(1.0)), door.measure(asked, PureDP(2.0))
    for wrong in (other, finer):
        with pytest.raises(InvalidInput, match="one group under one law"):
            a.averaged(wrong)


def test_a_measurement_of_its_own():
    group = Workload.marginals(coded(2), 1).groups[0]
    m = Measurement(group, np.array([3.0, 4.0]), Noise("discrete Gaussian", 2.0), 4)
    assert m.variance == 1.0
