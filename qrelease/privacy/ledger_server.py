"""A ledger on a PostgreSQL server, the `Database` of many hosts: the extra `postgres`, by psycopg 3.

**Isolation.** A transaction that writes begins with `SELECT … FROM head FOR UPDATE`: one row lock, before anything is
read. So those that write come one after the other, on however many hosts, and under READ COMMITTED each statement
behind the lock sees all that was committed before it: the order is serial, and nothing has to be tried again, as
SERIALIZABLE would want it. A transaction that reads is REPEATABLE READ: one snapshot, and no lock.

**Durable.** With `fsync` off, or `synchronous_commit` below `on`, a crash may forget what a COMMIT returned for: each
transaction that writes looks at both, behind its lock, and is refused. Where the server waits for a synchronous
stand-in, and gave up waiting, it says so in a warning: that is an unknown outcome, not a durable one.

**Together.** The disk is waited for without the lock, or hosts would wait for it one after the other. A COMMIT with
`synchronous_commit` off gives the lock back, and in the same message a change of the row of `clients` that nobody else
changes is committed with it on; the log is durable in its order, so that is durable only after the first, and the
server writes the log for all who wait at once. A transaction is over with the second COMMIT. What another saw between
the two may be forgotten, but with it what that other wrote; and one that only reads ends when the log is durable up to
where it was when its snapshot was taken. Where a server has synchronous stand-ins, the lock is kept until they have it.

**Unknown outcome.** Each connection has a random name, and its COMMIT goes with a row of `clients` that has the name
and the number of the transaction. Where the answer to a COMMIT is lost, a new connection ends the old one on the
server, takes the lock, behind which the old one is over, and looks whether that row has that number: it has, if and
only if all of the transaction is there. What it found is made durable by a COMMIT of its own, since a log is durable
in its order. If no server can be asked for `OUTCOME_SECONDS`, it is `OutcomeUnknown`; so it is where
the row may have been forgotten, which others do 7 days after it was written, by the server's clock, which may jump.

The tables are those of `ledger_tables`, all made at once, so that who spends needs no right to make any; which of them
are in use is in `kinds`.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from qrelease.errors import InvalidInput, LedgerError, OutcomeUnknown
from qrelease.privacy import ledger_guard
from qrelease.privacy.ledger_guard import Guard
from qrelease.privacy.ledger_store import BUSY_SECONDS, DIGEST_OF, Head, Row, Rows, Store, damaged, name_of
from qrelease.privacy.ledger_tables import TABLES
from qrelease.privacy.ledger_url import LedgerUrl

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[Any]

OUTCOME_SECONDS: Final = 30.0
"""Seconds to look for the outcome of a COMMIT whose answer was lost."""

RECONNECT_SECONDS: Final = 30.0
"""Seconds to wait for a server that was there before, while nothing is begun."""

STATEMENT_SECONDS: Final = 120
"""Seconds for one statement; a COMMIT waits for its synchronous stand-in as long as it takes."""

CLIENT_SECONDS: Final = 7 * 24 * 3600
"""Seconds by the server's clock after which the last transaction of a connection is forgotten."""

_LATER_BYTES: Final = 1 << 16
"""Of a value that is written: a longer one is sent at once, in binary."""

_APPLICATION, _FORMAT = 0x71724C67, 5  # as in the header of a file
_DURABLE = ("on", "remote_apply")

_EXTRA_TABLES = (
    """CREATE TABLE format (
    one BIGINT PRIMARY KEY CHECK (one = 1), application BIGINT NOT NULL, version BIGINT NOT NULL)""",
    "CREATE TABLE kinds (kind TEXT PRIMARY KEY)",
    "CREATE TABLE clients (client TEXT PRIMARY KEY, number BIGINT NOT NULL, time TIMESTAMPTZ NOT NULL)",
)
_TYPES = {"INTEGER": "BIGINT", "BLOB": "BYTEA", "TEXT": 'TEXT COLLATE "C"'}
_KIND_OF = {statement.split()[2]: kind for kind, statements in TABLES.items() for statement in statements}

