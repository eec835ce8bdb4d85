"""The projection onto distributions."""

import cvxpy
import numpy as np
import pytest

from qrelease._util.simplex import nearest_distribution


@pytest.mark.parametrize("seed", range(5))
def test_no_distribution_is_nearer(seed):
    given = np.random.default_rng(seed).normal(0.1, 0.3, 10)
    found = cvxpy.Variable(10, nonneg=True)
    cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(found - given)), [cvxpy.sum(found) == 1]).solve(cvxpy.CLARABEL)
    np.testing.assert_allclose(nearest_distribution(given), found.value, atol=1e-6)


def test_a_distribution_is_its_own():
    given = np.array([0.5, 0.0, 0.25, 0.25])
    np.testing.assert_allclose(nearest_distribution(given), given)
