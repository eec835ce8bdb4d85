"""A ledger in one file of SQLite, the `Database` that is embedded: transactions, locks and a look at what it is.

The file is in WAL mode, so that readers and writers do not wait for each other, and every commit is followed by an
fsync. What was committed is then taken over from the log into the file, so that a file that is parted from its log
forgets nothing but what another connection that reads an earlier state kept it from taking over. Before a fork it is
closed, and opened again on the next use; of a fork inside a transaction, it is closed for good to the child.
"""

import ctypes
import os
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from qrelease._util.durable import file_identity, sync_folder
from qrelease.errors import LedgerError
from qrelease.privacy import ledger_guard
from qrelease.privacy import ledger_place as places
from qrelease.privacy.ledger_guard import Guard
from qrelease.privacy.ledger_store import BUSY_SECONDS, DIGEST_OF, Head, Row, Store, damaged, name_of
from qrelease.privacy.ledger_tables import TABLES

_APPLICATION, _FORMAT = 0x71724C67, 5  # "qrLg" and the version, in the header of the file
_FORMAT_WITHOUT_FINGERPRINTS = 4  # the version that has all but these
_LOG_PAGES = 2048  # of the write-ahead log, of 4 KiB and a head, that `LedgerFile.hurry` makes room for
_HURRIED_COMMITS = 300  # of `hurry`, between two times that the log is taken over: some six pages each
_PATIENCE = 1.0  # seconds for those who read the file as it was before, or take the log over themselves

_HEAD = f"SELECT {', '.join(Head._fields)}, digest FROM head"  # noqa: S608
_PRAGMAS = f"PRAGMA application_id = {_APPLICATION}", f"PRAGMA user_version = {_FORMAT_WITHOUT_FINGERPRINTS}"
_SCHEMA = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"
_HAS_TABLE = "SELECT 1 FROM sqlite_master WHERE name = ?"
_FORK_ADVICE = "use it in a process that is started afresh, or fork outside of transactions"

_TRANSIENT_ERRORS = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}
_ERROR_TEXTS = {
    sqlite3.SQLITE_NOTADB: "is not a qrelease ledger",
    sqlite3.SQLITE_CORRUPT: "is damaged; restore it from a backup",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened; it and its folder must be there and writable",
    sqlite3.SQLITE_READONLY: "cannot be written; it and its folder must be writable",
    sqlite3.SQLITE_FULL: "cannot be written: the disk is full",
}

_T = TypeVar("_T")


class Found:
    """What a statement found, all of it read.

    A statement that is not read to its end keeps a connection from being closed, also at a fork: then the child has the
    parent's files open, without the locks that go with them, and SQLite takes the ledger for damaged, or damages it.
    """

    def __init__(self, cursor: sqlite3.Cursor) -> None:
        self.rowcount = cursor.rowcount
        self._rows = iter(cursor.fetchall())
        cursor.close()

    def fetchone(self) -> Any:
        """The next row, None at the end."""
        return next(self._rows, None)

    def fetchall(self) -> list[Any]:
        """The rows that are left."""
        return [*self._rows]

    def __iter__(self) -> Iterator[Any]:
        return self._rows