SETTINGS: Final = {
    "lock_timeout": f"{BUSY_SECONDS:.0f}s",
    "idle_in_transaction_session_timeout": f"{BUSY_SECONDS:.0f}s",  # a host that fell silent gives the lock back
    "statement_timeout": f"{STATEMENT_SECONDS}s",
    "client_min_messages": "warning",
}
_DEFAULTS: Final = {
    "port": "5432",  # whatever PGPORT and PGHOSTADDR say: one address is one ledger for all users
    "hostaddr": "",
    "client_encoding": "UTF8",  # whatever PGCLIENTENCODING says: a label may have any character
    "target_session_attrs": "read-write",  # of several hosts the one that is no stand-in
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
_STANDBYS = "current_setting('synchronous_standby_names')"
_HEAD = ", ".join([*Head._fields, "digest"])
_KINDS = "SELECT kind FROM kinds"  # by itself, as its snapshot must be taken behind the lock
# The end of the log after the snapshot is taken, so that all that is seen is before it.
_END = "CASE WHEN pg_is_in_recovery() THEN NULL ELSE pg_current_wal_insert_lsn() END"
_BEGIN_READ = "; ".join(
    [
        "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        f"SELECT {_STANDBYS}, {_END}, one, {_HEAD} FROM (SELECT) AS always LEFT JOIN head ON one = 1",  # noqa: S608
        _KINDS,
    ]
)
_CLOCK = "extract(epoch FROM clock_timestamp())::bigint"
_SETTINGS = f"current_setting('fsync'), current_setting('synchronous_commit'), {_STANDBYS}, {_CLOCK}"
_BEGIN_WRITE = "; ".join(
    [
        "BEGIN ISOLATION LEVEL READ COMMITTED",
        f"SELECT {_SETTINGS}, {_HEAD} FROM head WHERE one = 1 FOR UPDATE",  # noqa: S608
        _KINDS,
    ]
)
_IS_DURABLE = "SELECT pg_current_wal_flush_lsn() >= '{end}'"
_NOTE = """INSERT INTO clients VALUES ('{client}', {number}, now())
    ON CONFLICT (client) DO UPDATE SET number = excluded.number, time = excluded.time"""
_COMMIT = f"{_NOTE}; COMMIT"
_MARK = "UPDATE clients SET time = now() WHERE client = '{client}'"
_COMMIT_TOGETHER = f"{_NOTE}; SET LOCAL synchronous_commit TO off; COMMIT; {_MARK}"
_DONE = ["COMMIT"]
_DONE_TOGETHER = ["SET", "COMMIT", "UPDATE 1"]
_END_OLD = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"
# Those that wrote nothing more:
_FORGET_CLIENTS = f"DELETE FROM clients WHERE time < now() - interval '{CLIENT_SECONDS} s'"  # noqa: S608
_FORK_ADVICE = "use it in a process that is started afresh, or fork outside of transactions"


class LedgerServer:
    """A ledger's database on a server; made by `connect`, and filled by `create` where there is none yet.

    One connection, which is made anew after it was lost, but never inside a transaction: what was begun then came to
    nothing. Safe for threads, processes and hosts.
    """

    _connection: Connection | None = None
    _pid = 0

    def __init__(self, url: LedgerUrl) -> None:
        if find_spec("psycopg") is None:
            raise InvalidInput("a ledger on a PostgreSQL server needs psycopg: pip install 'qrelease[postgres]'")
        self.place: str | None = str(url)
        self.guard = Guard()
        self.undone = 0
        self._url, self._name = url, name_of(str(url))
        self._client, self._number = "", 0
        self._time = 0  # of the server's clock at the last BEGIN that writes, in seconds
        self._inside = self._closed = self._known = False
        self._warned = False  # by the server, since the last COMMIT was sent
        self._standbys = False  # whether the server waits for any, as of the last BEGIN
        self._end: str | None = None  # of the log, after the snapshot of what reads
        self._head: tuple[Any, ...] | None = None  # as it was at the last BEGIN
        self._asked: tuple[int, str | None] = 0, None  # an entry, and its digest, as of the last BEGIN
        self._later: list[bytes] = []  # statements that go with the next
        self._kinds: set[str] = set()  # of tables that are in use in this transaction
        ledger_guard.watch(self)

    @classmethod
    def connect(cls, url: LedgerUrl) -> LedgerServer:
        """The database at that address; `LedgerError` where no server can be reached, or none that is durable."""
        made = cls(url)
        try:
            with made.guard.held(made._name), made._errors():
                made._live()
        except BaseException:
            made.close()
            raise
        made._known = True
        return made

    def exists(self) -> bool:
        """Whether there is a ledger; `LedgerError` for what is no ledger of a format that is known."""
        with self.guard.held(self._name), self._errors():
            return self._exists()

    def _exists(self) -> bool:
        found = self._live().execute(
            "SELECT relname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = %s",
            (self._url.schema,),
        )
        there = {name for (name,) in found}
        if "format" not in there:
            if there & {*_KIND_OF}:
                raise LedgerError(f"{self._name} is not a qrelease ledger")
            return False
        if not there >= {*_KIND_OF, "kinds", "clients"}:
            raise damaged(self.place)
        row = self._live().execute("SELECT application, version FROM format WHERE one = 1").fetchone()
        if not row or row[0] != _APPLICATION:
            raise LedgerError(f"{self._name} is not a qrelease ledger")
        if row[1] != _FORMAT:
            raise LedgerError(f"{self._name} has format {row[1]}, this qrelease reads format {_FORMAT}")
        return True

    def create(self, head: Head, first: Row) -> None:
        """Make the tables, all or none; nothing is done where another process was faster."""
        schema = self._url.schema
        with self.guard.held(self._name), self._errors():
            connection = self._live()
            with self._ended(connection, write=True):
                connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
                connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (f"qrelease {schema}",))
                found = connection.execute(f"SELECT {_SETTINGS}".encode()).fetchone()
                _check_durable(self._name, found)
                self._time = found[3] if found else 0
                if self._exists():
                    connection.execute("ROLLBACK")
                    return
                if not connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,)).fetchone():
                    connection.execute(f'CREATE SCHEMA "{schema}"'.encode())
                for statement in (*_EXTRA_TABLES, *map(_translated_table, _all_tables())):
                    connection.execute(statement.encode())
                connection.execute("INSERT INTO format VALUES (1, %s, %s)", (_APPLICATION, _FORMAT))
                connection.execute("INSERT INTO kinds VALUES ('ledger')")
                with self.guard.writing(True):
                    Store(self).fill(head, first)
                self._commit(connection, together=False)

    def close(self) -> None:
        """Close the connection; afterwards every use is a `LedgerError`. Closing twice is harmless."""
        with self.guard.held(self._name):
            self._closed = True
            self.before_fork()

    def before_fork(self) -> None:
        """Let go of the connection until the next use; the caller holds the lock."""
        if self._connection is not None and self._pid == os.getpid():
            self._connection.close()
            self._connection = None

    def lose(self) -> None:
        """Give the ledger up, in the child of a fork inside a transaction: the conversation is the parent's."""
        _kept_open.append(self._connection)  # to close it would say good-bye to the server in the parent's name

    def __del__(self, finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if not finalizing():
            self.before_fork()

    def hurry(self) -> None:
        """Nothing: the server groups commits by itself."""

    def tidy(self) -> None:
        """Nothing: the server does it by itself."""

    def has(self, table: str) -> bool:
        """Whether that table is in use; inside a transaction."""
        self._live()
        return _KIND_OF[table] in self._kinds

    def add_tables(self, kind: str) -> None:
        """From now on the tables of that kind are in use."""
        if kind not in self._kinds:
            self.change("INSERT INTO kinds VALUES (?)", (kind,))
            self._kinds.add(kind)

    def execute(self, statement: str, values: tuple[object, ...] = ()) -> Rows:
        """One statement, inside a transaction."""
        connection = self._live()
        self._send_later(connection)
        return connection.execute(_translated(statement), values, binary=True)

    def change(self, statement: str, values: tuple[object, ...]) -> None:
        """A statement that changes one row: sent with the next, or with the COMMIT, since each answer is waited for."""
        import psycopg

        connection = self._live()
        if any(isinstance(value, bytes) and len(value) > _LATER_BYTES for value in values):
            if self.execute(statement, values).rowcount != 1:
                raise damaged(self.place)
            return
        cursor = psycopg.ClientCursor(connection)
        text = cursor.mogrify(_translated(statement), values)
        self._later.append(text.encode(connection.info.encoding))

    def _send_later(self, connection: Connection) -> None:
        if self._later:
            statements, self._later = self._later, []
            done = _statuses(connection.execute(b"; ".join(statements), prepare=False))
            if not all(status.endswith(" 1") for status in done):
                raise damaged(self.place)

    def head_row(self) -> tuple[Any, ...] | None:
        """The row of the running state as it was at the BEGIN, and its digest."""
        self._live()
        return self._head

    def digest_of(self, entry: int) -> str | None:
        """The digest of an entry, None where there is none; of the one that BEGIN asked for without waiting again."""
        self._live()
        if entry == self._asked[0]:
            return self._asked[1]
        row = self.execute(DIGEST_OF, (entry,)).fetchone()
        return row[0] if row else None

    @contextmanager
    def transaction(self, *, write: bool, entry: int = 0) -> Iterator[None]:
        """One transaction; it waits for those who write, if it writes, and never if it reads."""
        with self.guard.held(self._name), self._errors():
            connection = self._begun(write, entry)
            with self._ended(connection, write=write):
                with self.guard.writing(write):
                    yield
                self._live()  # after a fork meanwhile it is the parent's to end
                if write:
                    self._commit(connection, together=not self._standbys)
                else:
                    self._end_reading(connection)

    @contextmanager
    def _ended(self, connection: Connection, *, write: bool) -> Iterator[None]:
        """A transaction that is over afterwards, one way or the other."""
        process = os.getpid()
        self._inside = True
        self._later.clear()
        try:
            yield
        except BaseException:
            self.undone += write
            self._later.clear()
            if process == os.getpid():
                self._roll_back(connection)
            raise
        finally:
            self._inside = False

    def _roll_back(self, connection: Connection) -> None:
        import psycopg

        try:
            if connection.closed or connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
                return
            connection.execute("ROLLBACK")
        except psycopg.Error:
            with suppress(psycopg.Error):
                connection.close()

    def _begun(self, write: bool, entry: int) -> Connection:
        """A connection in a transaction. One that was lost since the last is made anew: nothing was done yet."""
        import psycopg

        asked = DIGEST_OF.replace("?", str(entry))
        statement = f"{_BEGIN_WRITE if write else _BEGIN_READ}; {asked}".encode()
        connection = self._live()
        try:
            cursor = connection.execute(statement, prepare=False)
        except psycopg.Error as error:
            if not _is_broken(error, connection):
                self._roll_back(connection)
                raise
            connection.close()
            connection = self._live()
            cursor = connection.execute(statement, prepare=False)
        cursor.nextset()
        found = cursor.fetchone()
        if write:
            try:
                _check_durable(self._name, found)
            except LedgerError:
                self._roll_back(connection)
                raise
            self._standbys, self._time, self._head = (bool(found[2]), found[3], found[4:]) if found else (True, 0, None)
        else:
            found = found or ("", None, None)
            self._standbys, self._end = bool(found[0]), found[1]
            self._head = found[3:] if found[2] else None
        cursor.nextset()
        self._kinds = {kind for (kind,) in cursor}
        cursor.nextset()
        row = cursor.fetchone()
        self._asked = entry, row[0] if row else None
        return connection

    def _end_reading(self, connection: Connection) -> None:
        """What was seen is durable when it returns."""
        import psycopg

        if self._end is None:  # on a stand-in, which has only what is durable
            connection.execute("COMMIT")
            return
        question = _IS_DURABLE.format(end=self._end).encode()
        cursor = connection.execute(question + b"; COMMIT", prepare=False)
        durable = cursor.fetchone() == (True,)
        if not durable and not self._standbys:
            # To commit something is the fastest way; it waits with those whose changes were seen.
            with suppress(psycopg.errors.InsufficientPrivilege):
                note = _NOTE.format(client=self._client, number=self._number)
                durable = connection.execute(note.encode(), prepare=False).statusmessage == "INSERT 0 1"
        while not durable:
            time.sleep(0.005)
            durable = connection.execute(question, prepare=False).fetchone() == (True,)

    def _commit(self, connection: Connection, *, together: bool) -> None:
        """Durable when it returns. What is not known to be carried out is looked for, see above."""
        import psycopg

        client, begun = self._client, self._time
        self._number += 1
        number, self._warned = self._number, False
        statement = (_COMMIT_TOGETHER if together else _COMMIT).format(client=client, number=number)
        wanted = _DONE_TOGETHER if together else _DONE
        if number == 1:
            statement = f"{_FORGET_CLIENTS}; {statement}"
        changes, self._later = self._later, []
        try:
            done = _statuses(connection.execute(b"; ".join([*changes, statement.encode()]), prepare=False))
            if done[-len(wanted) :] == wanted and not self._warned:
                if not all(status.endswith(" 1") for status in done[: len(changes)]):
                    raise damaged(self.place)
                return
        except psycopg.Error as error:
            over = connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
            if not over and not _is_broken(error, connection):
                raise
        with suppress(psycopg.Error):
            connection.close()
        if not self._carried_out(client, number, begun):
            raise LedgerError(f"{self._name}: the connection was lost before the end, and nothing was written")

    def _carried_out(self, client: str, number: int, begun: int) -> bool:
        """Whether that transaction of that connection was: by another connection, until `OUTCOME_SECONDS` are over.

        begun  when, in seconds by the server's clock
        """
        import psycopg

        until = time.monotonic() + OUTCOME_SECONDS
        while True:
            with suppress(psycopg.Error, LedgerError):
                connection = self._connected(0.0)
                try:
                    connection.execute(_END_OLD, (_application_name(client),))
                    self._inside = False
                    connection.execute(_BEGIN_WRITE.encode(), prepare=False)
                    found = connection.execute("SELECT number FROM clients WHERE client = %s", (client,)).fetchone()
                    ((now,),) = connection.execute(f"SELECT {_CLOCK}".encode()).fetchall()
                    self._warned = False
                    # Under a name of its own: where this answer is lost too, the next look finds what this one found.
                    ending = _COMMIT.format(client=self._client, number=0)
                    cursor = connection.execute(ending.encode(), prepare=False)
                    while cursor.nextset():
                        pass
                    if cursor.statusmessage == "COMMIT" and not self._warned:
                        # A row that there was is gone, or one that was written would be old by now.
                        if found is None and (number > 1 or now - begun >= CLIENT_SECONDS):
                            why = "the server has forgotten by now what it did for this connection"
                            break
                        return bool(found == (number,))
                finally:
                    connection.close()
            if time.monotonic() > until:
                why = f"for {OUTCOME_SECONDS:.0f} s no server could be asked whether it was carried out"
                break
            time.sleep(0.05)
        raise OutcomeUnknown(
            f"{self._name}: the connection was lost in the middle of a COMMIT, and {why}: what was to be charged"
            " counts as spent, and nothing was drawn or shown for it; the same key, once the server is back, finds what"
            " is there"
        )

    def _live(self) -> Connection:
        if self._closed:
            raise LedgerError(f"{self._name} is closed")
        if self._connection is not None and self._pid != os.getpid():
            raise LedgerError(f"{self._name} was opened before a fork, inside a transaction; {_FORK_ADVICE}")
        if self._inside:
            if self._connection is None or self._connection.closed:
                raise LedgerError(f"{self._name}: the connection was lost, and nothing was written")
            return self._connection
        if self._connection is None or self._connection.closed:
            self._connection, self._pid = self._connected(RECONNECT_SECONDS if self._known else 0.0), os.getpid()
        return self._connection

    def _connected(self, seconds: float) -> Connection:
        """A new connection, under a new name; a server that does not answer is asked again for so many seconds."""
        import psycopg

        try:
            given = psycopg.conninfo.conninfo_to_dict(self._url.conninfo)
        except psycopg.ProgrammingError as error:
            raise LedgerError(f"{self._name}: {self._url.without_secrets(str(error))}") from None
        client, until = os.urandom(16).hex(), time.monotonic() + seconds
        options = _DEFAULTS | given | {"application_name": _application_name(client)}
        while True:
            try:
                connection: Connection = psycopg.connect(**options, autocommit=True)  # type: ignore[arg-type]
                break
            except psycopg.Error as error:
                if time.monotonic() > until:
                    why = self._url.without_secrets(str(error))
                    raise LedgerError(f"{self._name} cannot be reached: {why}") from None
            time.sleep(0.05)
        try:
            self._settled(connection)
        except BaseException:
            connection.close()
            raise
        self._client, self._number = client, 0
        return connection

    def _settled(self, connection: Connection) -> None:
        """Settings of the connection, and a look at those of the server."""
        settings = SETTINGS | {"search_path": f'"{self._url.schema}", pg_temp'}
        each = ", ".join(["set_config(%s, %s, false)"] * len(settings))
        connection.execute(f"SELECT {each}".encode(), [text for pair in settings.items() for text in pair])
        # Fixed as it is found, so that a change of the server's file does not reach this connection unseen.
        found = connection.execute(
            "SELECT current_setting('fsync'), set_config('synchronous_commit', current_setting('synchronous_commit'),"
            " false), current_setting('server_encoding')"
        ).fetchone()
        _check_durable(self._name, found)
        if found and found[2] != "UTF8":
            raise LedgerError(f"{self._name} must be in a database with the encoding UTF8, not {found[2]}")
        connection.add_notice_handler(self._heard)

    def _heard(self, notice: psycopg.errors.Diagnostic) -> None:
        self._warned |= notice.severity_nonlocalized == "WARNING"

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Errors of the database as one-line ledger errors, without what was in the statements."""
        import psycopg

        try:
            yield
        except psycopg.Error as error:
            lost = self._connection is None or _is_broken(error, self._connection)
            meaning = _meaning(error, lost)
            raise LedgerError(f"{self._name} {self._url.without_secrets(meaning)}") from None


_MEANINGS: Final = {
    "55P03": f"stayed locked by another process for {BUSY_SECONDS:.0f} s",
    "25006": "is on a stand-in, which cannot be written: name the primary server",
    "42P01": "is not a qrelease ledger",
    "53100": "cannot be written: the disk of the server is full",
}
_kept_open: list[Any] = []
"""Connections of a parent, in the child of a fork: never closed."""


def _meaning(error: psycopg.Error, lost: bool) -> str:
    if lost:
        return "lost its server, and nothing was written"
    if error.sqlstate == "42501":
        return f"may not be used so by this role: {error.diag.message_primary}"
    if error.sqlstate is None:
        return f"failed: {error}"
    return _MEANINGS.get(error.sqlstate, f"failed: {error.diag.message_primary}")


def _is_broken(error: psycopg.Error, connection: Connection) -> bool:
    """Whether the connection is gone, or may be: else the server refused one thing, and a transaction is undone."""
    import psycopg

    silent = error.sqlstate is None and isinstance(error, psycopg.OperationalError)
    return connection.closed or silent or error.diag.severity_nonlocalized in ("FATAL", "PANIC")


def _statuses(cursor: psycopg.Cursor[Any]) -> list[str]:
    """What each of several statements did."""
    done = [cursor.statusmessage or ""]
    while cursor.nextset():
        done.append(cursor.statusmessage or "")
    return done


def _check_durable(name: str, found: Any) -> None:
    """Raise `LedgerError` where a COMMIT may be forgotten; `found` begins with `fsync` and `synchronous_commit`."""
    if not found:
        raise damaged(name.removeprefix("ledger "))
    if found[0] != "on":
        raise LedgerError(f"{name}: fsync is off on this server, and a crash would forget charges; turn it on")
    if found[1] not in _DURABLE:
        raise LedgerError(
            f"{name}: synchronous_commit is {found[1]} on this server or for this role, and a crash would forget"
            " charges; set it to on"
        )


def _application_name(client: str) -> str:
    return f"qrelease {client}"


def _all_tables() -> list[str]:
    return [statement for statements in TABLES.values() for statement in statements]


def _translated_table(statement: str) -> str:
    """A table as PostgreSQL has it: digests bind the rows to each other, foreign keys need not."""
    without = re.sub(r" REFERENCES \w+ \(\w+\)", "", statement)
    return re.sub(r"\b(INTEGER|BLOB|TEXT)\b", lambda match: _TYPES[match[1]], without)


@lru_cache(256)
def _translated(statement: str) -> bytes:
    """A statement with the placeholders of psycopg."""
    return statement.replace("?", "%s").encode()
