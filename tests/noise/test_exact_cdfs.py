"""The exact cumulative probabilities enclose the true ones."""

import decimal
from decimal import Decimal
from fractions import Fraction

import pytest

from qrelease.noise import exact_cdfs


@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize("gamma", [Fraction(1, 300), Fraction(1, 3), Fraction(9)], ids=str)
@pytest.mark.parametrize("law", [exact_cdfs.laplace, exact_cdfs.gaussian])
def test_laws_enclose_the_true_thresholds(law, gamma, folded):
    with decimal.localcontext(prec=60):
        q = (-Decimal(gamma.numerator) / gamma.denominator).exp()
        weights = [q ** (v if law is exact_cdfs.laplace else v * v) * (2 if folded and v else 1) for v in range(50_000)]
        weights = weights[: next((v for v, w in enumerate(weights) if w < Decimal(2) ** -220), None)]
        total, below_v = sum(weights), Decimal(0)
        found = law(gamma, folded, 128)
        for (lo, hi), w in zip(found, weights, strict=False):
            below_v += w
            assert lo <= below_v / total * 2**128 <= hi <= lo + 2
        assert found[-1][1] == 2**128
