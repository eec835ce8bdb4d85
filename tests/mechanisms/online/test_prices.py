"""Prices: quotes are what is charged, and what a synopsis costs is that of the tails of its noise."""

import dataclasses
import itertools
import math
import random
from functools import partial

import numpy as np
import pytest
from sessions import ADD, BOXES, CAPS, DOMAIN, SWAP, ledger_of, opened
from worlds import BOTH, coded, random_table

from qrelease.data.attribute import Attribute
from qrelease.data.domain import Domain
from qrelease.errors import TooLarge
from qrelease.inference.measurement import Measurement
from qrelease.inference.residuals import Estimates
from qrelease.mechanisms.online.prices import ALONE, Prices, _largest_weights, _precisions, _table_kinds
from qrelease.mechanisms.online.session import Online
from qrelease.noise.distributions import Noise
from qrelease.privacy import ZCDP, ApproxDP
from qrelease.queries.classes import Conjunctions, Everything, Parities, maximal_sets
from qrelease.queries.families import Cells
from qrelease.queries.workload import Group, Workload


@pytest.mark.parametrize("cap", CAPS)
def test_a_quote_is_what_is_charged(cap):
    ledger_costs = []
    with opened(cap=cap, neighbours=ADD) as session:
        for query, _ in BOXES[::3]:
            before = len(ledger_of(session).history())
            quote = session.quote(query)
            assert len(ledger_of(session).history()) == before
            answer = session.answer(query)
            charged = [e.cost for e in ledger_of(session).history()[before:]]
            assert answer.cost == quote.cost
            assert charged == ([quote.cost] if quote.cost else [])
            ledger_costs += charged
            assert answer.source == quote.source or quote.source == "hypothesis"
    assert len(ledger_costs) > 3


def test_a_quote_of_several_kinds_of_cost_is_what_they_come_to():
    cap = ApproxDP(40.0, 1e-6)
    with opened(Online(0.1, 0.01, Conjunctions(1)), cap, table=random_table(coded(3, 3, 3), 4_000, seed=1)) as session:
        texts = "a = 0", "b = 0 and c = 1"
        both = session.quote(Workload.predicates(session.domain, *texts))
        costs = [session.quote(text).cost for text in texts]
        for text in texts:
            session.answer(text)
        kinds = {type(cost) for cost in costs}
        assert ZCDP in kinds
        assert len(kinds) == 2
        assert both.cost == session.spent


def test_a_quote_has_each_synopsis_once():
    cap = ApproxDP(40.0, 1e-6)
    table = random_table(coded(*[3] * 6), 4_000, seed=1)
    with opened(Online(0.1, 0.01, Conjunctions(2)), cap, table=table) as session:
        texts = "a = 0", "b = 0", "a = 0 and b = 0 and c = 1"
        assert session.quote(Workload.predicates(session.domain, *texts[:2])).cost == session.quote(texts[0]).cost
        quote = session.quote(Workload.predicates(session.domain, *texts))
        session.answers(Workload.predicates(session.domain, *texts))
        assert quote.cost == session.spent


@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize("neighbours", BOTH)
def test_a_synopsis_costs_no_less_than_one_for_some_of_its_columns_and_queries(gaussian, neighbours):
    """By which most need no price; up to what the search for the best residuals leaves open."""
    domain = coded(4, 3, 2)
    prices = Prices(domain, neighbours, 400.0, 0.01, gaussian)
    offer = prices.residuals if gaussian else prices.table
    nested = [Conjunctions(k) for k in (1, 2, 3)] + ([] if gaussian else [Parities(), Everything()])
    sets = [axes for k in (1, 2, 3) for axes in itertools.combinations(range(3), k)]
    prices = {(axes, i): offer(0, axes, c).cost for axes in sets for i, c in enumerate(nested)}
    numbers = {name: cost.rho if gaussian else cost.epsilon for name, cost in prices.items()}
    for (axes, i), price in numbers.items():
        least = i if nested[i] == Everything() else 0
        assert all(price >= 0.999 * p for (some, k), p in numbers.items() if least <= k <= i and {*some} <= {*axes})


def test_what_noise_cannot_be_drawn_for_is_not_offered():
    """Else it would be paid for, and never answer."""
    domain = coded(300, 200, 10, 10)
    for records, offered in ((1e7, True), (1e8, False)):
        prices = Prices(domain, ADD, 0.1 * records, 0.001, True)
        for offer in (prices.residuals, partial(prices.approximate, delta=1e-7)):
            if offered:
                offer(0, (0, 1, 2, 3), Conjunctions(2))
            else:
                with pytest.raises(TooLarge, match=r"cannot be drawn: .* beyond 2\^40"):
                    offer(0, (0, 1, 2, 3), Conjunctions(2))


def test_prices_are_those_of_the_tails():
    prices = Prices(DOMAIN, ADD, 400.0, 0.01, False)
    assert prices.alone == pytest.approx(-math.log(ALONE * 0.01) / 400.5)
    everything = prices.table(0, (0, 1, 2), Everything())
    conjunctions = prices.table(0, (0, 1, 2), Conjunctions(3))
    assert prices.alone < conjunctions.cost.epsilon < everything.cost.epsilon
    swapped = Prices(DOMAIN, SWAP, 400.0, 0.01, False)
    assert swapped.alone == prices.alone
    assert swapped.table(0, (0, 1, 2), Everything()).cost.epsilon == pytest.approx(2 * everything.cost.epsilon)
    assert sum(prices.share(i) for i in range(10_000)) < 0.25 * 0.01
    with pytest.raises(TooLarge, match="cells"):
        Prices(coded(2000, 2000), ADD, 400.0, 0.01, False).table(0, (0, 1), Everything())


