"""CSV files: records read in a stream, and rows written. Nothing here knows a schema but `write_csv`."""

from __future__ import annotations

import contextlib
import csv
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TextIO, final

from qrelease._util.texts import listed
from qrelease.data.domain import Domain
from qrelease.data.sources.compression import READ_ERRORS, error_text, open_bytes, open_text, written
from qrelease.data.sources.dialect import Dialect
from qrelease.data.sources.progress import reading_bar
from qrelease.data.sources.stores import StoredObject, files_at, placed
from qrelease.errors import InvalidInput

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from qrelease._util.typing import Codes
    from qrelease.data.persons import KeyReader
    from qrelease.data.sources.encoder import Encoder

CHUNK = 512
"""Records held as text at a time: they stay in a core's cache, which is three times faster than 2^14 of them."""

_SEPARATORS = ",;\t|"
_TAB = "\t"
_NO_HEADER = "if it is a record already, name all columns by --header"
_UTF_16 = b"\xff\xfe", b"\xfe\xff"

_OTHER_FORMATS = {
    b"PK\x03\x04": "a ZIP archive, as workbooks (.xlsx, .ods) are too: take the table out, as CSV",
    b"\x28\xb5\x2f\xfd": "packed by zstd: unpack it, or pack it as .gz, .xz or .bz2",
    b"\x1f\x8b": "packed by gzip: let its name end with .gz",
    b"BZh": "packed by bzip2: let its name end with .bz2",
    b"\xfd7zXZ\x00": "packed by xz: let its name end with .xz",
    b"\xd0\xcf\x11\xe0": "a workbook of an old Excel: save its table as CSV",
    b"PAR1": "a Parquet file: let its name end with .parquet",
    b"ARROW1": "an Arrow file: let its name end with .arrow",
    b"\xff\xff\xff\xff": "an Arrow stream: let its name end with .arrows",
    b"SQLite format 3": "a SQLite file: let its name end with .sqlite",
}
"""What files begin with that are not text, and what to do."""

PLAIN = Dialect()

_DECODED_ROWS = 1 << 12
"""Synthetic rows turned into values at a time."""


