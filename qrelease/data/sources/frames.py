"""Columns of data frames (pandas, polars, pyarrow) to codes, through narwhals."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt

from qrelease._util.typing import Codes
from qrelease.data.sources.arrow import distinct_codes, is_looked_up, shown_texts
from qrelease.data.sources.encoder import Encoder, Misplaced, looked_up, plain_codes
from qrelease.data.sources.progress import reading_bar
from qrelease.data.spelling import ShownTexts, shown
from qrelease.errors import InvalidInput

if TYPE_CHECKING:
    from qrelease.data.persons import KeyReader

_ROWS = 1 << 14  # whose texts are made at a time

_ALL_AT_ONCE = "; print(qr.check(frame, schema)) lists all values that the schema has no place for"

RowSelection = range | npt.NDArray[np.intp]


def encode_series(encoder: Encoder, series: nw.Series[Any], first: int) -> Codes:
    """The codes (n,) of a dataframe column; null and NaN are missing, or empty text where nothing is missing.

    The code of a value is that of its text (`text_of`), whatever type the rest of the column gives it: otherwise one
    record could change the codes of all others, and the noise would be too small. Columns of numbers and truth values
    are read by their distinct values, and numbers plainly inside their bins all at once: the same codes, sooner.
    Numbers are read as floats, also where the column is whole: give identifiers past 2^53 as text.

    `first` is the number of rows before this piece, so that an error can name the row, counted from 0.
    """
    try:
        column = _arrow_column(series)
        if column is not None:
            return _of_arrow(encoder, column, first)
        wide = series.dtype in (nw.Int128, nw.UInt128, nw.Decimal)  # no type of numpy's: these go one by one
        numeric = encoder.attribute.plain_numbers
        if numeric and not wide and series.dtype.is_integer() and not series.null_count():
            return _whole(encoder, series.to_numpy(), first)
        if numeric and series.dtype.is_float() and not series.null_count():
            numbers = _floats(series)
            return _numeric(encoder, numbers, range(first, first + len(numbers)))
        null = series.is_null()
        if series.dtype.is_float():
            null = null | series.is_nan()
        lost = null.fill_null(value=True).to_numpy().astype(bool)
        if series.dtype.is_numeric() and not wide:
            numbers = _floats(series)
            numbers = np.where(lost, np.nan, numbers) if lost.any() else numbers
            read = _numeric if numeric else _distinct
            return read(encoder, numbers, range(first, first + len(numbers)))
        if series.dtype == nw.Boolean:
            truths = series.fill_null(value=False).to_numpy().astype(np.float64)
            return _distinct(encoder, np.where(lost, np.nan, truths), range(first, first + len(truths)), bool)
        values = series.to_list()
    except InvalidInput:
        raise
    except (ArithmeticError, ValueError) as error:  # a date past the year 9999, a number that signals
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InvalidInput(f"column {encoder.attribute.name!r} holds a value that cannot be read: {reason}") from None
    some = bool(lost.any())
    if some:
        values = [None if gone else value for value, gone in zip(values, lost.tolist(), strict=True)]
    return _values(encoder, values, first, of_texts=series.dtype == nw.String and not some)


def _arrow_column(series: nw.Series[Any]) -> Any:
    """A column of texts or days as pyarrow has it, where it is one of pyarrow's or of polars'; else None."""
    if series.implementation.is_pyarrow():
        column = series.to_native()
    elif (
        series.implementation.is_polars() and series.dtype in (nw.String, nw.Date) and find_spec("pyarrow") is not None
    ):
        column = series.to_arrow()
    else:
        return None
    return column if is_looked_up(column.type) else None


def _of_arrow(encoder: Encoder, column: Any, first: int) -> Codes:
    try:
        return distinct_codes(encoder, column)
    except Misplaced as error:
        raise InvalidInput(f"row {first + error.position} (from 0): {error}") from None


def _floats(series: nw.Series[Any]) -> npt.NDArray[np.float64]:
    """A column of numbers as floats (n,), whole numbers past 2^53 rounded; what stands for a null is arbitrary."""
    if series.dtype.is_integer():  # Arrow refuses to cast what it would have to round
        return series.fill_null(0).to_numpy().astype(np.float64)
    return series.cast(nw.Float64).to_numpy()


def _whole(encoder: Encoder, numbers: npt.NDArray[Any], first: int) -> Codes:
    """Codes of whole numbers (n,): those near the schema's by a table, the others as `_numeric` has them."""
    if numbers.dtype.kind not in "iu" or numbers.dtype == np.uint64:  # these do not all fit the table's arithmetic
        return _numeric(encoder, numbers.astype(np.float64), range(first, first + len(numbers)))
    codes, rest = looked_up(numbers, *encoder.whole_numbers, encoder.dtype)
    if len(rest):
        codes[rest] = _numeric(encoder, numbers[rest].astype(np.float64), first + rest)
    return codes


