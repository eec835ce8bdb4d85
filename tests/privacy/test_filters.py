"""Filters: what fits into a total, exact sums, and adaptive spends that are sound."""

import copy
import math
import os
import pickle
import re
import signal
import threading
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from decimals import bound_epsilon
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from qrelease.errors import BudgetExceeded, InvalidInput, LedgerError
from qrelease.privacy import (
    ZCDP,
    ApproxDP,
    Cost,
    Filter,
    Odometer,
    PureDP,
    split,
    zcdp_delta,
    zcdp_epsilon,
    zcdp_of,
)
from qrelease.privacy.filters import IN_RHO, Tally, after, out_of_reach, remaining, spent, times_left

pytestmark = pytest.mark.usefixtures("sixty_digits")

POSITIVE = st.floats(1e-12, 1e6)
COSTS = st.one_of(
    st.builds(PureDP, POSITIVE),
    st.builds(ApproxDP, POSITIVE, st.floats(1e-300, 0.9)),
    st.builds(ZCDP, POSITIVE),
)


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


def test_a_refusal_after_a_raise_says_what_is_left_and_why_it_is_not_enough() -> None:
    """Spent and requested come to less than the raised total, at the best order; at the fixed one they do not fit."""
    budget, cost, tally = ApproxDP(0.05, 1e-9), ZCDP(2e-6), Tally()
    while times_left(budget, tally, cost):
        tally = after(budget, tally, cost)
    assert out_of_reach(budget, tally) == 0.0
    budget = ApproxDP(0.2, 1e-9)
    tally = after(budget, tally, cost, times_left(budget, tally, cost))
    unused = out_of_reach(budget, tally)
    assert unused == pytest.approx(0.2 - spent(budget, tally).epsilon - remaining(budget, tally).epsilon, rel=0.2)
    assert unused > 0.02
    with pytest.raises(BudgetExceeded) as error:
        after(budget, tally, cost)
    found = re.search(
        r"; spent epsilon=(\S+), delta=\S+; left epsilon=(\S+), delta=0;"
        r" requested rho=2e-06, which needs epsilon=(\S+) of what is left \((.*)\) \(ask for",
        str(error.value),
    )
    assert found, error.value
    gone, left, needs = (float(part) for part in found.groups()[:3])
    assert gone + left < 0.2
    assert left < needs
    assert found[4] == IN_RHO


def test_a_refusal_where_no_delta_is_left_says_what_fits_without_one() -> None:
    budget = Filter(ApproxDP(1.0, 1e-9))
    budget.spend(ZCDP(0.001))  # takes all delta
    with pytest.raises(
        BudgetExceeded, match=r"\(no delta is left: without one, ask for at most the epsilon=0\.\d+ or rho=0"
    ):
        budget.spend(ApproxDP(0.1, 1e-10))
    plain = Filter(ApproxDP(1.0, 1e-9))
    plain.spend(ApproxDP(0.5, 1e-9))
    with pytest.raises(BudgetExceeded, match=r"without one, ask for at most the epsilon=0\.5 that is left, or raise"):
        plain.spend(ApproxDP(0.1, 1e-10))
    plain.spend(ApproxDP(0.5, 0.0))  # as it was told


def test_what_rounding_leaves_is_nothing() -> None:
    budget = Filter(PureDP(1.0))
    for _ in range(10):
        budget.spend(PureDP(math.nextafter(0.1, 0)))
    with pytest.raises(BudgetExceeded, match="nothing is left unless you raise the total"):
        budget.spend(PureDP(0.1))


def test_a_total_of_another_kind_says_what_it_lacks() -> None:
    with pytest.raises(
        InvalidInput, match=r"epsilon=3 cannot hold a cost of epsilon=0\.1, delta=1e-09: it has no delta"
    ):
        Filter(PureDP(3.0)).spend(ApproxDP(0.1, 1e-9))
    with pytest.raises(InvalidInput, match="it is in rho, and has no delta"):
        Filter(ZCDP(3.0)).spend(ApproxDP(0.1, 1e-9))


def test_a_refusal_of_rho_says_what_it_takes_of_epsilon_and_delta() -> None:
    total, cost = ApproxDP(0.2, 1e-10), ZCDP(0.0067544947700)
    with pytest.raises(BudgetExceeded, match=r"requested rho=0\.0067545, which takes ") as error:
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


@given(
    st.sampled_from([PureDP(1.0), ZCDP(0.02), ApproxDP(1.0, 1e-6)]),
    st.lists(st.sampled_from([PureDP(0.05), ApproxDP(0.05, 1e-8), ZCDP(5e-4)]), max_size=12),
    st.sampled_from([PureDP(0.05), PureDP(0.3), PureDP(2.0), ApproxDP(0.05, 1e-8), ZCDP(5e-4), ZCDP(3e-3)]),
)
def test_how_often_a_cost_still_fits_is_how_often_it_is_spent(total: Cost, spends: list[Cost], cost: Cost) -> None:
    budget, tally = Filter(total), Tally()
    for spend in spends:
        if budget.admits(spend):
            budget.spend(spend)
            tally = after(total, tally, spend)
    times = 0
    while budget.admits(cost):
        budget.spend(cost)
        times += 1
    assert times_left(total, tally, cost) == times


def test_a_price_of_next_to_nothing_is_not_counted_for_ever() -> None:
    assert times_left(PureDP(1.0), Tally(), PureDP(1e-200)) == 10**9


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
    epsilon = budget._tally.epsilon
    assert epsilon.denominator.bit_length() <= 1075
    assert epsilon.numerator.bit_length() <= 1100


@pytest.mark.parametrize("made", [copy.copy, copy.deepcopy, pickle.dumps])
@pytest.mark.parametrize("purse", [Filter(PureDP(1.0)), Odometer(1e-6, ZCDP(0.01))])
def test_what_counts_a_budget_is_not_copied(purse: object, made: Callable[[object], object]) -> None:
    """Each copy would spend the whole budget."""
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        made(purse)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("purse", [Filter(PureDP(1.0)), Odometer(1e-6, ZCDP(0.01))])
def test_a_forked_child_cannot_spend_even_if_the_budget_was_locked(purse: Filter | Odometer) -> None:
    """Each would have the whole of it, and a lock that a thread held at the fork would be waited for for ever."""
    with purse._lock:
        if not (pid := os.fork()):
            signal.alarm(20)
            code = 1
            try:
                purse.spend(PureDP(0.5))
            except LedgerError as error:
                code = 0 if "after a fork" in str(error) else 2
            if isinstance(purse, Filter) and purse.admits(PureDP(0.5)):
                code = 3
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    purse.spend(PureDP(1.0))
