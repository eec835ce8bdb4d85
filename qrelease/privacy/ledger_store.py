"""The rows of a ledger, all checked for damage, and the contract of the databases that hold them; no privacy.

A `Database` is a file of SQLite (`ledger_file`) or a server of PostgreSQL (`ledger_server`). Its tables are those of
`ledger_tables`, and statements are in the SQL that both understand, with `?` for values.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from hashlib import sha256
from typing import Any, Final, NamedTuple, Protocol

from qrelease.errors import LedgerError
from qrelease.privacy.ledger_guard import Guard

BUSY_SECONDS: Final = 60.0
"""Seconds to wait for other writers, who each need milliseconds."""

DIGEST_OF: Final = "SELECT digest FROM entries WHERE id = ?"
"""What a database may ask as it likes."""

_JOURNAL_MARK = b"in the journal"  # what stands for the answer of a charge that has a journal

_ADD_HEAD = "INSERT INTO head VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?)"
_SET_HEAD = "UPDATE head SET tally = ?, entries = ?, answers = ?, last = ?, digest = ? WHERE one = 1"
_SET_TOTAL = "UPDATE head SET total = ? WHERE one = 1"  # by itself: not every role of a server may raise it
_ROW = "SELECT id, time, kind, cost, label, key, digest FROM entries"
_ALL, _BY_ID, _BY_KEY = f"{_ROW} ORDER BY id", f"{_ROW} WHERE id = ?", f"{_ROW} WHERE key = ?"
_ADD = "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)"
_ANSWER, _ANSWERED = "SELECT answer, digest FROM answers WHERE id = ?", "SELECT id FROM answers"
_ADD_ANSWER = "INSERT INTO answers VALUES (?, ?, ?)"
_JOURNAL_HEAD = "SELECT entries, last, digest FROM journals WHERE charge = ?"
_SET_JOURNAL_HEAD = """INSERT INTO journals VALUES (?, ?, ?, ?)
    ON CONFLICT (charge) DO UPDATE SET entries = excluded.entries, last = excluded.last, digest = excluded.digest"""
_JOURNAL_AFTER = "SELECT number, entry, digest FROM journal WHERE charge = ? AND number > ? ORDER BY number"
_ADD_TO_JOURNAL = "INSERT INTO journal VALUES (?, ?, ?, ?)"

_PLAIN_TYPES = {int, float, str, bytes, type(None)}


class Rows(Protocol):
    """What a statement found."""

    @property
    def rowcount(self) -> int:
        """How many rows were changed."""

    def fetchone(self) -> Any:
        """The next row, None at the end."""

    def fetchall(self) -> list[Any]:
        """The rows that are left."""

    def __iter__(self) -> Iterator[Any]: ...


class Database(Protocol):
    """What holds the rows of a ledger; the promises that a ledger needs of it.

    Durable: when a `transaction` that writes ends without an exception, what it changed outlives a crash of this
    process, of the machine and of the database, there and on whatever stands in for it after a failure. When it ends
    with an exception, nothing was changed; but after `OutcomeUnknown`, which says that this could not be learned.

    Isolation: transactions that write come one after the other, those of all threads, processes and hosts; each sees
    all that was written before it began. A transaction that reads sees one state that was durable, and waits for no
    writer for longer than one needs.

    Unknown outcome: where the answer to a COMMIT is lost, the database finds out whether it was carried out, and
    returns or raises accordingly; where it cannot, it is `OutcomeUnknown`, and what was written counts as spent: who
    gets that draws nothing for it and shows nothing of it.

    Every trouble is a `LedgerError` of one line, without the password of anybody.

    place   where it is, for messages; None for one in memory, which does not outlive its process
    guard   the lock of its connection, and which thread is inside
    undone  transactions that came to nothing, or whose outcome is unknown
    """

    @property
    def place(self) -> str | None:
        """The file or server, for messages; None in memory."""

    @property
    def guard(self) -> Guard:
        """The lock of the connection, and which thread is inside."""

    @property
    def undone(self) -> int:
        """The number of transactions that came to nothing, or whose outcome is unknown."""

    def transaction(self, *, write: bool, entry: int = 0) -> AbstractContextManager[None]:
        """One transaction; not inside another of this thread. `entry` is one that `digest_of` may be asked for."""

    def execute(self, statement: str, values: tuple[object, ...] = ()) -> Rows:
        """One statement, inside a transaction."""

    def change(self, statement: str, values: tuple[object, ...]) -> None:
        """A statement that changes one row, now or when the next is executed or the transaction ends."""

    def head_row(self) -> tuple[Any, ...] | None:
        """The values of `Head` and the digest, inside a transaction that has not changed them yet."""

    def digest_of(self, entry: int) -> str | None:
        """The digest of an entry, None where there is none; inside a transaction."""

    def has(self, table: str) -> bool:
        """Whether there is a table of that name, or, where all are made at once, whether it was ever used."""

    def add_tables(self, kind: str) -> None:
        """The tables of `ledger_tables.TABLES` that are for that, inside a transaction that writes."""

    def hurry(self) -> None:
        """For a writer that commits often while others wait."""

    def tidy(self) -> None:
        """What need not be done while somebody waits."""

    def close(self) -> None:
        """Any further use is a `LedgerError`; to close twice is harmless."""


class Head(NamedTuple):
    """The row of the running state.

    entries  how many entries there are.
    answers  the sum of the ids of those that have an answer, so that none can be lost unnoticed.
    last     the digest of the last entry.
    """

    dataset: str
    neighbours: str
    total: str
    tally: str
    entries: int = 0
    answers: int = 0
    last: str = ""


class Row(NamedTuple):
    """One entry of the history, as text; `key` is None for a total."""

    id: int
    time: str
    kind: str
    cost: str
    label: str
    key: str | None


class Store:
    """The rows of a ledger in a database.

    They are read inside `reading` or `writing` and changed inside `writing`. Inside a `writing` both are part of it, in
    the same thread: all is durable when the outermost ends, or nothing happened, see `Database`.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        # Heads, while nobody else can write: the ledger's, and those of journals by their charges. And of which of them
        # the rows are written when the transaction ends: the charges, and 0 for the ledger's.
        self._head: Head | None = None
        self._journals: dict[int, tuple[int, str]] = {}
        self._changed: set[int] = set()
        self._raised = False
        self._seen = 0, ""  # the entries that were on disk, and the digest of the last; one object, for threads
        self._noticed: tuple[int, str] | None = None  # the same in a transaction: on disk only when that is over

    @property
    def place(self) -> str | None:
        """Where it is, for messages: a file, or a server without its password; None in memory."""
        return self.database.place

    @property
    def undone(self) -> int:
        """How many transactions came to nothing, or have an unknown outcome."""
        return self.database.undone

    @property
    def in_writing(self) -> bool:
        """Whether this thread is inside a `writing`, so that what it writes is not durable before that ends."""
        return self.database.guard.in_writing

    def close(self) -> None:
        """Close the database; afterwards every use is a `LedgerError`. Closing twice is harmless."""
        self.database.close()

    def hurry(self) -> None:
        """For a writer that commits often while others wait: no less durable, but faster."""
        self.database.hurry()

    def tidy(self) -> None:
        """Do what need not be done while somebody waits."""
        self.database.tidy()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """One consistent view of the rows; it never waits for writers."""
        if self.in_writing:
            yield
            return
        with self.database.transaction(write=False, entry=self._seen[0]):
            self._noticed = None
            yield
            noticed = self._noticed
        self._seen = noticed or self._seen

    @contextmanager
    def writing(self) -> Iterator[None]:
        """One durable transaction: after it the changes are durable; on an exception nothing happened."""
        if self.in_writing:
            yield
            return
        written: Head | None = None
        with self.database.transaction(write=True, entry=self._seen[0]):
            try:
                yield
                self._write_heads()
                written = self._head
            finally:
                self._head, self._raised = None, False
                self._journals.clear()
                self._changed.clear()
        if written:
            self._seen = written.entries, written.last

    def _write_heads(self) -> None:
        """Once for all that was done in a transaction."""
        for charge in self._changed:
            if charge:
                head = charge, *self._journals[charge]
                self.change(_SET_JOURNAL_HEAD, (*head, row_digest(*head)))
            elif self._head:
                self._write_head(self._head)

    def _write_head(self, head: Head) -> None:
        if self._raised:
            self.change(_SET_TOTAL, (head.total,))
        values = head.tally, head.entries, head.answers, head.last, row_digest(*head)
        self.change(_SET_HEAD, values)

    def fill(self, head: Head, first: Row) -> None:
        """The first rows of a new database."""
        head = self.add(head, first)
        self.change(_ADD_HEAD, (*head, row_digest(*head)))

    def head(self) -> Head:
        """The running state; inside a `writing` it is looked up once."""
        if not self.in_writing:
            return self._found_head()
        self._head = self._head or self._found_head()
        return self._head

    def _found_head(self) -> Head:
        found = self.database.head_row()
        if not found or found[-1] != row_digest(*found[:-1]):
            raise self.damaged()
        head = Head(*found[:-1])
        entries, last = self._seen
        known = head.last if head.entries == entries else self._digest_of(entries) if head.entries > entries else None
        if known != last:
            raise LedgerError(
                f"{name_of(self.place)} has forgotten charges since it was opened: it was put back from a backup, or a"
                " stand-in took over that did not have them; see docs/how-to/ledger.md"
            )
        self._noticed = head.entries, head.last
        return head

    def _digest_of(self, entry: int) -> str | None:
        """What binds an entry and all before it: others may have put new charges on top of an earlier state."""
        return self.database.digest_of(entry) if entry else ""

    def set_head(self, head: Head) -> None:
        """Replace the running state, when the `writing` ends."""
        self._raised |= head.total != self.head().total
        self._head = head
        self._changed.add(0)

    def add(self, head: Head, row: Row) -> Head:
        """Append an entry; returns the head that counts it, not set yet."""
        chained = row_digest(head.last, *row)
        self.change(_ADD, (*row, chained))
        return head._replace(entries=row.id, last=chained)

    def with_key(self, key: str) -> Row | None:
        """The entry with that key, if any."""
        found = self.execute(_BY_KEY, (key,)).fetchone()
        if not found:
            return None
        before = self.execute(_BY_ID, (found[0] - 1,)).fetchone()
        if found[-1] != row_digest(before[-1] if before else "", *found[:-1]):
            raise self.damaged()
        return Row(*found[:-1])

    def rows(self) -> list[Row]:
        """All entries in order, each checked."""
        rows, last = [], ""
        for *values, digest in self.execute(_ALL):
            last = row_digest(last, *values)
            rows.append(Row(*values))
            if digest != last or rows[-1].id != len(rows):
                raise self.damaged()
        head = self.head()
        if (head.entries, head.last) != (len(rows), last):
            raise self.damaged()
        return rows

    def answer(self, entry: int) -> bytes | None:
        """The answer stored with an entry, if any."""
        found = self.execute(_ANSWER, (entry,)).fetchone()
        if not found:
            return None
        answer, digest = found
        if not isinstance(answer, bytes) or digest != sha256(answer).hexdigest():
            raise self.damaged()
        return answer

    def add_answer(self, head: Head, entry: int, answer: bytes) -> Head:
        """Store the answer of an entry that has none; returns the head that counts it, not set yet."""
        self.change(_ADD_ANSWER, (entry, answer, sha256(answer).hexdigest()))
        return head._replace(answers=head.answers + entry)

    def answered(self) -> set[int]:
        """The ids of all entries that have an answer, checked."""
        found = {entry for (entry,) in self.execute(_ANSWERED)}
        if sum(found) != self.head().answers:
            raise self.damaged()
        return found

    def journal(self, charge: int) -> list[bytes]:
        """The journal of an entry, in order, checked."""
        return [entry for entry, _ in self.journal_after(charge, 0, "")]

    def journal_after(self, charge: int, number: int, last: str) -> list[tuple[bytes, str]]:
        """The entries of a journal past the `number`-th, whose digest is `last`: each with its own, checked."""
        length, end = self.journal_head(charge)
        found: list[tuple[bytes, str]] = []
        for at, entry, digest in self.execute(_JOURNAL_AFTER, (charge, number)) if length > number else ():
            last = journal_digest(last, charge, at, entry)
            found.append((entry, last))
            if digest != last or at != number + len(found):
                raise self.damaged()
        if (number + len(found), last) != (length, end):
            raise self.damaged()
        return found

    def add_to_journal(self, charge: int, number: int, entry: bytes) -> bool:
        """Append an entry, which must be the `number`-th, from 1; False, and nothing is done, if it would not be."""
        length, last = self.journal_head(charge)
        if number != length + 1:
            return False
        if number == 1:
            self.add_tables("journals")
            # The head of the ledger knows of it: a journal that is lost is not taken for a new one.
            self.set_head(self.add_answer(self.head(), charge, _JOURNAL_MARK))
        chained = journal_digest(last, charge, number, entry)
        self.change(_ADD_TO_JOURNAL, (charge, number, entry, chained))
        self._journals[charge] = number, chained
        self._changed.add(charge)
        return True

    def journal_head(self, charge: int) -> tuple[int, str]:
        """The length of a journal and the digest of its last entry; inside a `writing` it is looked up once."""
        if self.in_writing and charge in self._journals:
            return self._journals[charge]
        found = None
        if self.has("journals"):
            found = self.execute(_JOURNAL_HEAD, (charge,)).fetchone()
        if not found:
            if charge in self.answered():
                raise self.damaged()
            return 0, ""
        length, last, digest = found
        if digest != row_digest(charge, length, last):
            raise self.damaged()
        if self.in_writing:
            self._journals[charge] = length, last
        return length, last

    def has(self, table: str) -> bool:
        """Whether there is a table of that name; inside a transaction."""
        return self.database.has(table)

    def add_tables(self, kind: str) -> None:
        """The tables of that kind, see `ledger_tables`, if they are not there; inside a `writing`."""
        self.database.add_tables(kind)

    def execute(self, statement: str, values: tuple[object, ...] = ()) -> Rows:
        """One statement, inside a transaction."""
        return self.database.execute(statement, values)

    def change(self, statement: str, values: tuple[object, ...]) -> None:
        """A statement that changes one row, at the latest when the transaction ends; `LedgerError` if it does not."""
        self.database.change(statement, values)

    def damaged(self) -> LedgerError:
        """The error for rows that are not what was written."""
        return damaged(self.place)


def damaged(place: str | None) -> LedgerError:
    """The error for a ledger whose rows are not what was written."""
    return LedgerError(f"{name_of(place)} is damaged; restore it from a backup")


def name_of(place: str | None) -> str:
    """How messages name a ledger."""
    return "the in-memory ledger" if place is None else f"ledger {place}"


def plain_text(text: str) -> str:
    """The same text of no subclass, as it comes back from the file: one that shows itself otherwise would not match."""
    return str.__str__(text)


def row_digest(*values: object) -> str:
    """What binds the values of a row, which are plain: it cannot change without its digest."""
    if not _PLAIN_TYPES.issuperset(map(type, values)):
        raise TypeError(f"a row holds plain numbers and texts, got {values!r}")
    return sha256(ascii(values).encode()).hexdigest()


def journal_digest(last: str, charge: int, number: int, entry: object) -> str:
    """The digest that `row_digest` gives for these; its text is spelled out here, since a journal may be long."""
    content = sha256(entry).hexdigest() if isinstance(entry, bytes) else ""
    return sha256(f"('{last}', {charge}, {number}, '{content}')".encode()).hexdigest()
