"""Rows of files: CSV in and out, compressed by extension, and Parquet in. No domain.

Reading streams, never holds more than a chunk, and shows on a terminal how many records it has read; writing goes to a
temporary neighbour that is renamed at the end, so that a file is whole or absent.
"""

import bz2
import contextlib
import csv
import gzip
import io
import lzma
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any, TextIO, final

from tqdm import tqdm

from qrelease.errors import InvalidInput

CHUNK = 512  # records held as text at a time: they stay in a core's cache, three times faster than 2^14

BATCH = 1 << 18
"""Rows of a Parquet file held decoded at a time."""

PARQUET = (".parquet", ".pq")

SUFFIXES = (".csv", *PARQUET, ".gz", ".xz", ".bz2")
"""Of data files."""

_UNREADABLE = (OSError, EOFError, lzma.LZMAError)  # a missing, foreign or truncated file


@final
@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive records of a file. `first` is the number of records before them."""

    first: int
    rows: list[list[str]]


@final
class CsvReader:
    """A UTF-8 CSV file (comma, RFC 4180 quotes, a byte order mark is skipped) with one header row.

    `header` holds the column names without surrounding spaces; `chunks()` streams the records. Raises
    `InvalidInput`, one line that names file and line, for a file that is missing, empty, not UTF-8, or not CSV,
    for a column named twice, and for a ragged row.

    The number of records may be public, so no value may make its record vanish. Under a header of one column
    a blank line is the record with the empty value. Under a wider header it is skipped: a record has a comma
    there. The line break at the end of a file ends the last record and starts none; a last record that is
    empty therefore needs its line break, or quotes.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        with self._records() as records:
            names = next(records, None)
        if names is None:
            raise InvalidInput(f"{self.path} is empty; it needs a header row")
        self.header = tuple(name.strip() for name in names)
        twice = next((n for i, n in enumerate(self.header) if n in self.header[:i]), None)
        if twice is not None:
            raise InvalidInput(f"{self.path} line 1: column {twice!r} appears twice")
        other = next((mark for mark in ";\t|" if mark in names[0]), None)
        if other is not None and len(names) == 1:
            raise InvalidInput(f"{self.path} line 1: columns are separated by {other!r}; save it with commas")

    def chunks(self) -> Iterator[Chunk]:
        """The records below the header, at most `CHUNK` at a time, each as long as the header."""
        first, width = 0, len(self.header)
        with self._records() as records, _progress() as bar:
            next(records)
            while rows := list(islice(records, CHUNK)):
                if set(map(len, rows)) != {width}:
                    wrong = next(i for i, row in enumerate(rows) if len(row) != width)
                    raise InvalidInput(
                        f"{self.path} line {self.line(first + wrong)}: "
                        f"{len(rows[wrong])} values, the header has {width}"
                    )
                yield Chunk(first, rows)
                first += len(rows)
                bar.update(len(rows))

    def texts(self) -> Iterator[Iterator[tuple[str, ...]]]:
        """All columns of each chunk."""
        for chunk in self.chunks():
            yield zip(*chunk.rows, strict=True)

    def line(self, record: int) -> int:
        """The line of the file on which a record (counted from 0) ends. Reads the file again: for errors."""
        with _open_text(self.path) as text:
            reader = csv.reader(text, strict=True)
            for _ in islice(_rows(reader), record + 2):  # the header is a row too
                pass
            return reader.line_num

    @contextlib.contextmanager
    def _records(self) -> Iterator[Iterator[list[str]]]:
        """The rows, header first; whatever goes wrong while reading becomes one line."""
        line = 0

        def numbered(reader: Any) -> Iterator[list[str]]:
            nonlocal line
            try:
                yield from _rows(reader)
            finally:
                line = reader.line_num

        try:
            with _open_text(self.path) as text:
                yield numbered(csv.reader(text, strict=True))
        except UnicodeDecodeError as error:
            raise InvalidInput(self._undecodable(error)) from None
        except csv.Error as error:
            raise InvalidInput(f"{self.path} line {line}: not CSV, {error}") from None
        except _UNREADABLE as error:
            raise InvalidInput(f"{self.path} cannot be read: {_reason(error)}") from None

    def _undecodable(self, error: UnicodeDecodeError) -> str:
        """Names the first line that is not UTF-8; the decoder itself only knows its buffer."""
        with _open_bytes(self.path) as lines:
            for number, line in enumerate(lines, start=1):
                try:
                    line.decode("utf-8")
                except UnicodeDecodeError as found:
                    byte = line[found.start]
                    return f"{self.path} line {number}: byte 0x{byte:02x} is not UTF-8; save it as UTF-8"
        return f"{self.path} is not UTF-8: {error.reason}"


