"""What a ledger promises, on every database that holds one: a file of SQLite, and a server of PostgreSQL."""

import os
import secrets
import subprocess
import sys
import threading
from fractions import Fraction

import pytest
from worlds import PEOPLE, random_table

from qrelease.data.table import Table
from qrelease.errors import BudgetExceeded, InvalidInput, LedgerError
from qrelease.mechanisms.laplace import Laplace
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ZCDP, ApproxDP, Neighbours, PureDP, split
from qrelease.privacy.analysts import Analysts, Revoked
from qrelease.privacy.ledger import Ledger
from qrelease.privacy.ledger_entries import TableDigests
from qrelease.privacy.resuming import Draws, finished, key_of, releases
from qrelease.queries.workload import Workload
from qrelease.release.curator import Curator

TOTAL = PureDP(1.0)


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request, tmp_path):
    """Where a new ledger may be made."""
    if request.param == "sqlite":
        return str(tmp_path / "people.ledger")
    return request.getfixturevalue("postgres").url(f"s{secrets.token_hex(6)}")


@pytest.fixture
def ledger(place):
    with Ledger.open(place, TOTAL, dataset="people") as opened:
        yield opened


def change(ledger: Ledger, statement: str, *values: object) -> None:
    """A row that is changed without its digest."""
    with ledger.store.writing():
        ledger.store.execute(statement, values)


def test_it_is_there_when_it_is_opened_again(place):
    assert not Ledger.exists(place)
    with pytest.raises(LedgerError, match="is new and needs a total"):
        Ledger.open(place)
    with pytest.raises(InvalidInput):
        Ledger.open(place, 1.0)
    assert not Ledger.exists(place)
    with Ledger.open(place, TOTAL, dataset="people", neighbours="replace-one", person="who") as made:
        assert (made.spent, made.remaining, len(made.history())) == (None, TOTAL, 1)
    assert Ledger.exists(place)
    with Ledger.open(place, TOTAL) as again:
        assert (again.dataset, again.neighbours, again.person) == ("people", Neighbours.REPLACE_ONE, "who")
        assert again.key_for("a") == again.key_for("a") != again.key_for("b")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"total": PureDP(2.0)}, "has a total of"),
        ({"dataset": "others"}, "belongs to dataset 'people'"),
        ({"neighbours": "replace-one"}, "counts under add-remove"),
        ({"person": "who"}, "counts what one record is charged"),
    ],
)
def test_what_does_not_agree_is_refused(ledger, place, given, said):
    with pytest.raises(LedgerError, match=said):
        Ledger.open(place, **given)


def test_a_charge_is_made_once_under_its_key(ledger, place):
    charge = ledger.charge(PureDP(0.25), "marginals", key="k")
    with Ledger.open(place) as other:
        again = other.charge(PureDP(0.25), "marginals", key="k")
        assert (charge.fresh, again.fresh, again.id, again.time) == (True, False, charge.id, charge.time)
        assert other.knows("k")
        assert not other.knows("l")
        for cost, label in ((PureDP(0.5), "marginals"), (PureDP(0.25), "others")):
            with pytest.raises(LedgerError, match="use another key"):
                other.charge(cost, label, key="k")
        assert other.spent == ledger.spent == PureDP(0.25)


def test_what_does_not_fit_is_not_charged(ledger):
    with pytest.raises(BudgetExceeded):
        ledger.charge(PureDP(1.5), "too much", key="k")
    with pytest.raises(InvalidInput):
        ledger.charge(ZCDP(0.1), "of no kind")
    assert (ledger.spent, ledger.knows("k"), len(ledger.history())) == (None, False, 1)


@pytest.mark.parametrize("answer", [b"", b"\x00'\\ \xff", bytes(range(256)) * 9000])
def test_the_first_answer_is_the_answer(ledger, place, answer):
    charge = ledger.charge(PureDP(0.25), "marginals", key="k")
    assert ledger.store_answer(charge, answer) == answer
    with Ledger.open(place) as other:
        assert other.store_answer(charge, b"late") == answer
        assert other.charge(PureDP(0.25), "marginals", key="k").answer == answer
        assert [entry.answered for entry in other.history()] == [False, True]


