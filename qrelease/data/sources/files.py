"""Which reader reads a data file: chosen by its suffix, in this one place."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qrelease.data.sources.csv import CsvReader
    from qrelease.data.sources.parquet import ParquetReader

PARQUET_SUFFIXES = (".parquet", ".pq")

SUFFIXES = (".csv", *PARQUET_SUFFIXES, ".gz", ".xz", ".bz2")
"""The suffixes of data files, those of compressed CSV files among them."""


def is_parquet(path: str | os.PathLike[str]) -> bool:
    """Whether a file is read as Parquet by its suffix; any other file is read as CSV."""
    return Path(path).suffix.lower() in PARQUET_SUFFIXES


def open_reader(path: str | os.PathLike[str]) -> CsvReader | ParquetReader:
    """The reader of a data file: Parquet by its suffix, else CSV. Raises `InvalidInput` as that reader does."""
    from qrelease.data.sources.csv import CsvReader
    from qrelease.data.sources.parquet import ParquetReader

    return ParquetReader(path) if is_parquet(path) else CsvReader(path)


def dataset_name(path: str | os.PathLike[str]) -> str:
    """The name of a data file without its suffixes: `people` of people.csv, people.csv.gz and people.parquet alike."""
    name = Path(path).resolve()
    while name.suffix.lower() in SUFFIXES:
        name = name.with_suffix("")
    return name.name
