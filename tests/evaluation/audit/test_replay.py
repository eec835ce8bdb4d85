"""Replays: one seed twice, and how far outputs move."""

from fractions import Fraction

import numpy as np
import pytest

from qrelease.errors import InvalidInput
from qrelease.evaluation.audit import (
    audit_sensitivity,
)
from qrelease.noise.samplers import discrete_laplace


def test_a_replay_needs_a_mechanism_that_draws_from_its_source_only_and_has_one_shape():
    rng = np.random.default_rng(1)
    with pytest.raises(InvalidInput, match="must draw all its randomness from the entropy it is given"):
        audit_sensitivity(lambda data, entropy: rng.normal(), [(0, 1)], 1.0)
    with pytest.raises(InvalidInput, match=r"one shape to be compared, got \(1,\) and \(2,\)"):
        audit_sensitivity(lambda data, entropy: np.zeros(data), [(1, 2)], 1.0)


def test_replay_measures_in_both_norms():
    def noisy(data, entropy):
        return data + discrete_laplace(Fraction(10), 4, entropy)

    pair = np.zeros(4, int), np.array([3, 0, -4, 0])
    assert audit_sensitivity(noisy, [pair], 7).found == 7
    found = audit_sensitivity(noisy, [(pair[0], pair[0]), pair], 4.9, order=2)
    assert (found.found, found.pair, found.convicted) == (5, 1, True)
