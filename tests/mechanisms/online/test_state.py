"""The state of a session, from its journal: what is counted and paid, and the same however long the journal is."""

import json
import math
from collections import Counter

import numpy as np
import pytest
from sessions import (
    ADD,
    BOXES,
    CAPS,
    DOMAIN,
    curator,
    ledger_of,
    opened,
    state_of,
)
from worlds import random_table

from qrelease.data.table import Table
from qrelease.errors import InvalidInput, LedgerError
from qrelease.inference.histogram import Histogram
from qrelease.mechanisms.online.prices import ALONE
from qrelease.mechanisms.online.session import Online
from qrelease.privacy import ZCDP, ApproxDP, PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.queries.canonical import CanonicalQuery
from qrelease.queries.classes import Conjunctions


def _long(session, count):
    """Append so many paid answers to the journal, as if they had been asked: what they say, and their steps."""
    rng, state, ledger = np.random.default_rng(0), state_of(session), ledger_of(session)
    (entry,) = (e for e in ledger.history() if e.kind == "session")
    journal = Ledger.open(str(ledger.store.place)).session(entry.cost, entry.label, "s")
    journal.read()
    first = len(state.purchases)
    rows = rng.integers(0, 1 << 24, count)
    cost = state.prices.cost(state.prices.alone).to_json()
    with journal.writing():
        for i, row in enumerate(rows.tolist()):
            number, name = first + i, CanonicalQuery((0, 1, 2), 1.0, row.to_bytes(3, "big")).to_text()
            bought = {"buy": "answers", "cost": cost, "order": 5, "axes": [0, 1, 2], "asked": name}
            due = sorted({number, *rng.integers(first, number + 1, 3).tolist()})
            steps = [[at, [int(s)]] for at, s in zip(due, rng.integers(-1000, 1001, len(due)), strict=True)]
            found = {"of": number, "values": [[int(rng.integers(0, 4_000))]], "steps": steps, "right": True}
            lines = [json.dumps(entry).encode() for entry in (bought, found)]
            for line in lines:
                journal.append(line)
    session.catch_up()


@pytest.mark.parametrize("count", [2_000, pytest.param(30_000, marks=pytest.mark.slow)])
def test_a_long_journal_is_gone_on_with_in_a_pass_and_with_the_same_hypothesis(tmp_path, monkeypatch, count):
    """So many paid answers: whoever opens the session learns none of them again, before the first answer or in it."""
    path, cap = tmp_path / "l", PureDP(1e6)
    live = opened(cap=cap, path=path, key="s")
    state_of(live).policy.synopsis_share = math.inf
    for query, _ in BOXES[:20]:
        live.answer(query)
        live.synopsis  # noqa: B018  takes part in what comes
    _long(live, count)
    passes = Counter()

    def counted(name, method):
        monkeypatch.setattr(Histogram, name, lambda *arguments: (passes.update([name]), method(*arguments))[1])

    for name in ("update", "multiply", "answer"):
        counted(name, getattr(Histogram, name))
    again = opened(cap=cap, path=path, key="s", seed=5)
    state_of(again).policy.synopsis_share = math.inf
    assert not passes
    answer = again.answer(BOXES[100][0])
    assert answer.source == "measured"
    assert passes["multiply"] <= 2
    assert passes["update"] <= 4
    assert passes["answer"] <= 5
    live.catch_up()
    hypothesis = live.synopsis.values
    assert np.ptp(hypothesis) > 100  # it has learned
    np.testing.assert_array_equal(again.synopsis.values, hypothesis)
    assert (again.spent, len(state_of(again))) == (live.spent, len(state_of(live)))
    assert again.answer(BOXES[100][0]).value == answer.value


@pytest.mark.parametrize("cap", CAPS)
def test_counting_the_records_costs_little_more_than_the_last_count(cap):
    """Doubling alone would cost from twice to four times as much as it must."""
    paid = []
    for seed in range(40):
        with opened(Online(0.03, 0.01), cap, ADD, seed=seed) as session:
            found = [p.entry["epsilon"] for p in state_of(session).purchases]
            paid.append(sum(found) * 4_000 / state_of(session).precise_count)
            assert found[-1] * session.records >= state_of(session).precise_count
    assert np.mean(paid) < 2.3


@pytest.mark.parametrize("declared", [None, Conjunctions(3)])
def test_the_parts_of_beta_are_all_of_it(declared):
    with opened(Online(0.1, 0.01, declared)) as session:
        prices = state_of(session).prices
        parts = ALONE * prices.beta + sum(prices.share(i) for i in range(100_000))
        assert 0.999 * 0.01 < parts + (prices.share(None) if declared else 0) <= 0.01
        if declared:
            session.answer("a = 0")
            (bought,) = state_of(session).purchases
            assert bought.cost == prices.table(None, (0, 1, 2), declared).cost
            assert bought.cost.epsilon < 0.97 * prices.table(0, (0, 1, 2), declared).cost.epsilon


def test_too_few_records_are_refused_and_not_divided_by():
    with pytest.raises(InvalidInput, match="too few records"):
        for seed in range(60):
            few = Table(DOMAIN, [np.zeros(6, np.uint8) for _ in DOMAIN])
            session = opened(Online(alpha=0.1, beta=0.5), PureDP(50.0), ADD, few, seed=seed)
            session.answer("a = 0")


def test_a_cap_that_can_count_nothing_opens_no_session():
    source = curator(PureDP(1.0), ADD)
    with pytest.raises(InvalidInput, match="too few records") as refused:
        source.open(Online(0.1, 0.01), PureDP(1e-9), key="k")
    assert "charged" not in str(refused.value)
    assert source.ledger.spent is None
    assert not source.ledger.knows("k")


@pytest.mark.parametrize("cap", [PureDP(1.0), ZCDP(0.1), ApproxDP(1.0, 1e-6)])
def test_too_few_records_do_not_cost_the_whole_ledger(cap):
    source = curator(cap, ADD, random_table(DOMAIN, 3, seed=1))
    with pytest.raises(InvalidInput, match=r"too few records.*take a larger alpha") as refused:
        source.open(Online(0.001, 0.01), cap, key="k")
    spent = source.ledger.spent
    assert f"{spent:.6g} was charged, which stays spent, and the session with key 'k' keeps its alpha" in str(
        refused.value
    )
    with pytest.raises(LedgerError, match="key=NAME"):  # the same key again leads nowhere, but another one does
        source.open(Online(0.9, 0.5), cap, key="k")
    assert "open another session by key=NAME in Python, or serve --session NAME" in str(refused.value)
    assert "records=N (--records N)" in str(refused.value)
    assert spent.epsilon < 0.7 * cap.epsilon if hasattr(cap, "epsilon") else spent.rho < 0.1 * cap.rho
