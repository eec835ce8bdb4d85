"""Formulas of continuous noise against their claims."""

import math

import broken
import pytest

from qrelease.evaluation.audit import (
    audit_gaussian,
    audit_laplace,
)
from qrelease.privacy import ZCDP, ApproxDP, PureDP

ONE = PureDP(1.0)


def test_continuous_noise_is_judged_by_its_formula():
    assert audit_laplace(1.0, 0.5, PureDP(2.0)).epsilon == pytest.approx(2.0)
    assert not audit_laplace(1.0, 0.5, PureDP(2.0)).convicted
    assert audit_laplace(2.0, 1.0, PureDP(1.9)).convicted
    # δ(ε) = 1 - e^((ε - Δ/b)/2) [Balle & Wang 2018]: at ε = 1 and b = 1/2 it is 1 - e^(-1/2).
    assert not audit_laplace(1.0, 0.5, ApproxDP(1.0, -math.expm1(-0.5))).convicted
    assert audit_laplace(1.0, 0.5, ApproxDP(1.0, -math.expm1(-0.5) * 0.999)).convicted
    for epsilon, delta in ((0.1, 1e-9), (1.0, 1e-5), (8.0, 1e-3)):
        sigma = broken.right_sigma(epsilon, delta)
        found = audit_gaussian(3.0, 3 * sigma, ApproxDP(epsilon, delta))
        assert not found.convicted
        assert found.epsilon == pytest.approx(epsilon, rel=1e-6)
        assert audit_gaussian(3.0, 2.99 * sigma, ApproxDP(epsilon, delta)).convicted
    assert audit_gaussian(1.0, 2.0, ONE).convicted  # no Gaussian is pure
    assert audit_gaussian(1.0, 2.0, ZCDP(1 / 8)).rho == pytest.approx(1 / 8, rel=0.05)
    assert not audit_gaussian(1.0, 2.0, ZCDP(1 / 8)).convicted
