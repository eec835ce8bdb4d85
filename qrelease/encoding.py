"""Values to codes and back: text, dataframe columns, and synthetic rows written as CSV."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from functools import lru_cache
from itertools import pairwise
from numbers import Real
from typing import Any, TextIO, final

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt

from qrelease.domain import Attribute, Domain
from qrelease.errors import InvalidInput
from qrelease.rows import write_rows, written

Codes = npt.NDArray[np.unsignedinteger[Any]]

_MEMO = 1 << 16  # distinct raw values remembered for a column
_ROWS = 1 << 12  # synthetic rows decoded at a time


def code_type(attribute: Attribute) -> np.dtype[np.unsignedinteger[Any]]:
    """The smallest unsigned integer type that holds an attribute's codes."""
    return np.min_scalar_type(attribute.size - 1)


@final
class Encoder(dict[str, int]):
    """Raw text to code for one column. What was once worked out is remembered, up to a bound."""

    def __init__(self, attribute: Attribute) -> None:
        super().__init__({label: code for code, label in enumerate(attribute.categories)})
        self.update(dict.fromkeys(attribute.missing, attribute.values))
        self.attribute = attribute
        self.listed = frozenset(self)  # what the schema spells; the memo below must not decide how a value is read
        self.blank = attribute.missing[0] if attribute.missing else ""
        self.dtype = code_type(attribute)

    def __missing__(self, text: str) -> int:
        code = self.attribute.encode(text)
        if len(self) < _MEMO:
            self[text] = code
        return code

    def codes(self, texts: Iterable[str], count: int) -> Codes:
        """The codes (count,) of the texts; `InvalidInput` names column and value, but not the row."""
        return np.fromiter(map(self.__getitem__, texts), dtype=self.dtype, count=count)

    def fault(self, texts: Iterable[str]) -> tuple[int, InvalidInput]:
        """The position of the first text that has no code, and why."""
        for position, text in enumerate(texts):
            try:
                self[text]
            except InvalidInput as error:
                return position, error
        raise LookupError("every text has a code")


def encode_series(encoder: Encoder, series: nw.Series[Any], first: int) -> Codes:
    """The codes (n,) of a dataframe column; null and NaN are missing, or empty text where nothing is missing.

    The code of a value depends on that value alone, never on the type that the rest of the column gives it: 1, 1.0
    and True, a decimal and its float, a date and its midnight are one value each (`_text`). Otherwise one record could
    change the codes of all others, and the noise would be too small. So numbers are read as floats, also where
    the column is whole: give identifiers past 2^53 as text.

    `first` is the number of rows before this piece, so that an error can name the row, counted from 0.
    """
    null = series.is_null()
    if series.dtype.is_float():
        null = null | series.is_nan()
    lost = null.fill_null(value=True).to_numpy().astype(bool)
    # Not decimals: a cast of theirs may round by the scale, which is the column's.
    fast = series.dtype.is_integer() or series.dtype.is_float()
    if fast and encoder.attribute.kind in ("coded", "number"):
        return _numeric(encoder, _floats(series), lost, first)
    texts = [encoder.blank if gone else _text(encoder, v) for v, gone in zip(series.to_list(), lost, strict=True)]
    return _texts(encoder, texts, np.arange(first, first + len(texts)))


def _floats(series: nw.Series[Any]) -> npt.NDArray[np.float64]:
    """A column of numbers as floats (n,), whole numbers past 2^53 rounded; what stands for a null is arbitrary."""
    if series.dtype.is_integer():  # Arrow refuses to cast what it would have to round
        return series.fill_null(0).to_numpy().astype(np.float64)
    return series.cast(nw.Float64).to_numpy()


