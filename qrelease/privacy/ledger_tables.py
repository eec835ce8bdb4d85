"""The tables of a ledger, as SQLite has them: in every database the same names and columns.

SQLite keeps these very texts in a file, by which it is known again: a table that changes is another format.
"""

from typing import Final

TABLES: Final = {
    "ledger": (
        """CREATE TABLE head (
    one INTEGER PRIMARY KEY CHECK (one = 1), dataset TEXT NOT NULL, neighbours TEXT NOT NULL, total TEXT NOT NULL,
    tally TEXT NOT NULL, entries INTEGER NOT NULL, answers INTEGER NOT NULL, last TEXT NOT NULL,
    digest TEXT NOT NULL)""",
        """CREATE TABLE entries (
    id INTEGER PRIMARY KEY, time TEXT NOT NULL, kind TEXT NOT NULL, cost TEXT NOT NULL, label TEXT NOT NULL,
    key TEXT UNIQUE, digest TEXT NOT NULL)""",
        """CREATE TABLE answers (
    id INTEGER PRIMARY KEY REFERENCES entries (id), answer BLOB NOT NULL, digest TEXT NOT NULL)""",
    ),
    "journals": (
        """CREATE TABLE journals (
    charge INTEGER PRIMARY KEY REFERENCES entries (id), entries INTEGER NOT NULL, last TEXT NOT NULL,
    digest TEXT NOT NULL)""",
        """CREATE TABLE journal (
    charge INTEGER NOT NULL REFERENCES journals (charge), number INTEGER NOT NULL, entry BLOB NOT NULL,
    digest TEXT NOT NULL, PRIMARY KEY (charge, number))""",
    ),  # in a file only from its first session on
    "analysts": (
        """CREATE TABLE registry (
    one INTEGER PRIMARY KEY CHECK (one = 1), analysts INTEGER NOT NULL, digest TEXT NOT NULL)""",
        """CREATE TABLE analysts (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, token TEXT NOT NULL UNIQUE, budget TEXT NOT NULL,
    tally TEXT NOT NULL, active INTEGER NOT NULL, requests INTEGER NOT NULL, stored INTEGER NOT NULL,
    last TEXT NOT NULL, digest TEXT NOT NULL)""",
        """CREATE TABLE requests (
    analyst INTEGER NOT NULL REFERENCES analysts (id), number INTEGER NOT NULL, key TEXT NOT NULL, time TEXT NOT NULL,
    request TEXT NOT NULL, response BLOB NOT NULL, digest TEXT NOT NULL,
    PRIMARY KEY (analyst, number), UNIQUE (analyst, key))""",
    ),  # from the first analyst on; their statements are in `analyst_store`
    "fingerprints": (
        """CREATE TABLE tables_key (
    one INTEGER PRIMARY KEY CHECK (one = 1), key BLOB NOT NULL, records INTEGER NOT NULL, last TEXT NOT NULL,
    digest TEXT NOT NULL)""",
        """CREATE TABLE tables (
    number INTEGER PRIMARY KEY, entry INTEGER NOT NULL, session INTEGER NOT NULL, time TEXT NOT NULL,
    schema TEXT NOT NULL, records TEXT NOT NULL, digest TEXT NOT NULL)""",
    ),  # from the first charge for a table on; their statements are in `fingerprint_store`
    "draws": (
        """CREATE TABLE draws (
    charge INTEGER NOT NULL REFERENCES entries (id), number INTEGER NOT NULL, asked TEXT NOT NULL, drawn BLOB NOT NULL,
    digest TEXT NOT NULL, PRIMARY KEY (charge, number))""",
    ),  # from the first draw of a release on; its statements are in `draws`
}
"""By what they are for, the statements that make them."""
