"""Estimates of a session: paid once, from its budget, and drawn by whoever comes after one that died."""

import json
from dataclasses import replace

import numpy as np
import pytest
from instead import Instead
from sessions import ADD, CAPS, DOMAIN, ONLINE, SWAP, TABLE, curator, opened
from worlds import coded, random_table

import qrelease as qr
from qrelease.errors import BudgetExceeded, InvalidInput, LedgerError, StreamHalted, TooLarge
from qrelease.privacy import ZCDP, ApproxDP, PureDP
from qrelease.privacy.filters import Filter
from qrelease.statistics.estimate import Estimate

ABOVE = qr.AboveThresholds(("c",), 900, positives=2)
ONE = PureDP(1.0)


@pytest.mark.parametrize("neighbours", [SWAP, ADD])
@pytest.mark.parametrize("cap", CAPS, ids=str)
def test_a_statistic_costs_what_it_does_of_a_curator(cap, neighbours):
    cost = ZCDP(0.5) if isinstance(cap, ZCDP) else ONE
    session = opened(cap=cap, neighbours=neighbours)
    before = session.spent
    quote = session.quote_estimate(ABOVE, cost)
    assert (quote.cost, quote.source, session.spent) == (cost, "measured", before)
    found = session.estimate(ABOVE, cost)
    own = curator(cap, neighbours, seed=2).estimate(ABOVE, cost)
    assert found.cost == own.cost == cost
    assert found.estimate.spends == own.spends
    assert [m.law for m in found.estimate.measured] == [m.law for m in own.measured]
    counts = np.bincount(TABLE.columns[2], minlength=4)
    assert found.estimate.value == own.value == tuple(str(i) for i in range(4) if counts[i] >= 900)[:2]
    assert session.estimate(ABOVE, cost) == type(found)(found.estimate, "cached", None)
    assert session.promised(ABOVE, cost) == own.promise


def test_a_larger_cost_is_another_estimate_and_then_answers_for_less():
    session = opened()
    small, large = session.estimate(ABOVE, PureDP(0.5)), session.estimate(ABOVE, ONE)
    assert (small.source, large.source) == ("measured", "measured")
    assert session.estimate(ABOVE, PureDP(0.75)).estimate == large.estimate
    assert session.estimate(ABOVE, PureDP(0.5)).estimate == small.estimate  # that of the first one never changes
    assert session.spent == PureDP(1.5)


def test_costs_of_two_kinds_do_not_stand_for_each_other():
    session = opened(cap=ApproxDP(50.0, 1e-6))
    session.estimate(ABOVE, ONE)
    assert session.quote_estimate(ABOVE, ZCDP(0.01)).source == "measured"
    assert session.quote_estimate(ABOVE, ONE).source == "cached"


@pytest.mark.parametrize(
    ("statistic", "cost", "told"),
    [
        (qr.SparseMean(2), ONE, "a session estimates sum, mean"),
        (qr.AboveThresholds, ONE, "a session estimates sum, mean"),
        (qr.Quantile("c", 1.5), ONE, "must be in"),
        (qr.Quantile("z"), ONE, "z"),
        (ABOVE, ZCDP(1.0), "cannot hold a cost of rho"),
        (ABOVE, 1.0, "cost"),
    ],
)
def test_what_is_refused_costs_nothing(statistic, cost, told):
    session = opened()
    for ask in (session.quote_estimate, session.estimate):
        with pytest.raises(InvalidInput, match=told):
            ask(statistic, cost)
    assert session.spent is None


@pytest.mark.parametrize("neighbours", [SWAP, ADD])
def test_an_estimate_with_a_delta_is_refused_as_it_could_use_up_that_of_the_answers(neighbours):
    cap = ApproxDP(2.0, 1e-6)
    session = opened(cap=cap, neighbours=neighbours)
    before = session.spent
    for cost in (ApproxDP(0.01, 1e-6), ApproxDP(0.01, 0.0)):
        for ask in (session.quote_estimate, session.estimate):
            with pytest.raises(InvalidInput, match="take rho, or epsilon alone"):
                ask(ABOVE, cost)
    assert session.spent == before
    assert session.estimate(ABOVE, ZCDP(0.001)).cost == ZCDP(0.001)
    assert session.estimate(ABOVE, PureDP(0.01)).source == "measured"


def test_a_test_of_many_cells_is_refused_before_the_charge_as_all_would_wait_for_it():
    wide = random_table(coded(33, 32, 1025), 100, seed=1)
    session = opened(table=wide)
    for statistic, cells in (
        (qr.IndependenceTest("a", "b"), "1,056"),
        (qr.FitTest("c", (1.0,) * 1025), "1,025"),
    ):
        for ask in (session.quote_estimate, session.estimate):
            with pytest.raises(TooLarge, match=f"of at most 1,024 cells, got {cells}"):
                ask(statistic, ONE)
    assert session.spent is None
    at_most = opened(table=random_table(coded(32, 32), 100, seed=1))
    assert at_most.estimate(qr.IndependenceTest("a", "b"), ONE).cost == ONE


def test_quantiles_of_many_groups_are_refused_before_the_charge_as_all_would_wait_for_them():
    table = random_table(coded(1025, 3, 512, 513), 2000, seed=1)
    session = opened(cap=PureDP(1000.0), table=table)
    for statistic, told in (
        (qr.Quantile("b", by=("a",)), "at most 1,024 groups, .* got 1,025 groups with 3 values"),
        (qr.Quantile("c", by=("d",)), "262,144 values of all groups together, got 513 groups with 512 values"),
    ):
        for ask in (session.quote_estimate, session.estimate):
            with pytest.raises(TooLarge, match=told):
                ask(statistic, ONE)
    assert session.spent is None
    assert len(session.estimate(qr.Quantile("c", 0.25, interval=False, by=("b",)), PureDP(100.0)).estimate.value) == 3


