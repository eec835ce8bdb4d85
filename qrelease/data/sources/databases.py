"""Records from databases: tables of SQLite files, and of PostgreSQL servers.

A table is read as it stands, by one statement that names its columns: nothing that is asked of the database filters,
joins or counts. So every record is a row of that table, and its code is that of the texts of its own values. A view is
refused, since it may mix rows, and so is whatever else a database computes where a table seems to be. Of SQLite there
are selects too, which make each row of one row of every table (`sqlite_queries`).

SQLite gives each value a type of its own, whatever is declared of the column; they are taken as they are. PostgreSQL
gives times, days and identifiers as texts, in ISO's form and in UTC.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

from qrelease._util.typing import Codes
from qrelease.data.persons import KeyReader
from qrelease.data.sources.encoder import Encoder
from qrelease.data.sources.progress import reading_bar
from qrelease.data.sources.row_queries import FILTERED
from qrelease.data.sources.sqlite_queries import FUNCTIONS, SelectedRows, is_select, quoted
from qrelease.data.spelling import shown
from qrelease.errors import InvalidInput

_CHUNK: Final = 1 << 12
"""Rows that are held at a time."""

_AS_TEXT: Final = ("date", "time", "timetz", "timestamp", "timestamptz", "uuid")
"""Types whose values PostgreSQL spells: Python's own have no room for all of them."""

ReadRows = Callable[[Sequence[str]], Iterator[list[tuple[Any, ...]]]]


@final
class RowReader:
    """A table of a database, read as a file is.

    path    what errors call it
    files   the files that it reads
    header  the names of its columns
    rows    gives all rows, in the columns named, some at a time
    private_size why their number is private under every relation, as `Source.private_size`
    """

    keyed = False

    def __init__(
        self, path: Path, files: tuple[Path, ...], header: Sequence[str], rows: ReadRows, *, private_size: str = ""
    ) -> None:
        self.path, self.files, self.header, self.private_size = path, files, tuple(header), private_size
        self._rows = rows

    def check_header(self, known: Collection[str] = ()) -> None:
        """Nothing separates the names."""

    def pieces(self, columns: Sequence[str]) -> Iterator[RowPiece]:
        """All rows, some at a time."""
        first, names = 0, [*dict.fromkeys(columns)]
        places = {name: place for place, name in enumerate(names)}
        with reading_bar() as bar:
            for rows in self._rows(names):
                yield RowPiece(str(self.path), first, places, rows)
                first += len(rows)
                bar.update(len(rows))

    def texts(self) -> Iterator[list[list[str]]]:
        """All columns of some rows as texts, a missing value as the empty one."""
        with reading_bar() as bar:
            for rows in self._rows(self.header):
                yield [[shown(row[place]) for row in rows] for place in range(len(self.header))]
                bar.update(len(rows))


@final
@dataclass(frozen=True, slots=True)
class RowPiece:
    """Some rows to codes; a value without a place is an error with its row.

    first   the number of rows before these
    places  of the columns in a row
    """

    source: str
    first: int
    places: dict[str, int]
    rows: list[tuple[Any, ...]]

    def codes(self, encoder: Encoder, column: str) -> Codes:
        """The codes (n,) of a column."""
        values = self._values(column)
        try:
            return np.fromiter(map(encoder.code, values), encoder.dtype, len(values))
        except InvalidInput:
            position, error = encoder.fault(values)
            raise InvalidInput(f"{self.place(position)}: {error}") from None

    def persons(self, reader: KeyReader, column: str) -> npt.NDArray[np.int64]:
        """What the reader makes (n,) of the keys in a column."""
        return reader.codes(self._values(column), self.place)

    def _values(self, column: str) -> list[Any]:
        place = self.places[column]
        return [row[place] for row in self.rows]

    def place(self, position: int) -> str:
        """What errors call a record, by its place in the piece."""
        return f"{self.source} row {self.first + position} (from 0)"


