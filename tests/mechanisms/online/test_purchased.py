"""Synopses that were bought: no answer of their class is off by more than was promised, and none is missing."""

import math

import numpy as np
import pytest
from sessions import (
    BOXES,
    DOMAIN,
    EXACT,
    SWAP,
    TABLE,
)
from worlds import BOTH, private

from qrelease.mechanisms.online.prices import Prices
from qrelease.mechanisms.online.purchased import PurchasedSynopsis
from qrelease.privacy import ZCDP, ApproxDP, PureDP
from qrelease.queries.canonical import canonical_name
from qrelease.queries.classes import Conjunctions, Everything
from qrelease.queries.workload import Workload


@pytest.mark.parametrize("kind", ["conjunctions", "everything", "residuals", "approximate", "tables"])
@pytest.mark.parametrize("neighbours", BOTH)
def test_an_adversary_who_knows_the_noise_finds_no_answer_off_by_more(kind, neighbours):
    """All queries of the class at once, 300 times: seldom one is off; and with a scale 30 % larger it is often."""
    prices = Prices(DOMAIN, neighbours, 300.0, 0.4, kind == "residuals")
    if kind == "residuals":
        offer = prices.residuals(0, (0, 1, 2), Conjunctions(3))
    elif kind == "approximate":
        offer = prices.approximate(0, (0, 1, 2), Conjunctions(3), 1e-6)
    elif kind == "tables":
        offer = prices.tables(0, (0, 1, 2), Conjunctions(3, weighted=True, simple=True, among=((0, 1), (0, 2), (1, 2))))
        assert len(offer.workload.groups) >= 3
    else:
        offer = prices.table(0, (0, 1, 2), Conjunctions(3) if kind == "conjunctions" else Everything())
    total = {"residuals": ZCDP(1e3), "approximate": ApproxDP(1e6, 1e-2)}.get(kind, PureDP(1e6))
    door = private(TABLE, total, neighbours)
    asked = [(canonical_name(DOMAIN, query.groups[0])[0], row) for query, row in BOXES]
    asked = [(query, row) for query, row in asked if kind == "everything" or offer.answers(query)]
    members, rows = [query for query, _ in asked], np.array([row for _, row in asked])
    worst = []
    for _ in range(300):
        bought = PurchasedSynopsis(
            DOMAIN, offer, door.measure(offer.workload, offer.cost), 4_000.0 if neighbours is SWAP else None
        )
        if kind == "tables":
            exact = rows @ EXACT.reshape(-1)
            worst.append(np.abs([bought.answer(query) for query in members] - exact).max() / 300)
            continue
        noise = bought.marginal((0, 1, 2)) - EXACT.reshape(-1)
        off = (
            np.abs(rows @ noise).max() if kind != "everything" else max(noise[noise > 0].sum(), -noise[noise < 0].sum())
        )
        worst.append(off / 300)
    share = prices.share(0)
    assert np.mean(np.array(worst) > 1) <= share + 3 * math.sqrt(share / 300)
    assert np.median(worst) > 0.4
    assert np.mean(1.5 * np.array(worst) > 1) > share


def bought(offer, neighbours=SWAP):
    cost = offer.cost
    door = private(TABLE, ZCDP(1e3) if isinstance(cost, ZCDP) else PureDP(1e6), neighbours)
    measured = door.measure(offer.workload, cost)
    return PurchasedSynopsis(DOMAIN, offer, measured, 4_000.0 if neighbours is SWAP else None), measured


@pytest.mark.parametrize("neighbours", BOTH)
@pytest.mark.parametrize("kind", ["table", "residuals"])
def test_it_answers_the_queries_of_its_class_from_what_was_drawn(kind, neighbours):
    prices = Prices(DOMAIN, neighbours, 300.0, 0.1, kind == "residuals")
    offer = getattr(prices, kind)(0, (0, 2), Conjunctions(2))
    made, _ = bought(offer, neighbours)
    wide = made.marginal((0, 2)).reshape(2, 4)
    assert np.abs(wide - EXACT.sum(axis=1)).max() < 300
    assert made.marginal((2,)) == pytest.approx(wide.sum(axis=0))
    for text, answers, value in (
        ("a = 1 and c in {0, 3}", True, wide[1, [0, 3]].sum()),
        ("c >= 2", True, wide[:, 2:].sum()),
        ("a = 0 or c = 1", False, None),  # no conjunction
        ("a = 0 and b = 1", False, None),  # on another column
    ):
        query, _ = canonical_name(DOMAIN, Workload.predicates(DOMAIN, text).groups[0])
        assert made.answers(query) == answers
        if answers:
            assert made.answer(query) == pytest.approx(value)


def test_a_hypothesis_is_fitted_to_the_table_or_to_the_largest_marginals():
    table, measured = bought(Prices(DOMAIN, SWAP, 300.0, 0.1, False).table(0, (0, 1), Conjunctions(2)))
    assert table.marginals() == measured
    residuals, _ = bought(Prices(DOMAIN, SWAP, 300.0, 0.1, True).residuals(0, (0, 1, 2), Conjunctions(2)))
    found = residuals.marginals()
    assert sorted(m.group.axes for m in found) == [(0, 1), (0, 2), (1, 2)]
    for m in found:
        assert m.values == pytest.approx(residuals.marginal(m.group.axes))
        away = tuple(a for a in range(3) if a not in m.group.axes)
        off = m.values - EXACT.sum(axis=away).reshape(-1)
        assert np.abs(off).max() < 6 * np.sqrt(m.variance)
