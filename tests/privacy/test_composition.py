"""Composition theorems against independent computations, most of them in 60-digit decimals."""

import math
from decimal import Decimal
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qrelease.errors import InvalidInput
from qrelease.privacy import (
    ZCDP,
    ApproxDP,
    PureDP,
    advanced_composition,
    advanced_share,
    compose,
    group_privacy,
    optimal_composition,
    optimal_delta,
    zcdp_epsilon,
)

pytestmark = pytest.mark.usefixtures("sixty_digits")

FEW_ULPS = 1 + Decimal(2) ** -40


# Composition fixed in advance
@given(st.lists(st.builds(ApproxDP, st.floats(1e-9, 10), st.floats(0, 0.01)), min_size=1, max_size=30))
def test_compose_is_the_exact_sum_rounded_up(costs: list[ApproxDP]) -> None:
    whole = compose(costs)
    assert isinstance(whole, ApproxDP)
    for name in ("epsilon", "delta"):
        exact = sum(Fraction(getattr(cost, name)) for cost in costs)
        assert math.nextafter(getattr(whole, name), -1) < exact <= Fraction(getattr(whole, name))


def test_compose_of_kinds() -> None:
    assert compose([PureDP(0.5), PureDP(0.25)]) == PureDP(0.75)
    assert compose([PureDP(0.5), ApproxDP(0.25, 0.125)]) == ApproxDP(0.75, 0.125)
    assert compose([PureDP(0.5), ZCDP(0.25), ApproxDP(1.0, 0.0)]) == ZCDP(0.875)
    for bad in ([], [ZCDP(1.0), ApproxDP(1.0, 1e-9)], [ApproxDP(1.0, 0.5)] * 2, [1.0]):
        with pytest.raises(InvalidInput):
            compose(bad)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("epsilon", "delta", "size"), [(0.5, 1e-9, 10), (0.01, 1e-12, 3), (3.0, 1e-30, 20), (1e-9, 1e-3, 7)]
)
def test_group_privacy(epsilon: float, delta: float, size: int) -> None:
    e = Decimal(epsilon)
    truth = sum((i * e).exp() for i in range(size)) * Decimal(delta)
    group = group_privacy(ApproxDP(epsilon, delta), size)
    assert isinstance(group, ApproxDP)
    assert Fraction(group.epsilon) >= size * Fraction(epsilon)
    assert truth <= Decimal(group.delta) <= truth * FEW_ULPS
    assert group.delta <= size * math.exp((size - 1) * epsilon) * delta * (1 + 1e-9)  # the text's bound


def test_group_privacy_of_the_other_kinds() -> None:
    assert group_privacy(PureDP(0.25), 4) == PureDP(1.0)
    assert group_privacy(ZCDP(0.25), 4) == ZCDP(4.0)
    assert group_privacy(ApproxDP(0.5, 0.0), 2) == ApproxDP(1.0, 0.0)
    assert group_privacy(ApproxDP(0.5, 0.1), 1) == ApproxDP(0.5, 0.1)
    for cost, size in ((ApproxDP(1.0, 1e-9), 50), (ApproxDP(900.0, 1e-300), 2), (ApproxDP(1e-3, 0.5), 2)):
        with pytest.raises(InvalidInput, match="theirs reaches 1"):
            group_privacy(cost, size)
    for bad in (0, -1, True, 1.0, np.float64(2), "2", 2**53 + 1):
        with pytest.raises(InvalidInput, match="group's size must be"):
            group_privacy(PureDP(1.0), bad)  # type: ignore[arg-type]
    assert group_privacy(PureDP(0.25), np.int64(4)) == PureDP(1.0)


def advanced(epsilon: float, k: int, slack: float) -> Decimal:
    e = Decimal(epsilon)
    return e * (-2 * k * Decimal(slack).ln()).sqrt() + k * e * (e.exp() - 1)


@pytest.mark.parametrize(
    ("epsilon", "k", "slack"), [(0.1, 100, 1e-6), (1e-4, 10**6, 1e-12), (2.0, 3, 0.1), (0.01, 1, 0.5)]
)
def test_advanced_composition_is_the_theorem_rounded_up(epsilon: float, k: int, slack: float) -> None:
    whole = advanced_composition(ApproxDP(epsilon, 1e-12), k, slack)
    assert advanced(epsilon, k, slack) <= Decimal(whole.epsilon) <= advanced(epsilon, k, slack) * FEW_ULPS
    assert Fraction(whole.delta) >= k * Fraction(1e-12) + Fraction(slack)
    share = advanced_share(ApproxDP(whole.epsilon, slack), k).epsilon
    assert share == pytest.approx(epsilon, rel=1e-12)
    assert advanced(share, k, slack) <= Decimal(whole.epsilon) < advanced(share * (1 + 1e-12), k, slack)


