"""The values that a ledger returns: charges, entries of its history, and the tables that charges were made for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from qrelease.privacy.costs import Cost


class TableDigests(NamedTuple):
    """The keyed digests of a table: of how its records are encoded, and of the encoded records."""

    schema: str
    records: str


UNKNOWN = TableDigests("", "")
"""Of charges for which no table was named."""


class Record(NamedTuple):
    """From an entry on, charges are for a table.

    entry    the first, which may be still to come
    session  the entry of the session that is resumed on this table; 0 for none
    """

    number: int
    entry: int
    session: int
    time: str
    schema: str
    records: str

    @property
    def rows(self) -> TableDigests:
        """The digests of the table that it was for."""
        return TableDigests(self.schema, self.records)


@dataclass(frozen=True, slots=True)
class Charge:
    """One durable charge.

    Attributes
    ----------
    id
        The number of its entry in the ledger, from 1.
    cost, label
        As they were charged.
    key
        The idempotency key, the caller's or a random one.
    time
        When it was first charged: UTC, ISO 8601.
    answer
        The bytes stored with it, None while there are none; not part of the text.
    fresh
        Whether this very call charged it; False on a retry, which costs nothing.
    """

    id: int
    cost: Cost
    label: str
    key: str
    time: str
    answer: bytes | None = field(repr=False)
    fresh: bool


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the history: a total that was set (`key` is None), a charge, or a session that pays as it goes.

    time      UTC, ISO 8601.
    cost      of a session its cap, of which nothing is spent by that.
    answered  whether an answer is stored with the charge, or anything written down in the session.
    rows      a letter for the table that it was for, the same for the same records under the same schema; None where
              no table was named.
    changed   when the last earlier charge was made for other records under that schema; None if there was none.
    """

    id: int
    time: str
    kind: Literal["total", "charge", "session"]
    cost: Cost
    label: str
    key: str | None
    answered: bool
    rows: str | None = None
    changed: str | None = None


def with_rows(entries: Sequence[Entry], tables: Sequence[Record]) -> Iterator[Entry]:
    """The entries with the letters of their tables, and since when these are others."""
    letters: dict[TableDigests, str] = {}
    latest: dict[str, tuple[TableDigests, str, str | None]] = {}  # by schema: table, time, and when it was another
    coming, at = list(tables), UNKNOWN
    for entry in entries:
        while coming and coming[0].entry <= entry.id:
            at = coming.pop(0).rows
        if entry.kind == "total" or at == UNKNOWN:
            yield entry
            continue
        letter = letters.setdefault(at, _letters(len(letters)))
        before = latest.get(at.schema)
        changed = None if before is None else before[2] if before[0] == at else before[1]
        latest[at.schema] = at, entry.time, changed
        yield replace(entry, rows=letter, changed=changed)


def _letters(number: int) -> str:
    """A, B, …, Z, AA, AB, …"""
    higher, last = divmod(number, 26)
    return (_letters(higher - 1) if higher else "") + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[last]