@final
class ParquetReader:
    """A Parquet file: `header` holds the column names, `batches()` streams pyarrow tables.

    Raises `InvalidInput`, one line, without pyarrow and for a file that cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        with self._file() as file:
            self.header: tuple[str, ...] = tuple(file.schema_arrow.names)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """The records, at most `BATCH` at a time, in all columns or the ones named."""
        import pyarrow as pa

        with self._file() as file, _progress() as bar:
            for batch in file.iter_batches(BATCH, columns=None if columns is None else list(columns)):
                yield pa.Table.from_batches([batch])
                bar.update(len(batch))

    def texts(self) -> Iterator[list[list[str]]]:
        """All columns of each batch as texts, a missing value as the empty one."""
        for batch in self.batches():
            yield [["" if value is None else str(value) for value in column.to_pylist()] for column in batch.columns]

    @contextlib.contextmanager
    def _file(self) -> Iterator[Any]:
        try:
            import pyarrow as pa
            from pyarrow import parquet
        except ImportError:
            raise InvalidInput(f"{self.path}: Parquet needs pyarrow: pip install pyarrow") from None
        try:
            with parquet.ParquetFile(self.path) as file:
                yield file
        except (OSError, pa.ArrowException) as error:
            raise InvalidInput(f"{self.path} cannot be read: {' '.join(str(error).split())}") from None


def _progress() -> Any:
    return tqdm(desc="reading", unit=" rows", unit_scale=True, disable=None, leave=False)


def _rows(reader: Iterator[list[str]]) -> Iterator[list[str]]:
    """The header, the first line that is not blank, and the records: see `CsvReader` on blank lines, here []."""
    header = next(filter(None, reader), [])
    if len(header) == 1:
        yield header
        yield from (row or [""] for row in reader)
    elif header:
        yield header
        yield from filter(None, reader)


@contextlib.contextmanager
def written(path: str | os.PathLike[str]) -> Iterator[TextIO]:
    """A UTF-8 text file to write, compressed by extension, that appears under its name only when complete.

    On any exception inside the block nothing is left behind and an older file stays as it was. Raises
    `InvalidInput` when the file cannot be written.
    """
    path = Path(path)
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with contextlib.ExitStack() as stack:
            raw = stack.enter_context(open(part, "xb"))
            packed = stack.enter_context(_compressor(path)(raw))
            yield stack.enter_context(io.TextIOWrapper(packed, encoding="utf-8", newline=""))
        part.replace(path)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {_reason(error)}") from None
    finally:
        part.unlink(missing_ok=True)


def write_rows(out: TextIO, header: Sequence[str], chunks: Iterable[Iterable[Sequence[object]]]) -> None:
    """A header and then the rows of every chunk, as CSV with `\\n` line ends."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    for rows in chunks:
        writer.writerows(rows)


def _open_bytes(path: Path) -> IO[bytes] | gzip.GzipFile:
    match path.suffix:
        case ".gz":
            return gzip.open(path, "rb")
        case ".xz":
            return lzma.open(path, "rb")
        case ".bz2":
            return bz2.open(path, "rb")
        case _:
            return path.open("rb")


def _open_text(path: Path) -> TextIO:
    return io.TextIOWrapper(_open_bytes(path), encoding="utf-8-sig", newline="")


def _compressor(path: Path) -> Callable[[IO[bytes]], Any]:
    """What wraps a raw file; gzip without name and time, so that equal rows are equal bytes."""
    match path.suffix:
        case ".gz":
            return lambda raw: gzip.GzipFile("", "wb", fileobj=raw, mtime=0)
        case ".xz":
            return lambda raw: lzma.open(raw, "wb")
        case ".bz2":
            return lambda raw: bz2.open(raw, "wb")
        case _:
            return contextlib.nullcontext


def _reason(error: BaseException) -> str:
    """The system's words for a failed open or read, without the path that the message already names."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
