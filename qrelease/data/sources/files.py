"""Which reader reads a data file: chosen by its suffix, in this one place."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from glob import glob, has_magic
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from qrelease.data.sources.stores import (
    Address,
    Place,
    StoredObject,
    UnchangedReader,
    found_objects,
    is_many,
    is_url,
    local_file,
    placed,
    public_name,
    urls_at,
)
from qrelease.errors import InvalidInput

if TYPE_CHECKING:
    from qrelease.data.sources.dialect import Dialect
    from qrelease.data.sources.encoding import Reader, TypedReader

_SMALL = 1 << 21  # bytes of a CSV file that Python has read before numba is loaded
_PACKING = 8  # by about so much are CSV files compressed

PARQUET_SUFFIXES = (".parquet", ".pq")

ARROW_SUFFIXES = (".arrow", ".arrows", ".feather", ".ipc")

JSON_SUFFIXES = (".jsonl", ".ndjson")

DATABASE_SUFFIXES = (".duckdb", ".ddb")

SQLITE_SUFFIXES = (".sqlite", ".sqlite3", ".db")

PACKED_SUFFIXES = (".gz", ".xz", ".bz2")

_NOT_CSV = (*PARQUET_SUFFIXES, *ARROW_SUFFIXES, *JSON_SUFFIXES, *DATABASE_SUFFIXES, *SQLITE_SUFFIXES)

_OF_CSV = "separator, quote, decimal mark, encoding, escape and header are for CSV files"

SUFFIXES = (".csv", *_NOT_CSV, *PACKED_SUFFIXES)
"""The suffixes of data files, those of compressed ones among them."""


def is_server(place: str | os.PathLike[str]) -> bool:
    """Whether records are named by the address of a PostgreSQL server; also one that is not written as it should be."""
    return isinstance(place, str) and re.match(r"\s*postgres(ql)?\s*:", place, re.IGNORECASE) is not None


def has_first_line(place: str | os.PathLike[str], name: str) -> bool:
    """Whether records are read as CSV, whose first line has the names of the columns unless a dialect does.

    name  of the file, or of the pattern of many, that the place stands for
    """
    return not is_server(place) and unpacked(name).suffix.lower() not in _NOT_CSV


def is_remote(place: str | os.PathLike[str]) -> bool:
    """Whether records are named by a URL of another machine, of an object store or a web server."""
    return is_url(place) and not is_server(place) and local_file(str(place)) is None


def local_path(place: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """The file that a URL file:// names; any other place as it is."""
    found = local_file(str(place)) if is_url(place) and not is_server(place) else None
    return place if found is None else found


def open_reader(path: str | os.PathLike[str], query: str | None = None, dialect: Dialect | None = None) -> Reader:
    """The reader of a data file, or of all files of a pattern such as `part-*.parquet`.

    Parquet, Arrow, JSON lines, SQLite and DuckDB by the suffix, which the last two need a `query` for; else CSV, which
    `dialect` is for. Of a URL of an object store or a web server the same, but for databases (`stores`). Or of an
    address `postgresql://…`. A `query` of other files than databases is one of `file_queries`. Raises `InvalidInput` as
    that reader does.
    """
    from qrelease.data.sources.batches import query_reader
    from qrelease.data.sources.databases import postgres_reader, sqlite_reader

    if is_remote(path):
        return _remote_reader(str(path), query, dialect)
    path = local_path(path)
    place, suffix = Path(path), unpacked(path).suffix.lower()
    if dialect is not None and (is_server(path) or suffix in _NOT_CSV):
        named = "records on a server" if is_server(path) else path  # whose address may have a password
        raise InvalidInput(f"{named}: {_OF_CSV}")
    if is_server(path):
        return postgres_reader(str(path), query)
    if suffix in SQLITE_SUFFIXES:
        return sqlite_reader(place, query)
    if suffix in DATABASE_SUFFIXES:
        if query is None:
            raise InvalidInput(f"{path}: say which of its records with --query")
        return query_reader(place, query)
    return _reader_of(place, files_of(place), query, dialect, many=is_pattern(path))


def _remote_reader(url: str, query: str | None, dialect: Dialect | None) -> Reader:
    """The reader of the object that a URL names, or of all objects of a pattern."""
    name = public_name(url)
    if is_database(name):
        raise InvalidInput(f"{name}: a database is read from a file of this machine: copy it here")
    stored = found_objects(url)
    return _reader_of(Address(name) if is_many(url) else stored[0], stored, query, dialect, many=is_many(url))