@pytest.mark.parametrize("neighbours", BOTH)
def test_the_worst_box_is_that_of_the_least_largest_variance(neighbours):
    """Eight columns of four values: the certified optimum of the worst box is 9.71 times σ."""
    prices = Prices(coded(*[4] * 8), neighbours, 2000.0, 0.001, True)
    offer = prices.residuals(0, tuple(range(8)), Conjunctions(3, ranges=True))
    worst = {ADD: 9.71, SWAP: 9.71 * math.sqrt(2)}[neighbours]
    z = 2000 * math.sqrt(2 * offer.cost.rho) / worst
    assert 5.4 < z < 5.75


@pytest.mark.parametrize("neighbours", BOTH)
def test_a_lower_bound_on_the_price_of_several_tables_is_one(neighbours):
    rng = random.Random(0)
    for _ in range(40):
        sizes = [rng.randint(2, 6) for _ in range(5)]
        columns = [Attribute(f"c{i}", "coded", codes=n, ordered=rng.random() < 0.5) for i, n in enumerate(sizes)]
        prices = Prices(Domain(tuple(columns)), neighbours, 2000.0, 0.001, False)
        sets = [tuple(sorted(rng.sample(range(5), rng.randint(1, 3)))) for _ in range(rng.randint(1, 5))]
        among = tuple(sorted(maximal_sets(sets)))
        axes = tuple(sorted({a for s in among for a in s}))
        conjunctions = Conjunctions(max(map(len, among)), weighted=True, simple=True, among=among)
        price = prices.tables(3, axes, conjunctions).cost.epsilon
        assert 0.02 * price < prices.least_of_tables(3, axes, conjunctions) <= price


def test_a_lower_bound_counts_on_small_columns_of_other_tables():
    """A table of two cells tells how many records there are better than one of a thousand does."""
    prices, conjunctions = Prices(coded(1000, 2), ADD, 2000.0, 0.001, False), Conjunctions(1, among=((0,), (1,)))
    simple = dataclasses.replace(conjunctions, weighted=True, simple=True)
    assert prices.least_of_tables(0, (0, 1), simple) <= prices.tables(0, (0, 1), simple).cost.epsilon


def test_the_price_of_tables_is_that_of_the_sizes_of_their_columns():
    conjunctions = Conjunctions(2, weighted=True, simple=True, among=((0, 1), (1, 2)))
    turned = dataclasses.replace(conjunctions, among=((0, 1), (0, 2)))
    offer = Prices(coded(2, 3, 4), ADD, 400.0, 0.01, False).tables(0, (0, 1, 2), conjunctions)
    other = Prices(coded(3, 4, 2), ADD, 400.0, 0.01, False).tables(0, (0, 1, 2), turned)
    assert offer.cost == other.cost
    moved = {0: 2, 1: 0, 2: 1}
    measured = {tuple(sorted(moved[a] for a in group.axes)) for group in offer.workload.groups}
    assert measured == {group.axes for group in other.workload.groups}


@pytest.mark.parametrize("replace", [False, True])
def test_weights_of_noise_in_answers_from_several_tables_are_those_of_their_estimates(replace):
    """The largest weight and the sum of squares, beside unit noise on one cell after another."""
    domain, tables = coded(2, 3, 4), [(0, 1), (1, 2), (1,)]
    conjunctions = Conjunctions(2, ranges=True, among=((0, 1), (1, 2)))
    sets = list(conjunctions.subsets((0, 1, 2)))
    kinds, _ = _table_kinds(domain, conjunctions, sets)
    place = {s: i for i, s in enumerate(sets)}
    precisions = _precisions(domain, sets)[[place[t] for t in tables]]
    known = precisions.sum(axis=0)
    if replace:
        known[place[()]] = math.inf
    squares = kinds @ (1 / known)
    largest = _largest_weights(domain, conjunctions, sets, precisions / known)
    law, expected = Noise("discrete Laplace", 1.0), []
    for s in sets:
        weights = []
        for table, cell in ((t, i) for t in tables for i in range(domain.cells(t))):
            drawn = [np.eye(domain.cells(t))[cell] if t == table else np.zeros(domain.cells(t)) for t in tables]
            measured = [Measurement(Group(t, Cells(v.size)), v, law) for t, v in zip(tables, drawn, strict=True)]
            weights.append(Estimates.of(domain, measured, 0.0 if replace else None).marginal(s)[0])
        for sides in itertools.product(*(range(1, domain.shape[a]) for a in s)):
            of_query = np.array([w[tuple(slice(m) for m in sides)].sum() for w in weights])
            expected.append(((of_query**2).sum(), np.abs(of_query).max()))
    assert np.stack([squares, largest], axis=1) == pytest.approx(np.array(expected), abs=1e-12)