def _numeric(encoder: Encoder, numbers: npt.NDArray[np.float64], lost: npt.NDArray[np.bool_], first: int) -> Codes:
    """Codes of numbers: those plainly inside at once, the others (missing, outside, not whole) one by one.

    The same codes as `_text` and `Attribute.encode` give, for both compare floats.
    """
    attribute = encoder.attribute
    with np.errstate(invalid="ignore"):
        if attribute.edges:
            places = np.searchsorted(attribute.edges, numbers, side="right") - 1
        else:
            places = np.where(lost, -1, numbers).astype(np.int64)
        plain = ~lost & (places >= 0) & (places < attribute.values)
        if attribute.whole:
            plain &= np.floor(numbers) == numbers
    for mark in map(attribute.parse, attribute.missing):
        if mark is not None:
            plain &= numbers != mark
    codes = np.where(plain, places, 0).astype(encoder.dtype)
    rest = np.flatnonzero(~plain)
    texts = [encoder.blank if lost[i] else _text(encoder, float(numbers[i])) for i in rest]
    codes[rest] = _texts(encoder, texts, rest + first)
    return codes


def _texts(encoder: Encoder, texts: list[str], rows: npt.NDArray[np.integer[Any]]) -> Codes:
    try:
        return encoder.codes(texts, len(texts))
    except InvalidInput:
        position, error = encoder.fault(texts)
        raise InvalidInput(f"row {rows[position]} (from 0): {error}") from None


def _text(encoder: Encoder, value: object) -> str:
    """How a value is spelled in the schema: the first spelling that the schema lists, else the plainest.

    Equal values of different types have the same spellings in the same order.
    """
    if isinstance(value, str):
        return value
    spellings = _spellings(value) or (encoder.blank,)
    return next((s for s in spellings if s in encoder.listed), spellings[0])


def _spellings(value: object) -> tuple[str, ...]:
    """The ways to write a value that is no text, the plainest first; none for what is missing."""
    match value:
        case None:
            return ()
        case date():
            day, _, time = value.isoformat().partition("T")
            if time in ("", "00:00:00"):  # a column of dates turns into midnights when one time joins it
                return (day, f"{day}T00:00:00", f"{day} 00:00:00")
            return (f"{day}T{time}", f"{day} {time}")
        case float() | int() | Decimal() | Real() | np.bool_():
            return _numerals(_float(value) + 0.0)  # + 0.0 takes the sign off a zero
        case np.datetime64():
            moment = value.astype("datetime64[us]").item()
            return (str(value),) if isinstance(moment, int) else _spellings(moment)  # int: past the year 9999
        case _:
            return (str(value),)


def _float(value: Any) -> float:
    """A real number or decimal as a column of floats holds it; infinite past the largest."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


@lru_cache(1 << 10)
def _numerals(number: float) -> tuple[str, ...]:
    """The spellings of a number; 1 and 0 are also true and false, for a column may hold either of them."""
    if math.isnan(number):
        return ()
    if not number.is_integer():
        return (repr(number),)
    words = (str(number == 1), str(number == 1).lower()) if number in (0, 1) else ()
    return (str(int(number)), repr(number), *words)


def write_csv(
    out: str | os.PathLike[str] | TextIO,
    domain: Domain,
    codes: Sequence[npt.NDArray[np.integer[Any]]],
    rng: np.random.Generator,
    extra: Mapping[str, npt.NDArray[Any]] | None = None,
) -> None:
    """Rows of public codes as CSV, streamed: the schema's header and labels, values drawn inside the bins.

    out       a path (compressed by extension; the file appears only when complete) or an open text file
    codes     one array (n,) for each attribute
    extra     further columns by name, (n,) each, written after those of the domain
    Raises `InvalidInput` for a path that cannot be written, and for an extra column with the name of an attribute.
    """
    added = extra or {}
    header = [*domain.names, *added]
    twice = next((name for name in added if name in domain.names), None)
    if twice is not None:
        raise InvalidInput(f"a further column {twice!r} would collide with the attribute {twice!r}")
    chunks = _decoded(domain, codes, rng, list(added.values()))
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
) -> Iterator[Iterable[tuple[object, ...]]]:
    """The rows of values, a few thousand at a time."""
    rows = len(codes[0])
    for low, high in pairwise([*range(0, rows, _ROWS), rows]):
        columns = [a.decode(c[low:high], rng).tolist() for a, c in zip(domain, codes, strict=True)]
        columns += [c[low:high].tolist() for c in extra]
        yield zip(*columns, strict=True)
