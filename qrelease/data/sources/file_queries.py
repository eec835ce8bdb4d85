"""Queries of data files: CSV, JSON lines, Parquet and Arrow, each of which is a table to DuckDB.

Our own readers read the files, and DuckDB gets their rows as a stream of Arrow: so it opens no file, finds out no type,
separator or header, and holds a few blocks at a time. Cells of CSV are texts there, as they stand in the file, and
values of JSON lines are the texts that they have for a schema. Parquet and Arrow keep the types of their columns.

A stream is read once, which is enough: a query that names a table twice in a join or a union is refused, as are all in
which one record may change others (`row_queries`). Which columns a table has may not depend on a record either. Where
each record names its own, as in JSON lines, these are the columns that the query names; a star is for those that the
schema asks for.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast, final

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt

from qrelease._util.typing import Codes
from qrelease.data.persons import KeyReader
from qrelease.data.sources.arrow import shown_texts
from qrelease.data.sources.dialect import Dialect
from qrelease.data.sources.encoder import Encoder
from qrelease.data.sources.frames import FramePiece
from qrelease.data.sources.row_queries import (
    arrow_batches,
    check_nodes,
    check_ordered,
    check_plan,
    connected,
    error_line,
    parsed,
    table_name,
    tables_of,
)
from qrelease.data.sources.stores import Address, Place
from qrelease.errors import InvalidInput

if TYPE_CHECKING:
    from qrelease.data.sources.encoding import TypedPiece, TypedReader

ALL_FILES: Final = "files"
"""The table of the records of all files of a pattern."""

_LISTED: Final = 10  # names of tables in a message

_ROWS: Final = 1 << 14
"""Rows that DuckDB gets at a time at least."""


def table_called(file: str) -> str:
    """The name of the table of a file, from its name without suffixes: what may stand in SQL without quotes."""
    name = re.sub(r"\W", "_", file)
    return f"_{name}" if not name or name[0].isdigit() else name


def file_query_reader(
    path: Place | Address,
    files: Sequence[tuple[str, Callable[[], TypedReader]]],
    query: str,
    dialect: Dialect,
) -> FileQueryReader:
    """The reader of the rows that a query gives of data files. Needs duckdb.

    path     what errors call the files
    files    the name of each table, and what opens its reader; the last one may be `ALL_FILES`, of all others
    dialect  of those that are CSV
    Raises `InvalidInput` for what is no single select, or not row by row, for a table that is not there, and for tables
    that have records in common.
    """
    try:
        import duckdb
        import pyarrow  # noqa: F401  a part of the same extra
    except ImportError:
        raise InvalidInput(f"{path}: a query needs duckdb: pip install 'qrelease[duckdb]'") from None
    try:
        with connected(":memory:") as connection:
            nodes = parsed(connection, query, str(path))
            private_size = check_nodes(nodes, str(path))
            check_ordered(nodes, str(path))
            readers = _named(str(path), files, nodes)
            found = FileQueryReader(path, readers, query, nodes, dialect, private_size)
            found.check(connection)
    except duckdb.Error as error:
        raise InvalidInput(f"{path}: {error_line(error)}") from None
    return found


def _named(
    path: str,
    files: Sequence[tuple[str, Callable[[], TypedReader]]],
    nodes: Sequence[Mapping[str, Any]],
) -> dict[str, TypedReader]:
    """The reader of each table that a query names, by its name."""
    known = list(dict.fromkeys(name for name, _ in files))
    listed = f"{', '.join(known[-_LISTED:])}{' and others' * (len(known) > _LISTED)}"
    there_are = f"the table{'s are' if len(known) > 1 else ' is'} {listed}"
    found: dict[str, TypedReader] = {}
    for node in tables_of(nodes):
        name, given = table_name(node), node["table_name"]
        openers = [opener for called, opener in files if called.lower() == name]
        if node.get("schema_name") or node.get("catalog_name"):
            raise InvalidInput(f"{path}: name table {given} alone, without what stands before it; {there_are}")
        if not openers:
            raise InvalidInput(f"{path}: the query names a table {given!r}; {there_are}")
        if len(openers) > 1:
            raise InvalidInput(f"{path}: {len(openers)} tables would be called {given}: rename a file; {there_are}")
        if node.get("column_name_alias"):
            raise InvalidInput(f"{path}: rename the columns of {given} by `as` in the select, not beside its name")
        if name not in found:
            found[name] = openers[0]()
    if not found:
        raise InvalidInput(f"{path}: the query names no table; {there_are}")
    if ALL_FILES in found and len(found) > 1 and len(files) > 1:
        raise InvalidInput(f"{path}: table {ALL_FILES} has the records of all others: a query of it names it alone")
    return found


@final
class FileQueryReader:
    """The rows that a query gives of data files, read as a file is.

    path          what errors call the files
    tables        the reader of each table that the query names
    nodes         the query's tree, as `row_queries.parsed` gives it
    dialect       of the tables that are CSV
    private_size  why the number of rows is private under every relation, as `Source.private_size`
    """

    def __init__(
        self,
        path: Place | Address,
        tables: Mapping[str, TypedReader],
        query: str,
        nodes: Sequence[Mapping[str, Any]],
        dialect: Dialect,
        private_size: str,
    ) -> None:
        self.path, self.private_size = path, private_size
        self.files: tuple[Path, ...] = tuple(file for reader in tables.values() for file in reader.files)
        self._query, self._dialect, self._named = query, dialect, NamedColumns.of(nodes)
        self._of_keys = any(reader.keyed for reader in tables.values())
        if self._of_keys and self._named.star and not self._named.bare:
            raise InvalidInput(
                f"{path}: a query of JSON lines names its columns, since each record has its own; or it is a star of"
                " one table, with conditions or without"
            )
        self._tables = {name: _FileTable(reader, self._named) for name, reader in tables.items()}
        self.keyed = self._of_keys and self._named.star
        self.header: tuple[str, ...] = ()

    def check(self, connection: Any) -> None:
        """Find the names of the columns that the query gives, without a record. `InvalidInput`, also for DuckDB's."""
        import duckdb

        schemas = {name: table.schema(None) for name, table in self._tables.items()}
        for name, schema in schemas.items():
            connection.register(name, schema.empty_table())
        try:
            self.header = tuple(connection.sql(self._query).columns)
        except duckdb.Error as error:
            self.check_header()
            told = [f"{name} has {', '.join(schema.names)}" for name, schema in schemas.items()]
            told += [table.left_out for table in self._tables.values() if table.left_out]
            text = error_line(error)
            if "VARCHAR" in text and any(_is_text(kind) for schema in schemas.values() for kind in schema.types):
                text += "; cells of CSV and JSON lines are texts: write cast(age as double) for the number in a column"
            raise InvalidInput(f"{self.path}: {text}; {'; '.join(told)}") from None
        twice = [name for name, times in Counter(self.header).items() if times > 1]
        if twice:
            raise InvalidInput(f"{self.path}: two columns of the query are called {twice[0]!r}: name one with `as`")
        check_plan(connection, self._query, str(self.path))

    def check_header(self, known: Collection[str] = ()) -> None:
        """Raise what the readers of the tables raise."""
        for table in self._tables.values():
            table.check_header(known if self._named.bare else ())

    def pieces(self, columns: Sequence[str]) -> Iterator[_QueryPiece]:
        """All rows, in the columns named, a batch at a time."""
        first, names = 0, [*dict.fromkeys(columns)]
        source = f"{self.path}, the query's"  # rows are numbered as the query gives them
        for batch in self._batches(names):
            piece = FramePiece(nw.from_native(batch, eager_only=True), {n: n for n in names}, first, source)
            texts = {name for name in names if _is_text(batch.schema.field(name).type)}
            yield _QueryPiece(piece, texts, self._dialect, of_keys=self._of_keys)
            first += len(batch)

    def texts(self) -> Iterator[list[list[str]]]:
        """All columns of each batch as texts, a missing value as the empty one."""
        for batch in self._batches(self.header):
            columns = list(map(shown_texts, batch.columns))
            if self._dialect.decimal != ".":
                columns = [
                    list(map(self._dialect.pointed, texts)) if _is_text(column.type) else texts
                    for texts, column in zip(columns, batch.columns, strict=True)
                ]
            yield columns

    def _batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Tables of pyarrow's, at most `BATCH` rows each, in the columns named."""
        import duckdb
        import pyarrow as pa

        failed: list[BaseException] = []
        wanted = columns if self._named.bare else None if self._named.star or self._named.row else ()
        try:
            with connected(":memory:") as connection:
                for name, table in self._tables.items():
                    schema = table.schema(wanted)
                    rows = _told(table.rows(schema), failed)
                    connection.register(name, pa.RecordBatchReader.from_batches(schema, rows))
                connection.execute("set lock_configuration = true")
                yield from arrow_batches(connection.sql(self._query), columns)
        except Exception as error:
            if failed:  # what a reader raised, which DuckDB tells in other words
                raise failed[0] from None
            if isinstance(error, duckdb.Error | OSError | pa.ArrowException):
                raise InvalidInput(f"{self.path}: {error_line(error)}") from None
            if isinstance(error, RuntimeError) and "interrupted" in str(error):  # by a signal, as DuckDB tells it
                raise KeyboardInterrupt from None
            raise