def sqlite_reader(path: Path, table: str | None) -> RowReader:
    """The reader of a table of a SQLite file, or of the rows of a select; nothing is written, and made beside it.

    Raises `InvalidInput` for what is no table of rows that are stored: a view, a virtual table or one that keeps its
    content; and for a write-ahead log with content that nobody has opened, which could not be read without a new file.
    """

    @contextmanager
    def opened() -> Iterator[sqlite3.Connection]:
        if not path.exists():
            raise InvalidInput(f"{path} cannot be read: there is no such file")
        file = path.resolve()
        quiet = _is_quiet(file)
        before = _changes(file)
        address = f"{file.as_uri()}?mode=ro{'&immutable=1' * quiet}"
        try:
            with closing(sqlite3.connect(address, uri=True, isolation_level=None)) as connection:
                connection.text_factory = _text
                connection.execute("pragma trusted_schema = off")
                connection.execute("begin")  # what is looked up and what is read are of one state
                yield connection
        except sqlite3.Error as error:
            raise InvalidInput(f"{path} cannot be read: {_line(error)}") from None
        if quiet and (_changes(file) != before or not _is_quiet(file)):
            raise InvalidInput(f"{path} was written while it was read: read it when nobody writes")

    def looked_up(connection: sqlite3.Connection) -> SelectedRows | tuple[str, list[str]]:
        """The table and its columns, by what SQLite made of the schema: the text of that may have been edited."""
        kinds = {
            name: "a table" if kind == "table" else f"a {kind} table" if kind != "view" else "a view"
            for schema, name, kind, *_ in connection.execute("pragma main.table_list")
            if schema == "main" and not name.startswith("sqlite_")
        }
        tables = [name for name, kind in kinds.items() if kind == "a table"]
        if table is not None and table not in kinds and is_select(table):
            columns = {name: _columns(connection, name) for name in tables}
            try:
                return SelectedRows(table, columns)
            except InvalidInput as error:
                raise InvalidInput(f"{path}: {error}") from None
        found = _chosen(f"{path}", tables, kinds, table)
        return found, _columns(connection, found)

    def rows(columns: Sequence[str]) -> Iterator[list[tuple[Any, ...]]]:
        # With the table before it, a name can be no text: SQLite takes a quoted one for that where there is no column.
        names = ", ".join(f"t.{quoted(column)}" for column in columns) or "null"
        with opened() as connection:
            found = looked_up(connection)
            if isinstance(found, SelectedRows):
                statement = found.statement(columns)
                if found.joined:
                    _check_indices(connection, found.tables, path)
                connection.set_authorizer(_reads_rows)
            else:
                # An index holds copies of values, which a damaged file may have otherwise than the rows.
                statement = f"select {names} from main.{quoted(found[0])} as t not indexed"  # noqa: S608  quoted
            cursor = connection.execute(statement)
            while chunk := cursor.fetchmany(_CHUNK):
                yield chunk

    with opened() as connection:
        found = looked_up(connection)
    if isinstance(found, SelectedRows):
        return RowReader(path, (path,), found.header, rows, private_size=FILTERED if found.filtered else "")
    return RowReader(path, (path,), found[1], rows)


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    return [name for _, name, *_ in connection.execute(f"pragma main.table_xinfo({quoted(table)})")]


def _check_indices(connection: sqlite3.Connection, tables: Sequence[str], path: Path) -> None:
    """Raise `InvalidInput` where an index, by which a join looks rows up, has other values than they have."""
    for name in tables:
        (told,) = connection.execute(f"pragma main.integrity_check({quoted(name)})").fetchone()
        if told != "ok":
            raise InvalidInput(f"{path} is damaged: SQLite's integrity_check of table {name} fails")


def _reads_rows(action: int, name: str | None, second: str | None, *_: str | None) -> int:
    """SQLite's question whether a statement may do something: read, by functions of one row."""
    function = action == sqlite3.SQLITE_FUNCTION and second in FUNCTIONS
    allowed = function or action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ)
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def _is_quiet(file: Path) -> bool:
    """Whether all of a SQLite file with a write-ahead log is in the file itself, so that it is read without the log.

    With a log that has content SQLite reads both, by an index beside them that those who write share.
    """
    try:
        with file.open("rb") as opened:
            if opened.read(20)[18:] != b"\2\2":  # the formats of a file with a log
                return False
    except OSError:
        return False  # SQLite says what it is
    log, index = (file.with_name(f"{file.name}-{suffix}") for suffix in ("wal", "shm"))
    try:
        if not log.stat().st_size:
            return True
    except FileNotFoundError:
        return True
    if not index.exists():
        raise InvalidInput(
            f"{file} has records in a write-ahead log, {log.name}, that are not in the file yet: open it once by who"
            " may write it, as sqlite3 does for `pragma wal_checkpoint(truncate)`"
        )
    return False


