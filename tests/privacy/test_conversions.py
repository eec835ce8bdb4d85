"""Conversions between definitions against independent computations, most of them in 60-digit decimals."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from decimals import bound_epsilon, bound_log_delta, least
from hypothesis import given
from hypothesis import strategies as st

from qrelease.errors import InvalidInput
from qrelease.privacy import (
    ZCDP,
    ApproxDP,
    PureDP,
    em_to_zcdp,
    gaussian_delta,
    gaussian_variance,
    gaussian_zcdp,
    pure_to_zcdp,
    zcdp_delta,
    zcdp_epsilon,
    zcdp_of,
)
from qrelease.privacy.conversions import guessing_chance

pytestmark = pytest.mark.usefixtures("sixty_digits")

FEW_ULPS = 1 + Decimal(2) ** -40


@pytest.mark.parametrize("rho", [1e-8, 1.7e-4, 0.05, 0.5, 3.0, 1e3])
@pytest.mark.parametrize("delta", [1e-100, 1e-9, 1e-6, 0.01, 0.4])
def test_zcdp_epsilon_is_the_minimum_rounded_up(rho: float, delta: float) -> None:
    truth = max(least(lambda a: bound_epsilon(a, rho, delta)), Decimal(0))
    size = Decimal(rho) + abs(Decimal(delta).ln()) * Decimal("1e-14")  # where the terms cancel
    assert truth <= Decimal(zcdp_epsilon(rho, delta)) <= truth * FEW_ULPS + size * Decimal(2) ** -40


@pytest.mark.parametrize("rho", [1e-8, 1.7e-4, 0.05, 0.5, 3.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.01, 0.3, 1.0, 8.0])
def test_zcdp_delta_is_the_minimum_rounded_up(rho: float, epsilon: float) -> None:
    log = least(lambda a: bound_log_delta(a, rho, epsilon))
    truth = min(log.exp(), Decimal(1))
    slack = 1 + Decimal(2) ** -40 * max(1, -log)
    assert truth <= Decimal(zcdp_delta(rho, epsilon)) <= max(truth * slack, Decimal("5e-324"))


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 10.0, 300.0])
@pytest.mark.parametrize("delta", [1e-200, 1e-9, 1e-5, 0.1, 0.9])
def test_zcdp_of_is_the_inverse_rounded_down(epsilon: float, delta: float) -> None:
    rho = zcdp_of(ApproxDP(epsilon, delta)).rho
    assert least(lambda a: bound_epsilon(a, rho, delta)) <= Decimal(epsilon)
    assert least(lambda a: bound_epsilon(a, rho * (1 + 2**-36), delta)) > Decimal(epsilon)


def test_zcdp_anchors() -> None:
    assert zcdp_epsilon(0.05, 1e-6) == pytest.approx(1.4715947505, rel=1e-9)
    assert 0.05 + 2 * math.sqrt(0.05 * math.log(1e6)) == pytest.approx(1.712, abs=5e-4)  # the simple conversion
    sigma = gaussian_variance(1, zcdp_of(ApproxDP(1.0, 1e-9))) ** 0.5
    assert float(sigma) == pytest.approx(5.78, abs=5e-3)


@given(st.floats(1e-300, 1e300), st.floats(0, 1e300), st.floats(5e-324, 1, exclude_max=True))
def test_zcdp_conversions_hold_at_the_extremes(rho: float, epsilon: float, delta: float) -> None:
    simple = rho + 2 * math.sqrt(rho * -math.log(delta))
    assert 0 <= zcdp_epsilon(rho, delta) <= simple * (1 + 1e-9) + 1e-100
    assert 0 < zcdp_delta(rho, epsilon) <= 1


def test_zcdp_of_needs_a_delta() -> None:
    with pytest.raises(InvalidInput, match="delta must be above 0"):
        zcdp_of(ApproxDP(1.0, 0.0))
    for bad in (0.0, 1.0, -1.0, math.nan, True):
        with pytest.raises(InvalidInput, match="delta must be"):
            zcdp_epsilon(0.1, bad)
    with pytest.raises(InvalidInput, match="epsilon must not be negative"):
        zcdp_delta(0.1, -1.0)
    for wrong in (PureDP(1.0), ZCDP(1.0), 1.0):
        with pytest.raises(InvalidInput, match="the cost must be ApproxDP"):
            zcdp_of(wrong)  # type: ignore[arg-type]


def erf(x: Decimal) -> Decimal:
    """By its Taylor series with 130 digits, for |x| up to 12."""
    with localcontext() as context:
        context.prec = 130
        term, total, n = x, x, 0
        while abs(term) > Decimal("1e-125") * max(abs(total), Decimal(1)):
            n += 1
            term = -term * x * x / n
            total += term / (2 * n + 1)
        pi = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803")
        return 2 * total / pi.sqrt()


def exact_gaussian_delta(ratio: float, epsilon: float) -> Decimal:
    m, e = Decimal(ratio), Decimal(epsilon)
    with localcontext() as context:
        context.prec = 130
        phi = lambda x: (1 + erf(x / Decimal(2).sqrt())) / 2  # noqa: E731
        return phi(m / 2 - e / m) - e.exp() * phi(-m / 2 - e / m)


@pytest.mark.parametrize(
    ("sensitivity", "sigma", "epsilon"),
    [
        (1, 50.2, 0.1),
        (1, 5.5, 1.0),
        (1, 1.0, 5.0),
        (2, 0.5, 1.0),
        (1, 10.0, 0.0),
        (3, 1.0, 12.0),
        (1, 1000.0, 0.001),
    ],
)
def test_gaussian_delta_against_130_digits(sensitivity: float, sigma: float, epsilon: float) -> None:
    truth = exact_gaussian_delta(sensitivity / sigma, epsilon)
    ours = Decimal(gaussian_delta(sensitivity, sigma, epsilon))
    assert truth <= ours <= truth * (1 + Decimal(2) ** -30)


def test_gaussian_delta_is_rounded_up_where_its_terms_underflow() -> None:
    assert exact_gaussian_delta(1 / 1.881237390017764, 20.467462309879064) > Decimal("1e-322")
    assert gaussian_delta(1, 1.881237390017764, 20.467462309879064) > 1e-308


@pytest.mark.parametrize("rho", [1e-3, 0.015, 0.5, 5.0])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 2.0, 10.0])
def test_the_zcdp_bound_covers_the_gaussian_and_is_near_it(rho: float, epsilon: float) -> None:
    exact, bound = gaussian_delta(1, 1 / math.sqrt(2 * rho), epsilon), zcdp_delta(rho, epsilon)
    assert exact <= max(bound, 2.3e-308)
    if bound > 1e-250:
        assert bound < 12 * exact
    if 1e-250 < bound < 1e-10:  # power: it would not cover a rho larger by 30 %
        assert gaussian_delta(1, 1 / math.sqrt(2 * rho * 1.3), epsilon) > bound


def test_gaussian_figures_of_the_design() -> None:
    """At delta = 1e-9 the exact Gaussian needs sigma 50.2 at epsilon 0.1 and 5.50 at 1."""
    for sigma, epsilon in ((50.22, 0.1), (5.50, 1.0)):
        assert gaussian_delta(1, sigma, epsilon) < 1e-9 < gaussian_delta(1, sigma * 0.998, epsilon)


# Definitions to zCDP: Rényi divergences of the worst cases
def renyi(p: np.ndarray, q: np.ndarray, alpha: float) -> float:
    return float(np.log(np.sum(p * np.exp((alpha - 1) * np.log(p / q)))) / (alpha - 1))


ALPHAS = [1.0001, 1.5, 2.0, 5.0, 20.0, 100.0]


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.5, 1.0, 3.0])
def test_pure_dp_is_half_its_square(epsilon: float) -> None:
    p = np.array([math.exp(epsilon), 1.0]) / (1 + math.exp(epsilon))
    rho = pure_to_zcdp(PureDP(epsilon)).rho
    assert Fraction(rho) >= Fraction(epsilon) ** 2 / 2 > Fraction(rho) * (1 - Fraction(1, 2**51))
    assert all(renyi(p, p[::-1], a) <= a * rho * (1 + 1e-9) for a in ALPHAS)
    if epsilon <= 1:
        assert any(renyi(p, p[::-1], a) > a * rho / 1.3 for a in ALPHAS)


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.5, 1.0, 3.0])
def test_a_bounded_range_is_an_eighth_of_its_square(epsilon: float) -> None:
    """Bernoulli pairs whose two losses differ by exactly epsilon: the worst case of a bounded range."""
    rho = em_to_zcdp(PureDP(epsilon)).rho
    assert Fraction(rho) >= Fraction(epsilon) ** 2 / 8 > Fraction(rho) * (1 - Fraction(1, 2**51))
    worst = 0.0
    for shift in np.linspace(0.01, 0.99, 99) * epsilon:  # losses: shift − epsilon and shift
        up = math.expm1(epsilon - shift) / math.expm1(epsilon) * math.exp(shift)
        p = np.array([up, 1 - up])
        q = p * np.exp([-shift, epsilon - shift])
        assert q.sum() == pytest.approx(1)
        worst = max([worst] + [renyi(p, q, a) / a for a in ALPHAS])
    assert rho / 1.3 < worst <= rho * (1 + 1e-9)
    responses = np.array([math.exp(epsilon), 1.0]) / (1 + math.exp(epsilon))
    assert renyi(responses, responses[::-1], 1.5) > 1.5 * rho  # which has no such range


@pytest.mark.parametrize("sigma", [0.4, 1.0, 3.7])
def test_gaussian_zcdp_holds_for_the_discrete_gaussian(sigma: float) -> None:
    rho = gaussian_zcdp(1, sigma).rho
    assert rho == pytest.approx(1 / (2 * sigma**2), rel=1e-15)
    y = np.arange(-300, 301)
    p, q = (np.exp(np.maximum(-((y - shift) ** 2) / (2 * sigma**2), -600)) for shift in (0, 1))
    p, q = p / p.sum(), q / q.sum()
    worst = max(renyi(p, q, a) / a for a in ALPHAS[:4])
    assert rho / 1.3 < worst <= rho * (1 + 1e-9)


@given(st.floats(1e-3, 1e3), st.floats(1e-6, 1e3))
def test_gaussian_variance_inverts(sensitivity: float, rho: float) -> None:
    variance = gaussian_variance(sensitivity, ZCDP(rho))
    assert Fraction(sensitivity) ** 2 / (2 * variance) == Fraction(rho)


def test_conversions_name_the_cost_they_need() -> None:
    for convert in (pure_to_zcdp, em_to_zcdp):
        with pytest.raises(InvalidInput, match="the cost must be PureDP, got"):
            convert(0.5)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match=r"below 1\.8e308"):
            convert(PureDP(1e300))
    for bad in (0, -1, math.nan, True, None):
        with pytest.raises(InvalidInput, match="sigma must be"):
            gaussian_zcdp(1.0, bad)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="sensitivity must be"):
            gaussian_delta(bad, 1.0, 1.0)  # type: ignore[arg-type]


def test_the_chance_to_guess_right_is_that_of_randomised_response():
    """Whoever tells the truth with probability e^ε / (1 + e^ε) is guessed right so often, and no mechanism more."""
    assert guessing_chance(PureDP(math.log(3))) == pytest.approx(0.75)
    assert guessing_chance(ApproxDP(math.log(3), 0.1)) == pytest.approx((3 + 0.1) / 4)
    assert guessing_chance(PureDP(1e-12)) == pytest.approx(0.5)
    for rho in (1e-3, 0.1, 1.0, 10.0):  # two normal laws whose means are √(2ρ) apart have this cost
        assert guessing_chance(ZCDP(rho)) >= 0.5 * (1 + math.erf(math.sqrt(2 * rho) / 2 / math.sqrt(2)))
