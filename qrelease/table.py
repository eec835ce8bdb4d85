"""`Table`: the private records, encoded by a schema into small integers, and their exact counts."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, final

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt

from qrelease import schema as schemas
from qrelease.domain import Attribute, Domain
from qrelease.encoding import Codes, Encoder, code_type, encode_series
from qrelease.errors import InvalidInput, TooLarge
from qrelease.rows import Chunk, CsvReader

Schema = Domain | str | os.PathLike[str]

MAX_CELLS = 1 << 28  # of all requested counts together: 2 GiB of int64

_BATCH = 1 << 18  # rows of a Parquet file held decoded at a time


@final
@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """The private records: n records over a public `domain`.

    columns   one read-only array (n,) for each attribute: its codes, in the smallest unsigned integer type

    Everything but `domain` is private. The repr shows the domain only. `len(table)` is the number of records:
    it too is private under add-remove, and is here for the data holder. Messages of errors raised while data
    are read name the value that is wrong: they are for the data holder's eyes as well.

    The `schema` of the readers below is a `Domain` or the path of a schema file. It declares the columns:
    those that it does not name are not read. The columns come in the order of a `Domain`, or, with a schema file, in
    that of the data; `columns` selects some of the schema's, in the order given.
    """

    domain: Domain
    columns: tuple[Codes, ...]

    def __post_init__(self) -> None:
        found = [np.asarray(column) for column in self.columns]
        if len(found) != len(self.domain):
            raise InvalidInput(f"the domain has {len(self.domain)} columns, got {len(found)} arrays")
        if any(column.ndim != 1 or column.shape != found[0].shape for column in found):
            shapes = ", ".join(str(column.shape) for column in found)
            raise InvalidInput(f"columns must be 1-d arrays of one length, got shapes {shapes}")
        object.__setattr__(self, "columns", tuple(map(_checked, self.domain, found)))

    @classmethod
    def read_csv(cls, path: str | os.PathLike[str], schema: Schema, columns: Sequence[str] | None = None) -> Table:
        """The records of a UTF-8 CSV file with a header (.gz, .xz, .bz2 by extension), streamed.

        Raises `InvalidInput`, one line that names file, line, column and value.
        """
        reader = CsvReader(path)
        domain = _selected(schema, columns, reader.header)
        places = _places(domain, reader.header, str(reader.path))
        encoders = [Encoder(attribute) for attribute in domain]
        pieces = [
            [_encoded(reader, chunk, *column) for column in zip(encoders, places, strict=True)]
            for chunk in reader.chunks()
        ]
        return cls(domain, _joined(pieces, str(reader.path)))

    @classmethod
    def read_parquet(cls, path: str | os.PathLike[str], schema: Schema, columns: Sequence[str] | None = None) -> Table:
        """The records of a Parquet file, streamed; as `from_frame`. Needs the extra `qrelease[parquet]`."""
        try:
            import pyarrow as pa
            from pyarrow import parquet
        except ImportError:
            raise InvalidInput("Parquet needs pyarrow: pip install 'qrelease[parquet]'") from None
        pieces: list[list[Codes]] = []
        first = 0
        try:
            with parquet.ParquetFile(path) as file:
                names = file.schema_arrow.names
                domain = _selected(schema, columns, names)
                encoders = [Encoder(attribute) for attribute in domain]
                wanted = [names[place] for place in _places(domain, names, str(path))]
                for batch in file.iter_batches(_BATCH, columns=wanted):
                    piece = nw.from_native(pa.Table.from_batches([batch]), eager_only=True)
                    pieces.append(_piece(piece, encoders, first, str(path)))
                    first += len(batch)
        except (OSError, pa.ArrowException) as error:
            raise InvalidInput(f"{path} cannot be read: {error}") from None
        return cls(domain, _joined(pieces, str(path)))

    @classmethod
    def from_frame(cls, frame: Any, schema: Schema, columns: Sequence[str] | None = None) -> Table:
        """The records of a pandas or polars data frame, or a pyarrow table.

        Null and NaN are missing; where the schema knows no missing mark they read as the empty text. The code of a
        value depends on that value alone, whatever type its column has: numbers are compared as 64-bit floats, so
        give identifiers past 2^53 as text. What a library does to values while it builds a frame (Arrow cuts
        times among dates) comes before this, and is the data holder's to avoid. Raises
        `InvalidInput` that names row (counted from 0), column and value.
        """
        try:
            wrapped = nw.from_native(frame, eager_only=True)
        except TypeError:
            kind = type(frame).__name__
            raise InvalidInput(f"a pandas, polars or pyarrow table is needed, got {kind}") from None
        domain = _selected(schema, columns, wrapped.columns)
        encoders = [Encoder(attribute) for attribute in domain]
        return cls(domain, _joined([_piece(wrapped, encoders, 0, "the frame")], "the frame"))

    def __len__(self) -> int:
        return len(self.columns[0])

    def __repr__(self) -> str:
        return f"Table({self.domain}; the records are private)"

    def counts(self, sets: Sequence[tuple[int, ...]]) -> list[npt.NDArray[np.int64]]:
        """The exact marginal on each set of column positions: int64 counts, flat in C order, in one pass.

        Raises `InvalidInput` for a position that is no column, and `TooLarge`, before anything is allocated,
        when all of them together have more than `MAX_CELLS` cells.
        """
        from qrelease.counting import count_marginals  # numba loads on first need

        width = len(self.domain)
        wrong = [s for s in sets if len(set(s)) < len(s) or not all(0 <= axis < width for axis in s)]
        if wrong:
            raise InvalidInput(f"columns to count must be distinct positions 0..{width - 1}, got {wrong[0]}")
        self.check_counts(sets)
        return count_marginals(self.columns, self.domain.shape, sets)

    def check_counts(self, sets: Sequence[tuple[int, ...]]) -> None:
        """Raise the `TooLarge` that `counts` would."""
        cells = sum(self.domain.cells(axes) for axes in sets)
        if cells > MAX_CELLS:
            raise TooLarge(f"exact counts of {cells:,} cells do not fit; at most {MAX_CELLS:,} do")

    def histogram(self) -> npt.NDArray[np.int64]:
        """The exact count of every cell of the universe, (|X|,) int64. Raises `TooLarge` past `MAX_CELLS`."""
        return self.counts([tuple(range(len(self.domain)))])[0]


def _selected(schema: Schema, columns: Sequence[str] | None, header: Sequence[str]) -> Domain:
    """The columns asked for; without any, all of the schema's: those of a schema *file* in the order of the data."""
    domain = schema if isinstance(schema, Domain) else schemas.load(schema)
    if columns is not None:
        return domain.project([domain.axis(name) for name in columns])
    if isinstance(schema, Domain) or not set(domain.names) <= set(header):
        return domain
    return domain.project([domain.axis(name) for name in header if name in domain.names])