def _changes(file: Path) -> tuple[int, ...]:
    found = file.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _text(raw: bytes) -> str | bytes:
    """A text of SQLite's; what is not UTF-8 stays bytes, which are an error of their row."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def _chosen(where: str, tables: Sequence[str], kinds: dict[str, str], table: str | None) -> str:
    """The table that is meant, which is one of these."""
    listed = f"its tables are {', '.join(sorted(tables))}" if tables else "it has no tables"
    if table is None:
        raise InvalidInput(f"{where}: say which table holds the records with --query; {listed}")
    if table in tables:
        return table
    if table in kinds:
        raise InvalidInput(f"{where}: {table} is {kinds[table]}, in which one record may change others; {listed}")
    raise InvalidInput(f"{where}: --query takes a select here, or the name of a table; {listed}")


_KINDS: Final = {"v": "a view", "m": "a materialised view", "f": "a foreign table", "S": "a sequence", "i": "an index"}

_FOUND: Final = """
select n.nspname, c.relname, c.relkind, exists (
    with recursive below (id) as (
        select c.oid union select i.inhrelid from pg_catalog.pg_inherits i join below b on i.inhparent = b.id)
    select 1 from below b join pg_catalog.pg_class d on d.oid = b.id where d.relkind not in ('r', 'p')
) from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.oid = pg_catalog.to_regclass(%s)
"""

_COLUMNS: Final = """
select a.attname, a.attgenerated <> '' from pg_catalog.pg_attribute a
where a.attrelid = pg_catalog.to_regclass(%s) and a.attnum > 0 and not a.attisdropped order by a.attnum
"""


def postgres_reader(address: str, table: str | None) -> RowReader:
    """The reader of a table on a PostgreSQL server. Needs psycopg.

    It is read through a cursor of the server's, which sees one state of the table, in a transaction that only reads, in
    which it is also looked up that it is a table.

    Raises `InvalidInput` for what is no table of rows that are stored (a view, a foreign table, columns that are
    generated), and where a policy hides rows from who reads. No message has a password.
    """
    try:
        import psycopg
        from psycopg import sql
        from psycopg.types.string import TextLoader
    except ImportError:
        raise InvalidInput("records on a PostgreSQL server need psycopg: pip install 'qrelease[postgres]'") from None
    try:
        given = psycopg.conninfo.conninfo_to_dict(address)
    except psycopg.Error:
        raise InvalidInput(
            "the address of the records is not as postgresql://user@host:5432/database; / ? # and @ in a password are"
            " written %2F %3F %23 and %40"
        ) from None
    secrets = [str(value) for name, value in given.items() if "pass" in name and value]
    where = Path(f"{given.get('host') or 'localhost'}:{given.get('dbname') or given.get('user') or ''}")

    def told(error: Exception) -> str:
        text = _line(error)
        for secret in secrets:
            text = text.replace(secret, "***")
        return text

    @contextmanager
    def opened() -> Iterator[Any]:
        try:
            with psycopg.connect(address) as connection:
                # A statement sees one state of the table, and the next one what became of the table meanwhile.
                connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
                connection.read_only = True
                connection.execute("set local row_security = off")
                connection.execute("set local time zone 'UTC'")
                connection.execute("set local datestyle = 'ISO, YMD'")
                for name in _AS_TEXT:
                    connection.adapters.register_loader(name, TextLoader)
                yield connection
        except (psycopg.Error, UnicodeDecodeError) as error:
            raise InvalidInput(f"{where} cannot be read: {told(error)}") from None

    if table is None:
        raise InvalidInput(f"{where}: say which table holds the records with --query, as schema.table")

    def looked_up(connection: Any) -> tuple[tuple[str, str], list[str]]:
        """The schema and name of the table, and its columns."""
        try:
            found = connection.execute(_FOUND, [table]).fetchone()
        except (psycopg.errors.SyntaxError, psycopg.errors.InvalidName, psycopg.errors.FeatureNotSupported):
            found = None
        if found is None:
            raise InvalidInput(
                f"{where}: --query takes only the name of a table here, as schema.table: a statement might mix"
                f" records; there is no {table!r}"
            )
        schema, name, kind, mixed = found
        columns = connection.execute(_COLUMNS, [table]).fetchall()
        if kind not in "rp" or mixed:
            told_kind = _KINDS.get(kind, "no table") if kind not in "rp" else "a table with a foreign table under it"
            raise InvalidInput(f"{where}: {table} is {told_kind}, in which one record may change others: name a table")
        for column, generated in columns:
            if generated:
                raise InvalidInput(
                    f"{where}: column {column} of {table} is generated, by which one record may change others"
                )
        return (schema, name), [column for column, _ in columns]

    with opened() as connection:
        place, header = looked_up(connection)

    def rows(wanted: Sequence[str]) -> Iterator[list[tuple[Any, ...]]]:
        names = sql.SQL(", ").join(map(sql.Identifier, wanted)) if wanted else sql.SQL("null")
        statement = sql.SQL("select {} from {}").format(names, sql.Identifier(*place))
        with opened() as connection, connection.cursor(f"qrelease_{next(_NUMBERS)}") as cursor:
            cursor.execute(statement)  # which locks what it reads: so what is looked up now is what that is
            if looked_up(connection) != (place, header):
                raise InvalidInput(f"{where}: {table} was changed while it was read")
            while chunk := cursor.fetchmany(_CHUNK):
                yield chunk

    return RowReader(where / ".".join(place), (), header, rows)


_NUMBERS: Final = count()


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())
