"""Costs, conversions, compositions and filters against independent computations, most of them in 60-digit decimals."""

import copy
import math
import pickle
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import FrozenInstanceError
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from qrelease.errors import BudgetExceeded, InvalidInput
from qrelease.privacy import (
    ZCDP,
    ApproxDP,
    Cost,
    Filter,
    Neighbours,
    Odometer,
    PrivacyLoss,
    PureDP,
    advanced_composition,
    advanced_share,
    compose,
    cost_from_json,
    em_to_zcdp,
    gaussian_delta,
    gaussian_variance,
    gaussian_zcdp,
    group_privacy,
    optimal_composition,
    optimal_delta,
    pure_to_zcdp,
    split,
    zcdp_delta,
    zcdp_epsilon,
    zcdp_of,
)

FEW_ULPS = 1 + Decimal(2) ** -40
POSITIVE = st.floats(1e-12, 1e6)
COSTS = st.one_of(
    st.builds(PureDP, POSITIVE),
    st.builds(ApproxDP, POSITIVE, st.floats(1e-300, 0.9)),
    st.builds(ZCDP, POSITIVE),
)


@pytest.fixture(autouse=True)
def _sixty_digits() -> Iterator[None]:
    with localcontext() as context:
        context.prec, context.Emin, context.Emax = 60, -(10**9), 10**9
        yield


# Costs


@pytest.mark.parametrize(
    "value",
    [
        *(-1, 0, -0.0, math.nan, math.inf, -math.inf, True, False, np.bool_(True), np.float64("nan"), "1", b"1", None),
        *(1j, [1.0], np.array([1.0, 2.0]), Fraction(1, 3), Decimal(1), 10**400, 2**53 + 1, -(10**400)),
    ],
)
def test_a_cost_refuses_what_is_not_a_positive_real(value: object) -> None:
    for make in (PureDP, ZCDP, lambda v: ApproxDP(v, 0.0)):
        with pytest.raises(InvalidInput, match=r"^(epsilon|rho) must be [^\n]*got ") as error:
            make(value)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("delta", [-1e-9, 1, 1.5, math.nan, math.inf, True, "0", None, np.float64(-1)])
def test_delta_is_a_probability_below_one(delta: object) -> None:
    with pytest.raises(InvalidInput, match=r"^delta must be"):
        ApproxDP(1.0, delta)  # type: ignore[arg-type]


def test_messages_say_what_they_got() -> None:
    with pytest.raises(InvalidInput, match=r"^epsilon must be positive, got -1$"):
        PureDP(-1)
    with pytest.raises(InvalidInput, match=r"^delta must be in \[0, 1\), got 1$"):
        ApproxDP(1, 1)


@pytest.mark.parametrize("one", [1, 1.0, np.float64(1), np.float32(1), np.int64(1), np.uint8(1), Fraction(1)])
def test_honest_reals_become_plain_floats(one: float) -> None:
    cost = ApproxDP(one, np.float32(0.5))
    assert (type(cost.epsilon), type(cost.delta)) == (float, float)
    assert cost == ApproxDP(1.0, 0.5)
    assert type(PureDP(one).epsilon) is type(ZCDP(one).rho) is float


def test_costs_are_inert_values() -> None:
    cost = ApproxDP(1.0, 1e-9)
    with pytest.raises(FrozenInstanceError):
        cost.epsilon = 2.0  # type: ignore[misc]
    assert str(cost) == "epsilon=1, delta=1e-09"
    assert [str(PureDP(0.1)), str(ZCDP(1e22)), str(ApproxDP(2, -0.0))] == [
        "epsilon=0.1",
        "rho=1e+22",
        "epsilon=2, delta=0",
    ]
    assert pickle.loads(pickle.dumps(cost)) == copy.copy(cost) == cost
    assert len({cost, ApproxDP(1, 1e-9), PureDP(1), ZCDP(1)}) == 3


@given(COSTS)
def test_json_keeps_every_bit(cost: Cost) -> None:
    import json

    assert cost_from_json(json.loads(json.dumps(cost.to_json()))) == cost


@pytest.mark.parametrize("data", [{}, {"delta": 0.1}, {"epsilon": 1, "rho": 1}, [1], None, {"epsilon": "1"}])
def test_json_of_no_cost_is_refused(data: object) -> None:
    with pytest.raises(InvalidInput):
        cost_from_json(data)


def test_neighbours_parse() -> None:
    assert Neighbours.parse("add-remove") is Neighbours.parse(Neighbours.ADD_REMOVE) is Neighbours.ADD_REMOVE
    assert Neighbours.parse("replace-one") is Neighbours.REPLACE_ONE
    for bad in ("bounded", "", None, 1):
        with pytest.raises(InvalidInput, match=r"'add-remove' or 'replace-one', got"):
            Neighbours.parse(bad)  # type: ignore[arg-type]