def test_example_3_7_of_the_text() -> None:
    """k = 10 000, delta' = e^-32, epsilon' = 1: "about 1/801", where the theorem's own epsilon' is 1.014."""
    share = advanced_share(ApproxDP(1.0, math.exp(-32)), 10_000)
    assert 1 / share.epsilon == pytest.approx(812.318, abs=0.001)
    assert 1 / share.epsilon == pytest.approx(801, rel=0.015)
    whole = advanced_composition(PureDP(1 / 801), 10_000, math.exp(-32))
    assert whole.epsilon == pytest.approx(1.01434730, abs=1e-8)
    assert 1.0 / (2 * math.sqrt(2 * 10_000 * 32)) == pytest.approx(1 / 1600)  # Corollary 3.21, the rule of thumb


def test_advanced_composition_refuses_what_it_has_no_theorem_for() -> None:
    for slack in (0.0, 1.0, -0.1, math.nan, True):
        with pytest.raises(InvalidInput, match="slack must be"):
            advanced_composition(PureDP(0.1), 10, slack)
    with pytest.raises(InvalidInput, match="delta must be"):
        advanced_share(ApproxDP(1.0, 0.0), 10)
    for k in (0, 1.5, True):
        with pytest.raises(InvalidInput, match="k must be"):
            advanced_composition(PureDP(0.1), k, 0.1)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="PureDP or ApproxDP"):
        advanced_composition(ZCDP(0.1), 3, 0.1)  # type: ignore[arg-type]


def responses_delta(epsilon: float, k: int, target: float) -> Decimal:
    """The hockey-stick divergence of k randomised responses from exact binomial coefficients."""
    e, t = Decimal(epsilon), Decimal(target)
    parts = (math.comb(k, i) * (((k - i) * e).exp() - (t + i * e).exp()) for i in range(k + 1) if (k - 2 * i) * e > t)
    return sum(parts, Decimal(0)) / (1 + e.exp()) ** k


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 2.0])
def test_the_optimal_formula_is_the_divergence_of_all_outputs(epsilon: float) -> None:
    """For few mechanisms, by enumerating all 2^k outputs of k randomised responses."""
    k, truth, lie = 5, Decimal(epsilon).exp(), Decimal(1)
    for target in (0.0, 0.5 * epsilon, 2.1 * epsilon, 4.999 * epsilon, 5 * epsilon):
        excess = Decimal(0)
        for output in product((truth, lie), repeat=k):
            p = math.prod(output, start=Decimal(1))
            q = math.prod((truth * lie / x for x in output), start=Decimal(1))
            excess += max(p - Decimal(target).exp() * q, Decimal(0))
        excess /= (truth + lie) ** k
        assert abs(excess - responses_delta(epsilon, k, target)) < Decimal("1e-50")


@pytest.mark.parametrize(("epsilon", "k"), [(0.1, 100), (0.01, 1001), (1.0, 30), (5.0, 2), (0.5, 1), (1e-6, 50)])
@pytest.mark.parametrize("part", [0.0, 0.1, 0.35, 0.7, 0.999])
def test_optimal_delta_is_the_theorem_rounded_up(epsilon: float, k: int, part: float) -> None:
    target = part * k * epsilon
    truth, ours = responses_delta(epsilon, k, target), Decimal(optimal_delta(PureDP(epsilon), k, target))
    assert truth <= ours <= truth * (1 + Decimal("1e-7")) + Decimal("1e-300")


@pytest.mark.parametrize(
    ("epsilon", "k", "delta"), [(0.1, 100, 1e-6), (0.01, 1000, 1e-9), (1.0, 5, 1e-3), (3.0, 1, 0.2)]
)
def test_optimal_composition_is_smallest_and_beats_the_others(epsilon: float, k: int, delta: float) -> None:
    best = optimal_composition(PureDP(epsilon), k, delta)
    assert responses_delta(epsilon, k, best.epsilon) <= Decimal(delta)
    assert responses_delta(epsilon, k, best.epsilon * (1 - 1e-6)) > Decimal(delta)
    assert best.epsilon <= k * epsilon
    assert best.epsilon <= advanced_composition(PureDP(epsilon), k, delta).epsilon
    assert best.epsilon <= zcdp_epsilon(k * epsilon**2 / 2, delta)


def test_optimal_composition_at_its_ends() -> None:
    assert optimal_composition(PureDP(0.5), 4, 0.0) == ApproxDP(2.0, 0.0)
    assert optimal_delta(PureDP(0.5), 4, 2.0) == 0.0
    assert optimal_delta(PureDP(500.0), 3, 0.0) == 1.0
    for bad in (-1.0, math.nan, True):
        with pytest.raises(InvalidInput, match="epsilon must"):
            optimal_delta(PureDP(0.5), 4, bad)
    with pytest.raises(InvalidInput, match="the cost must be PureDP"):
        optimal_composition(ApproxDP(0.5, 0.1), 4, 0.1)  # type: ignore[arg-type]
