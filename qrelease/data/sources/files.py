"""Which reader reads a data file: chosen by its suffix, in this one place."""

from __future__ import annotations

import os
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qrelease.data.sources.encoding import Reader

_SMALL = 1 << 21  # bytes of a CSV file that Python has read before pyarrow is loaded
_PACKING = 8  # by about so much are CSV files compressed

PARQUET_SUFFIXES = (".parquet", ".pq")

SUFFIXES = (".csv", *PARQUET_SUFFIXES, ".gz", ".xz", ".bz2")
"""The suffixes of data files, those of compressed CSV files among them."""


def is_parquet(path: str | os.PathLike[str]) -> bool:
    """Whether a file is read as Parquet by its suffix; any other file is read as CSV."""
    return Path(path).suffix.lower() in PARQUET_SUFFIXES


def open_reader(path: str | os.PathLike[str]) -> Reader:
    """The reader of a data file: Parquet by its suffix, else CSV. Raises `InvalidInput` as that reader does."""
    from qrelease.data.sources.parquet import ParquetReader

    return ParquetReader(path) if is_parquet(path) else csv_reader(path)


def csv_reader(path: str | os.PathLike[str]) -> Reader:
    """The reader of a CSV file: by Arrow where that is installed and sooner; both read the same."""
    from qrelease.data.sources.arrow_csv import ArrowCsvReader
    from qrelease.data.sources.csv import CsvReader

    with suppress(OSError):
        packed = Path(path).suffix in (".gz", ".xz", ".bz2")
        if os.path.getsize(path) * (_PACKING if packed else 1) > _SMALL and find_spec("pyarrow") is not None:
            return ArrowCsvReader(path)
    return CsvReader(path)


def dataset_name(path: str | os.PathLike[str]) -> str:
    """The name of a data file without its suffixes: `people` of people.csv, people.csv.gz and people.parquet alike."""
    name = Path(path).resolve()
    while name.suffix.lower() in SUFFIXES:
        name = name.with_suffix("")
    return name.name
