"""The rows of a ledger on disk: all the SQL, locking and damage checks, and nothing about privacy.

A ledger in another database needs only another `Store` with the same methods.
"""

import ctypes
import os
import sqlite3
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, TypeVar

from qrelease._util.durable import identity, sync_folder
from qrelease.errors import LedgerError
from qrelease.privacy import ledger_place as place

_APPLICATION, _FORMAT = 0x71724C67, 5  # "qrLg" and the version, in the header of the file
_FORMAT_WITHOUT_FINGERPRINTS = 4  # the version that has all but these
BUSY_SECONDS = 60.0  # how long to wait for other writers, who each need milliseconds
_LOG_PAGES = 2048  # of the write-ahead log, of 4 KiB and a head, that `Store.hurry` makes room for

_TABLES = (
    """CREATE TABLE head (
    one INTEGER PRIMARY KEY CHECK (one = 1), dataset TEXT NOT NULL, neighbours TEXT NOT NULL, total TEXT NOT NULL,
    tally TEXT NOT NULL, entries INTEGER NOT NULL, answers INTEGER NOT NULL, last TEXT NOT NULL,
    digest TEXT NOT NULL)""",
    """CREATE TABLE entries (
    id INTEGER PRIMARY KEY, time TEXT NOT NULL, kind TEXT NOT NULL, cost TEXT NOT NULL, label TEXT NOT NULL,
    key TEXT UNIQUE, digest TEXT NOT NULL)""",
    """CREATE TABLE answers (
    id INTEGER PRIMARY KEY REFERENCES entries (id), answer BLOB NOT NULL, digest TEXT NOT NULL)""",
)
_JOURNAL_TABLES = (
    """CREATE TABLE journals (
    charge INTEGER PRIMARY KEY REFERENCES entries (id), entries INTEGER NOT NULL, last TEXT NOT NULL,
    digest TEXT NOT NULL)""",
    """CREATE TABLE journal (
    charge INTEGER NOT NULL REFERENCES journals (charge), number INTEGER NOT NULL, entry BLOB NOT NULL,
    digest TEXT NOT NULL, PRIMARY KEY (charge, number))""",
)  # a ledger gets these with its first session
_ANALYST_TABLES = (
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
)  # and these with its first analyst; their statements are in `analyst_store`
_FINGERPRINT_TABLES = (
    """CREATE TABLE tables_key (
    one INTEGER PRIMARY KEY CHECK (one = 1), key BLOB NOT NULL, records INTEGER NOT NULL, last TEXT NOT NULL,
    digest TEXT NOT NULL)""",
    """CREATE TABLE tables (
    number INTEGER PRIMARY KEY, entry INTEGER NOT NULL, session INTEGER NOT NULL, time TEXT NOT NULL,
    schema TEXT NOT NULL, records TEXT NOT NULL, digest TEXT NOT NULL)""",
)  # and these with the first charge for a table; their statements are in `fingerprint_store`
_DRAW_TABLES = (
    """CREATE TABLE draws (
    charge INTEGER NOT NULL REFERENCES entries (id), number INTEGER NOT NULL, asked TEXT NOT NULL, drawn BLOB NOT NULL,
    digest TEXT NOT NULL, PRIMARY KEY (charge, number))""",
)  # and this with the first draw of a release; its statements are in `draws`
_PRAGMAS = f"PRAGMA application_id = {_APPLICATION}", f"PRAGMA user_version = {_FORMAT_WITHOUT_FINGERPRINTS}"
_SCHEMA = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"
_BEGIN_READ, _BEGIN_WRITE = "BEGIN", "BEGIN IMMEDIATE"
_JOURNAL_MARK = b"in the journal"  # what stands for the answer of a charge that has a journal

