"""Calibration: known constants, the certified side, and what is refused."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import log_ndtr

from qrelease.errors import InvalidInput
from qrelease.noise.calibration import analytic_gaussian_sigma


def delta_of(sigma, epsilon):
    """Balle & Wang's δ at sensitivity 1, in floating point."""
    a, b = 0.5 / sigma - epsilon * sigma, -0.5 / sigma - epsilon * sigma
    return math.exp(log_ndtr(a)) - math.exp(epsilon + log_ndtr(b))


# Least σ at sensitivity 1, by root-finding with 3 000 bits in mpmath.
KNOWN = [
    (1, 1e-9, "5.4952661572382961"),
    (0.1, 1e-9, "50.209818263015327"),
    (0.001, 1e-9, "4122.6297320262504"),
    (10, 1e-5, "0.49988861970900851"),
    (1000, 1e-12, "0.026138998802401468"),
    (1, 1e-300, "36.865497894111099"),
]


@pytest.mark.parametrize(("epsilon", "delta", "least"), KNOWN)
def test_analytic_sigma_is_the_least_one_rounded_up(epsilon, delta, least):
    sigma = analytic_gaussian_sigma(1, epsilon, delta)
    assert Decimal(least) <= Decimal(sigma) <= Decimal(least) * (1 + Decimal("1e-11"))
    assert analytic_gaussian_sigma(2.5, epsilon, delta) == pytest.approx(sigma * 2.5, rel=1e-14)


@pytest.mark.parametrize("epsilon", [1e-4, 0.03, 0.7, 3, 12, 80])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.01, 0.5])
def test_analytic_sigma_spends_delta_and_a_smaller_one_overspends(epsilon, delta):
    sigma = analytic_gaussian_sigma(1, epsilon, delta)
    assert delta_of(sigma, epsilon) <= delta * (1 + 1e-8)
    assert delta_of(sigma * 0.99, epsilon) > delta


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 0.5, 1e-5), "sensitivity must be positive, got 0"),
        ((1, -0.5, 1e-5), "epsilon must be positive, got -0.5"),
        ((1, math.nan, 1e-5), "epsilon must be finite, got nan"),
        ((1, True, 1e-5), "epsilon must be a number, got True"),
        ((1, 0.5, 0), "delta must be positive, got 0"),
        ((1, 0.5, 1.0), r"delta must be in \[1e-300, 1\), got 1.0"),
        ((1, 0.5, 1e-310), r"delta must be in \[1e-300, 1\), got"),
        ((1, 0.5, np.float64("nan")), "delta must be finite, got nan"),
    ],
)
def test_bad_arguments_are_one_clear_error(arguments, message):
    with pytest.raises(InvalidInput, match=message):
        analytic_gaussian_sigma(*arguments)


def test_an_epsilon_beyond_reason_is_refused():
    with pytest.raises(InvalidInput, match="epsilon must be at most 1000, got 1001"):
        analytic_gaussian_sigma(1, 1001, 1e-5)


def test_a_sigma_beyond_all_floats_is_refused():
    for arguments in ((Fraction(10**400), 0.5, 1e-5), (1e308, 1e-3, 1e-5)):
        with pytest.raises(InvalidInput, match=r"sensitivity / epsilon must be smaller: the noise would be beyond"):
            analytic_gaussian_sigma(*arguments)
    assert analytic_gaussian_sigma(Fraction(1, 10**400), 0.5, 1e-5) == 5e-324
