"""Values to codes and back: text, dataframe columns, and synthetic rows written as CSV."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from itertools import pairwise
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

    `first` is the number of rows before this piece, so that an error can name the row, counted from 0.
    """
    null = series.is_null()
    if series.dtype.is_float():
        null = null | series.is_nan()
    lost = null.fill_null(value=True).to_numpy().astype(bool)
    if series.dtype.is_numeric() and encoder.attribute.kind != "category":
        return _numeric(encoder, series.cast(nw.Float64).to_numpy(), lost, first)
    blank = encoder.attribute.missing[0] if encoder.attribute.missing else ""
    values = series.to_list()
    texts = [blank if gone else _text(encoder, v) for v, gone in zip(values, lost, strict=True)]
    return _texts(encoder, texts, np.arange(first, first + len(texts)))


def _numeric(encoder: Encoder, numbers: npt.NDArray[np.float64], lost: npt.NDArray[np.bool_], first: int) -> Codes:
    """Codes of numbers: those plainly inside at once, the others (missing, outside, not whole) one by one."""
    attribute = encoder.attribute
    with np.errstate(invalid="ignore"):
        if attribute.edges:
            places = np.searchsorted(attribute.edges, numbers, side="right") - 1
        else:
            places = np.where(lost, -1, numbers).astype(np.int64)
        plain = ~lost & (places >= 0) & (places < attribute.values)
        if attribute.whole:
            plain &= np.floor(numbers) == numbers
    for token in attribute.missing:
        plain &= numbers != (attribute.parse(token) if attribute.parse(token) is not None else np.nan)
    codes = np.where(plain, places, 0).astype(encoder.dtype)
    rest = np.flatnonzero(~plain)
    blank = attribute.missing[0] if attribute.missing else ""
    texts = [blank if lost[i] else _text(encoder, float(numbers[i])) for i in rest]
    codes[rest] = _texts(encoder, texts, rest + first)
    return codes


def _texts(encoder: Encoder, texts: list[str], rows: npt.NDArray[np.integer[Any]]) -> Codes:
    try:
        return encoder.codes(texts, len(texts))
    except InvalidInput:
        position, error = encoder.fault(texts)
        raise InvalidInput(f"row {rows[position]} (from 0): {error}") from None


def _text(encoder: Encoder, value: object) -> str:
    """How a value is spelled in the schema: the first spelling it knows, else the plainest."""
    match value:
        case str():
            return value
        case bool() | np.bool_():
            spellings = [str(bool(value)), str(bool(value)).lower(), str(int(value))]
        case float() if value.is_integer():
            spellings = [repr(value), str(int(value))]
        case date():
            spellings = [value.isoformat()]
        case _:
            spellings = [str(value)]
    return next((s for s in spellings if s in encoder), spellings[-1])


def write_csv(
    out: str | os.PathLike[str] | TextIO,
    domain: Domain,
    codes: Sequence[npt.NDArray[np.integer[Any]]],
    rng: np.random.Generator,
    weights: npt.NDArray[np.float64] | None = None,
) -> None:
    """Rows of public codes as CSV, streamed: the schema's header and labels, values drawn inside the bins.

    out       a path (compressed by extension; the file appears only when complete) or an open text file
    codes     one array (n,) for each attribute
    weights   (n,) weights of the rows, written as a last column `weight`
    Raises `InvalidInput` for a path that cannot be written, and for a weight beside an attribute `weight`.
    """
    header = list(domain.names)
    if weights is not None:
        if "weight" in header:
            raise InvalidInput("a column 'weight' for the row weights would collide with the attribute 'weight'")
        header.append("weight")
    chunks = _decoded(domain, codes, rng, weights)
    if isinstance(out, (str, os.PathLike)):
        with written(out) as text:
            write_rows(text, header, chunks)
    else:
        write_rows(out, header, chunks)


def _decoded(
    domain: Domain,
    codes: Sequence[npt.NDArray[np.integer[Any]]],
    rng: np.random.Generator,
    weights: npt.NDArray[np.float64] | None,
) -> Iterator[Iterable[tuple[object, ...]]]:
    """The rows of values, a few thousand at a time."""
    rows = len(codes[0])
    for low, high in pairwise([*range(0, rows, _ROWS), rows]):
        columns = [a.decode(c[low:high], rng).tolist() for a, c in zip(domain, codes, strict=True)]
        if weights is not None:
            columns.append(weights[low:high].tolist())
        yield zip(*columns, strict=True)
