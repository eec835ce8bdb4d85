"""Which reader reads a data file: chosen by its suffix, in this one place."""

from __future__ import annotations

import os
from contextlib import suppress
from glob import glob, has_magic
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from qrelease.errors import InvalidInput

if TYPE_CHECKING:
    from qrelease.data.sources.encoding import Reader

_SMALL = 1 << 21  # bytes of a CSV file that Python has read before pyarrow is loaded
_PACKING = 8  # by about so much are CSV files compressed

PARQUET_SUFFIXES = (".parquet", ".pq")

ARROW_SUFFIXES = (".arrow", ".feather", ".ipc")

JSON_SUFFIXES = (".jsonl", ".ndjson")

DATABASE_SUFFIXES = (".duckdb", ".ddb")

PACKED_SUFFIXES = (".gz", ".xz", ".bz2")

SUFFIXES = (".csv", *PARQUET_SUFFIXES, *ARROW_SUFFIXES, *JSON_SUFFIXES, *DATABASE_SUFFIXES, *PACKED_SUFFIXES)
"""The suffixes of data files, those of compressed ones among them."""


def is_parquet(path: str | os.PathLike[str]) -> bool:
    """Whether a file is read as Parquet by its suffix; any other file is read as CSV."""
    return Path(path).suffix.lower() in PARQUET_SUFFIXES


def open_reader(path: str | os.PathLike[str], query: str | None = None) -> Reader:
    """The reader of a data file, or of all files of a pattern such as `part-*.parquet`.

    Parquet, Arrow, JSON lines and DuckDB by the suffix, which `query` is for; else CSV. Raises `InvalidInput` as that
    reader does.
    """
    from qrelease.data.sources.batches import arrow_reader, query_reader
    from qrelease.data.sources.json_lines import JsonLinesReader
    from qrelease.data.sources.many import ManyReader
    from qrelease.data.sources.parquet import ParquetReader

    place, suffix = Path(path), unpacked(path).suffix.lower()
    if query is not None or suffix in DATABASE_SUFFIXES:
        if query is None:
            raise InvalidInput(f"{path}: say which of its records with --query")
        if suffix not in DATABASE_SUFFIXES:
            raise InvalidInput(f"{path}: a query is of a file of DuckDB's, {', '.join(DATABASE_SUFFIXES)}")
        return query_reader(place, query)
    if is_pattern(path):
        files = sorted(glob(str(path), recursive=True))
        if not files:
            raise InvalidInput(f"no file is named {path}")
        return ManyReader(place, [open_reader(file) for file in files])
    if is_parquet(path):
        return ParquetReader(path)
    if suffix in ARROW_SUFFIXES:
        return arrow_reader(place)
    return JsonLinesReader(path) if suffix in JSON_SUFFIXES else csv_reader(path)


def is_pattern(path: str | os.PathLike[str]) -> bool:
    """Whether a path stands for many files."""
    return has_magic(str(path)) and not os.path.exists(path)


def unpacked(path: str | os.PathLike[str]) -> Path:
    """A path without the suffix of a compressed file."""
    return Path(path).with_suffix("") if Path(path).suffix.lower() in PACKED_SUFFIXES else Path(path)


def csv_reader(path: str | os.PathLike[str]) -> Reader:
    """The reader of a CSV file: by Arrow where that is installed and sooner; both read the same."""
    from qrelease.data.sources.arrow_csv import ArrowCsvReader
    from qrelease.data.sources.csv import CsvReader

    with suppress(OSError):
        packed = Path(path).suffix in PACKED_SUFFIXES
        if os.path.getsize(path) * (_PACKING if packed else 1) > _SMALL and find_spec("pyarrow") is not None:
            return ArrowCsvReader(path)
    return CsvReader(path)


def dataset_name(path: str | os.PathLike[str]) -> str:
    """The name of a data file without its suffixes: `people` of people.csv, people.csv.gz and people.parquet alike."""
    if is_pattern(path):
        raise InvalidInput(f"{path} are many files: give their dataset a name, by --dataset")
    name = Path(path).resolve()
    while name.suffix.lower() in SUFFIXES:
        name = name.with_suffix("")
    return name.name