def _numeric(encoder: Encoder, numbers: npt.NDArray[np.float64], rows: RowSelection) -> Codes:
    """Codes of numbers, NaN for missing: those plainly inside at once, the others by their texts."""
    codes, rest = plain_codes(encoder, numbers)
    if len(rest):
        codes[rest] = _distinct(encoder, numbers[rest], rows.start + rest if isinstance(rows, range) else rows[rest])
    return codes


def _distinct(encoder: Encoder, numbers: npt.NDArray[np.float64], rows: RowSelection, kind: type = float) -> Codes:
    """Codes of numbers, or of truth values as numbers, NaN for missing: each distinct one is looked up once."""
    distinct, places = np.unique(numbers, return_inverse=True)
    found = np.zeros(len(distinct), encoder.dtype)
    faults: dict[int, InvalidInput] = {}
    for place, number in enumerate(distinct.tolist()):
        try:
            found[place] = encoder.code(None if number != number else kind(number))
        except InvalidInput as error:
            faults[place] = error
    if faults:
        wrong = int(np.flatnonzero(np.isin(places, list(faults)))[0])
        raise InvalidInput(f"row {rows[wrong]} (from 0): {faults[int(places[wrong])]}")
    codes: Codes = found[places]
    return codes


def _values(encoder: Encoder, values: Sequence[Any], first: int, *, of_texts: bool) -> Codes:
    """Codes of Python values, one by one; where all are texts, as those of a file."""
    read = encoder.__getitem__ if of_texts else encoder.code
    try:
        return np.fromiter(map(read, values), encoder.dtype, len(values))
    except InvalidInput:
        position, error = encoder.fault(values)
        raise InvalidInput(f"row {first + position} (from 0): {error}") from None


@final
class FramePiece:
    """Some rows of a data frame to codes; a value without a place is an error with its row, counted from 0.

    names   by the names of the header, those of the frame, which need not be texts
    first   the number of rows before it
    source  what errors call it
    """

    def __init__(self, frame: nw.DataFrame[Any], names: Mapping[str, Any], first: int, source: str) -> None:
        self._frame, self._names, self._first, self._source = frame, names, first, source

    def codes(self, encoder: Encoder, column: str) -> Codes:
        """The codes (n,) of a column."""
        try:
            return encode_series(encoder, self._frame.get_column(self._names[column]), self._first)
        except InvalidInput as error:
            all_of_them = _ALL_AT_ONCE if self._source == str(FrameReader.path) else ""
            raise InvalidInput(f"{self._source} {error}{all_of_them}") from None

    def persons(self, reader: KeyReader, column: str) -> npt.NDArray[np.int64]:
        """What the reader makes (n,) of the keys in a column."""
        keys = self._frame.get_column(self._names[column])
        fine = isinstance(keys.dtype, nw.Datetime) and keys.dtype.time_unit == "ns"
        if (fine and self._frame.implementation.is_polars()) or keys.dtype == nw.Time:  # nanoseconds would be cut off
            raise InvalidInput(f"{self._source}: person column {column!r}: give moments with nanoseconds as text")

        wide = keys.dtype in (nw.Int128, nw.UInt128)  # which numpy does not have
        if keys.dtype.is_integer() and not wide and not keys.null_count():
            return reader.whole_codes(keys.to_numpy(), self.place)
        return reader.codes(keys.to_list(), self.place)

    def arrow(self, column: str) -> Any:
        """The values (n,) of a column, of a type of pyarrow's."""
        return self._frame.get_column(self._names[column]).to_arrow()

    def place(self, position: int) -> str:
        """What errors call a record, by its place in the piece."""
        return f"{self._source} row {self._first + position} (from 0)"


