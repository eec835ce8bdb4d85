"""Privacy loss distributions of Gaussians against the exact ones, and where their arithmetic ends."""

import math
from collections.abc import Callable

import pytest

from qrelease.errors import InvalidInput
from qrelease.privacy import (
    ApproxDP,
    PrivacyLoss,
    PureDP,
    gaussian_delta,
    optimal_composition,
    zcdp_epsilon,
)


# Numerical composition
def exact_gaussian_epsilon(ratio: float, delta: float) -> float:
    low, high = 0.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if gaussian_delta(ratio, 1.0, middle) <= delta else (middle, high)
    return high


@pytest.mark.parametrize(("sigma", "k"), [(5.5, 1), (20.0, 100), (3.0, 4)])
@pytest.mark.parametrize("delta", [1e-5, 1e-9])
def test_pld_of_gaussians_is_the_exact_one(sigma: float, k: int, delta: float) -> None:
    pytest.importorskip("dp_accounting")
    truth = exact_gaussian_epsilon(math.sqrt(k) / sigma, delta)
    composed = PrivacyLoss.gaussian(1, sigma) * k
    assert truth - 1e-9 <= composed.epsilon(delta) <= truth + 1e-4
    assert composed.delta(truth) == pytest.approx(delta, rel=1e-3)


@pytest.mark.parametrize(("sigma", "k"), [(3.0, 300), (30.0, 30_000), (100.0, 100_000)])
def test_pld_of_very_many_gaussians_is_never_below_the_exact_one(sigma: float, k: int) -> None:
    pytest.importorskip("dp_accounting")
    composed = PrivacyLoss.gaussian(1, sigma) * k
    ratio = math.sqrt(k) / sigma
    for delta in (1e-5, 1e-9, composed.delta(1e9)):
        truth = exact_gaussian_epsilon(ratio, delta)
        assert truth - 1e-9 <= composed.epsilon(delta)
        assert delta - 1e-20 <= composed.delta(truth)


def test_pld_of_unlike_mechanisms() -> None:
    pytest.importorskip("dp_accounting")
    pair = PrivacyLoss.gaussian(1, 4.0) + PrivacyLoss.gaussian(2, 6.0)
    assert pair.epsilon(1e-6) == pytest.approx(exact_gaussian_epsilon(math.hypot(1 / 4, 1 / 3), 1e-6), abs=1e-4)
    responses = PrivacyLoss.of(PureDP(0.1)) * 100
    assert responses.epsilon(1e-6) == pytest.approx(optimal_composition(PureDP(0.1), 100, 1e-6).epsilon, abs=0.02)
    assert responses.epsilon(1e-6) >= optimal_composition(PureDP(0.1), 100, 1e-6).epsilon
    failing = PrivacyLoss.of(ApproxDP(0.1, 1e-3)) + PrivacyLoss.laplace(1, 2.0)
    assert failing.delta(0.6) == pytest.approx(1e-3, rel=1e-3)
    whole = PrivacyLoss.discrete_laplace(1, 2.0) + PrivacyLoss.discrete_gaussian(1, 10.0)
    assert PrivacyLoss.discrete_laplace(1, 2.0).epsilon(1e-9) <= 0.5 + 1e-4
    assert 0.5 < whole.epsilon(1e-6) < 0.5 + zcdp_epsilon(0.005, 1e-6)


def test_pld_refuses_what_its_arithmetic_cannot_hold() -> None:
    pytest.importorskip("dp_accounting")
    loss = PrivacyLoss.gaussian(1, 1.0)
    with pytest.raises(InvalidInput, match=r"^delta must be at least 1e-12"):
        loss.epsilon(1e-13)
    assert loss.delta(100.0) == 1e-12
    many = PrivacyLoss.gaussian(1, 100.0) * 5_000
    with pytest.raises(InvalidInput, match=r"^delta must be at least 1.02e-11 in this composition, got 1e-11"):
        many.epsilon(1e-11)
    assert many.delta(1e9) == pytest.approx(1.02e-11)
    for make in (
        PrivacyLoss.gaussian,
        PrivacyLoss.laplace,
        PrivacyLoss.discrete_gaussian,
        PrivacyLoss.discrete_laplace,
    ):
        for scale in (5e-324, 1e-3, 1e7, 1e308):
            with pytest.raises(InvalidInput, match=r"^sensitivity / (sigma|scale) must be from 1e-06 to 10, got"):
                make(1, scale)
    for make in (PrivacyLoss.discrete_gaussian, PrivacyLoss.discrete_laplace):
        with pytest.raises(InvalidInput, match="sensitivity must be a whole number"):
            make(1.5, 1.0)  # type: ignore[arg-type]


def test_pld_without_its_library_says_what_to_install(not_installed: Callable[[str], None]) -> None:
    for module in ("dp_accounting", "dp_accounting.pld"):
        not_installed(module)
    with pytest.raises(InvalidInput, match="pip install dp-accounting"):
        PrivacyLoss.gaussian(1, 1.0)
    with pytest.raises(InvalidInput, match="pip install dp-accounting"):
        PrivacyLoss.of(PureDP(1.0))
