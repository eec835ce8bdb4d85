"""Files of JSON lines: each line is an object, and one record."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, final

import numpy as np
import numpy.typing as npt

from qrelease._util.typing import Codes
from qrelease.data.persons import KeyReader, exact
from qrelease.data.sources.compression import READ_ERRORS, error_text, open_bytes
from qrelease.data.sources.encoder import Encoder
from qrelease.data.sources.progress import reading_bar
from qrelease.data.sources.stores import Place, StoredObject, files_at, placed
from qrelease.data.spelling import shown, text_of
from qrelease.errors import InvalidInput

_CHUNK = 1 << 12
"""Records that are held at a time."""

_FLOAT_DIGITS = 310
"""A whole number with more digits is past the largest float."""


def _whole(digits: str) -> int | float:
    """A whole number; infinite where a float would be, for Python refuses to read more than 4,300 digits."""
    return int(digits) if len(digits) <= _FLOAT_DIGITS else float(digits)


@final
class JsonLinesReader:
    """A UTF-8 file with a JSON object on each line (.gz, .xz, .bz2 by suffix).

    A key that an object has not is null there, and blank lines are no records. No record says which columns there are:
    `header` has the keys of all of them, sorted.
    """

    keyed = True
    private_size = ""

    def __init__(self, path: str | os.PathLike[str] | StoredObject) -> None:
        self.path = placed(path)
        self.files = files_at(self.path)
        self.header = tuple(sorted({key for _, record in self._records() for key in record}))

    def check_header(self, known: Collection[str] = ()) -> None:
        """Nothing separates the keys."""

    def pieces(self, columns: Sequence[str]) -> Iterator[JsonPiece]:
        """The records, a chunk at a time."""
        records = self._records()
        with reading_bar() as bar:
            while chunk := list(islice(records, _CHUNK)):
                yield JsonPiece(self.path, chunk)
                bar.update(len(chunk))

    def texts(self) -> Iterator[list[list[str]]]:
        """All columns of each chunk as texts, a missing value as the empty one."""
        for piece in self.pieces(self.header):
            yield [[shown(record.get(name)) for _, record in piece.records] for name in self.header]

    def arrow_types(self) -> dict[str, list[Any]]:
        """All columns are of texts."""
        import pyarrow as pa

        return {key: [pa.string()] for key in self.header}

    def _records(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Each object, after the number of its line."""
        number = 0
        try:
            with open_bytes(self.path) as lines:
                for number, line in enumerate(lines, start=1):
                    if line.strip():
                        text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                        record = json.loads(text, parse_int=_whole)
                        if b"\\u" in line:  # half of a character, which is no text
                            json.dumps(record, ensure_ascii=False).encode()
                        if not isinstance(record, dict):
                            raise InvalidInput(f"{self.path} line {number}: not a JSON object")
                        yield number, record
        except UnicodeError:
            raise InvalidInput(f"{self.path} line {number}: not UTF-8 text; save it as UTF-8") from None
        except (json.JSONDecodeError, RecursionError) as error:
            raise InvalidInput(f"{self.path} line {number}: not JSON, {error}") from None
        except READ_ERRORS as error:
            raise InvalidInput(f"{self.path} cannot be read: {error_text(error)}") from None


@final
@dataclass(frozen=True, slots=True)
class JsonPiece:
    """Some objects to codes; a value without a place is an error with its line.

    records  the number of its line, and the object
    """

    path: Place
    records: list[tuple[int, dict[str, Any]]]

    def codes(self, encoder: Encoder, column: str) -> Codes:
        """The codes (n,) of a column."""
        values = [record.get(column) for _, record in self.records]
        try:
            return np.fromiter(map(encoder.code, values), encoder.dtype, len(values))
        except InvalidInput:
            position, error = encoder.fault(values)
            raise InvalidInput(f"{self.place(position)}: {error}") from None

    def persons(self, reader: KeyReader, column: str) -> npt.NDArray[np.int64]:
        """What the reader makes (n,) of the keys in a column."""
        return reader.codes([record.get(column) for _, record in self.records], self.place)

    def arrow(self, column: str) -> Any:
        """The texts (n,) of the values of a key, null where an object has it not. `InvalidInput` for one without.

        Also for a number that a float does not hold exactly: another one would have its text, and a query that joins or
        compares would take two persons for one.
        """
        import pyarrow as pa

        found: list[str | None] = []
        try:
            for _, record in self.records:
                value = record.get(column)
                if isinstance(value, int | float) and not math.isinf(value) and not exact(value):
                    raise InvalidInput("a query takes numbers below 2^53 that a float holds: write others as text")
                found.append(text_of(value))
        except InvalidInput as error:
            raise InvalidInput(f"{self.place(len(found))}: column {column!r}: {error}") from None
        return pa.array(found, pa.string())

    def place(self, position: int) -> str:
        """What errors call a record, by its place in the piece."""
        return f"{self.path} line {self.records[position][0]}"
