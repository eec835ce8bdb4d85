"""Analysts: what each may spend and was answered, and who they are."""

import json
from hashlib import sha256

import pytest

from qrelease.errors import BudgetExceeded, InvalidInput, LedgerError
from qrelease.privacy import ZCDP, ApproxDP, PureDP, analyst_store
from qrelease.privacy.analysts import Analysts, Revoked
from qrelease.privacy.filters import after
from qrelease.privacy.ledger import Ledger
from qrelease.privacy.ledger_texts import tally_from_text


def test_an_analyst_without_an_order_goes_on_with_that_of_the_budget():
    budget = ApproxDP(0.5, 1e-10)
    with Ledger.open(None, ApproxDP(1.0, 1e-9)) as ledger:
        analysts = Analysts(ledger)
        analysts.add("ada", budget)
        with analysts.account("ada") as account:
            account.spend(ZCDP(1e-3))
        with ledger.store.writing():
            row = analyst_store.by_name(ledger.store, "ada")
            sums = json.loads(row.tally)
            without = row._replace(tally=json.dumps([*sums[:3], sums[3][:2]]))
            assert analyst_store.replace(ledger.store, row, without)
        assert tally_from_text(row.tally, budget).account is not None
        with analysts.account("ada") as account:
            account.spend(ZCDP(1e-3))
        with ledger.store.reading():
            later = tally_from_text(analyst_store.by_name(ledger.store, "ada").tally, budget)
        before = tally_from_text(row.tally, budget)
        assert later.account.order == before.account.order
        assert later == after(budget, before, ZCDP(1e-3))


ONE = PureDP(1.0)


@pytest.fixture
def ledger(path):
    with Ledger.open(path) as opened:
        yield opened


@pytest.mark.parametrize("name", ["", "-ada", ".", "a b", "ada\n", "ä", "a" * 65, 3, None])
def test_a_name_that_is_none_is_refused(ledger, name):
    with pytest.raises(InvalidInput, match="an analyst's name has 1 to 64 letters"):
        Analysts(ledger).add(name, ONE)
    assert Analysts(ledger).list() == ()


@pytest.mark.parametrize("name", ["a", "ada@example.org", "9_.-@", "a" * 64])
def test_other_names_are_taken_once(ledger, name):
    Analysts(ledger).add(name, ONE)
    with pytest.raises(InvalidInput, match="already"):
        Analysts(ledger).add(name, ONE)
    assert [a.name for a in Analysts(ledger).list()] == [name]


def test_a_budget_is_of_the_kind_of_the_total(ledger):
    for wrong in (ApproxDP(0.5, 1e-9), ZCDP(0.1)):
        with pytest.raises(InvalidInput, match="an analyst's budget is an epsilon alone, as the total has, epsilon=1"):
            Analysts(ledger).add("ada", wrong)
    with pytest.raises(InvalidInput, match="the cost must be"):
        Analysts(ledger).add("ada", 0.5)
    with Ledger.open(None, ApproxDP(1.0, 1e-9)) as other, pytest.raises(InvalidInput, match="has a delta too"):
        Analysts(other).add("ada", ONE)


def test_a_token_is_in_no_file_and_is_good_until_another_is_issued(ledger, path):
    analysts = Analysts(ledger)
    first = analysts.add("ada", ONE)
    other = analysts.add("bob", ONE)
    assert len({first, other}) == 2
    assert (analysts.holder(first).name, analysts.holder(other).name) == ("ada", "bob")
    for guess in ("", first[:-1], first.swapcase(), sha256(first.encode()).hexdigest(), "\ud800"):
        assert analysts.holder(guess) is None
    second = analysts.reissue("ada")
    assert (analysts.holder(first), analysts.holder(second).name) == (None, "ada")
    analysts.revoke("ada")
    assert analysts.holder(second) is None
    assert not analysts.named("ada").active
    with pytest.raises(Revoked, match="the token of 'ada' was revoked"), analysts.account("ada"):
        pass
    with pytest.raises(InvalidInput, match=r"the analyst 'ada' was revoked: .*--restore"):
        analysts.reissue("ada")
    assert not analysts.named("ada").active
    assert analysts.holder(second) is None
    third = analysts.reissue("ada", restore=True)
    assert analysts.holder(third).active
    stored = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert all(token.encode() not in stored for token in (first, second, third, other))
    assert sha256(third.encode()).hexdigest().encode() in stored


def test_of_nobody_there_is_nothing(ledger):
    analysts = Analysts(ledger)
    for use in (
        lambda: analysts.named("eve"),
        lambda: analysts.revoke("eve"),
        lambda: analysts.reissue("eve"),
        lambda: analysts.raise_budget("eve", ONE),
        lambda: analysts.requests("eve", 1, 1),
        lambda: analysts.account("eve").__enter__(),
    ):
        with pytest.raises(InvalidInput, match="there is no analyst 'eve'"):
            use()


@pytest.mark.parametrize("wrong", [PureDP(0.5), PureDP(0.25), ApproxDP(1.0, 1e-9), ZCDP(9.0)])
def test_a_budget_is_only_raised(ledger, wrong):
    analysts = Analysts(ledger)
    analysts.add("ada", PureDP(0.5))
    with pytest.raises(
        InvalidInput,
        match=r"must be larger than epsilon=0\.5, whose place it takes: a larger epsilon, without a delta; got ",
    ):
        analysts.raise_budget("ada", wrong)
    analysts.raise_budget("ada", PureDP(0.75))
    assert analysts.named("ada").budget == PureDP(0.75)


def test_what_was_spent_before_a_refusal_stays_spent(ledger):
    """The answer that it paid for was drawn; what would go beyond the budget takes nothing."""
    analysts = Analysts(ledger)
    analysts.add("ada", PureDP(0.5))
    analysts.add("bob", PureDP(0.5))
    with analysts.account("ada") as account:
        account.spend(PureDP(0.25))
        with pytest.raises(BudgetExceeded, match=r"ada's budget exceeded.*the data holder can raise your budget"):
            account.spend(PureDP(0.5))
    assert analysts.named("ada").spent == PureDP(0.25)
    with analysts.account("ada") as account:
        account.spend(PureDP(0.25))
    assert (analysts.named("ada").spent, analysts.named("bob").spent) == (PureDP(0.5), None)
    assert ledger.spent is None  # the total is charged apart


def test_requests_are_kept_with_the_very_bytes_of_their_answers(ledger, path):
    analysts = Analysts(ledger)
    analysts.add("ada", PureDP(0.5))
    for number in range(4):
        with analysts.account("ada") as account:
            account.record(f"key {number}", f"asked {number}", bytes([number, 0, 255]))
    with Ledger.open(path) as again:
        found = Analysts(again).requests("ada", 2, 2)
        assert [(r.number, r.key, r.request, r.response) for r in found] == [
            (2, "key 1", "asked 1", b"\x01\x00\xff"),
            (3, "key 2", "asked 2", b"\x02\x00\xff"),
        ]
        assert all(r.time.endswith("+00:00") for r in found)
        assert Analysts(again).named("ada").requests == 4
    with pytest.raises(LedgerError), analysts.account("ada") as account:
        account.record("key 0", "asked again", b"another answer")
    assert analysts.named("ada").requests == 4