def test_import_is_light() -> None:
    heavy = "{'numpy', 'scipy', 'numba', 'dp_accounting'}"
    code = f"import sys, qrelease.privacy, qrelease.privacy.ledger; sys.exit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# Shares


@given(COSTS, st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=40))
def test_shares_fit_exactly_and_leave_next_to_nothing(cost: Cost, weights: list[float]) -> None:
    shares = split(cost, weights)
    for name, whole in cost.to_json().items():
        total = sum(Fraction(share.to_json()[name]) for share in shares)
        assert Fraction(whole) * (1 - len(weights) * Fraction(1, 2**52)) <= total <= Fraction(whole)
    budget = Filter(cost)
    for share in shares:
        budget.spend(share)
    assert not budget.admits(shares[0])


@given(st.floats(1e-3, 10), st.floats(1e-12, 1e-3), st.lists(st.floats(0.1, 10), min_size=1, max_size=20))
def test_zcdp_shares_of_an_approximate_total_fit_to_the_last(
    epsilon: float, delta: float, weights: list[float]
) -> None:
    total = ApproxDP(epsilon, delta)
    budget = Filter(total)
    for share in split(zcdp_of(total), weights):
        budget.spend(share)
    assert not budget.admits(ZCDP(zcdp_of(total).rho * 1e-9))


def test_ten_tenths_are_more_than_one() -> None:
    budget = Filter(PureDP(1.0))
    for _ in range(9):
        budget.spend(PureDP(0.1))
    with pytest.raises(BudgetExceeded):
        budget.spend(PureDP(0.1))
    left = budget.remaining
    assert left == PureDP(0.09999999999999995)
    budget.spend(left)
    assert budget.remaining is None or budget.remaining.epsilon < 1e-16  # type: ignore[union-attr]


@pytest.mark.parametrize("weights", [[], [0.0], [-1.0], [math.nan], [True], [1.0, math.inf], ["1"]])
def test_weights_are_positive_numbers(weights: list[float]) -> None:
    with pytest.raises(InvalidInput, match="weight"):
        split(PureDP(1.0), weights)
    with pytest.raises(InvalidInput, match="smallest float"):
        split(PureDP(1e-320), [1.0, 1e300])


# zCDP to (epsilon, delta): the bound itself, its minimum, and its truth


def bound_epsilon(alpha: Decimal, rho: float, delta: float) -> Decimal:
    a = alpha
    return a * Decimal(rho) + (1 - 1 / a).ln() - (a * Decimal(delta)).ln() / (a - 1)


def bound_log_delta(alpha: Decimal, rho: float, epsilon: float) -> Decimal:
    a = alpha
    return (a - 1) * (a * Decimal(rho) - Decimal(epsilon)) - (a - 1).ln() + a * (1 - 1 / a).ln()


def least(function: Callable[[Decimal], Decimal]) -> Decimal:
    """The minimum over α > 1 by golden-section search in ln(α − 1), to 25 digits of the argument."""
    golden = (Decimal(5).sqrt() - 1) / 2
    low, high = Decimal(-60), Decimal(60)
    f = lambda u: function(1 + u.exp())  # noqa: E731
    x, y = high - golden * (high - low), low + golden * (high - low)
    fx, fy = f(x), f(y)
    while high - low > Decimal("1e-25"):
        if fx < fy:
            high, y, fy = y, x, fx
            x = high - golden * (high - low)
            fx = f(x)
        else:
            low, x, fx = x, y, fy
            y = low + golden * (high - low)
            fy = f(y)
    return min(fx, fy)


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
    # The library's own figure, without what is kept for its rounding, is too small.
    bare = composed._distribution.get_epsilon_for_delta(1e-11)
    assert bare < exact_gaussian_epsilon(ratio, 1e-11)


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


def test_pld_without_its_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("dp_accounting", "dp_accounting.pld"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InvalidInput, match="pip install dp-accounting"):
        PrivacyLoss.gaussian(1, 1.0)
    with pytest.raises(InvalidInput, match="pip install dp-accounting"):
        PrivacyLoss.of(PureDP(1.0))


# Filters


