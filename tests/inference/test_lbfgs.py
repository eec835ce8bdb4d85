"""The two loops of L-BFGS: against the matrix of the BFGS update, written out."""

import numpy as np
import pytest

from qrelease.inference.lbfgs import two_loops


def updated(inverse, step, change):
    """The inverse curvature after one pair (Nocedal & Wright 2006, equation 6.17)."""
    rho, one = 1 / (step @ change), np.eye(len(step))
    left = one - rho * np.outer(step, change)
    return left @ inverse @ left.T + rho * np.outer(step, step)


@pytest.fixture
def curvature():
    """A symmetric matrix with eigenvalues above 0."""
    root = np.random.default_rng(5).normal(size=(7, 7))
    return root @ root.T + np.eye(7)


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("kept", [0, 1, 4])
def test_the_two_loops_apply_the_updated_matrix(curvature, kept, scaled):
    rng = np.random.default_rng(kept)
    pairs = [(s, curvature @ s) for s in rng.normal(size=(kept, 7))]
    first, gradient = np.diag(rng.uniform(0.5, 2, 7)), rng.normal(size=7)
    matrix = first
    if pairs and scaled:
        step, change = pairs[-1]
        matrix = first * (step @ change) / (change @ first @ change)
    for pair in pairs:
        matrix = updated(matrix, *pair)
    before = gradient.copy()
    found = two_loops(gradient, lambda v: first @ v, pairs, scaled=scaled)
    np.testing.assert_allclose(found, matrix @ gradient, rtol=1e-10)
    np.testing.assert_array_equal(gradient, before)


def test_the_last_pair_is_solved_exactly(curvature):
    """The secant condition: the change of the gradient along the last step is answered by that step."""
    pairs = [(s, curvature @ s) for s in np.random.default_rng(1).normal(size=(3, 7))]
    step, change = pairs[-1]
    np.testing.assert_allclose(two_loops(change, lambda v: v.copy(), pairs, scaled=True), step, rtol=1e-9)
    assert np.abs(two_loops(pairs[0][1], lambda v: v.copy(), pairs, scaled=True) - pairs[0][0]).max() > 1e-3