@final
@dataclass(frozen=True, slots=True)
class NamedColumns:
    """Which columns a query names.

    names  all words that may be one, as they are written
    star   whether there is a star
    row    whether a table's name is in the place of a column, which is all of a row where no column is called so
    bare   whether the query is a star, of one table, with conditions or without
    """

    names: tuple[str, ...]
    star: bool
    row: bool
    bare: bool

    @classmethod
    def of(cls, nodes: Sequence[Mapping[str, Any]]) -> NamedColumns:
        """Those of a query's tree."""
        named = [name for node in nodes if node.get("class") == "COLUMN_REF" for name in node["column_names"]]
        named += [name for node in nodes for name in node.get("using_columns") or ()]
        called = {word.lower() for t in tables_of(nodes) for word in (t["table_name"], t.get("alias") or "")}
        row = any(node.get("class") == "COLUMN_REF" and _is_row(node, called) for node in nodes)
        star = [node for node in nodes if node.get("class") == "STAR"]
        selects = [node for node in nodes if node.get("type") == "SELECT_NODE"]
        bare = len(star) == len(selects) == len(tables_of(nodes)) == 1 and [*selects[0]["select_list"]] == star
        plain = bare and not row and not any(star[0].get(key) for key in _STAR_LISTS)
        return cls(tuple(dict.fromkeys(named)), bool(star), row, plain)


