"""The rows of analysts: what somebody changes or takes away by hand is noticed when it is looked at."""

import pytest

from qrelease.errors import LedgerError
from qrelease.privacy import analyst_store
from qrelease.privacy.analyst_store import RequestRow
from qrelease.privacy.ledger import Ledger


@pytest.fixture
def store(path):
    """Of two analysts, one of whom was answered five times and the other twice."""
    with Ledger.open(path) as ledger:
        for name, count in (("ada", 5), ("bob", 2)):
            with ledger.store.writing():
                analyst_store.add(ledger.store, name, f"token of {name}", "budget", "tally")
            for number in range(1, count + 1):
                with ledger.store.writing():
                    found = analyst_store.by_name(ledger.store, name)
                    row = RequestRow(number, f"key {number}", "now", "asked: ä", b"\x00\xff" * number)
                    assert analyst_store.replace(
                        ledger.store, found, analyst_store.add_request(ledger.store, found, row)
                    )
        yield ledger.store


def read(store, first=1, count=5, name="ada"):
    with store.reading():
        return analyst_store.requests(store, analyst_store.by_name(store, name), first, count)


def test_what_was_written_is_read_in_order_and_counted(store):
    assert [row.number for row in read(store)] == [1, 2, 3, 4, 5]
    assert [row.response for row in read(store, 2, 2)] == [b"\x00\xff" * 2, b"\x00\xff" * 3]
    assert read(store, 4, 99) == read(store)[3:]
    assert read(store, 6, 3) == []
    with store.reading():
        ada, bob = analyst_store.analysts(store)
        assert (ada.id, ada.name, ada.requests, bob.id, bob.requests) == (1, "ada", 5, 2, 2)
        assert ada.stored == 5 * (len("key 1") + len("asked: ä".encode())) + 2 * (1 + 2 + 3 + 4 + 5)
        assert analyst_store.by_token(store, "token of bob") == bob
        assert analyst_store.by_token(store, "token of eve") is analyst_store.by_name(store, "eve") is None
        assert analyst_store.request(store, ada, "key 3") == read_one(store, ada, 3)
        assert analyst_store.request(store, bob, "key 3") is None


def read_one(store, analyst, number):
    (found,) = analyst_store.requests(store, analyst, number, 1)
    return found


def test_a_row_that_is_not_as_it_was_found_is_not_replaced(store):
    """Two that read it at once: the second knows nothing of what the first wrote."""
    with store.writing():
        found = analyst_store.by_name(store, "ada")
        assert analyst_store.replace(store, found, found._replace(active=0))
        assert not analyst_store.replace(store, found, found._replace(budget="more"))
        assert analyst_store.by_name(store, "ada") == found._replace(active=0)


def test_a_ledger_without_analysts_has_none(path):
    with Ledger.open(path) as ledger, ledger.store.reading():
        assert analyst_store.analysts(ledger.store) == []
        assert analyst_store.by_name(ledger.store, "ada") is None


LOOKS = {
    "all analysts": analyst_store.analysts,
    "ada": lambda store: analyst_store.by_name(store, "ada"),
    "the last request": lambda store: analyst_store.requests(store, analyst_store.by_name(store, "ada"), 5, 1),
    "all requests": lambda store: analyst_store.requests(store, analyst_store.by_name(store, "ada"), 1, 5),
    "one request": lambda store: analyst_store.request(store, analyst_store.by_name(store, "ada"), "key 3"),
}


@pytest.mark.parametrize(
    ("statement", "looks"),
    [
        ("UPDATE analysts SET budget = 'more' WHERE id = 1", LOOKS),
        ("UPDATE analysts SET requests = 4 WHERE id = 1", LOOKS),
        ("UPDATE analysts SET token = 'mine' WHERE id = 1", LOOKS),
        ("DELETE FROM analysts WHERE id = 2", ["all analysts"]),
        ("DELETE FROM registry", ["all analysts"]),
        ("UPDATE registry SET analysts = 1", ["all analysts"]),
        ("DELETE FROM requests WHERE analyst = 1 AND number = 5", ["all requests", "the last request"]),
        ("DELETE FROM requests WHERE analyst = 1 AND number = 2", ["all requests", "one request"]),
        ("UPDATE requests SET response = x'00' WHERE analyst = 1 AND number = 3", ["all requests", "one request"]),
        ("UPDATE requests SET request = 'else' WHERE analyst = 1 AND number = 3", ["all requests", "one request"]),
        ("UPDATE requests SET response = 'text' WHERE analyst = 1 AND number = 3", ["all requests", "one request"]),
        ("UPDATE requests SET digest = 'd' WHERE analyst = 1 AND number = 4", ["all requests", "the last request"]),
    ],
)
def test_what_was_changed_or_lost_is_noticed(store, statement, looks):
    with store.writing():
        store.execute(statement)
    for name in looks:
        with pytest.raises(LedgerError, match="damaged"), store.reading():
            LOOKS[name](store)


def test_what_another_was_answered_is_no_answer_of_mine(store):
    """Rows of one analyst under the number of the other, digest and all."""
    with store.writing():
        store.execute("DELETE FROM requests WHERE analyst = 1 AND number = 1")
        store.execute("UPDATE requests SET analyst = 1 WHERE analyst = 2 AND number = 1")
    with pytest.raises(LedgerError, match="damaged"):
        read(store)


def test_an_answer_in_the_place_of_the_last_is_noticed_though_it_is_chained(store):
    with store.writing():
        found = analyst_store.by_name(store, "ada")
        store.execute("DELETE FROM requests WHERE analyst = 1 AND number = 5")
        (before,) = store.execute("SELECT digest FROM requests WHERE analyst = 1 AND number = 4").fetchone()
        other = RequestRow(5, "key 5", "now", "asked: ä", b"another answer")
        analyst_store.add_request(store, found._replace(requests=4, last=before), other)
    with pytest.raises(LedgerError, match="damaged"):
        read(store)


def test_a_request_beyond_those_that_are_counted_is_noticed(store):
    """As where the analyst's row was put back to what it was before."""
    with store.writing():
        found = analyst_store.by_name(store, "ada")
        analyst_store.add_request(store, found, RequestRow(6, "key 6", "now", "asked", b"an answer"))
    with pytest.raises(LedgerError, match="damaged"), store.reading():
        analyst_store.request(store, found, "key 6")
