"""What a session buys and when: synopses by the rule of the ski rental, sparse vectors by credit."""

import math
from collections import Counter
from itertools import combinations, product

import numpy as np
import pytest
from sessions import (
    ADD,
    BOXES,
    CAPS,
    ONLINE,
    TABLE,
    curator,
    mask,
    opened,
    spent,
    state_of,
)
from worlds import BOTH, coded, random_table

from qrelease.data.table import Table
from qrelease.mechanisms.online.purchasing import POLICY
from qrelease.mechanisms.online.session import Online
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ZCDP, ApproxDP, PureDP, zcdp_epsilon
from qrelease.privacy.ledger import Ledger
from qrelease.queries.classes import Conjunctions
from qrelease.release.curator import Curator


def test_a_synopsis_is_bought_when_the_rent_is_due():
    with opened(neighbours=ADD) as session:
        start, paid = spent(session), 0.0
        for query, _ in BOXES:
            answer = session.answer(query)
            if answer.source == "synopsis":
                break
            paid += answer.cost.epsilon if answer.cost else 0.0
        price = answer.cost.epsilon
        assert POLICY.synopsis_share * price <= paid <= POLICY.synopsis_share * price + state_of(session).prices.alone
        for query, _ in BOXES:
            session.answer(query)
        assert spent(session) == pytest.approx(start + paid + price)


@pytest.mark.parametrize("cap", CAPS)
def test_for_a_declared_class_it_is_bought_with_the_first_query(cap):
    with opened(Online(0.1, 0.01, Conjunctions(2)), cap) as session:
        quote = session.quote("a = 0 and c = 1")
        first = session.answer("a = 0 and c = 1")
        assert (first.source, first.cost) == ("synopsis", quote.cost) == (quote.source, quote.cost)
        assert session.answer("b = 0 and c = 1").cost is None
        assert session.answer("a = 0 and b = 0 and c = 1").source == "measured"  # not of the class


@pytest.mark.parametrize("neighbours", BOTH)
def test_in_epsilon_and_delta_a_declared_synopsis_is_bought_outright(tmp_path, neighbours):
    """Cheaper than by way of ρ; what is spent in ρ afterwards has the δ that is left."""
    cap, domain = ApproxDP(40.0, 1e-6), coded(*[3] * 6)
    table = random_table(domain, 4_000, seed=1)
    mechanism = Online(0.1, 0.01, Conjunctions(2))
    with opened(mechanism, cap, neighbours, table, tmp_path / "l", key="s") as session:
        quote = session.quote("a = 0 and c = 1")
        session.answer("a = 0 and c = 1")
        bought = state_of(session).purchases[-1]
        assert quote.cost == bought.cost == ApproxDP(bought.cost.epsilon, 0.875e-6)
        state = state_of(session)
        assert bought.cost.epsilon < state.prices.table(0, tuple(range(6)), Conjunctions(2)).cost.epsilon
        by_rho = state.prices.residuals(0, tuple(range(6)), Conjunctions(2)).cost
        assert bought.cost.epsilon < 0.95 * zcdp_epsilon(by_rho.rho, 1e-6)
        more = session.answer("a = 0 and b = 0 and c = 1")
        assert isinstance(more.cost, ZCDP)
        after = session.spent
        assert bought.cost.epsilon < after.epsilon < cap.epsilon
        assert after.delta == cap.delta
    with opened(mechanism, cap, neighbours, table, tmp_path / "l", key="s") as again:
        assert again.spent == after
        assert again.answer("b = 2 and f = 1").source == "synopsis"


def test_where_something_was_spent_in_rho_a_declared_synopsis_is_too():
    cap = ApproxDP(40.0, 1e-6)
    source = curator(cap)
    with source.open(Online(0.1, 0.01, Conjunctions(2)), cap) as session:
        assert isinstance(session.answer("a = 0 and b = 0 and c = 1").cost, ZCDP)
        assert isinstance(session.answer("a = 0 and c = 1").cost, ZCDP)
    source.ledger.charge(ZCDP(1e-6), "something else")
    with source.open(Online(0.1, 0.01, Conjunctions(2)), cap) as session:
        assert isinstance(session.answer("a = 0 and c = 1").cost, ZCDP)  # the ledger has no δ for more


