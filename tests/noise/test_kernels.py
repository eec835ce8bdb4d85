"""The kernels under the samplers: bounds of their rounding errors."""

import math
from fractions import Fraction

import numpy as np
import pytest

from qrelease.noise.exact_reals import exp_negative
from qrelease.noise.kernels import WEIGHT_ERROR, rate, weight


@pytest.mark.parametrize(
    "gamma", [Fraction(1, 2**90), Fraction(1, 2**63), Fraction(3, 10**9), Fraction(1, 7), Fraction(43), Fraction(9**40)]
)
def test_weights_are_within_their_error_bound(gamma):
    kappa, rng = rate(gamma), np.random.default_rng(1)
    cut = int(kappa[0])
    spread = [int(cut * f) for f in rng.random(300)] + [int(math.exp(f * math.log(cut + 1))) for f in rng.random(300)]
    for d in [0, 1, cut, min(cut + 1, 2**64 - 1), 2**64 - 1, *spread]:
        lo, hi = exp_negative(gamma * d, 63)
        assert lo - WEIGHT_ERROR <= int(weight(np.uint64(d), kappa)) <= hi + WEIGHT_ERROR
    assert int(weight(np.uint64(0), kappa)) == 2**63
