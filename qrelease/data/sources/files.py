"""Which reader reads a data file: chosen by its suffix, in this one place."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from glob import glob, has_magic
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from qrelease.data.sources.stores import (
    Address,
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
    from qrelease.data.sources.encoding import Reader

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


def is_remote(place: str | os.PathLike[str]) -> bool:
    """Whether records are named by a URL of another machine, of an object store or a web server."""
    return is_url(place) and not is_server(place) and local_file(str(place)) is None


def local_path(place: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """The file that a URL file:// names; any other place as it is."""
    found = local_file(str(place)) if is_url(place) and not is_server(place) else None
    return place if found is None else found


def is_parquet(path: str | os.PathLike[str]) -> bool:
    """Whether a file is read as Parquet by its suffix; any other file is read as CSV."""
    return Path(path).suffix.lower() in PARQUET_SUFFIXES


def open_reader(path: str | os.PathLike[str], query: str | None = None, dialect: Dialect | None = None) -> Reader:
    """The reader of a data file, or of all files of a pattern such as `part-*.parquet`.

    Parquet, Arrow, JSON lines, SQLite and DuckDB by the suffix, which the last two need a `query` for; else CSV, which
    `dialect` is for. Of a URL of an object store or a web server the same, but for databases (`stores`). Or of an
    address `postgresql://…`. Raises `InvalidInput` as that reader does.
    """
    from qrelease.data.sources.batches import arrow_reader, query_reader
    from qrelease.data.sources.databases import postgres_reader, sqlite_reader
    from qrelease.data.sources.json_lines import JsonLinesReader
    from qrelease.data.sources.many import ManyReader
    from qrelease.data.sources.parquet import ParquetReader

    if is_remote(path):
        return _remote_reader(str(path), query, dialect)
    path = local_path(path)
    place, suffix = Path(path), unpacked(path).suffix.lower()
    if dialect is not None and (is_server(path) or query is not None or suffix in _NOT_CSV):
        named = "records on a server" if is_server(path) else path  # whose address may have a password
        raise InvalidInput(f"{named}: {_OF_CSV}")
    if is_server(path):
        return postgres_reader(str(path), query)
    if suffix in SQLITE_SUFFIXES:
        return sqlite_reader(place, query)
    if query is not None or suffix in DATABASE_SUFFIXES:
        if query is None:
            raise InvalidInput(f"{path}: say which of its records with --query")
        if suffix not in DATABASE_SUFFIXES:
            known = ", ".join((*DATABASE_SUFFIXES, *SQLITE_SUFFIXES))
            raise InvalidInput(f"{path}: a query needs a file of DuckDB or SQLite, {known}")
        return query_reader(place, query)
    if is_pattern(path):
        return ManyReader(place, [open_reader(file, dialect=dialect) for file in each_of(place)])
    if is_parquet(path):
        return ParquetReader(path)
    if suffix in ARROW_SUFFIXES:
        return arrow_reader(place)
    return JsonLinesReader(path) if suffix in JSON_SUFFIXES else csv_reader(path, dialect)


def _remote_reader(url: str, query: str | None, dialect: Dialect | None) -> Reader:
    """The reader of the object that a URL names, or of all objects of a pattern."""
    from qrelease.data.sources.batches import arrow_reader
    from qrelease.data.sources.json_lines import JsonLinesReader
    from qrelease.data.sources.many import ManyReader
    from qrelease.data.sources.parquet import ParquetReader

    name = public_name(url)
    if query is not None or is_database(name):
        raise InvalidInput(f"{name}: a database is read from a file of this machine: copy it here")

    def reader(stored: StoredObject) -> UnchangedReader:
        suffix = unpacked(stored.name).suffix.lower()
        if dialect is not None and suffix in _NOT_CSV:
            raise InvalidInput(f"{stored}: {_OF_CSV}")
        if stored.suffix.lower() in PARQUET_SUFFIXES:
            found: Reader = ParquetReader(stored)
        elif suffix in ARROW_SUFFIXES:
            found = arrow_reader(stored)
        else:
            found = JsonLinesReader(stored) if suffix in JSON_SUFFIXES else csv_reader(stored, dialect)
        return UnchangedReader(found, stored)

    readers = [reader(stored) for stored in found_objects(url)]
    return ManyReader(Address(name), readers) if is_many(url) else readers[0]


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


def csv_reader(path: str | os.PathLike[str] | StoredObject, dialect: Dialect | None = None) -> Reader:
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
    name = Path(path).resolve()
    while name.suffix.lower() in SUFFIXES:
        name = name.with_suffix("")
    return name.name
