"""The tables of a ledger: a file has just those that its use needs, and their texts are the format."""

import sqlite3
from hashlib import sha256

from qrelease.privacy import PureDP
from qrelease.privacy.analysts import Analysts
from qrelease.privacy.ledger import Ledger
from qrelease.privacy.ledger_entries import TableDigests
from qrelease.privacy.ledger_tables import TABLES
from qrelease.privacy.resuming import Draws

DIGESTS = {
    "ledger": "461aef7b4cc83793",
    "journals": "c24073028a6de9d5",
    "analysts": "74edfd0669bd658a",
    "fingerprints": "ec4c489eb84045c8",
    "draws": "922c66ba1bfde25c",
}
"""Of the texts of each kind, as files of format 5 have them: other texts are another format, with its own number."""


def statements(path):
    with sqlite3.connect(path) as connection:
        return {sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}


def test_the_texts_are_those_of_the_format():
    assert {kind: sha256("\n".join(texts).encode()).hexdigest()[:16] for kind, texts in TABLES.items()} == DIGESTS


def test_a_file_has_the_tables_of_what_it_was_used_for(path):
    """Each kind comes with its first use, and with no other: earlier versions read what they know."""
    expected = {*TABLES["ledger"]}
    assert statements(path) == expected
    with Ledger.open(path) as ledger:
        charge = ledger.charge(PureDP(0.1), "a", "k")
        ledger.store_answer(ledger.charge(PureDP(0.1), "answered"), b"an answer")
        assert statements(path) == expected
        for kind, use in (
            ("journals", lambda: ledger.journal(charge).append(b"an entry")),
            ("analysts", lambda: Analysts(ledger).add("ada", PureDP(0.1))),
            ("draws", lambda: Draws(ledger, ledger.charge(PureDP(0.1), "b", "b"), "v").take("one", lambda: b"1")),
            ("fingerprints", lambda: ledger.rows_of(lambda key: TableDigests("schema", "records"))),
        ):
            use()
            expected |= {*TABLES[kind]}
            assert statements(path) == expected, kind
    with Ledger.open(path) as again:
        assert len(again.history()) == 4
