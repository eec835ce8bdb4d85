"""Costs: what is none, JSON that keeps every bit, and shares that add up exactly."""

import copy
import math
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qrelease.errors import BudgetExceeded, InvalidInput
from qrelease.privacy import (
    ZCDP,
    ApproxDP,
    Cost,
    Filter,
    Neighbours,
    PureDP,
    cost_from_json,
    split,
    zcdp_of,
)
from qrelease.privacy.costs import MOST_SPENT, amount_from_json, amount_to_json, check_spendable

pytestmark = pytest.mark.usefixtures("sixty_digits")

POSITIVE = st.floats(1e-12, 1e6)
COSTS = st.one_of(
    st.builds(PureDP, POSITIVE),
    st.builds(ApproxDP, POSITIVE, st.floats(1e-300, 0.9)),
    st.builds(ZCDP, POSITIVE),
)


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


@pytest.mark.parametrize("make", [PureDP, lambda value: ApproxDP(value, 1e-9), ZCDP])
def test_a_cost_is_spent_within_what_floats_can_count_with(make: Callable[[float], Cost]) -> None:
    for value in (MOST_SPENT, 1 / MOST_SPENT):
        check_spendable(make(value))
        assert 1e-201 < (1 / value**2) ** 2 < 1e201
    for value in (math.nextafter(MOST_SPENT, math.inf), math.nextafter(1 / MOST_SPENT, 0), 1e300, 5e-324):
        with pytest.raises(InvalidInput, match=r"^(epsilon|rho) must be from 1e-50 to 1e\+50 to be spent, got "):
            check_spendable(make(value))


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


def test_a_number_of_equal_shares() -> None:
    shares = split(ApproxDP(1.0, 1e-6), 12)
    assert shares == split(ApproxDP(1.0, 1e-6), [3.0] * 12)
    assert sum(Fraction(share.epsilon) for share in shares) <= 1
    for wrong in (0, -1, 2.5, True):
        with pytest.raises(InvalidInput, match="the number of shares must be"):
            split(PureDP(1.0), wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("weights", [[], [0.0], [-1.0], [math.nan], [True], [1.0, math.inf], ["1"]])
def test_weights_are_positive_numbers(weights: list[float]) -> None:
    with pytest.raises(InvalidInput, match="weight"):
        split(PureDP(1.0), weights)
    with pytest.raises(InvalidInput, match="smallest float"):
        split(PureDP(1e-320), [1.0, 1e300])


@pytest.mark.parametrize("total", [PureDP(2.0), ApproxDP(2.0, 1e-9), ZCDP(0.5)])
def test_an_amount_of_a_total_has_one_shape_also_where_it_is_nothing(total: Cost) -> None:
    nothing, whole = amount_to_json(None, total), amount_to_json(total, total)
    assert list(nothing) == list(whole) == list(total.to_json())
    assert not any(nothing.values())
    assert amount_from_json(nothing) is amount_from_json(None) is None
    assert amount_from_json(whole) == total
    with pytest.raises(InvalidInput, match="a cost must have"):
        amount_from_json({})
