"""What the signs of two columns tell of their marginal, next to Gaussian conditioning written out."""

import numpy as np
import pytest

from qrelease.inference import signs as sign_pairs
from qrelease.inference.measurement import Measurement
from qrelease.noise.distributions import Noise
from qrelease.queries.products import IntegerRows, Product
from qrelease.queries.workload import Group

FIRST, SECOND = np.array([1, 1, -1]), np.array([-1, 1, 1, -1])


def measured(agreement, scale):
    """The signs agree so much more often than not, with noise of this scale."""
    rows = tuple(IntegerRows(signs[None, :], 1.0) for signs in (FIRST, SECOND))
    return Measurement(Group((0, 1), Product(rows)), np.array([float(agreement)]), Noise("discrete Gaussian", scale))


def test_a_cell_is_in_the_class_of_its_columns_signs():
    assert sign_pairs.classes(measured(0, 1.0)).reshape(3, 4).tolist() == [[1, 0, 0, 1], [1, 0, 0, 1], [3, 2, 2, 3]]


def test_the_best_estimate_is_that_of_gaussian_conditioning():
    """Of the residual of the pair, whose noise has the same variance in every direction beyond the columns' sums."""
    table, noise, signs = np.random.default_rng(0).normal(50, 20, (3, 4)), 90.0, measured(140, 12.0)
    beyond = [np.eye(n) - 1 / n for n in (3, 4)]
    covariance = noise * np.kron(*beyond)
    row = np.outer(FIRST, SECOND).reshape(-1).astype(float)
    varies = row @ covariance @ row + signs.variance
    off = 140 - row @ table.reshape(-1)
    wanted = table.reshape(-1) + covariance @ row * off / varies
    left = row @ covariance @ row - (row @ covariance @ row) ** 2 / varies
    found, variance = sign_pairs.with_signs(table, noise, signs)
    assert found.reshape(-1) == pytest.approx(wanted)
    assert variance == pytest.approx(left)
    assert found.sum(axis=0) == pytest.approx(table.sum(axis=0))


EVEN = np.array([360.0, 240.0, 240.0, 160.0])
RECORDS = EVEN + np.array([100.0, -100.0, -100.0, 100.0])


@pytest.mark.parametrize(
    ("noise", "omega", "share"),
    [
        pytest.param(1e-9, 1.0, 1.0, id="what is known exactly is believed"),
        pytest.param(1e12, 1e-9, 0.0, id="what is all noise is not"),
    ],
)
def test_what_signs_tell_is_held_back_by_their_noise(noise, omega, share):
    found = sign_pairs.ratios(RECORDS, EVEN, noise, omega) * EVEN
    assert found == pytest.approx(EVEN + share * (RECORDS - EVEN), rel=1e-4)


def test_what_signs_tell_leaves_each_half_of_a_column_as_it_is():
    far = EVEN + np.array([-380.0, 250.0, 260.0, -130.0])  # a class with less than nothing, and sums that are off
    found = (sign_pairs.ratios(far, EVEN, 400.0, 2.0) * EVEN).reshape(2, 2)
    assert (found > 0).all()
    for axis in (0, 1):
        assert found.sum(axis=axis) == pytest.approx(EVEN.reshape(2, 2).sum(axis=axis), rel=1e-4)
    assert found[0, 0] == pytest.approx(200, abs=5)  # the fewest that these sums allow