def test_a_transaction_is_all_or_nothing(ledger, place):
    with pytest.raises(ZeroDivisionError), ledger.transaction():
        charge = ledger.charge(PureDP(0.25), "a", key="a")
        ledger.store_answer(charge, b"a")
        Analysts(ledger).add("ada", PureDP(0.5))
        ledger.session(PureDP(0.5), "s", key="s")
        assert ledger.spent == PureDP(0.25)
        1 / 0  # noqa: B018
    assert (ledger.spent, len(ledger.history()), Analysts(ledger).list()) == (None, 1, ())
    assert ledger.store.undone == 1
    with ledger.transaction():
        charge = ledger.charge(PureDP(0.25), "a", key="a")
        with ledger.transaction():
            ledger.store_answer(charge, b"a")
    with Ledger.open(place) as other:
        assert other.charge(PureDP(0.25), "a", key="a").answer == b"a"


def test_labels_and_names_are_any_text(ledger):
    label = "Ünïcödé 猫 'quoted' \"twice\" %s ? \\ $1 \n ; --"
    ledger.charge(PureDP(0.25), label, key=label)
    assert ledger.history()[-1].label == ledger.history()[-1].key == label


def test_threads_and_handles_spend_exactly_the_total(ledger, place):
    cost = split(TOTAL, [1.0] * 40)[0]
    done = []

    def spend(own):
        with Ledger.open(place) if own else ledger.transaction():
            pass
        with Ledger.open(place) as mine:
            used = mine if own else ledger
            while True:
                try:
                    done.append(used.charge(cost, "a").id)
                except BudgetExceeded:
                    return

    threads = [threading.Thread(target=spend, args=(i % 2 == 0,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(done) == list(range(2, len(done) + 2))
    exact = sum(Fraction(entry.cost.epsilon) for entry in ledger.history()[1:])
    assert exact <= 1 < exact + Fraction(cost.epsilon)


def test_two_that_make_one_ledger_have_one(place):
    made, barrier = [], threading.Barrier(4)

    def make():
        barrier.wait(30)
        with Ledger.open(place, TOTAL) as mine:
            made.append(mine.charge(PureDP(0.125), "a").id)

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(made) == [2, 3, 4, 5]


def test_a_journal_has_one_writer(ledger, place):
    charge = ledger.charge(PureDP(0.25), "a session", key="s")
    first, second = ledger.journal(charge), ledger.journal(charge)
    first.append(b"\x00one")
    with pytest.raises(LedgerError, match="taken over"):
        second.append(b"two")
    first.append(b"three")
    with Ledger.open(place) as other:
        assert other.journal(charge).entries == (b"\x00one", b"three")


def test_a_shared_journal_has_many(ledger, place):
    with Ledger.open(place) as other:
        mine, theirs = (each.session(PureDP(0.5), "a session", key="s") for each in (ledger, other))
        with mine.writing() as news:
            assert news == []
            mine.buy(PureDP(0.125), "an answer")
            mine.append(b"mine")
        with theirs.writing() as news:
            assert news == [b"mine"]
            theirs.append(b"theirs")
        assert mine.read() == [b"theirs"]
        with pytest.raises(ZeroDivisionError), ledger.transaction():
            with mine.writing():
                mine.append(b"undone")
            1 / 0  # noqa: B018
        with pytest.raises(LedgerError, match="was undone; open it again"):
            mine.read()
        assert ledger.session(PureDP(0.5), "a session", key="s").read() == [b"mine", b"theirs"]
        assert other.spent == PureDP(0.125)


def test_analysts_are_known_to_all(ledger, place):
    analysts = Analysts(ledger)
    token = analysts.add("ada", PureDP(0.5))
    with Ledger.open(place) as other:
        theirs = Analysts(other)
        assert theirs.holder(token) == theirs.named("ada")
        assert theirs.holder("a guess") is None
        with other.transaction(), theirs.account("ada") as account:
            account.spend(PureDP(0.25))
            account.record("k", "asked", b"\x00answered")
        assert analysts.named("ada").spent == PureDP(0.25)
        assert [r.response for r in analysts.requests("ada", 1, 10)] == [b"\x00answered"]
        with pytest.raises(BudgetExceeded, match="ada's budget"), analysts.account("ada") as account:
            account.spend(PureDP(0.5))
        analysts.raise_budget("ada", PureDP(0.75))
        with pytest.raises(InvalidInput, match="already"):
            theirs.add("ada", PureDP(0.5))
        theirs.revoke("ada")
        with pytest.raises(Revoked), analysts.account("ada"):
            pass
        with pytest.raises(InvalidInput, match="was revoked"):
            analysts.reissue("ada")
        assert analysts.holder(token) is None
        assert analysts.holder(theirs.reissue("ada", restore=True)).active


def test_other_records_are_said_to_be_others(ledger, place):
    rows, others = TableDigests("schema", "records"), TableDigests("schema", "others")
    assert ledger.rows_of(lambda key: (key.hex(), "")) == ledger.rows_of(lambda key: (key.hex(), ""))
    ledger.charge(PureDP(0.125), "a", rows=rows)
    with Ledger.open(place) as other:
        assert other.notice(rows) is None
        assert "the records are not those" in other.notice(others)
        other.charge(PureDP(0.125), "b", rows=others)
        assert [entry.rows for entry in ledger.history()] == [None, "A", "B"]


def test_what_was_drawn_is_not_drawn_again(ledger, place):
    work = "0" * 64
    key = key_of(ledger, work)
    charge = ledger.charge(PureDP(0.25), "a release", key)
    assert Draws(ledger, charge, "v1").take("counts", lambda: b"first") == b"first"
    with Ledger.open(place) as other:
        assert key_of(other, work) == key
        draws = Draws(other, other.charge(PureDP(0.25), "a release", key), "v1")
        assert draws.take("counts", lambda: b"second") == b"first"
        with pytest.raises(LedgerError, match="answers other questions"):
            Draws(other, charge, "v1").take("sums", lambda: b"third")
        draws.finish(finished("an id", None))
        assert [record["release"] for record in releases(ledger).values()] == ["an id"]
        assert key_of(ledger, work) == f"release {work} 2"


def test_a_total_is_raised_for_all(place):
    with Ledger.open(place, ApproxDP(1.0, 1e-9)) as ledger, Ledger.open(place) as other:
        ledger.charge(ZCDP(0.01), "a")
        other.raise_total(ApproxDP(2.0, 1e-9))
        assert ledger.total == ApproxDP(2.0, 1e-9)
        assert [entry.kind for entry in ledger.history()] == ["total", "charge", "total"]


@pytest.mark.parametrize(
    ("statement", "look"),
    [
        ('UPDATE head SET tally = \'["0", "0", "0", null]\'', lambda ledger: ledger.spent),
        ("UPDATE head SET entries = entries + 1", lambda ledger: ledger.history()),
        ("UPDATE entries SET label = 'b' WHERE id = 2", lambda ledger: ledger.history()),
        ("DELETE FROM entries WHERE id = 3", lambda ledger: ledger.history()),
        ("DELETE FROM answers", lambda ledger: ledger.charge(PureDP(0.25), "a", "a")),
        ("DELETE FROM journal WHERE number = 2", lambda ledger: ledger.session(PureDP(0.5), "s", "s").read()),
        ("DELETE FROM journals", lambda ledger: ledger.session(PureDP(0.5), "s", "s").read()),
        ("UPDATE analysts SET active = 1 - active", lambda ledger: Analysts(ledger).list()),
        ("DELETE FROM registry", lambda ledger: Analysts(ledger).list()),
        ("DELETE FROM tables_key", lambda ledger: ledger.history()),
    ],
)
def test_damage_is_noticed(ledger, place, statement, look):
    ledger.rows_of(lambda key: ("schema", "records"))
    ledger.store_answer(ledger.charge(PureDP(0.25), "a", "a", rows=TableDigests("schema", "records")), b"a")
    session = ledger.session(PureDP(0.5), "s", "s")
    with session.writing():
        session.append(b"one")
        session.append(b"two")
    Analysts(ledger).add("ada", PureDP(0.5))
    change(ledger, statement)
    with pytest.raises(LedgerError, match=r"damaged|forgotten"), Ledger.open(place) as other:
        look(other)


@pytest.mark.parametrize("later", [0, 1, 2])
def test_charges_that_are_forgotten_are_noticed(ledger, place, later):
    """By whoever had seen them: a backup was put back, or a stand-in took over, and others charged it again."""
    with ledger.store.reading():
        before = ledger.store.execute("SELECT total, tally, entries, last, digest FROM head").fetchone()
    ledger.charge(PureDP(0.25), "a")
    with ledger.store.writing():
        ledger.store.execute("DELETE FROM entries WHERE id = ?", (2,))
        ledger.store.execute("UPDATE head SET total = ?, tally = ?, entries = ?, last = ?, digest = ?", tuple(before))
    with Ledger.open(place) as other:  # who had not, cannot know it
        assert other.spent is None
        for number in range(later):
            other.charge(PureDP(0.125), "other", f"other {number}")
    for look in (lambda: ledger.charge(PureDP(0.25), "b"), lambda: ledger.spent, ledger.history):
        with pytest.raises(LedgerError, match="has forgotten charges"):
            look()


def test_closed_is_closed(ledger):
    ledger.close()
    ledger.close()
    for use in (lambda: ledger.spent, lambda: ledger.charge(PureDP(0.1), "a"), ledger.history):
        with pytest.raises(LedgerError, match="is closed"):
            use()


def test_readers_do_not_wait_for_writers(ledger, place):
    with Ledger.open(place) as other, ledger.transaction():
        ledger.charge(PureDP(0.25), "a")
        assert (other.spent, len(other.history())) == (None, 1)
    with Ledger.open(place) as other:
        assert other.spent == PureDP(0.25)


def test_a_thread_does_not_wait_for_itself(ledger):
    with ledger.store.reading(), pytest.raises(LedgerError, match="in use by this very thread"):
        ledger.charge(PureDP(0.1), "a")
    assert ledger.charge(PureDP(0.1), "a").fresh


FORKED = """
import os, sys
from qrelease.privacy import PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.errors import LedgerError
ledger = Ledger.open(sys.argv[1])
children = []
for child in range(2):
    if not (pid := os.fork()):
        for _ in range(5):
            ledger.charge(PureDP(2.0**-10), f"child {child}")
        os._exit(0)
    children.append(pid)
for _ in range(5):
    ledger.charge(PureDP(2.0**-10), "parent")
with ledger.transaction():
    ledger.charge(PureDP(2.0**-10), "around a fork")
    if not (pid := os.fork()):
        try:
            ledger.charge(PureDP(2.0**-10), "inside")
        except LedgerError as error:
            os._exit("before a fork" not in str(error))
        os._exit(1)
    children.append(pid)
    assert os.waitpid(children.pop(), 0)[1] == 0
    ledger.charge(PureDP(2.0**-10), "after a fork")
assert all(os.waitpid(pid, 0)[1] == 0 for pid in children)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_has_a_connection_of_its_own(ledger, place):
    done = subprocess.run(
        [sys.executable, "-c", FORKED, place], timeout=120, check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert ledger.spent == PureDP(17 / 1024)
    assert len(ledger.history()) == 18


@pytest.mark.parametrize("secret", [True, False])
def test_a_release_is_charged_before_it_is_drawn(ledger, secret):
    table: Table = random_table(PEOPLE, 500, 0)
    curator = Curator(table, ledger, Entropy() if secret else Entropy.insecure(1))
    workload = Workload.marginals(table.domain, 1)
    paid = curator.pay(Laplace(), workload, PureDP(0.25))
    assert ledger.spent == PureDP(0.25)
    release = paid.release()
    if secret:  # cut off here, the same work goes on with the same draws
        again = curator.release(Laplace(), workload, PureDP(0.25))
        for mine, theirs in zip(again.measurements, release.measurements, strict=True):
            assert mine.values.tolist() == theirs.values.tolist()
        assert ledger.spent == PureDP(0.25)