class LedgerFile:
    """A ledger's database in one SQLite file, or in memory; made by `open`, `create` or `in_memory`.

    Damage, foreign files and system errors are `LedgerError`. Safe for threads and processes.
    """

    _connection: sqlite3.Connection | None = None  # also of one whose making failed
    _reader: sqlite3.Connection | None = None  # that keeps the log from being begun anew while it is taken over
    _pid = 0

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.place = None if path is None else str(path)
        self.guard = Guard()
        self.undone = 0
        self._hurried = False
        self._commits = 0  # since the log was taken over
        self._held_up = False
        self._file = None if path is None else Path(os.path.realpath(path))  # SQLite keeps its log beside that
        self._identity: tuple[int, int] | None = None
        self._logs: list[tuple[int, int] | None] = []
        self._pid = os.getpid()
        self._closed = False
        self._tables: set[str] = set()  # that are known to be there
        ledger_guard.watch(self)

    @classmethod
    def open(cls, path: Path) -> "LedgerFile":
        """The database in an existing file, after a look that cannot modify it."""
        with system_errors(path):
            places.check_suffix(path)
            places.check_name(path)
            places.check_mount(path)
            places.check_own_log(path)
            with ledger_guard.unforked(), closing(_connect(path, "ro")) as connection:
                _check(connection, path)
        return cls(path)

    @classmethod
    def create(cls, path: Path, head: Head, first: Row) -> "LedgerFile":
        """A database in a new file, which appears complete or not at all and which only its owner may read.

        `FileExistsError` if the file exists, even if another process made it a moment ago.
        """
        draft = places.draft_of(path)
        with system_errors(path):
            places.check_suffix(path)
            places.check_no_log(path)
            places.check_mount(path)
            places.check_side_files(path)
            try:
                os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
                made = cls(path)
                made._connection = _connect(draft, "rw")
                try:
                    made._fill(head, first)
                    if made._connection.execute("PRAGMA journal_mode = WAL").fetchone() != ("wal",):
                        raise LedgerError(f"{_name(path)} must be on a local disk, where SQLite's WAL mode works")
                finally:
                    made.close()
                os.link(draft, path)  # fails if the path exists, where a rename would replace it
            finally:
                draft.unlink(missing_ok=True)
            sync_folder(path.parent)
        return cls(path)

    @classmethod
    def in_memory(cls, head: Head, first: Row) -> "LedgerFile":
        """A database that dies with its process."""
        made = cls(None)
        made._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        made._fill(head, first)
        return made

    def _fill(self, head: Head, first: Row) -> None:
        connection = self._live()
        for statement in (*_PRAGMAS, "BEGIN", *TABLES["ledger"]):
            connection.execute(statement)
        Store(self).fill(head, first)
        connection.execute("COMMIT")

    def close(self) -> None:
        """Close the file; afterwards every use is a `LedgerError`. Closing twice is harmless."""
        with self._locked():
            self._closed = True
            self.disconnect()

    def disconnect(self) -> None:
        """Let go of the file; the caller holds the lock."""
        if self._connection is not None and self._pid == os.getpid():
            if self._reader is not None:
                self._reader.close()
            self._connection.close()
            self._reader = self._connection = None

    def before_fork(self) -> None:
        """Let go of a file until the next use; what is in memory stays with the parent."""
        if self.path is not None:
            self.disconnect()

    def lose(self) -> None:
        """Give the file up, in the child of a fork inside a transaction, which is the parent's.

        The connection is never closed: SQLite would undo what the parent writes, in the memory that both share.
        """
        for connection in (self._connection, self._reader):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
        if self._identity is not None:
            _lost.add(self._identity)

    def __del__(self, finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if not finalizing():  # at the end of the interpreter, modules that this needs may be gone
            self.disconnect()

    def hurry(self) -> None:
        """For a writer that commits often while others wait: no less durable, but faster, for 8 MiB of the disk.

        A log that grows takes two writes a commit, since the file system has to write down its new length. So it is
        made as long as it may get, by zeros behind its end, which SQLite takes for no frames and overwrites in time;
        and what is in it goes over into the file itself after few of the commits, or better in a `tidy`: until then the
        file alone does not have it.
        """
        if self.path is None:
            return
        # Nobody else writes meanwhile.
        with self.transaction(write=True), suppress(OSError), open(f"{self._file}-wal", "r+b") as log:
            missing = _LOG_PAGES * 4200 - log.seek(0, os.SEEK_END)
            log.write(bytes(max(missing, 0)))
            log.flush()
            os.fsync(log.fileno())
        self._hurried = True

    def tidy(self) -> None:
        """Take over what is in the write-ahead log into the file, so that it need not be done while somebody waits."""
        with self._locked(), system_errors(self.path):
            self._take_over()

    def _take_over(self) -> None:
        """Take over what was committed into the file, so that it has that without its log.

        Nothing fails by it: what is not taken over for those who read, for those who write without a pause, or for a
        full disk, is durable in the log, and is taken over with the next commit. It waits for them once, and not again
        until they are gone.

        Meanwhile a second connection reads. SQLite begins a log anew, from its first page, with the first commit after
        all of it was taken over; if another process does so just when the log is taken over here, versions before
        3.51.3 may note the commits that follow as taken over, and forget them ("WAL-reset bug", sqlite.org/wal.html).
        While somebody reads from the log it is not begun anew; and if there was nothing to be read from it, nothing is
        taken over while somebody reads.
        """
        path = self.path
        if path is None:
            return
        until = time.monotonic() + (0.0 if self._held_up else _PATIENCE)
        self._commits = 0
        with suppress(sqlite3.Error):
            while True:
                self._held_up = not self._checkpoint(path)
                if not self._held_up or time.monotonic() > until:
                    return
                time.sleep(0.002)

    def _checkpoint(self, path: Path) -> bool:
        """Whether all was taken over that was committed."""
        connection = self._live()
        if self._reader is None:
            self._reader = _connect(path, "rw")
        try:
            self._reader.execute("BEGIN")
            self._reader.execute("SELECT count(*) FROM sqlite_master").fetchall()  # it reads from here on
            busy, pages, taken = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        finally:
            if self._reader.in_transaction:
                self._reader.execute("ROLLBACK")
        return not busy and pages == taken

    def has(self, table: str) -> bool:
        """Whether there is a table of that name; inside a transaction."""
        if table not in self._tables and self._live().execute(_HAS_TABLE, (table,)).fetchone():
            self._tables.add(table)
        return table in self._tables

    def execute(self, statement: str, values: tuple[object, ...] = ()) -> "Found":
        """One statement of a sibling module's, inside a transaction."""
        return Found(self._live().execute(statement, values))

    def change(self, statement: str, values: tuple[object, ...]) -> None:
        """A statement that changes one row."""
        if self.execute(statement, values).rowcount != 1:
            raise damaged(None if self.path is None else str(self.path))

    def head_row(self) -> tuple[Any, ...] | None:
        """The row of the running state, and its digest; inside a transaction."""
        row: tuple[Any, ...] | None = self.execute(_HEAD).fetchone()
        return row

    def digest_of(self, entry: int) -> str | None:
        """The digest of an entry, None where there is none; inside a transaction."""
        row = self.execute(DIGEST_OF, (entry,)).fetchone()
        return row[0] if row else None

    def add_tables(self, kind: str) -> None:
        """The tables of that kind, if they are not there.

        From fingerprints on versions that do not know them refuse the file.
        """
        connection = self._live()
        for statement in TABLES[kind]:
            if not self.has(statement.split()[2]):
                connection.execute(statement)
        if kind == "fingerprints":
            connection.execute(f"PRAGMA user_version = {_FORMAT}")

    def _locked(self) -> AbstractContextManager[None]:
        return self.guard.held(_name(self.path))

    @contextmanager
    def transaction(self, *, write: bool, entry: int = 0) -> Iterator[None]:
        """One transaction; it waits for those who write, if it writes, and never if it reads."""
        with self._locked(), system_errors(self.path):
            connection = self._live()
            self._check_place()
            try:  # from here on: Ctrl-C may come just after BEGIN
                _patiently(lambda: connection.execute("BEGIN IMMEDIATE" if write else "BEGIN"))
                try:
                    with self.guard.writing(write):
                        yield
                    self._live()  # after a fork meanwhile it is the parent's to end
                    if write:
                        self._check_place()
                    connection.execute("COMMIT")
                except BaseException:
                    self.undone += write
                    self._tables.clear()  # that of this transaction may be gone again
                    raise
            finally:
                if self._pid == os.getpid() and connection.in_transaction:
                    connection.execute("ROLLBACK")
            if write:
                self._commits += 1
                if not self._hurried or self._commits >= _HURRIED_COMMITS:
                    self._take_over()

    def _live(self) -> sqlite3.Connection:
        if self._closed:
            raise LedgerError(f"{_name(self.path)} is closed")
        path = self.path
        if self._connection is None and path is not None:
            self._connection, self._pid = self._connected(path), os.getpid()
        if self._connection is None or self._pid != os.getpid():
            inside = f", inside a transaction; {_FORK_ADVICE}" if path else "; open it in the process that uses it"
            raise LedgerError(f"{_name(path)} was opened before a fork{inside}")
        if self.guard.in_writing and not self._connection.in_transaction:
            # A full disk may end it at any statement: those that follow would each be durable by itself.
            raise LedgerError(f"{_name(path)} undid what was being written")
        return self._connection

    def _connected(self, path: Path) -> sqlite3.Connection:
        """A connection whose logs are open, and known."""
        places.check_mount(path)
        connection = _patiently(lambda: _connect(path, "rw"))
        self._identity = self._identity or file_identity(path)
        try:
            _patiently(lambda: connection.execute("SELECT count(*) FROM sqlite_master")).fetchone()
        except BaseException:
            connection.close()
            raise
        self._logs = self._found_logs()
        return connection

    def _found_logs(self) -> list[tuple[int, int] | None]:
        return [file_identity(f"{self._file}{end}") for end in ("-wal", "-shm")]

    def _check_place(self) -> None:
        """A file deleted, replaced or named twice under us would swallow charges that nobody finds again."""
        if self.path is None:
            return
        if file_identity(self.path) != self._identity:
            raise LedgerError(
                f"{_name(self.path)} was moved or replaced since it was opened: move it back, as without its log it"
                " forgets charges"
            )
        if self._found_logs() != self._logs or None in self._logs:
            raise LedgerError(
                f"the files {self.path.name}-wal and -shm beside {_name(self.path)} were moved or replaced while it was"
                " open: bring them back, or end every process that uses it and look at its history"
            )
        places.check_name(self.path)


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    file = Path(os.path.realpath(path))
    if file_identity(file) in _lost:
        raise LedgerError(f"{_name(path)} was opened before a fork, inside a transaction; {_FORK_ADVICE}")
    uri = f"{file.as_uri()}?mode={mode}"
    connection = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    # What damage made undecodable still reads, and fails its digest.
    connection.text_factory = lambda text: text.decode("utf-8", "replace")
    try:
        # FULL: a commit returns after its fsync. fullfsync: on macOS, after one that reaches the medium.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")
        connection.execute("PRAGMA wal_autocheckpoint = 0")  # see `LedgerFile._take_over`
    except BaseException:
        connection.close()
        raise
    return connection


def _check(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("BEGIN")  # one snapshot: another process may be adding tables, which changes the version too
    try:
        (application,) = _patiently(lambda: connection.execute("PRAGMA application_id")).fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        found = {sql for (sql,) in connection.execute(_SCHEMA)}
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    if application != _APPLICATION:
        raise LedgerError(f"{_name(path)} is not a qrelease ledger")
    if version not in (_FORMAT_WITHOUT_FINGERPRINTS, _FORMAT):
        known = f"{_FORMAT_WITHOUT_FINGERPRINTS} and {_FORMAT}"
        raise LedgerError(f"{_name(path)} has format {version}, this qrelease reads formats {known}")
    if version == _FORMAT:
        if not found >= {*TABLES["fingerprints"]}:
            raise damaged(str(path))
        found -= {*TABLES["fingerprints"]}
    for extra in ("journals", "analysts", "draws"):  # all of a kind or none
        found -= {*TABLES[extra]} if found >= {*TABLES[extra]} else set()
    if found != {*TABLES["ledger"]}:
        raise damaged(str(path))


def _name(path: Path | None) -> str:
    return name_of(None if path is None else str(path))


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
        raise damaged(None if path is None else str(path)) from error
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if code in _TRANSIENT_ERRORS:
            meaning = f"stayed locked by another process for {BUSY_SECONDS:.0f} s"
        else:
            meaning = _ERROR_TEXTS.get(code, f"failed: {' '.join(str(error).split())}")
        raise LedgerError(f"{_name(path)} {meaning}") from error


_lost: set[tuple[int, int]] = set()
"""Files that this process cannot open: SQLite takes the locks of the parent's connection for its own."""
