"""Exact reals: enclosures of exponentials and of a logarithm."""

import decimal
from decimal import Decimal
from fractions import Fraction

import pytest

from qrelease.noise.exact_reals import exp_negative, log2e


@pytest.mark.parametrize("x", ["0", "1e-9", "0.3", "1", "17.25", "300", "12345.678"])
@pytest.mark.parametrize("bits", [1, 64, 300])
def test_exponentials_are_enclosed_tightly(x, bits):
    with decimal.localcontext(prec=200):
        true = Decimal(-Decimal(x)).exp() * 2**bits
    lo, hi = exp_negative(Fraction(x), bits)
    assert lo <= true <= hi <= lo + 2


def test_log2e():
    with decimal.localcontext(prec=100):
        assert abs(log2e(200) - 2**200 / Decimal(2).ln()) < 1