_HEAD = "SELECT dataset, neighbours, total, tally, entries, answers, last, digest FROM head"
_SET_HEAD = "INSERT OR REPLACE INTO head VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?)"
_ROW = "SELECT id, time, kind, cost, label, key, digest FROM entries"
_ALL, _BY_ID, _BY_KEY = f"{_ROW} ORDER BY id", f"{_ROW} WHERE id = ?", f"{_ROW} WHERE key = ?"
_ADD = "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)"
_ANSWER, _ANSWERED = "SELECT answer, digest FROM answers WHERE id = ?", "SELECT id FROM answers"
_ADD_ANSWER = "INSERT INTO answers VALUES (?, ?, ?)"
_HAS_TABLE = "SELECT 1 FROM sqlite_master WHERE name = ?"
_JOURNAL_HEAD = "SELECT entries, last, digest FROM journals WHERE charge = ?"
_SET_JOURNAL_HEAD = "INSERT OR REPLACE INTO journals VALUES (?, ?, ?, ?)"
_JOURNAL_AFTER = "SELECT number, entry, digest FROM journal WHERE charge = ? AND number > ? ORDER BY number"
_ADD_TO_JOURNAL = "INSERT INTO journal VALUES (?, ?, ?, ?)"

_FORK_ADVICE = "use it in a process that is started afresh, or fork outside of transactions"

_PLAIN_TYPES = {int, float, str, bytes, type(None)}

_TRANSIENT_ERRORS = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}
_ERROR_TEXTS = {
    sqlite3.SQLITE_NOTADB: "is not a qrelease ledger",
    sqlite3.SQLITE_CORRUPT: "is damaged; restore it from a backup",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened; it and its folder must be there and writable",
    sqlite3.SQLITE_READONLY: "cannot be written; it and its folder must be writable",
    sqlite3.SQLITE_FULL: "cannot be written: the disk is full",
}