def _reader_of(
    place: Place | Address, files: Sequence[Place], query: str | None, dialect: Dialect | None, *, many: bool
) -> Reader:
    """The reader of a file that is no database, of many, or of the rows that a query gives of it or of them."""
    from qrelease.data.sources.many import ManyReader

    def all_files() -> TypedReader:
        readers = [_file_reader(file, dialect) for file in files]
        if query is not None and len({reader.keyed for reader in readers}) > 1:
            raise InvalidInput(
                f"{place}: JSON lines have no columns of a type, and other files have: a query names one of them"
            )
        return ManyReader(place, readers)

    if not files:
        raise InvalidInput(f"no file has a name like {place}")
    _check_apart(files)
    if query is None:
        return all_files() if many else _file_reader(files[0], dialect)
    from qrelease.data.sources.csv import PLAIN
    from qrelease.data.sources.file_queries import ALL_FILES, file_query_reader, table_called

    openers: list[tuple[str, Callable[[], TypedReader]]] = [
        (table_called(_bare(file)), partial(_file_reader, file, dialect)) for file in files
    ]
    openers += [(ALL_FILES, all_files)] if many else []
    return file_query_reader(place, openers, query, dialect or PLAIN)


def _check_apart(files: Sequence[Place]) -> None:
    """Raise `InvalidInput` where two files are one, by two names: each of its records would count twice."""
    seen: dict[tuple[int, int], Place] = {}
    for file in files if len(files) > 1 else ():
        if isinstance(file, Path):
            with suppress(OSError):  # which its reader tells
                status = file.stat()
                other = seen.setdefault((status.st_dev, status.st_ino), file)
                if other is not file:
                    raise InvalidInput(f"{other} and {file} are one file, each of whose records would count twice")


def _file_reader(file: Place, dialect: Dialect | None) -> TypedReader:
    """The reader of a file, or of an object of a store, that is no database."""
    from qrelease.data.sources.batches import arrow_reader
    from qrelease.data.sources.json_lines import JsonLinesReader
    from qrelease.data.sources.parquet import ParquetReader

    suffix = unpacked(file.name).suffix.lower()
    if is_database(file.name):
        raise InvalidInput(f"{file}: a database is read by itself, by a query of its own")
    if dialect is not None and suffix in _NOT_CSV:
        raise InvalidInput(f"{file}: {_OF_CSV}")
    if file.suffix.lower() in PARQUET_SUFFIXES:
        found: TypedReader = ParquetReader(file)
    elif suffix in ARROW_SUFFIXES:
        found = arrow_reader(file)
    else:
        found = JsonLinesReader(file) if suffix in JSON_SUFFIXES else csv_reader(file, dialect)
    return UnchangedReader(found, file) if isinstance(file, StoredObject) else found


def is_pattern(path: str | os.PathLike[str]) -> bool:
    """Whether a path stands for many files."""
    return has_magic(str(path)) and not os.path.exists(path)


def files_of(path: str | os.PathLike[str]) -> list[Path]:
    """The files that a path stands for: one, or all that there are of a pattern."""
    return [Path(file) for file in sorted(glob(str(path), recursive=True))] if is_pattern(path) else [Path(path)]


def is_database(path: str | os.PathLike[str]) -> bool:
    """Whether a file is one of DuckDB or SQLite by its suffix, whose records a query names."""
    return unpacked(path).suffix.lower() in (*DATABASE_SUFFIXES, *SQLITE_SUFFIXES)


def each_of(place: Path | str) -> list[Path | str]:
    """Each file, or each object of a store, that a place stands for; any other place as it is.

    Raises `InvalidInput` where there is none.
    """
    if isinstance(place, str) and is_remote(place):
        return [*urls_at(place)]
    if is_server(place):
        return [place]
    files = files_of(place)
    if not files:
        raise InvalidInput(f"no file has a name like {place}")
    return [*files]


def unpacked(path: str | os.PathLike[str]) -> Path:
    """A path without the suffix of a compressed file."""
    return Path(path).with_suffix("") if Path(path).suffix.lower() in PACKED_SUFFIXES else Path(path)


def csv_reader(path: str | os.PathLike[str] | StoredObject, dialect: Dialect | None = None) -> TypedReader:
    """The reader of a CSV file: by blocks of bytes where that is sooner; both read the same."""
    from qrelease.data.sources.csv import PLAIN, CsvReader

    dialect = dialect or PLAIN
    with suppress(OSError):
        place = placed(path)
        packed = place.suffix in PACKED_SUFFIXES
        size = place.size if isinstance(place, StoredObject) else os.path.getsize(place)
        if size * (_PACKING if packed else 1) > _SMALL:
            from qrelease.data.sources.csv_blocks import BlockCsvReader

            return BlockCsvReader(path, dialect)
    return CsvReader(path, dialect)


def dataset_name(path: str | os.PathLike[str]) -> str:
    """The name of a data file without its suffixes: `people` of people.csv, people.csv.gz and people.parquet alike."""
    if is_server(path):
        raise InvalidInput("records on a server: give their dataset a name, by --dataset")
    if is_remote(path):
        path = public_name(str(path))
        if is_many(path):
            raise InvalidInput(f"{path} are many objects: give their dataset a name, by --dataset")
        path = PurePosixPath(path).name
    path = local_path(path)
    if is_pattern(path):
        raise InvalidInput(f"{path} are many files: give their dataset a name, by --dataset")
    return _bare(Path(path).resolve())


def _bare(file: Place) -> str:
    """The name of a file without its suffixes."""
    name = Path(file.name)
    while name.suffix.lower() in SUFFIXES:
        name = name.with_suffix("")
    return name.name
