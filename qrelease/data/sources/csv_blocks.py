"""A fast reader of CSV files, in blocks of bytes; where it cannot tell the records that `CsvReader` reads, it gives up.

`CsvReader` says what a file holds. Kernels find the same cells in the bytes many times sooner, as long as these are
plain: lines that end in line feeds, quotes only around whole fields, as many cells as the header has. Where one of
these does not hold, or anything is wrong, `CsvReader` goes on from the last record that was read, and gives the records
or the error. Nothing is guessed from a sample, and every cell is encoded by itself.
"""

from __future__ import annotations

import codecs
import csv
import io
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt

from qrelease._util.parallel import ahead
from qrelease._util.typing import Codes
from qrelease.data.persons import KeyReader
from qrelease.data.sources.compression import READ_ERRORS, open_bytes, open_text
from qrelease.data.sources.csv import PLAIN, CsvPiece, CsvReader
from qrelease.data.sources.csv_kernels import PADDING, Places, split_cells
from qrelease.data.sources.dialect import Dialect
from qrelease.data.sources.encoder import Encoder, Misplaced, Spellings, cell_texts, unquoted
from qrelease.data.sources.known_keys import KnownKeys
from qrelease.data.sources.progress import reading_bar
from qrelease.data.sources.stores import Place, StoredObject
from qrelease.errors import InvalidInput

BLOCK = 1 << 18
"""Bytes that are read at a time: with the places of their cells they stay in a core's cache."""

_MAX_RECORD_BYTES = 1 << 26  # bytes of a record
_MARK = codecs.BOM_UTF8


@final
class BlockCsvReader:
    """A CSV file as `CsvReader` reads it, sooner."""

    keyed = False
    private_size = ""

    def __init__(
        self, path: str | os.PathLike[str] | StoredObject, dialect: Dialect = PLAIN, block: int = BLOCK
    ) -> None:
        self._plain = CsvReader(path, dialect)
        self._dialect = dialect
        self._block = block
        self.path = self._plain.path
        self.files = self._plain.files
        self.header = self._plain.header

    def check_header(self, known: Collection[str] = ()) -> None:
        """Refuse a header that other marks than commas seem to separate, or in which no column is known."""
        self._plain.check_header(known)

    def texts(self) -> Iterator[Iterator[tuple[str, ...]]]:
        """All columns of each chunk."""
        return self._plain.texts()

    def arrow_types(self) -> dict[str, list[Any]]:
        """All columns are of texts."""
        return self._plain.arrow_types()

    def pieces(self, columns: Sequence[str]) -> Iterator[BlockPiece | CsvPiece]:
        """The records, by their bytes as long as these are plain, and then by Python."""
        read, whole, dialect = 0, False, self._dialect
        spellings: dict[str, Spellings | KnownKeys] = {}
        with reading_bar() as bar:
            try:
                with _Bytes(self.path, dialect) as raw:
                    begun = self._begun(raw)
                    if begun is not None:
                        for cells in ahead(self._cells(raw, columns, begun)):
                            yield BlockPiece(self._plain, cells, spellings, read)
                            read += len(cells)
                            bar.update(len(cells))
                        whole = True
            except (_UnsureError, UnicodeError, *READ_ERRORS):
                pass  # Python's reader says what it is
        if not whole:
            yield from self._plain.pieces(columns, read)

    def _cells(self, raw: Any, columns: Sequence[str], left: bytes) -> Iterator[CellPlaces]:
        """The cells of the records, the first of which begins with `left`, of about a block each time.

        Raises `_UnsureError`, or an error of the decoder, before bytes that are not plain.
        """
        rows = {name: row for row, name in enumerate(columns)}
        wanted = np.array([rows.get(name, -1) for name in self.header], np.int32)
        separator, quote = self._dialect.separator, ord(self._dialect.quote) if self._dialect.quote else -1
        size = self._block
        while True:
            more: bytes = raw.read(size)
            found = left + more
            if not more and found and not found.endswith(b"\n"):
                found += b"\n"  # the last record needs none
            block = found + bytes(PADDING)
            room = len(columns), len(found) // len(self.header) + 1  # a cell takes a byte, and the last one no end
            starts, ends = np.empty(room, np.int32), np.empty(room, np.int32)
            look = np.frombuffer(block, np.uint8)
            records, taken, plain = split_cells(look, len(found), ord(separator), quote, wanted, starts, ends)
            if not found.isascii():
                found[:taken].decode()
            if records:
                yield CellPlaces(block, rows, starts[:, :records], ends[:, :records])
            if not plain:
                raise _UnsureError
            left = found[taken:]
            if not more:
                if left:
                    raise _UnsureError
                return
            size = max(self._block, len(left))  # of a long record more each time
            if len(left) > _MAX_RECORD_BYTES:
                raise _UnsureError

    def _begun(self, raw: Any) -> bytes | None:
        """The first bytes of the records that were read; None where Python shall read all of them."""
        if self._dialect.escape:
            return None
        if not self._dialect.header:
            return self._after_header(raw)
        first: bytes = raw.read(len(_MARK))
        return first.removeprefix(_MARK) if self._dialect.is_utf8 else first

    def _after_header(self, raw: Any) -> bytes | None:
        """No bytes, where the file was read to the end of a header that is one plain line; None where it is not."""
        line = raw.readline(_MAX_RECORD_BYTES)
        if not line.endswith(b"\n") or b"\r" in line[:-2]:
            return None
        text = line.removeprefix(_MARK).decode()
        try:
            names = next(csv.reader(io.StringIO(text, newline=""), **self._dialect.format), [])
        except csv.Error:  # a name goes on in the next line
            return None
        return b"" if names and tuple(name.strip() for name in names) == self.header else None