_T = TypeVar("_T")


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
    """A ledger's rows in one SQLite file, or in memory; made by `open`, `create` or `in_memory`.

    The rows are read inside `reading` or `writing` and changed inside `writing`. Inside a `writing` both are part of
    it, in the same thread: all is on disk when the outermost ends, or nothing is. Damage, foreign files and
    system errors are `LedgerError`. Safe for threads and processes. Before a fork the file is closed, since
    SQLite's locks do not survive one; parent and child open it again on their next use. Of a fork inside a transaction
    the parent goes on with it, and to the child the file is closed for good: every use is a `LedgerError`.
    """

    _connection: sqlite3.Connection | None = None  # also of one whose making failed
    _pid = 0

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.lock = threading.Lock()
        self._file = None if path is None else Path(os.path.realpath(path))  # SQLite keeps its log beside that
        self._identity: tuple[int, int] | None = None
        self._logs: list[tuple[int, int] | None] = []
        self._pid = os.getpid()
        self._closed = False
        self._writer: int | None = None
        self._holder: int | None = None  # the thread that has the lock
        # Heads, while nobody else can write: the ledger's, and those of journals by their charges. And of which of them
        # the rows are written when the transaction ends: the charges, and 0 for the ledger's.
        self._head: Head | None = None
        self._journals: dict[int, tuple[int, str]] = {}
        self._changed: set[int] = set()
        self._tables: set[str] = set()  # that are known to be there
        self.undone = 0  # transactions that came to nothing
        _stores.add(self)

    @classmethod
    def open(cls, path: Path) -> "Store":
        """The store in an existing file, after a look that cannot modify it."""
        with system_errors(path):
            place.check_name(path)
            place.check_mount(path)
            with closing(_connect(path, "ro")) as connection:
                _check(connection, path)
        return cls(path)

    @classmethod
    def create(cls, path: Path, head: Head, first: Row) -> "Store":
        """A store in a new file, which appears complete or not at all and which only its owner may read.

        `FileExistsError` if the file exists, even if another process made it a moment ago.
        """
        draft = place.draft_of(path)
        with system_errors(path):
            place.check_no_log(path)
            place.check_mount(path)
            try:
                os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
                with closing(_connect(draft, "rw")) as connection:
                    _fill(connection, head, first)
                    if connection.execute("PRAGMA journal_mode = WAL").fetchone() != ("wal",):
                        raise LedgerError(f"{_name(path)} must be on a local disk, where SQLite's WAL mode works")
                os.link(draft, path)  # fails if the path exists, where a rename would replace it
            finally:
                draft.unlink(missing_ok=True)
            sync_folder(path.parent)
        return cls(path)

    @classmethod
    def in_memory(cls, head: Head, first: Row) -> "Store":
        """A store that dies with its process."""
        store = cls(None)
        store._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        _fill(store._connection, head, first)
        return store

    def close(self) -> None:
        """Close the file; afterwards every use is a `LedgerError`. Closing twice is harmless."""
        with self._locked():
            self._closed = True
            self.disconnect()

    def disconnect(self) -> None:
        """Let go of the file until the next use; the caller holds the lock."""
        if self._connection is not None and self._pid == os.getpid():
            self._connection.close()
            self._connection = None

    def lose(self) -> None:
        """Give the file up, in the child of a fork inside a transaction, which is the parent's.

        The connection is never closed: SQLite would undo what the parent writes, in the memory that both share.
        """
        self.lock, self._holder, self._writer, self._head = threading.Lock(), None, None, None
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._connection))
        if self._identity is not None:
            _lost.add(self._identity)

    def __del__(self, finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if not finalizing():  # at the end of the interpreter, modules that this needs may be gone
            self.disconnect()

    def hurry(self) -> None:
        """For a writer that commits often while others wait: no less durable, but faster, for 8 MiB of the disk.

        A log that grows takes two writes a commit, since the file system has to write down its new length. So it is
        made as long as it may get, by zeros behind its end, which SQLite takes for no frames and overwrites in time;
        and what is in it goes over into the file itself in few of the commits, or better in a `tidy`.
        """
        if self.path is None:
            return
        # Nobody else writes meanwhile.
        with self.writing(), suppress(OSError), open(f"{self._file}-wal", "r+b") as log:
            missing = _LOG_PAGES * 4200 - log.seek(0, os.SEEK_END)
            log.write(bytes(max(missing, 0)))
            log.flush()
            os.fsync(log.fileno())
        with self._locked(), system_errors(self.path):
            self._live().execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")

    def tidy(self) -> None:
        """Take over what is in the write-ahead log into the file, so that it need not be done while somebody waits."""
        with self._locked(), system_errors(self.path):
            self._live().execute("PRAGMA wal_checkpoint(PASSIVE)")

    @contextmanager
    def reading(self) -> Iterator[None]:
        """One consistent view of the rows; it never waits for writers."""
        if self.in_writing:
            yield
            return
        with self._transaction(_BEGIN_READ):
            yield

    @contextmanager
    def writing(self) -> Iterator[None]:
        """One durable transaction: after it the changes are on disk; on an exception nothing happened."""
        if self.in_writing:
            yield
            return
        with self._transaction(_BEGIN_WRITE):
            self._writer = threading.get_ident()
            try:
                yield
                self._write_heads()
            finally:
                self._writer = self._head = None
                self._journals.clear()
                self._changed.clear()

    def _write_heads(self) -> None:
        """Once for all that was done in a transaction."""
        connection = self._live()
        for charge in self._changed:
            if charge:
                head = charge, *self._journals[charge]
                connection.execute(_SET_JOURNAL_HEAD, (*head, digest_of(*head)))
            elif self._head:
                _set_head(connection, self._head)

    @property
    def held_here(self) -> bool:
        """Whether this thread is using it, so that waiting for it would never end."""
        return self._holder == threading.get_ident()

    @property
    def in_writing(self) -> bool:
        """Whether this thread is inside a `writing`, so that what it writes is not on disk before that ends."""
        return self._writer == threading.get_ident()

    def head(self) -> Head:
        """The running state; inside a `writing` it is looked up once."""
        if not self.in_writing:
            return _head(self._live(), self.path)
        self._head = self._head or _head(self._live(), self.path)
        return self._head

    def set_head(self, head: Head) -> None:
        """Replace the running state, when the `writing` ends."""
        self._head = head
        self._changed.add(0)

    def add(self, head: Head, row: Row) -> Head:
        """Append an entry; returns the head that counts it, not set yet."""
        return _append(self._live(), head, row)

    def with_key(self, key: str) -> Row | None:
        """The entry with that key, if any."""
        found = self._live().execute(_BY_KEY, (key,)).fetchone()
        if not found:
            return None
        before = self._live().execute(_BY_ID, (found[0] - 1,)).fetchone()
        if found[-1] != digest_of(before[-1] if before else "", *found[:-1]):
            raise damaged(self.path)
        return Row(*found[:-1])

    def rows(self) -> list[Row]:
        """All entries in order, each checked."""
        rows, last = [], ""
        for *values, digest in self._live().execute(_ALL):
            last = digest_of(last, *values)
            rows.append(Row(*values))
            if digest != last or rows[-1].id != len(rows):
                raise damaged(self.path)
        head = self.head()
        if (head.entries, head.last) != (len(rows), last):
            raise damaged(self.path)
        return rows

    def answer(self, entry: int) -> bytes | None:
        """The answer stored with an entry, if any."""
        found = self._live().execute(_ANSWER, (entry,)).fetchone()
        if not found:
            return None
        answer, digest = found
        if not isinstance(answer, bytes) or digest != sha256(answer).hexdigest():
            raise damaged(self.path)
        return answer

    def add_answer(self, head: Head, entry: int, answer: bytes) -> Head:
        """Store the answer of an entry that has none; returns the head that counts it, not set yet."""
        self._live().execute(_ADD_ANSWER, (entry, answer, sha256(answer).hexdigest()))
        return head._replace(answers=head.answers + entry)

    def answered(self) -> set[int]:
        """The ids of all entries that have an answer, checked."""
        found = {entry for (entry,) in self._live().execute(_ANSWERED)}
        if sum(found) != self.head().answers:
            raise damaged(self.path)
        return found

    def journal(self, charge: int) -> list[bytes]:
        """The journal of an entry, in order, checked."""
        return [entry for entry, _ in self.journal_after(charge, 0, "")]

    def journal_after(self, charge: int, number: int, last: str) -> list[tuple[bytes, str]]:
        """The entries of a journal past the `number`-th, whose digest is `last`: each with its own, checked."""
        length, end = self.journal_head(charge)
        found: list[tuple[bytes, str]] = []
        for at, entry, digest in self._live().execute(_JOURNAL_AFTER, (charge, number)) if length > number else ():
            last = journal_digest(last, charge, at, entry)
            found.append((entry, last))
            if digest != last or at != number + len(found):
                raise damaged(self.path)
        if (number + len(found), last) != (length, end):
            raise damaged(self.path)
        return found

    def add_to_journal(self, charge: int, number: int, entry: bytes) -> bool:
        """Append an entry, which must be the `number`-th, from 1; False, and nothing is done, if it would not be."""
        length, last = self.journal_head(charge)
        if number != length + 1:
            return False
        connection = self._live()
        if number == 1:
            if not self.has("journals"):
                for statement in _JOURNAL_TABLES:
                    connection.execute(statement)
            # The head of the ledger knows of it: a journal that is lost is not taken for a new one.
            self.set_head(self.add_answer(self.head(), charge, _JOURNAL_MARK))
        chained = journal_digest(last, charge, number, entry)
        connection.execute(_ADD_TO_JOURNAL, (charge, number, entry, chained))
        self._journals[charge] = number, chained
        self._changed.add(charge)
        return True

    def journal_head(self, charge: int) -> tuple[int, str]:
        """The length of a journal and the digest of its last entry; inside a `writing` it is looked up once."""
        if self.in_writing and charge in self._journals:
            return self._journals[charge]
        found = None
        if self.has("journals"):
            found = self._live().execute(_JOURNAL_HEAD, (charge,)).fetchone()
        if not found:
            if charge in self.answered():
                raise damaged(self.path)
            return 0, ""
        length, last, digest = found
        if digest != digest_of(charge, length, last):
            raise damaged(self.path)
        if self.in_writing:
            self._journals[charge] = length, last
        return length, last

    def has(self, table: str) -> bool:
        """Whether there is a table of that name; inside a transaction."""
        if table not in self._tables and self._live().execute(_HAS_TABLE, (table,)).fetchone():
            self._tables.add(table)
        return table in self._tables

    def execute(self, statement: str, values: tuple[object, ...] = ()) -> sqlite3.Cursor:
        """One statement of a sibling module's, inside a transaction."""
        return self._live().execute(statement, values)

    def add_analyst_tables(self) -> None:
        """The tables of `analyst_store`."""
        for statement in _ANALYST_TABLES:
            self.execute(statement)

    def add_fingerprint_tables(self) -> None:
        """The tables of `fingerprint_store`; from then on versions that do not know them refuse the file."""
        for statement in (*_FINGERPRINT_TABLES, f"PRAGMA user_version = {_FORMAT}"):
            self.execute(statement)

    def add_draw_tables(self) -> None:
        """The table of `draws`, if it is not there."""
        if not self.has("draws"):
            for statement in _DRAW_TABLES:
                self.execute(statement)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One thread at a time; of a thread that would wait for itself it is a `LedgerError`."""
        if self.held_here:
            raise LedgerError(f"{_name(self.path)} is in use by this very thread, in a transaction that is not over")
        with self.lock:
            self._holder = threading.get_ident()
            try:
                yield
            finally:
                self._holder = None

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        with self._locked(), system_errors(self.path):
            connection = self._live()
            self._check_place()
            _patiently(lambda: connection.execute(begin))
            try:
                yield
                self._live()  # after a fork meanwhile it is the parent's to end
                if begin == _BEGIN_WRITE:
                    self._check_place()
                connection.execute("COMMIT")
            except BaseException:
                self.undone += begin == _BEGIN_WRITE
                self._tables.clear()  # that of this transaction may be gone again
                raise
            finally:
                if self._pid == os.getpid() and connection.in_transaction:
                    connection.execute("ROLLBACK")

    def _live(self) -> sqlite3.Connection:
        if self._closed:
            raise LedgerError(f"{_name(self.path)} is closed")
        path = self.path
        if self._connection is None and path is not None:
            self._connection, self._pid = self._connected(path), os.getpid()
        if self._connection is None or self._pid != os.getpid():
            inside = f", inside a transaction; {_FORK_ADVICE}" if path else "; open it in the process that uses it"
            raise LedgerError(f"{_name(path)} was opened before a fork{inside}")
        if self.in_writing and not self._connection.in_transaction:
            # A full disk may end it at any statement: those that follow would each be durable by itself.
            raise LedgerError(f"{_name(path)} undid what was being written")
        return self._connection

    def _connected(self, path: Path) -> sqlite3.Connection:
        """A connection whose logs are open, and known."""
        place.check_mount(path)
        connection = _patiently(lambda: _connect(path, "rw"))
        self._identity = self._identity or identity(path)
        try:
            _patiently(lambda: connection.execute("SELECT count(*) FROM sqlite_master")).fetchone()
        except BaseException:
            connection.close()
            raise
        self._logs = self._found_logs()
        return connection

    def _found_logs(self) -> list[tuple[int, int] | None]:
        return [identity(f"{self._file}{end}") for end in ("-wal", "-shm")]

    def _check_place(self) -> None:
        """A file deleted, replaced or named twice under us would swallow charges that nobody finds again."""
        if self.path is None:
            return
        if identity(self.path) != self._identity:
            raise LedgerError(f"{_name(self.path)} was moved or replaced since it was opened; open it again")
        if self._found_logs() != self._logs or None in self._logs:
            raise LedgerError(
                f"the files {self.path.name}-wal and -shm beside {_name(self.path)} were moved or replaced while it was"
                " open: bring them back, or end every process that uses it and look at its history"
            )
        place.check_name(self.path)


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    file = Path(os.path.realpath(path))
    if identity(file) in _lost:
        raise LedgerError(f"{_name(path)} was opened before a fork, inside a transaction; {_FORK_ADVICE}")
    uri = f"{file.as_uri()}?mode={mode}"
    connection = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    # What damage made undecodable still reads, and fails its digest.
    connection.text_factory = lambda text: text.decode("utf-8", "replace")
    try:
        # FULL: a commit returns after its fsync. fullfsync: on macOS, after one that reaches the medium.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def _fill(connection: sqlite3.Connection, head: Head, first: Row) -> None:
    for statement in (*_PRAGMAS, "BEGIN", *_TABLES):
        connection.execute(statement)
    _set_head(connection, _append(connection, head, first))
    connection.execute("COMMIT")


def _append(connection: sqlite3.Connection, head: Head, row: Row) -> Head:
    chained = digest_of(head.last, *row)
    connection.execute(_ADD, (*row, chained))
    return head._replace(entries=row.id, last=chained)


def _set_head(connection: sqlite3.Connection, head: Head) -> None:
    connection.execute(_SET_HEAD, (*head, digest_of(*head)))


def _head(connection: sqlite3.Connection, path: Path | None) -> Head:
    found = connection.execute(_HEAD).fetchone()
    if not found or found[-1] != digest_of(*found[:-1]):
        raise damaged(path)
    return Head(*found[:-1])


def _check(connection: sqlite3.Connection, path: Path) -> None:
    (application,) = _patiently(lambda: connection.execute("PRAGMA application_id")).fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != _APPLICATION:
        raise LedgerError(f"{_name(path)} is not a qrelease ledger")
    if version not in (_FORMAT_WITHOUT_FINGERPRINTS, _FORMAT):
        known = f"{_FORMAT_WITHOUT_FINGERPRINTS} and {_FORMAT}"
        raise LedgerError(f"{_name(path)} has format {version}, this qrelease reads formats {known}")
    found = {sql for (sql,) in connection.execute(_SCHEMA)}
    if version == _FORMAT:
        if not found >= {*_FINGERPRINT_TABLES}:
            raise damaged(path)
        found -= {*_FINGERPRINT_TABLES}
    for extra in (_JOURNAL_TABLES, _ANALYST_TABLES, _DRAW_TABLES):  # all of a kind or none
        found -= {*extra} if found >= {*extra} else set()
    if found != {*_TABLES}:
        raise damaged(path)
    _head(connection, path)


def plain(text: str) -> str:
    """The same text of no subclass, as it comes back from the file: one that shows itself otherwise would not match."""
    return str.__str__(text)


def digest_of(*values: object) -> str:
    """What binds the values of a row, which are plain: it cannot change without its digest."""
    if not _PLAIN_TYPES.issuperset(map(type, values)):
        raise TypeError(f"a row holds plain numbers and texts, got {values!r}")
    return sha256(ascii(values).encode()).hexdigest()


def journal_digest(last: str, charge: int, number: int, entry: object) -> str:
    """As `digest_of` these and the entry's own: the same text, spelled out here, since a journal may be long."""
    content = sha256(entry).hexdigest() if isinstance(entry, bytes) else ""
    return sha256(f"('{last}', {charge}, {number}, '{content}')".encode()).hexdigest()


def damaged(path: Path | None) -> LedgerError:
    """The error for a file whose rows are not what was written."""
    return LedgerError(f"{_name(path)} {_ERROR_TEXTS[sqlite3.SQLITE_CORRUPT]}")


def _name(path: Path | None) -> str:
    return f"ledger {path}" if path else "the in-memory ledger"


def _patiently(action: Callable[[], _T]) -> _T:
    """Try again while other processes are in the way; SQLite itself waits for most of these, not for all."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            return action()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in _TRANSIENT_ERRORS or time.monotonic() > deadline:
                raise
            time.sleep(0.005)


@contextmanager
def system_errors(path: Path | None) -> Iterator[None]:
    """System and database errors as one-line ledger errors; `FileExistsError` passes."""
    try:
        yield
    except FileExistsError:
        raise
    except OSError as error:
        raise LedgerError(f"{_name(path)}: {error.strerror}") from error
    except UnicodeDecodeError as error:  # from the text of an error about a broken schema
        raise damaged(path) from error
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if code in _TRANSIENT_ERRORS:
            meaning = f"stayed locked by another process for {BUSY_SECONDS:.0f} s"
        else:
            meaning = _ERROR_TEXTS.get(code, f"failed: {' '.join(str(error).split())}")
        raise LedgerError(f"{_name(path)} {meaning}") from error


_stores: "weakref.WeakSet[Store]" = weakref.WeakSet()
_forking = threading.Lock()
_held: list[Store] = []
_lost: set[tuple[int, int]] = set()
"""Files that this process cannot open: SQLite takes the locks of the parent's connection for its own."""


def _before_fork() -> None:
    """Close what can be closed: not what this thread is using, nor what another does not let go of."""
    _forking.acquire()
    for store in list(_stores):
        if store.held_here or not store.lock.acquire(timeout=BUSY_SECONDS):
            continue
        _held.append(store)
        if store.path is not None:
            store.disconnect()


def _after_fork() -> None:
    while _held:
        _held.pop().lock.release()
    _forking.release()


def _after_fork_in_child() -> None:
    for store in set(_stores) - set(_held):
        store.lose()
    _after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)
