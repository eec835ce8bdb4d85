"""Sums of what purchases cost: exact, rounded up, and in the kinds of cost that a cap has."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qrelease.mechanisms.online.quotes import price_of, total_cost
from qrelease.privacy.costs import ZCDP, ApproxDP, PureDP

SIZES = st.lists(st.floats(1e-6, 10), min_size=2, max_size=8)


@given(SIZES, st.sampled_from([PureDP, ZCDP]))
def test_a_sum_is_never_below_the_exact_one_and_by_a_rounding_above(sizes, kind):
    exact = sum(map(Fraction, sizes))
    found = total_cost(PureDP(1000.0) if kind is PureDP else ZCDP(1000.0), [kind(s) for s in sizes])
    assert type(found) is kind
    assert exact <= Fraction(price_of(found)) <= exact * (1 + Fraction(1, 2**52))


def test_nothing_and_one_purchase_are_what_they_are():
    cap = ApproxDP(10.0, 1e-6)
    assert total_cost(cap, []) is None
    for cost in (PureDP(0.1), ZCDP(0.1), ApproxDP(0.1, 1e-9)):
        assert total_cost(cap, [cost]) == cost
        assert price_of(cost) == 0.1


def test_both_kinds_together_are_an_approximate_cost_of_at_least_each_alone():
    cap = ApproxDP(10.0, 1e-6)
    pure, rho = [PureDP(0.1), PureDP(0.2)], [ZCDP(0.01), ZCDP(0.02)]
    both = total_cost(cap, [*pure, *rho])
    assert isinstance(both, ApproxDP)
    assert both.delta <= cap.delta
    assert both.epsilon > 0.3
    assert both.epsilon == pytest.approx(0.3 + total_cost(cap, [PureDP(1e-12), *rho]).epsilon, rel=0.01)