_STAR_LISTS: Final = ("exclude_list", "replace_list", "qualified_exclude_list", "rename_list")


def _is_row(node: Mapping[str, Any], tables: Collection[str]) -> bool:
    """Whether a name may be that of a table, perhaps after its schema's, whose row is then the value."""
    return node["column_names"][-1].lower() in tables


@final
class _FileTable:
    """A table of a query: which columns of a reader it has, and their rows.

    left_out  says of columns of which types it has not
    """

    def __init__(self, reader: TypedReader, named: NamedColumns) -> None:
        import pyarrow as pa

        self._reader, self._named = reader, named
        given = reader.arrow_types()
        types = {name: _taken(kinds) for name, kinds in given.items()}
        others = [f"{name} ({', '.join(map(str, given[name]))})" for name, kind in types.items() if kind is None]
        self.left_out = f"columns that no query has, for their types: {', '.join(others)}" if others else ""
        self._types = {name: kind for name, kind in types.items() if kind is not None and name}
        if not (self._types or reader.keyed):
            raise InvalidInput(f"{reader.path}: {self.left_out or 'it has no column with a name'}")
        if reader.keyed:  # which keys there are may not decide what a name of the query means
            self._types = {**dict.fromkeys(named.names, pa.string()), **self._types}

    def schema(self, wanted: Sequence[str] | None) -> Any:
        """Its columns and their types, as pyarrow's: those that the query names, and those that are wanted beside.

        wanted  None for all; of records that name their own columns, all where there is a star
        Raises `InvalidInput` where names differ in case alone, which DuckDB takes for one.
        """
        import pyarrow as pa

        named = {name.lower() for name in self._named.names}
        if self._reader.keyed:
            every = self._named.star and wanted is None
            names = [*self._types] if every else [*self._named.names, *(wanted or ())]
            types = {name: self._types.get(name, pa.string()) for name in names or ["nothing"]}
        elif wanted is None:
            types = self._types
        else:
            types = {name: kind for name, kind in self._types.items() if name in wanted or name.lower() in named}
            types = types or dict([*self._types.items()][:1])  # a row has a column
        found: dict[str, str] = {}
        for name in types:
            other = found.setdefault(name.lower(), name)
            asked = name in (*self._named.names, *(wanted or ())) if self._reader.keyed else self._named.star
            if other != name and (asked or (name.lower() in named and not self._reader.keyed)):
                raise InvalidInput(
                    f"{self._reader.path}: columns {other!r} and {name!r} differ in case alone, which a query does not"
                    " tell apart"
                )
        return pa.schema([(name, types[name]) for name in found.values()])

    def rows(self, schema: Any) -> Iterator[Any]:
        """All records, in the columns of a schema, as record batches of pyarrow's."""
        import pyarrow as pa

        held: list[Any] = []
        for piece in self._reader.pieces(schema.names):
            columns = [cast("TypedPiece", piece).arrow(field.name).cast(field.type) for field in schema]
            held.append(pa.table(columns, schema=schema))
            if sum(map(len, held)) >= _ROWS:
                yield from _together(held)
                held.clear()
        yield from _together(held)

    def check_header(self, known: Collection[str]) -> None:
        """Raise what the reader raises.

        known  columns of which the header should have some; none where it need not
        """
        lowered = {name.lower() for name in self._named.names}
        self._reader.check_header(known or [name for name in self._reader.header if name.lower() in lowered])