def test_a_refusal_names_total_spent_requested_and_the_way_on() -> None:
    budget = Filter(ApproxDP(1.0, 1e-9))
    budget.spend(ApproxDP(1.0, 1e-9))
    with pytest.raises(BudgetExceeded) as error:
        budget.spend(ApproxDP(0.5, 0.0))
    assert str(error.value) == (
        "budget exceeded: total epsilon=1, delta=1e-09; spent epsilon=1, delta=1e-09; requested epsilon=0.5, delta=0"
        " (nothing is left unless you raise the total)"
    )
    with pytest.raises(BudgetExceeded, match=r"spent rho=0; requested rho=2 \(ask for at most the rho=1 that is left"):
        Filter(ZCDP(1.0)).spend(ZCDP(2.0))


def test_a_refusal_of_rho_says_what_it_takes_of_epsilon_and_delta() -> None:
    total, cost = ApproxDP(0.2, 1e-10), ZCDP(0.0067544947700)
    with pytest.raises(BudgetExceeded, match=r"requested rho=0\.00675449, which takes ") as error:
        Filter(total).spend(cost)
    told = re.search(r"takes epsilon=([\d.e-]+), delta=([\d.e-]+) \(ask", str(error.value))
    assert told
    assert float(told[1]) == pytest.approx(zcdp_epsilon(cost.rho, total.delta), rel=1e-5)
    assert float(told[2]) == total.delta
    spent = Filter(total)
    spent.spend(ApproxDP(0.1, total.delta))
    with pytest.raises(BudgetExceeded, match="takes a delta, none is left"):
        spent.spend(cost)


@pytest.mark.parametrize(
    ("total", "holds", "never"),
    [
        (PureDP(1.0), [PureDP(0.1), ApproxDP(0.1, 0.0)], [ApproxDP(0.1, 1e-9), ZCDP(1e-6)]),
        (ApproxDP(1.0, 1e-6), [PureDP(0.1), ApproxDP(0.1, 1e-9), ZCDP(1e-4), PureDP(0.1)], []),
        (ZCDP(1.0), [ZCDP(0.1), PureDP(0.1), ApproxDP(0.1, 0.0)], [ApproxDP(0.1, 1e-9)]),
    ],
)
def test_which_total_holds_which_cost(total: Cost, holds: list[Cost], never: list[Cost]) -> None:
    budget = Filter(total)
    for cost in holds:
        assert budget.admits(cost)
        budget.spend(cost)
    before = budget.spent
    for cost in never:
        assert not budget.admits(cost)
        with pytest.raises(InvalidInput, match="cannot hold a cost of"):
            budget.spend(cost)
    for wrong in (1.0, None, "epsilon=1"):
        with pytest.raises(InvalidInput, match="the cost must be"):
            budget.spend(wrong)  # type: ignore[arg-type]
    assert budget.spent == before


def test_a_zcdp_total_charges_pure_costs_half_their_square() -> None:
    budget = Filter(ZCDP(0.5))
    budget.spend(PureDP(0.8))
    assert budget.spent == ZCDP(float(Fraction(0.8) ** 2 / 2))
    assert budget.admits(PureDP(0.599))
    assert not budget.admits(PureDP(0.601))


@given(COSTS, st.lists(st.floats(0.01, 0.6), max_size=30))
def test_the_exact_sum_never_exceeds_the_total(total: Cost, parts: list[float]) -> None:
    budget, name = Filter(total), next(iter(total.to_json()))
    whole, sum_ = Fraction(total.to_json()[name]), Fraction(0)
    for part in parts:
        cost = type(total)(*(value * part for value in total.to_json().values()))
        fits = sum_ + Fraction(cost.to_json()[name]) <= whole
        assert budget.admits(cost) == fits or isinstance(total, ApproxDP)
        if budget.admits(cost):
            budget.spend(cost)
            sum_ += Fraction(cost.to_json()[name])
    assert sum_ <= whole
    assert (budget.spent is None) == (sum_ == 0)
    if budget.spent is not None:
        assert sum_ <= Fraction(budget.spent.to_json()[name]) <= whole


@given(st.lists(st.sampled_from([PureDP(0.05), ApproxDP(0.05, 1e-8), ZCDP(5e-4), ZCDP(1e-5)]), max_size=40))
def test_what_remains_can_be_spent_and_little_more(spends: list[Cost]) -> None:
    budget = Filter(ApproxDP(1.0, 1e-6))
    for cost in spends:
        if budget.admits(cost):
            budget.spend(cost)
    left = budget.remaining
    if left is not None:
        assert isinstance(left, ApproxDP)
        assert budget.admits(left)
        assert not budget.admits(ApproxDP(left.epsilon * (1 + 1e-9) + 1e-12, left.delta))
        budget.spend(left)
    assert budget.remaining is None or budget.remaining.epsilon < 1e-12  # type: ignore[union-attr]
    assert budget.spent.epsilon <= 1.0  # type: ignore[union-attr]


