"""Costs and sums as texts of a ledger: read again exactly, and names that no ledger could write are refused."""

import json
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qrelease.errors import InvalidInput, LedgerError
from qrelease.privacy import ZCDP, ApproxDP, PureDP
from qrelease.privacy.filters import RhoAccount, Tally
from qrelease.privacy.ledger_texts import checked_text, cost_from_text, cost_text, tally_from_text, tally_text

SIZES = st.floats(min_value=1e-300, max_value=1e300)
TOTAL = ApproxDP(1.0, 1e-6)


@given(SIZES, st.floats(min_value=0, max_value=1 - 2**-53))
def test_costs_are_read_as_they_were_to_the_last_bit(size, delta):
    for cost in (PureDP(size), ZCDP(size), ApproxDP(size, delta)):
        found = cost_from_text(cost_text(cost))
        assert found == cost
        assert type(found) is type(cost)


@given(st.fractions(min_value=0), st.fractions(min_value=0), st.fractions(min_value=0), st.booleans())
def test_sums_are_read_exactly(epsilon, delta, rho, opened):
    account = RhoAccount(epsilon, Fraction(1, 10**6), Fraction(7, 3)) if opened else None
    tally = Tally(epsilon, delta, rho, account)
    assert tally_from_text(tally_text(tally), TOTAL) == tally


def test_an_account_without_an_order_takes_that_of_the_total_it_was_opened_under():
    text = json.dumps(["0", "1/1000000", "1/100", ["0", "1/1000000"]])
    found = tally_from_text(text, TOTAL).account
    assert found == RhoAccount.opened(TOTAL, Fraction(0), Fraction(1, 10**6))
    assert found != RhoAccount.opened(ApproxDP(2.0, 1e-6), Fraction(0), Fraction(1, 10**6))
    with pytest.raises(LedgerError, match="no account in rho"):
        tally_from_text(text, PureDP(1.0))


@pytest.mark.parametrize("value", ["", None, 3, b"people", "a\ud800b"], ids=repr)
def test_what_is_no_text_names_nothing(value):
    with pytest.raises(InvalidInput, match=r"^dataset must be a text"):
        checked_text("dataset", value)
    assert checked_text("dataset", "Leute\n") == "Leute\n"