@final
class _QueryPiece:
    """Some rows of a query to codes; a value without a place is an error with its row.

    texts    the columns that are texts, which a file with decimal commas, or JSON lines, may have given
    of_keys  whether records of JSON lines are among them
    """

    def __init__(self, piece: FramePiece, texts: Collection[str], dialect: Dialect, *, of_keys: bool) -> None:
        self._piece, self._texts, self._dialect, self._of_keys = piece, texts, dialect, of_keys

    def codes(self, encoder: Encoder, column: str) -> Codes:
        """The codes (n,) of a column."""
        attribute = encoder.attribute
        if column in self._texts and self._of_keys and not attribute.writing.is_plain:
            raise InvalidInput(
                f"column {attribute.name!r}: the schema says how texts are written, and a query has numbers of JSON"
                " lines as texts, too: read the file without a query, or take that out of the schema"
            )
        if column in self._texts and self._dialect.decimal != "." and attribute.kind in ("coded", "number"):
            return self._with_commas(encoder, self._piece.arrow(column).to_pylist())
        return self._piece.codes(encoder, column)

    def _with_commas(self, encoder: Encoder, texts: Sequence[str | None]) -> Codes:
        """The codes (n,) of a column of numbers with decimal commas."""
        found: list[int] = []
        try:
            for text in texts:
                spelled = None if text is None else self._dialect.text(encoder.attribute, text)
                found.append(encoder.code(spelled))
        except InvalidInput as error:
            raise InvalidInput(f"{self.place(len(found))}: {error}") from None
        return encoder.of_codes(found)

    def persons(self, reader: KeyReader, column: str) -> npt.NDArray[np.int64]:
        """What the reader makes (n,) of the keys in a column."""
        return self._piece.persons(reader, column)

    def place(self, position: int) -> str:
        """What errors call a row, by its place in the piece."""
        return self._piece.place(position)


def _together(tables: Sequence[Any]) -> Iterator[Any]:
    """Tables of pyarrow's as record batches, of small ones one."""
    import pyarrow as pa

    if tables:
        whole = tables[0] if len(tables) == 1 else pa.concat_tables(tables).combine_chunks()
        yield from whole.to_batches()


def _taken(kinds: Sequence[Any]) -> Any:
    """The type of pyarrow's in which a query has the values of types, unchanged; None where there is none."""
    import pyarrow as pa

    is_type = pa.types
    plain = [kind.value_type if is_type.is_dictionary(kind) else kind for kind in kinds]
    plain = [pa.string() if is_type.is_large_string(kind) else kind for kind in plain if not is_type.is_null(kind)]
    kind, *others = dict.fromkeys(plain or [pa.string()])
    numbers = is_type.is_integer(kind) or is_type.is_float32(kind) or is_type.is_float64(kind)
    texts = is_type.is_string(kind) or is_type.is_binary(kind)
    moments = is_type.is_date32(kind) or (is_type.is_timestamp(kind) and (kind.unit != "ns" or kind.tz is None))
    known = numbers or texts or moments or is_type.is_boolean(kind) or is_type.is_decimal128(kind)
    return kind if known and not others else None


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _told(rows: Iterator[Any], failed: list[BaseException]) -> Iterator[Any]:
    """The same rows; what goes wrong is kept, for DuckDB makes another error of it."""
    try:
        yield from rows
    except GeneratorExit:
        raise
    except BaseException as error:
        failed.append(error)
        raise