def test_asking_changes_nothing() -> None:
    budget = Filter(ApproxDP(1.0, 1e-6))
    assert budget.admits(ZCDP(1e-4))
    assert not budget.admits(ZCDP(1.0))
    with pytest.raises(BudgetExceeded):
        budget.spend(ZCDP(1.0))
    assert budget.spent is None
    budget.spend(ApproxDP(1.0, 1e-6))  # no account was opened


def test_zcdp_spends_leave_no_delta() -> None:
    budget = Filter(ApproxDP(1.0, 1e-6))
    budget.spend(ApproxDP(0.3, 4e-7))
    budget.spend(ZCDP(1e-3))
    assert budget.spent.delta == budget.total.delta  # type: ignore[union-attr]
    assert budget.spent.epsilon == pytest.approx(0.3 + zcdp_epsilon(1e-3, 6e-7), rel=1e-12)  # type: ignore[union-attr]
    assert not budget.admits(ApproxDP(1e-6, 1e-12))
    assert budget.admits(PureDP(0.1))


@pytest.mark.parametrize("spent", [ApproxDP(0.5, 1e-6), ApproxDP(1.0, 5e-7)])
def test_zcdp_without_delta_or_epsilon_left_is_refused(spent: ApproxDP) -> None:
    budget = Filter(ApproxDP(1.0, 1e-6))
    budget.spend(spent)
    with pytest.raises(BudgetExceeded):
        budget.spend(ZCDP(1e-300))
    pure = Filter(ApproxDP(1.0, 0.0))
    assert not pure.admits(ZCDP(1e-300))


@given(
    st.lists(
        st.one_of(st.builds(PureDP, st.floats(1e-4, 0.3)), st.builds(ZCDP, st.floats(1e-6, 5e-3))),
        max_size=30,
    )
)
def test_mixed_spends_satisfy_the_bound_at_one_fixed_order(spends: list[Cost]) -> None:
    """The supermartingale's certificate, recomputed in decimals: alpha R + E within the room at the account's order."""
    budget, before, later, rho = Filter(ApproxDP(1.0, 1e-6)), Decimal(0), Decimal(0), Decimal(0)
    for cost in spends:
        if not budget.admits(cost):
            continue
        budget.spend(cost)
        if isinstance(cost, ZCDP):
            rho += Decimal(cost.rho)
        elif rho:
            later += Decimal(cost.epsilon)  # type: ignore[union-attr]
        else:
            before += Decimal(cost.epsilon)  # type: ignore[union-attr]
    if rho:
        left = Decimal(1) - before
        whole = zcdp_of(ApproxDP(float(left), 1e-6)).rho
        assert later + bound_epsilon(least_order(whole, 1e-6), float(rho), 1e-6) <= left * (1 + Decimal("1e-6"))


def least_order(rho: float, delta: float) -> Decimal:
    """The order at which the bound on epsilon is smallest: rho (a − 1)² = ln(1/(a delta))."""
    low, high = Decimal(1), 1 / Decimal(delta)
    for _ in range(120):
        middle = (low + high) / 2
        low, high = (
            (middle, high) if Decimal(rho) * (middle - 1) ** 2 < -(middle * Decimal(delta)).ln() else (low, middle)
        )
    return low


def stopped_delta(total: ApproxDP, first: float, rest: float, failure: float) -> float:
    """The exact delta of an adversary with two Gaussians of zCDP `first` and `rest` and one failure of that size.

    After the first Gaussian it either runs the second or reveals all with probability `failure`, whichever is worse.
    """
    loss = np.linspace(-12, 12, 20_001) * math.sqrt(2 * first) + first
    gap = total.epsilon - loss
    second = norm.cdf((rest - gap) / math.sqrt(2 * rest)) - np.exp(gap) * norm.cdf((-rest - gap) / math.sqrt(2 * rest))
    reveal = failure + (1 - failure) * np.maximum(0, -np.expm1(gap))
    density = norm.pdf(loss, first, math.sqrt(2 * first))
    return float(np.trapezoid(density * np.maximum(second, reveal), loss))


def test_the_end_sums_alone_would_be_unsound_and_the_filter_is_not() -> None:
    """To check only that the final sums fit lets an adversary trade delta for rho after seeing the loss."""
    total = ApproxDP(1.0, 1e-6)
    whole = zcdp_of(total).rho
    first, rest = 0.6 * whole, 0.4 * whole
    failure = total.delta - zcdp_delta(first, total.epsilon)
    assert zcdp_epsilon(first, total.delta - failure * (1 - 1e-9)) <= total.epsilon * (1 + 1e-9)  # both ends "fit"
    assert stopped_delta(total, first, rest, failure) > 1.15 * total.delta
    budget = Filter(total)
    budget.spend(ZCDP(first))
    assert budget.admits(ZCDP(rest * (1 - 1e-12)))
    assert not budget.admits(ApproxDP(1e-9, 1e-12))
    assert stopped_delta(total, first, rest, 0.0) < total.delta


