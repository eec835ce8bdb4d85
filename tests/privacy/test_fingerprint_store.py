"""For which tables charges were made: noted where they change, and what is changed by hand is noticed."""

import pytest

from qrelease.errors import LedgerError
from qrelease.privacy import PureDP, fingerprint_store
from qrelease.privacy.fingerprint_store import known_key, note, stored_fingerprints
from qrelease.privacy.ledger import Ledger
from qrelease.privacy.ledger_entries import UNKNOWN, TableDigests

ONE, TWO = TableDigests("schema", "one"), TableDigests("schema", "two")


@pytest.fixture
def store(path):
    with Ledger.open(path) as ledger:
        yield ledger.store


def noted(store, *given):
    """Notes of (entry, session, table)."""
    with store.writing():
        for entry, session, table in given:
            note(store, entry, session, f"t{entry}", table)


def stored(store):
    with store.reading():
        return [(r.number, r.entry, r.session, r.rows) for r in stored_fingerprints(store)]


def test_the_key_is_random_made_once_and_kept(store, path, tmp_path):
    with store.reading():
        assert known_key(store) is None
        assert stored_fingerprints(store) == []
    with store.writing():
        first = fingerprint_store.key(store)
        assert fingerprint_store.key(store) == known_key(store) == first
    assert len(first) == 32
    with Ledger.open(path) as again, again.store.reading():
        assert known_key(again.store) == first
    with Ledger.open(tmp_path / "other.ledger", PureDP(1.0)) as other, other.store.writing():
        assert fingerprint_store.key(other.store) != first


def test_a_table_is_noted_where_it_is_another_than_before(store):
    with store.writing():
        fingerprint_store.key(store)
    noted(store, (2, 0, None), (3, 0, ONE), (4, 0, ONE), (5, 0, TWO), (6, 0, None), (7, 0, None), (8, 0, TWO))
    assert stored(store) == [(1, 3, 0, ONE), (2, 5, 0, TWO), (3, 6, 0, UNKNOWN), (4, 8, 0, TWO)]


def test_a_session_that_is_resumed_is_noted_in_any_case(store):
    with store.writing():
        fingerprint_store.key(store)
    noted(store, (2, 0, ONE), (3, 2, ONE), (3, 2, ONE))
    assert stored(store) == [(1, 2, 0, ONE), (2, 3, 2, ONE), (3, 3, 2, ONE)]


def test_without_a_key_nothing_is_noted(store):
    """Of a ledger that was never asked for it: the file stays of its format."""
    noted(store, (2, 0, ONE))
    assert stored(store) == []


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE tables SET records = 'one' WHERE number = 2",
        "UPDATE tables SET entry = 1 WHERE number = 1",
        "DELETE FROM tables WHERE number = 2",
        "DELETE FROM tables WHERE number = 1",
        "DELETE FROM tables",
        "DELETE FROM tables_key",
        "UPDATE tables_key SET key = x'00'",
        "UPDATE tables_key SET key = 'text'",
        "UPDATE tables_key SET records = 1",
    ],
)
def test_what_was_changed_or_lost_is_noticed(store, statement):
    with store.writing():
        fingerprint_store.key(store)
    noted(store, (2, 0, ONE), (3, 0, TWO))
    with store.writing():
        store.execute(statement)
    with pytest.raises(LedgerError, match="damaged"):
        stored(store)


@pytest.mark.parametrize("statement", ["DELETE FROM tables WHERE number = 2", "UPDATE tables_key SET last = ''"])
def test_nothing_is_noted_after_what_was_lost(store, statement):
    with store.writing():
        fingerprint_store.key(store)
    noted(store, (2, 0, ONE), (3, 0, TWO))
    with store.writing():
        store.execute(statement)
    with pytest.raises(LedgerError, match="damaged"):
        noted(store, (4, 0, ONE))