def test_a_statistic_of_ones_own_is_refused():
    """Its parameters may not tell it from another one, whose estimate would be given in its place."""

    class AboveThresholds:
        name = "above-thresholds"
        check = estimate = error_bound = None

    with pytest.raises(InvalidInput, match="dataclass"):
        opened().estimate(AboveThresholds(), ONE)
    made = type("AboveThresholds", (), {**ABOVE.__class__.__dict__, "__module__": "own"})
    own = made(("c",), 900)
    with pytest.raises(InvalidInput, match="a session estimates"):
        opened().estimate(own, ONE)


def test_the_cap_and_a_purse_hold_estimates_too():
    session, purse = opened(cap=PureDP(2.0)), Filter(PureDP(1.0))

    class Purse:
        spend = purse.spend

        def admits(self, cost):
            if not purse.admits(cost):
                raise BudgetExceeded("the purse is too small")

    with pytest.raises(BudgetExceeded, match="purse"):
        session.estimate(ABOVE, PureDP(1.5), Purse())
    with pytest.raises(BudgetExceeded, match="total epsilon=2"):
        session.estimate(ABOVE, PureDP(2.5))
    assert session.spent is purse.spent is None
    session.estimate(ABOVE, ONE, Purse())
    assert session.spent == purse.spent == ONE
    session.close()
    with pytest.raises(StreamHalted):
        session.estimate(ABOVE, ONE)


def test_an_estimate_is_not_made_in_a_transaction_that_could_undo_it(tmp_path):
    source = curator(path=tmp_path / "l")
    session = source.open(ONLINE, CAPS[0], key="k")
    with source.ledger.transaction(), pytest.raises(LedgerError, match="could undo"):
        session.estimate(ABOVE, ONE)
    with pytest.raises(ZeroDivisionError), session.together():
        session.estimate(ABOVE, ONE)
        raise ZeroDivisionError
    assert source.ledger.spent is None
    with pytest.raises(LedgerError, match="undone"):
        session.estimate(ABOVE, ONE)


def drawing(draw=None, **others):
    """The mechanism of sessions that draw estimates so, or do other steps otherwise."""
    changes = others if draw is None else {"draw": draw, **others}

    def join(private, journal):
        return ONLINE.join(replace(private, estimator=Instead(private.estimator, **changes)), journal)

    return Instead(ONLINE, join=join)


def test_what_was_paid_for_and_not_drawn_is_drawn_by_the_next_one(tmp_path):
    class DiesError(Exception):
        pass

    def dies(*_):
        raise DiesError

    first = opened(drawing(dies), path=tmp_path / "l", key="k", cap=PureDP(2.0))
    with pytest.raises(DiesError):
        first.estimate(ABOVE, ONE)
    later = opened(path=tmp_path / "l", key="k", cap=PureDP(2.0), seed=9)
    assert later.spent == ONE
    assert later.quote_estimate(ABOVE, ONE).cost is None
    found = later.estimate(ABOVE, ONE)
    assert (found.source, found.cost, later.spent) == ("measured", None, ONE)
    last = opened(path=tmp_path / "l", key="k", cap=PureDP(2.0))
    assert last.estimate(ABOVE, ONE).estimate == found.estimate
    assert last.spent == ONE


def test_a_refusal_after_the_charge_is_no_refusal():
    """It would let a transaction go on with a charge and without an estimate."""

    def refuses(*_):
        raise InvalidInput("too late")

    with pytest.raises(AssertionError, match="checked and charged"):
        opened(drawing(refuses)).estimate(ABOVE, ONE)


def test_what_was_bought_before_it_was_refused_is_told(tmp_path):
    table, asked = random_table(coded(1025, 3), 2000, seed=1), qr.Quantile("b", by=("a",))
    first = opened(drawing(check_short=lambda *_: None), path=tmp_path / "l", key="k", table=table)
    found = first.estimate(asked, ONE)
    later = opened(path=tmp_path / "l", key="k", table=table)
    assert (later.estimate(asked, ONE).source, later.quote_estimate(asked, ONE).source) == ("cached", "cached")
    assert later.estimate(asked, ONE).estimate == found.estimate
    with pytest.raises(TooLarge):
        later.estimate(asked, PureDP(2.0))


def test_the_journal_holds_the_estimate_and_nothing_else_of_the_table(tmp_path):
    session = opened(path=tmp_path / "l", key="k")
    found = session.estimate(qr.Mean("c"), ONE).estimate
    source = curator(cap=None, path=tmp_path / "l", seed=3)
    journal = source.ledger.session(CAPS[0], "online: a session", "k")
    entries = [json.loads(e) for e in journal.read()]
    bought = {"buy": "estimate", "cost": {"epsilon": 1.0}, "asked": entries[1]["asked"], "insecure": True}
    assert entries[1:] == [bought, {"of": 0, "estimate": json.loads(json.dumps(found.to_json())), "insecure": True}]
    assert json.loads(entries[1]["asked"])[0] == "mean"
    assert Estimate.from_json(entries[2]["estimate"]) == found


def test_answers_and_estimates_are_of_one_session(tmp_path):
    session = opened(path=tmp_path / "l", key="k")
    one = session.answer("a = 0")
    session.estimate(ABOVE, ONE)
    two = session.answer("b = 1")
    assert session.spent.epsilon == pytest.approx(one.cost.epsilon + 1.0 + two.cost.epsilon)
    later = opened(path=tmp_path / "l", key="k")
    assert [later.answer(q).value for q in ("a = 0", "b = 1")] == [one.value, two.value]
    assert np.array_equal(later.synopsis.values, session.synopsis.values)
    assert later.domain == DOMAIN