def _checked(attribute: Attribute, codes: npt.NDArray[Any]) -> Codes:
    """A read-only copy of a column in its smallest type; a code without a cell is an error."""
    if codes.dtype.kind not in "iu":
        raise InvalidInput(f"column {attribute.name!r} must hold integer codes, got {codes.dtype}")
    if len(codes) and not (codes.min() >= 0 and codes.max() < attribute.size):
        raise InvalidInput(
            f"column {attribute.name!r} must hold codes 0..{attribute.size - 1}, got {codes.min()}..{codes.max()}"
        )
    copy = codes.astype(code_type(attribute))
    copy.setflags(write=False)
    return copy


def _places(domain: Domain, names: Sequence[str], source: str) -> list[int]:
    """Where the domain's columns stand among the names of a source."""
    found = [name.strip() for name in names]
    twice = next((name for i, name in enumerate(found) if name in found[:i]), None)
    if twice is not None:
        raise InvalidInput(f"{source}: column {twice!r} appears twice")
    absent = [name for name in domain.names if name.strip() not in found]
    if absent:
        raise InvalidInput(f"{source} has no column {absent[0]!r}; it has {', '.join(found)}")
    return [found.index(name.strip()) for name in domain.names]


def _encoded(reader: CsvReader, chunk: Chunk, encoder: Encoder, place: int) -> Codes:
    """The codes of one column of a chunk of text; a value without a place is an error with its line."""
    try:
        return encoder.codes(map(itemgetter(place), chunk.rows), len(chunk.rows))
    except InvalidInput:
        position, error = encoder.fault(row[place] for row in chunk.rows)
        raise InvalidInput(f"{reader.path} line {reader.line(chunk.first + position)}: {error}") from None


def _piece(frame: nw.DataFrame[Any], encoders: Sequence[Encoder], first: int, source: str) -> list[Codes]:
    """The codes of a frame's columns; `first` is the number of rows before it."""
    names = frame.columns
    domain = Domain(tuple(encoder.attribute for encoder in encoders))
    places = _places(domain, [str(name) for name in names], source)
    try:
        return [
            encode_series(encoder, frame.get_column(names[place]), first)
            for encoder, place in zip(encoders, places, strict=True)
        ]
    except InvalidInput as error:
        raise InvalidInput(f"{source} {error}") from None


def _joined(pieces: Iterable[Sequence[Codes]], source: str) -> tuple[Codes, ...]:
    """Whole columns from the pieces of a source that must hold at least one record."""
    columns = tuple(np.concatenate(column) for column in zip(*pieces, strict=True))
    if not columns or not len(columns[0]):
        raise InvalidInput(f"{source} has columns but no records")
    return columns