def test_few_synopses_have_to_be_priced(priced_synopses):
    """Though most queries are on other columns than those before: without a bound, three prices for each union."""
    priced = priced_synopses("table")
    domain = coded(*[3] * 8)
    with opened(table=random_table(domain, 4_000, seed=1)) as session:
        for i in range(16):
            names = {domain.names[i % 8], domain.names[i // 2]}
            text = " and ".join(f"{name} = {i % 3}" for name in sorted(names))
            assert session.quote(text).source in ("measured", "cached")
            session.answer(text)
        assert len(state_of(session).purchases) > 8
    assert 1 <= len(priced) <= 6


def test_a_sparse_vector_answers_where_the_hypothesis_is_right():
    """Cells as if drawn at random, and queries that no table was bought for in time: most answers are free."""
    domain = coded(16, 16)
    rng = np.random.default_rng(3)
    table = Table(domain, tuple(rng.integers(0, 16, (2, 20_000))))
    exact = table.histogram()
    session = opened(Online(0.1, 1e-4), table=table)
    state_of(session).policy.synopsis_share = math.inf  # nobody lets a synopsis
    sources = Counter()
    for _ in range(250):
        row = rng.integers(0, 2, domain.size)
        answer = session.answer(mask(row, domain))
        sources[answer.source] += 1
        assert abs(answer.value - row @ exact) <= answer.error
    assert sources["hypothesis"] > 150
    kinds = Counter(p.kind for p in state_of(session).purchases)
    assert kinds["sparse"] >= 1
    assert spent(session) < 0.5 * 250 * state_of(session).prices.alone


def test_a_forked_process_pays_for_a_sparse_vector_of_its_own(monkeypatch):
    """In the one that it is carried into, an open sparse vector is halted: it is dropped, and nothing fails."""
    domain = coded(16, 16)
    rng = np.random.default_rng(3)
    session = opened(Online(0.1, 1e-4), table=Table(domain, tuple(rng.integers(0, 16, (2, 20_000)))))
    state_of(session).policy.synopsis_share = math.inf

    def vectors():
        return sum(p.kind == "sparse" for p in state_of(session).purchases)

    while not session.listening:
        session.answer(mask(rng.integers(0, 2, domain.size), domain))
    before = vectors()
    monkeypatch.setattr("qrelease.noise.sparse_vector._forks", 1_000)  # as after a fork, in the child
    assert not session.listening
    while not session.listening:
        query = mask(rng.integers(0, 2, domain.size), domain)
        quote = session.quote(query)
        answer = session.answer(query)
        assert (answer.cost.epsilon if answer.cost else 0) <= (quote.cost.epsilon if quote.cost else 0)
    assert vectors() > before


def test_a_synopsis_that_is_not_covered_leaves_direct_answers():
    ledger = Ledger.open(None, PureDP(1.0), neighbours=ADD)
    session = Curator(TABLE, ledger, Entropy.insecure(1)).open(Online(0.1, 0.01, Conjunctions(3)), PureDP(0.06))
    assert session.answer("a = 0").source == "measured"


@pytest.mark.parametrize("cap", CAPS[:2], ids=["pure", "rho"])
def test_prices_that_were_foreseen_are_waited_for_no_more_and_change_nothing(cap, priced_synopses):
    """The same is bought for the same stream, whether or not there is time to work prices out ahead."""
    domain = coded(*[2] * 6)
    priced = priced_synopses("residuals" if isinstance(cap, ZCDP) else "table")
    texts = [f"{'abcdef'[i]} = 0 and {'abcdef'[i + 1 + j]} = 1" for i in range(5) for j in range(5 - i)]

    def stream(*, idle):
        waited = []
        with opened(ONLINE, cap, table=random_table(domain, 4_000, 1)) as session:
            for text in texts:
                while idle and session.learn():
                    pass
                before = len(priced)
                source = session.answer(text).source
                waited.append((source, len(priced) - before))
            return waited, session.spent

    (idle, spent_idle), (busy, spent_busy) = stream(idle=True), stream(idle=False)
    assert [source for source, _ in idle] == [source for source, _ in busy]
    assert spent_idle == spent_busy
    assert idle[1] == ("measured", 0)
    assert busy[1][1] > 0


def test_tables_of_the_last_columns_are_priced_while_there_is_time(priced_synopses):
    priced = priced_synopses("tables")
    texts = [f"a = {i} and b = {j}" for i in range(4) for j in range(4)]

    def stream(*, idle):
        waited = 0
        with opened(ONLINE, PureDP(20.0), table=random_table(coded(4, 4, 4, 4), 4_000, 1)) as session:
            for text in texts:
                while idle and session.learn():
                    pass
                before = len(priced)
                if session.answer(text).source == "synopsis":
                    return waited, session.spent
                waited += len(priced) - before
        raise AssertionError("no synopsis was bought")

    (idle, spent_idle), (busy, spent_busy) = stream(idle=True), stream(idle=False)
    assert spent_idle == spent_busy
    assert busy > idle == 0


def test_where_too_many_sets_were_shown_tables_are_of_the_columns_that_are_asked_about():
    """Bought when what was paid on these columns, and on some of them, is the share of their price: not before."""
    domain, rng = coded(*[3] * 8), np.random.default_rng(1)
    sets = [*combinations("abcdefgh", 5)]
    spread = [" and ".join(f"{name} = {rng.integers(3)}" for name in sets[i]) for i in rng.permutation(len(sets))[:30]]
    few = [f"b = {j} and c = {k}" for j, k in product(range(3), repeat=2)][:4]
    texts = [f"a = {i} and b = {j} and c = {k}" for i, j, k in product(range(3), repeat=3)]
    with opened(ONLINE, PureDP(100.0), table=random_table(domain, 4_000, 1)) as session:
        assert {session.answer(text).source for text in (*spread, *few)} == {"measured"}
        prices, rent = state_of(session).prices, len(few) * state_of(session).prices.alone
        asked = Conjunctions(3, weighted=True, simple=True, among=((0, 1, 2),))
        due = POLICY.synopsis_share * prices.tables(0, (0, 1, 2), asked).cost.epsilon
        for text in texts:
            answer = session.answer(text)
            assert (answer.source == "synopsis") == (rent >= due), text
            if answer.source == "synopsis":
                break
            rent += answer.cost.epsilon
        assert rent < due + prices.alone
        assert answer.cost == prices.tables(0, (0, 1, 2), asked).cost
        assert session.answer(texts[-1]).cost is session.answer("a = 2").cost is None