def test_filters_are_exact_between_threads() -> None:
    shares = split(PureDP(1.0), [1.0] * 800)
    budget, accepted = Filter(PureDP(1.0)), []

    def work(mine: list[Cost]) -> None:
        for cost in mine:
            budget.spend(cost)
            accepted.append(cost)

    threads = [threading.Thread(target=work, args=(list(shares[i::8]),)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(accepted) == 800
    assert not budget.admits(shares[0])


def test_the_state_of_a_filter_does_not_grow() -> None:
    """A spend is O(1) because the exact sums stay within the bits of the floats."""
    budget = Filter(ApproxDP(1e6, 1e-6))
    generator = np.random.default_rng(5)
    for epsilon in 10.0 ** generator.uniform(-300, 1, 3000):
        budget.spend(PureDP(float(epsilon)))
    assert budget._tally.epsilon.denominator.bit_length() <= 1075
    assert budget._tally.epsilon.numerator.bit_length() <= 1100


# Odometers


def test_an_odometer_of_pure_costs_is_their_sum() -> None:
    odometer = Odometer(1e-6, ZCDP(0.01))
    assert odometer.spent is None
    for cost in (PureDP(0.5), ApproxDP(0.25, 0.0)):
        odometer.spend(cost)
    assert odometer.spent == PureDP(0.75)
    for wrong in (ApproxDP(0.1, 1e-9), 1.0):
        with pytest.raises(InvalidInput):
            odometer.spend(wrong)  # type: ignore[arg-type]
    assert odometer.spent == PureDP(0.75)
    for slack in (0.0, 1.0, -1.0, math.nan, True):
        with pytest.raises(InvalidInput, match="slack must be"):
            Odometer(slack, ZCDP(1.0))
    with pytest.raises(InvalidInput, match="the cost must be ZCDP"):
        Odometer(1e-6, PureDP(1.0))  # type: ignore[arg-type]


@pytest.mark.parametrize("slack", [1e-12, 1e-6, 0.01, 0.4, 0.9])
@pytest.mark.parametrize("near", [1e-4, 0.05, 2.0])
def test_an_odometer_is_a_crossing_bound_and_near_the_filter(slack: float, near: float) -> None:
    """The average over λ of exp(λs − λ²ρ), by quadrature, is at least 1/slack at the odometer's s."""
    spread = Odometer(slack, ZCDP(near))._v
    for rho in (near / 100, near, 100 * near):
        at = Odometer(slack, ZCDP(near))
        at.spend(ZCDP(rho))
        spent = at.spent
        assert isinstance(spent, ApproxDP)
        assert spent.delta == slack
        s = spent.epsilon - rho
        top = (s / (2 * rho + spread)) + 40 / math.sqrt(2 * rho + spread)
        lambdas = np.linspace(0, top, 400_001)
        weights = (
            2 * math.sqrt(spread / (2 * math.pi)) * np.exp(-(lambdas**2) * spread / 2 + lambdas * s - lambdas**2 * rho)
        )
        average = np.trapezoid(weights, lambdas)
        assert 1 / slack * (1 - 1e-6) <= average <= 1 / slack * 1.6
    at = Odometer(slack, ZCDP(near))
    at.spend(ZCDP(near))
    if slack < 1e-5:
        assert at.spent.epsilon < 1.1 * (near + 2 * math.sqrt(near * -math.log(slack)))  # type: ignore[union-attr]


def test_an_odometer_holds_along_a_run_where_a_fixed_time_bound_does_not() -> None:
    slack, step, steps, runs = 0.05, 0.01, 400, 4000
    generator = np.random.default_rng(7)
    loss = np.cumsum(generator.normal(step, math.sqrt(2 * step), (runs, steps)), axis=1)
    odometer, bound = Odometer(slack, ZCDP(1.0)), []
    for _ in range(steps):
        odometer.spend(ZCDP(step))
        bound.append(odometer.spent.epsilon)  # type: ignore[union-attr]
    rho = step * np.arange(1, steps + 1)
    fixed = rho + np.sqrt(2 * rho) * norm.isf(slack)
    crossed = np.mean((loss > bound).any(axis=1))
    assert crossed <= slack
    assert np.mean((loss > fixed).any(axis=1)) > 3 * slack