@final
class FrameReader:
    """A pandas or polars data frame or a pyarrow table, read as a file is."""

    path = Path("the frame")
    files: tuple[Path, ...] = ()

    keyed = False
    private_size = ""

    def __init__(self, frame: Any) -> None:
        try:
            self._frame = nw.from_native(frame, eager_only=True)
            self._columns = self._frame.columns
        except TypeError:
            kind = type(frame).__name__
            raise InvalidInput(f"a pandas, polars or pyarrow table is needed, got {kind}") from None
        except nw.exceptions.DuplicateError as error:
            raise InvalidInput(f"the frame has a column twice: {' '.join(str(error).split())}") from None
        self.header: tuple[str, ...] = tuple(map(str, self._columns))
        index = nw.maybe_get_index(self._frame)
        named = () if index is None else tuple(str(name) for name in index.names if name is not None)
        self.index = tuple(name for name in named if name not in self.header)
        """The names of the index of a pandas frame, which is no column and is not read."""

    def check_header(self, known: Collection[str] = ()) -> None:
        """Nothing separates the names of a frame."""

    def named_categories(self) -> dict[str, tuple[tuple[str, ...], bool]]:
        """The texts that columns may hold by their type, in its order, and whether that order is one to compare by.

        Of pandas' categoricals and polars' enums. Other types with a dictionary, polars' categoricals and Arrow's, hold
        what occurs, or what occurs in other frames.
        """
        found = {}
        for name, column in zip(self.header, self._columns, strict=True):
            values = self._frame.get_column(column)
            compared = isinstance(values.dtype, nw.Enum)
            if compared or (isinstance(values.dtype, nw.Categorical) and values.implementation.is_pandas_like()):
                found[name] = tuple(map(shown, values.cat.get_categories().to_list())), compared
        return found

    def pieces(self, columns: Sequence[str]) -> Iterator[FramePiece]:
        """All rows at once."""
        yield FramePiece(self._frame, dict(zip(self.header, self._columns, strict=True)), 0, str(self.path))

    def texts(self) -> Iterator[list[list[str]]]:
        """All columns of some rows as texts, a missing value as the empty one."""
        with reading_bar() as bar:
            known = [_texts_of(self._frame.get_column(name).dtype) for name in self._columns]
            for first in range(0, len(self._frame), _ROWS):
                piece = self._frame[first : first + _ROWS]
                columns = map(piece.get_column, self._columns)  # whose names may be numbers, as of years
                yield [list(map(texts, c.to_list())) for texts, c in zip(known, columns, strict=True)]
                bar.update(len(piece))


def column_texts(frame: nw.DataFrame[Any], names: Sequence[str]) -> Iterator[list[str]]:
    """What `shown` gives for the values of some columns, of each column a list."""
    for name in names:
        column = frame.get_column(name)
        if column.implementation.is_pyarrow():
            yield shown_texts(column.to_native())
        else:
            yield list(map(_texts_of(column.dtype), column.to_list()))


def _texts_of(dtype: Any) -> Callable[[Any], str]:
    """What gives the text of each value of a column; known values are looked up, where equal ones have one text."""
    return (
        shown
        if isinstance(dtype, nw.Object | nw.Unknown | nw.List | nw.Array | nw.Struct)
        else ShownTexts().__getitem__
    )
