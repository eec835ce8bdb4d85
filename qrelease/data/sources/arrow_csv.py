"""CSV files by Arrow's parser, whose records are those of `CsvReader` or not taken at all. pyarrow is an extra.

`CsvReader` says what a file holds. Arrow splits the same bytes many times sooner, as long as they are plain: UTF-8,
quotes only around whole fields, no field as long as Python's limit. So the bytes are looked at on their way to Arrow,
and where one of these does not hold, or Arrow finds anything wrong, `CsvReader` goes on from the last record that was
read, and gives the records or the error. Nothing is guessed from a sample: the separator is a comma, every column is
text, and every text is encoded by itself.
"""

from __future__ import annotations

import codecs
import csv
import io
import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt

from qrelease._util.typing import Codes
from qrelease.data.persons import NOBODY, PersonReader
from qrelease.data.sources.arrow import Distinct, Misplaced, distinct_codes
from qrelease.data.sources.compression import READ_ERRORS, open_bytes
from qrelease.data.sources.csv import CsvPiece, CsvReader
from qrelease.data.sources.encoder import Encoder
from qrelease.data.sources.progress import reading_bar
from qrelease.errors import InvalidInput

BLOCK = 1 << 22
"""Bytes that Arrow splits at a time."""

_WINDOW = 1 << 16  # bytes, half of Python's limit: a longer field without quotes fills a window of its own
_LONGEST = 1 << 17
_MOST = 1 << 26  # bytes of a record, or of a block that has no line feed
_LINE_ENDS = frozenset((b"\n", b"\r\n", b"\r"))
_MARK = codecs.BOM_UTF8
_QUOTE = 0x22
_ENDS = (0x2C, 0x0A, 0x0D, _QUOTE)  # what stands beside a field in quotes; a quote beside a quote is one that is meant


@final
class ArrowCsvReader:
    """A CSV file as `CsvReader` reads it, sooner."""

    keyed = False

    def __init__(self, path: str | os.PathLike[str], block: int = BLOCK) -> None:
        self._plain = CsvReader(path)
        self._block = block
        self.path: Path = self._plain.path
        self.files: tuple[Path, ...] = self._plain.files
        self.header = self._plain.header

    def check_header(self, known: Collection[str] = ()) -> None:
        """Refuse a header that other marks than commas seem to separate, unless it is the name of a known column."""
        self._plain.check_header(known)

    def texts(self) -> Iterator[Iterator[tuple[str, ...]]]:
        """All columns of each chunk."""
        return self._plain.texts()

    def pieces(self, columns: Sequence[str]) -> Iterator[ArrowCsvPiece | CsvPiece]:
        """The records, by Arrow as long as it is sure, and then by Python."""
        import pyarrow as pa

        read, whole = 0, False
        with reading_bar() as bar:
            try:
                with open_bytes(self.path) as raw:
                    if self._after_header(raw):
                        for block in _blocks(raw, self._block):
                            batch = self._split(block, columns)
                            yield ArrowCsvPiece(self._plain, batch, read)
                            read += len(batch)
                            bar.update(len(batch))
                        whole = True
            except (_UnsureError, UnicodeDecodeError, pa.ArrowException, *READ_ERRORS):
                pass  # Python's reader says what it is
        if not whole:
            yield from self._plain.pieces(columns, read)

    def _split(self, block: bytes, columns: Sequence[str]) -> Any:
        """The columns of some whole records, as a pyarrow table of texts."""
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        if block in _LINE_ENDS and len(self.header) > 1:  # nothing but what is skipped
            return pa.table({name: pa.array([], pa.string()) for name in columns})
        return arrow_csv.read_csv(
            pa.BufferReader(block),
            arrow_csv.ReadOptions(
                use_threads=False, block_size=len(block) + 1, column_names=list(self.header), encoding="utf8"
            ),
            arrow_csv.ParseOptions(
                delimiter=",",
                quote_char='"',
                double_quote=True,
                escape_char=False,
                newlines_in_values=True,
                ignore_empty_lines=len(self.header) > 1,
            ),
            arrow_csv.ConvertOptions(
                check_utf8=False,  # it was checked
                column_types=dict.fromkeys(columns, pa.dictionary(pa.int32(), pa.string())),
                include_columns=list(columns),
                null_values=[],
                strings_can_be_null=False,
                quoted_strings_can_be_null=False,
            ),
        )

    def _after_header(self, raw: Any) -> bool:
        """Whether the file was read to the end of a header that is one plain line."""
        line = raw.readline()
        start = raw.peek(len(_MARK))[: len(_MARK)]
        if not line.endswith(b"\n") or b"\r" in line[:-2] or start == _MARK or not start:
            return False
        text = line.removeprefix(_MARK).decode()
        names = next(csv.reader(io.StringIO(text, newline=""), strict=True), [])
        return tuple(name.strip() for name in names) == self.header and bool(names)