@final
@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive records of a file. `first` is the number of records before them."""

    first: int
    rows: list[list[str]]


@final
class CsvReader:
    """A CSV file with one header row: UTF-8 with commas and RFC 4180 quotes, or in another dialect that is said, which
    may also name the columns of a file without a header.

    `header` holds the column names without surrounding spaces; `chunks()` streams the records. Raises
    `InvalidInput`, one line that names file and line, for a file that is missing, empty, not UTF-8, or not CSV,
    for a column named twice, and for a ragged row.

    The number of records may be public, so no value may make its record vanish. Under a header of one column
    a blank line is the record with the empty value. Under a wider header it is skipped: a record has a comma
    there. The line break at the end of a file ends the last record and starts none; a last record that is
    empty therefore needs its line break, or quotes.
    """

    keyed = False
    private_size = ""

    def __init__(self, path: str | os.PathLike[str] | StoredObject, dialect: Dialect = PLAIN) -> None:
        self.path, self.dialect = placed(path), dialect
        self.files = files_at(self.path)
        with self._records() as records:
            names = next(records, None)
            first = next(records, None) if dialect.header else None
        if names is None:
            raise InvalidInput(f"{self.path} is empty; it needs a header row, or --header")
        self.header = tuple(name.strip() for name in names)
        twice = next((i for i, n in enumerate(self.header) if n in self.header[:i]), None)
        if twice is not None:  # without a header these are values of a record: none is shown
            places = f"column {self.header.index(self.header[twice]) + 1} appears twice, as column {twice + 1} too"
            raise InvalidInput(f"{self.path} line 1: the name of {places}; {_NO_HEADER}")
        if first is not None and tuple(map(str.strip, first)) == self.header:
            raise InvalidInput(f"{self.path} line {self.line(0)} is a header itself: leave out --header")

    def check_header(self, known: Collection[str] = ()) -> None:
        """Refuse a header that other marks than commas seem to separate, or in which no column is known."""
        if self.dialect.header:
            return
        only = self.header[0] if len(self.header) == 1 else ""
        other = next((mark for mark in _SEPARATORS if mark in only), None)
        if other is not None and only not in known:
            raise InvalidInput(
                f"{self.path} line 1: columns seem to be separated by {other!r}; say --separator"
                f" {'tab' if other == _TAB else repr(other)}"
            )
        if known and not {name.strip() for name in known} & {*self.header}:
            fields = len(self.header)
            among = f"none of its {fields} fields" if fields > 1 else "its only field"
            which = f"{among} {'names' if fields > 1 else 'does not name'} a column of the schema"
            raise InvalidInput(f"{self.path} line 1: {which} ({listed(known)}); {_NO_HEADER}")

    def chunks(self, after: int = 0) -> Iterator[Chunk]:
        """The records below the header, at most `CHUNK` at a time, each as long as the header.

        after  how many of them are left out, the first ones
        """
        first, width = after, len(self.header)
        with self._records() as records, reading_bar() as bar:
            next(islice(records, after, None))  # the header, or the last record that is left out
            while rows := list(islice(records, CHUNK)):
                if set(map(len, rows)) != {width}:
                    wrong = next(i for i, row in enumerate(rows) if len(row) != width)
                    named = f"--header names {width} columns" if self.dialect.header else f"the header has {width}"
                    raise InvalidInput(
                        f"{self.path} line {self.line(first + wrong)}: {len(rows[wrong])} values, {named}"
                    )
                yield Chunk(first, rows)
                first += len(rows)
                bar.update(len(rows))

    def pieces(self, columns: Sequence[str], after: int = 0) -> Iterator[CsvPiece]:
        """The records, which have all columns, a chunk at a time; `after` as in `chunks`."""
        places = {name: self.header.index(name) for name in columns}
        for chunk in self.chunks(after):
            yield CsvPiece(self, chunk, places)

    def texts(self) -> Iterator[Iterator[tuple[str, ...]]]:
        """All columns of each chunk."""
        for chunk in self.chunks():
            columns = zip(*chunk.rows, strict=True)
            yield columns if self.dialect.decimal == "." else (tuple(map(self.dialect.pointed, t)) for t in columns)

    def line(self, record: int) -> int:
        """The line of the file on which a record (counted from 0) ends. Reads the file again: for errors."""
        with open_text(self.path, self.dialect.encoding) as text:
            reader = csv.reader(self.dialect.lines(text, self.path), **self.dialect.format)
            for _ in islice(_rows(reader, self.dialect.header), record + 2):  # the header is a row too
                pass
            return reader.line_num

    def arrow_types(self) -> dict[str, list[Any]]:
        """All columns are of texts."""
        import pyarrow as pa

        return {name: [pa.string()] for name in self.header}

    @contextlib.contextmanager
    def _records(self) -> Iterator[Iterator[list[str]]]:
        """The rows, header first; whatever goes wrong while reading becomes one line."""
        line = 0

        def numbered(reader: Any) -> Iterator[list[str]]:
            nonlocal line
            try:
                yield from _rows(reader, self.dialect.header)
            finally:
                line = reader.line_num

        try:
            with open_text(self.path, self.dialect.encoding) as text:
                yield numbered(csv.reader(self.dialect.lines(text, self.path), **self.dialect.format))
        except UnicodeError as error:  # one of UTF-16 without a byte order mark is no UnicodeDecodeError
            raise InvalidInput(self._undecodable(error)) from None
        except csv.Error as error:
            raise InvalidInput(f"{self.path} line {line}: not CSV, {error}") from None
        except READ_ERRORS as error:
            raise InvalidInput(f"{self.path} cannot be read: {error_text(error)}") from None

    def _undecodable(self, error: UnicodeError) -> str:
        """Names the first line that is not UTF-8; the decoder itself only knows its buffer."""
        if not self.dialect.is_utf8:
            return f"{self.path} is not {self.dialect.encoding}; say its --encoding"
        with open_bytes(self.path) as lines:
            for number, line in enumerate(lines, start=1):
                other = next((what for mark, what in _OTHER_FORMATS.items() if line.startswith(mark)), "")
                if number == 1 and other:
                    return f"{self.path} is no CSV file but {other}"
                try:
                    line.decode("utf-8")
                except UnicodeDecodeError as found:
                    byte = line[found.start]
                    likely = "utf-16, perhaps" if line.startswith(_UTF_16) else "cp1252, perhaps, for a file of Windows"
                    return f"{self.path} line {number}: byte 0x{byte:02x} is not UTF-8; say its --encoding: {likely}"
        return f"{self.path} is not UTF-8: {error}"


@final
@dataclass(frozen=True, slots=True)
class CsvPiece:
    """A chunk of text to codes; a value without a place is an error with its line.

    places  where each column stands in a row
    """

    reader: CsvReader
    chunk: Chunk
    places: Mapping[str, int]

    def codes(self, encoder: Encoder, column: str) -> Codes:
        """The codes (n,) of a column."""
        rows, at = self.chunk.rows, itemgetter(self.places[column])
        dialect, attribute = self.reader.dialect, encoder.attribute
        if dialect.decimal != "." and attribute.kind in ("coded", "number"):
            return self._with_commas(encoder, at)
        try:
            return encoder.codes(map(at, rows), len(rows))
        except InvalidInput:
            position, error = encoder.fault(map(at, rows))
            raise InvalidInput(f"{self.place(position)}: {error}") from None

    def _with_commas(self, encoder: Encoder, at: Callable[[list[str]], str]) -> Codes:
        """The codes (n,) of a column of numbers with decimal commas."""
        found: list[int] = []
        try:
            found.extend(encoder[self.reader.dialect.text(encoder.attribute, at(row))] for row in self.chunk.rows)
        except InvalidInput as error:
            raise InvalidInput(f"{self.place(len(found))}: {error}") from None
        return encoder.of_codes(found)

    def persons(self, reader: KeyReader, column: str) -> npt.NDArray[np.int64]:
        """What the reader makes (n,) of the keys in a column."""
        return reader.text_codes(map(itemgetter(self.places[column]), self.chunk.rows), self.place)

    def arrow(self, column: str) -> Any:
        """The texts (n,) of a column, as they stand in the file."""
        import pyarrow as pa

        return pa.array(map(itemgetter(self.places[column]), self.chunk.rows), pa.string())

    def place(self, position: int) -> str:
        """What errors call a record, by its place in the piece."""
        return f"{self.reader.path} line {self.reader.line(self.chunk.first + position)}"


def _rows(reader: Iterator[list[str]], said: Sequence[str] = ()) -> Iterator[list[str]]:
    """The header, which is said or the first line that is not blank, and the records: see `CsvReader` on blank lines,
    here []."""
    header = [*said] or next(filter(None, reader), [])
    if len(header) == 1:
        yield header
        yield from (row or [""] for row in reader)
    elif header:
        yield header
        yield from filter(None, reader)


class _LineEnds:
    """Takes rows that end with `\\r\\n` and writes `\\n`: csv quotes what is part of a line end, and a carriage return
    that is not in quotes would end a row for whoever reads it."""

    def __init__(self, out: TextIO) -> None:
        self._write = out.write

    def write(self, row: str) -> int:
        """Write one row."""
        return self._write(row[:-2] + "\n")


def write_rows(out: TextIO, header: Sequence[str], chunks: Iterable[Iterable[Sequence[object]]]) -> None:
    """A header and then the rows of every chunk, as CSV with `\\n` line ends."""
    writer = csv.writer(_LineEnds(out), lineterminator="\r\n")
    writer.writerow(header)
    for rows in chunks:
        writer.writerows(rows)


def write_csv(
    out: str | os.PathLike[str] | TextIO,
    domain: Domain,
    codes: Sequence[npt.NDArray[np.integer[Any]]],
    rng: np.random.Generator,
    extra: Mapping[str, npt.NDArray[Any]] | None = None,
    points: Mapping[str, npt.NDArray[np.integer[Any]]] | None = None,
) -> None:
    """Rows of public codes as CSV, streamed: the schema's header and labels, values drawn inside the bins.

    out       a path (compressed by extension; the file appears only when complete) or an open text file
    codes     one array (n,) for each attribute
    extra     further columns by name, (n,) each, written after those of the domain
    points    by the name of a column, where on its grid each record is, (n,)
    Raises `InvalidInput` for a path that cannot be written, and for an extra column with the name of an attribute.
    """
    added = extra or {}
    header = [*domain.names, *added]
    twice = next((name for name in added if name in domain.names), None)
    if twice is not None:
        raise InvalidInput(f"a further column {twice!r} would collide with the attribute {twice!r}")
    chunks = _decoded(domain, codes, rng, list(added.values()), points or {})
    if isinstance(out, (str, os.PathLike)):
        with written(out) as text:
            write_rows(text, header, chunks)
    else:
        write_rows(out, header, chunks)


def _decoded(
    domain: Domain,
    codes: Sequence[npt.NDArray[np.integer[Any]]],
    rng: np.random.Generator,
    extra: Sequence[npt.NDArray[Any]],
    points: Mapping[str, npt.NDArray[np.integer[Any]]],
) -> Iterator[Iterable[tuple[object, ...]]]:
    """The rows of values, a few thousand at a time."""
    from qrelease.data.decoding import decode  # with numpy, which reading a schema draft's file can do without

    rows = len(codes[0])
    for low, high in pairwise([*range(0, rows, _DECODED_ROWS), rows]):
        drawn = {name: part[low:high] for name, part in points.items()}
        columns = [decode(a, c[low:high], rng, drawn.get(a.name)).tolist() for a, c in zip(domain, codes, strict=True)]
        columns += [c[low:high].tolist() for c in extra]
        yield zip(*columns, strict=True)
