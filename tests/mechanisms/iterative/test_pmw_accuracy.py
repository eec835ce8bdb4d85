"""The error bound of private multiplicative weights: its inequalities, against the exact tails of the noise."""

import math

import pytest
from worlds import BOTH, coded

from qrelease.mechanisms.iterative import pmw_accuracy
from qrelease.noise.sparse_vector import NumericSparse
from qrelease.privacy import ApproxDP, Neighbours, PureDP

ONE, APPROX = PureDP(1.0), ApproxDP(1.0, 1e-9)
DOMAIN = coded(4, 4)
RECORDS = 400_000


@pytest.mark.parametrize("neighbours", BOTH)
@pytest.mark.parametrize("cost", [ONE, APPROX])
def test_the_noise_keeps_what_is_said_of_it(cost, neighbours):
    """a, and what numbers are off by, are no less than what the exact tails of the discrete noise say."""
    for queries in (1, 50, 10**6):
        setting = pmw_accuracy.PMWSetting.of(DOMAIN, queries, 0.05, cost, neighbours, RECORDS)
        terms = setting.terms(None)
        calibration = NumericSparse.calibrate(terms.cost, terms.updates, 1 << 20)
        exact = max(calibration.alpha(2 * queries, setting.beta / 2))
        assert exact <= setting.inaccuracy(terms.alpha, terms.cost) * 2**20 + 2
        assert calibration.numeric_alpha(setting.beta / 2) <= terms.measured_error * 2**20
        assert terms.measured_error <= 3 * setting.room(terms.alpha)
        assert 0 <= setting.surplus(terms.alpha) < 1e-3


def test_the_proofs_inequalities_hold_for_a_noisy_number_of_records():
    """⊥ is within 3αn and ⊤ has a gap of αn at least, wherever n is within m of ñ."""
    setting = pmw_accuracy.PMWSetting.of(DOMAIN, 50, 0.05, ONE, Neighbours.ADD_REMOVE, RECORDS)
    for alpha in (setting.least(), 0.3, 0.9):
        terms, a, m = setting.terms(alpha), setting.room(alpha), setting.miss
        t = terms.threshold / 2**20
        for n in (RECORDS - m, RECORDS, RECORDS + m):
            assert t + a <= 3 * alpha * n * (1 + 1e-12)
            assert t - a - m >= alpha * n * (1 - 1e-12)
    assert setting.miss == pytest.approx(
        math.log(1 / (0.05 * pmw_accuracy.COUNT_SHARE)) / pmw_accuracy.COUNT_SHARE, abs=2
    )