class _UnsureError(Exception):
    """Bytes that Arrow may split in another way than Python."""


def _blocks(raw: Any, size: int) -> Iterator[bytes]:
    """The bytes of a file below its header in blocks of whole records, of about a size.

    Raises `_UnsureError`, or an error of the decoder, before a block whose bytes are not plain. A block ends at a line
    feed with an even number of quotes before it: no field is open there, if all quotes are as `_check` wants them.
    """
    left = b""
    while True:
        more: bytes = raw.read(size)
        found = left + more
        if not more:
            end = len(found)
        else:
            end, odd = len(found), found.count(b'"') % 2
            while True:
                start = found.rfind(b"\n", 0, end) + 1
                odd ^= found.count(b'"', start, end) % 2
                end = start
                if not odd or not end:
                    break
                end -= 1  # a line feed in a field
        if len(found) - end > _MOST:
            raise _UnsureError
        if end:
            block = found[:end]
            _check(block)
            yield block
        left = found[end:]
        if not more:
            return


def _check(block: bytes) -> None:
    """`_UnsureError`, or an error of the decoder, for whole records that are not plain.

    Quotes are numbered: an even one opens a field, and stands after a separator, an odd one closes it, and stands
    before one. Two of them in a field, which mean one, close and open it.
    """
    block.decode()
    if block.startswith(_MARK):  # Arrow skips it
        raise _UnsureError
    for first in range(0, len(block) - _WINDOW + 1, _WINDOW):
        if all(block.find(mark, first, first + _WINDOW) < 0 for mark in (b",", b"\n", b"\r")):
            raise _UnsureError
    if b'"' not in block:
        return
    found = np.frombuffer(b"\n" + block + b"\n", np.uint8)
    quotes = np.flatnonzero(found == _QUOTE)
    opening, closing = quotes[::2], quotes[1::2]
    if len(opening) != len(closing):
        raise _UnsureError
    before, after = found[opening - 1], found[closing + 1]
    if not (np.isin(before, _ENDS).all() and np.isin(after, _ENDS).all()):
        raise _UnsureError
    if (closing[after != _QUOTE] - opening[before != _QUOTE] > _LONGEST).any():
        raise _UnsureError


@final
class ArrowCsvPiece:
    """A batch of Arrow's to codes; a value without a place is an error with its line.

    first  the number of records before it
    """

    def __init__(self, reader: CsvReader, table: Any, first: int) -> None:
        self._reader, self.table, self._first = reader, table, first

    def codes(self, encoder: Encoder, column: str) -> Codes:
        """The codes (n,) of a column."""
        try:
            return distinct_codes(encoder, self.table.column(column))
        except Misplaced as error:
            raise InvalidInput(f"{self._where(error.position)}: {error}") from None

    def persons(self, reader: PersonReader, column: str) -> npt.NDArray[np.int64]:
        """The numbers (n,) of the persons that a column names."""
        texts = Distinct(self.table.column(column))
        numbers = reader.text_codes(texts.distinct.to_pylist(), lambda k: self._where(int(texts.firsts[k])))
        found: npt.NDArray[np.int64] = np.append(numbers, NOBODY)[texts.places]
        return found

    def _where(self, position: int) -> str:
        return f"{self._reader.path} line {self._reader.line(self._first + position)}"