class _Bytes:
    """The bytes of a file as UTF-8, whatever its encoding."""

    def __init__(self, path: Place, dialect: Dialect) -> None:
        self._text: Any = None if dialect.is_utf8 else open_text(path, dialect.encoding)
        self._raw: Any = open_bytes(path) if self._text is None else self._text

    def __enter__(self) -> _Bytes:
        return self

    def __exit__(self, *error: object) -> None:
        self._raw.close()

    def read(self, size: int) -> bytes:
        """About so many bytes; none at the end."""
        found: Any = self._raw.read(size)
        return found if self._text is None else found.encode()  # type: ignore[no-any-return]

    def readline(self, size: int) -> bytes:
        """The next line, at most so long."""
        found: Any = self._raw.readline(size)
        return found if self._text is None else found.encode()  # type: ignore[no-any-return]


class _UnsureError(Exception):
    """Bytes that Python may split in another way."""


@final
@dataclass(frozen=True, slots=True)
class CellPlaces:
    """Where the cells of some records are.

    block   their bytes, and `PADDING` more
    rows    by its name, the row of a column in `starts` and `ends`
    starts  where each cell begins, (columns, n)
    ends    where it ends, (columns, n), without quotes around it
    """

    block: bytes
    rows: dict[str, int]
    starts: Places
    ends: Places

    def __len__(self) -> int:
        return int(self.starts.shape[1])

    def column(self, name: str) -> tuple[bytes, Places, Places]:
        """The block, and the cells (n,) of a column."""
        row = self.rows[name]
        return self.block, self.starts[row], self.ends[row]


@final
class BlockPiece:
    """Some records to codes; a value without a place is an error with its line.

    spellings  by column, what was looked up in the records before; more is written into it
    first      the number of these
    """

    def __init__(
        self, reader: CsvReader, cells: CellPlaces, spellings: dict[str, Spellings | KnownKeys], first: int
    ) -> None:
        self._reader, self.cells, self._spellings, self._first = reader, cells, spellings, first

    def codes(self, encoder: Encoder, column: str) -> Codes:
        """The codes (n,) of a column."""
        spellings = self._spellings.get(column)
        if not isinstance(spellings, Spellings) or spellings.encoder is not encoder:
            self._spellings[column] = spellings = Spellings(encoder, self._reader.dialect)
        try:
            return spellings.codes(*self.cells.column(column))
        except Misplaced as error:
            raise InvalidInput(f"{self.place(error.position)}: {error}") from None

    def persons(self, reader: KeyReader, column: str) -> npt.NDArray[np.int64]:
        """What the reader makes (n,) of the keys in a column."""
        keys = self._spellings.get(column)
        if not isinstance(keys, KnownKeys) or keys.reader is not reader:
            self._spellings[column] = keys = KnownKeys(reader, lambda raw: unquoted(raw, self._reader.dialect.quote))
        return keys.words(*self.cells.column(column), self.place)

    def texts(self, column: str) -> list[str]:
        """The texts (n,) of a column."""
        return cell_texts(*self.cells.column(column), self._reader.dialect.quote)

    def arrow(self, column: str) -> Any:
        """The texts (n,) of a column, as they stand in the file."""
        import pyarrow as pa

        block, starts, ends = self.cells.column(column)
        quote = self._reader.dialect.quote.encode()
        if quote and quote * 2 in block:  # perhaps a quote in a text, which stands there once
            return pa.array(self.texts(column), pa.string())
        sizes = ends - starts
        offsets = np.concatenate([np.zeros(1, np.int32), np.cumsum(sizes, dtype=np.int32)])
        taken = np.repeat(starts - offsets[:-1], sizes) + np.arange(offsets[-1], dtype=np.int32)
        data = np.frombuffer(block, np.uint8)[taken]
        return pa.StringArray.from_buffers(len(sizes), pa.py_buffer(offsets), pa.py_buffer(data))

    def place(self, position: int) -> str:
        """What errors call a record, by its place in the piece."""
        return f"{self._reader.path} line {self._reader.line(self._first + position)}"
