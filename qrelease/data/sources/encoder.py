"""Values of one column to the codes of its cells, remembered as they come."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime, time
from functools import cached_property
from typing import Any, final

import numpy as np
import numpy.typing as npt

from qrelease._util.typing import Codes
from qrelease.data.attribute import MAX_KEYS, Attribute
from qrelease.data.dates import EPOCH
from qrelease.data.sources.csv_kernels import Places
from qrelease.data.sources.dialect import Dialect
from qrelease.data.sources.kernels import bin_codes, read_only, table_codes
from qrelease.data.sources.known_cells import REMEMBERED_VALUES, KnownCells
from qrelease.data.spelling import NAN, meaning, text_of
from qrelease.errors import InvalidInput

_TABLE = 1 << 16
"""Whole numbers from the first to the last value of a column whose codes are kept in a table, at most."""

_MAX_EXACT = 2**53  # whole numbers up to here are exact as floats

_LOOKED_UP_FIRST = 1 << 7  # cells that are looked up as texts before it is seen which others are like them


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
        # Listed words that a null may stand for: of the schema alone, whatever was read before.
        self._nulls = {code for text in NAN for code in attribute.listed(text)}
        self._nulls |= {code for text in (*NAN, attribute.blank) if (code := self.get(text)) is not None}
        self.texts: dict[str, int] = {}  # of categories that are to be learned
        self._typed: dict[tuple[type, object], int] = {}  # by type, for True and 1 are one key and not one value

    def __missing__(self, text: str) -> int:
        code = self._key(text) if self.attribute.learn and self.attribute.undecided else self.attribute.encode(text)
        if len(self) < REMEMBERED_VALUES:
            self[text] = code
        return code

    def _key(self, text: str) -> int:
        """The number of a text among those that have come, or the missing one; texts of one meaning are one.

        A truth value is 1 or 0, as among listed categories: beside a number a column of them turns into numbers. For
        numbers and dates, whose bins are to be learned, their point.
        """
        attribute, bare = self.attribute, text.strip()
        if attribute.kind != "category":
            return attribute.encode(text)
        means = attribute.meaning(bare)
        if bare in attribute.missing or attribute.listed(means) or (attribute.missing and bare in NAN):
            return attribute.values
        spelled = bare if isinstance(means, str) else text_of(int(means) if isinstance(means, bool) else means)
        code = self.texts.setdefault("" if bare in NAN or spelled is None else spelled, len(self.texts))
        if code >= MAX_KEYS:
            raise InvalidInput(f"column {attribute.name!r}: more than {MAX_KEYS:,} different texts")
        return code

    def codes(self, texts: Iterable[str], count: int) -> Codes:
        """The codes (count,) of the texts; `InvalidInput` names column and value, but not the row."""
        return np.fromiter(map(self.__getitem__, texts), dtype=self.dtype, count=count)

    def of_codes(self, codes: list[int]) -> Codes:
        """Codes as an array (n,) of the column's type."""
        return np.array(codes, self.dtype)

    def code(self, value: object) -> int:
        """The code of a data frame's value: of its text, whatever its type is; None is missing."""
        if type(value) is str:
            return self[value]
        if isinstance(value, time | datetime) and value.tzinfo is not None:
            return self._code(value)  # such moments may be equal and have different texts: in a repeated hour, say
        try:
            return self._typed[type(value), value]
        except (KeyError, TypeError):  # TypeError: what cannot be a key is no value either
            code = self._code(value)
        if len(self._typed) < REMEMBERED_VALUES:
            self._typed[type(value), value] = code
        return code

    def _code(self, value: object) -> int:
        attribute = self.attribute
        try:
            text = text_of(value)
        except InvalidInput as error:
            raise InvalidInput(f"column {attribute.name!r}: {error}") from None
        if text is None:
            return self._null()
        if isinstance(value, (str, bytes)):
            return self[text]
        if not attribute.writing.is_plain:  # a library may have read the texts of a whole column in another way
            raise InvalidInput(
                f"column {attribute.name!r}: value {text} is no text, and the schema says how texts are written; give"
                " the column as text, or take that out of the schema"
            )
        means = meaning(text)
        cells = attribute.listed(means)
        # A column of truth values turns into numbers beside a number: so a mark that is a word cannot be told from one.
        word = isinstance(means, bool) and attribute.kind != "category"
        if len(cells) > 1 or (word and cells):
            raise attribute.unclear(text)
        return self[text]

    def _null(self) -> int:
        """The code of a missing value: where a listed `nan` is something else, the two cannot be told apart."""
        if len(self._nulls) > 1:
            raise self.attribute.unclear("nan")
        return self[self.attribute.blank]

    @cached_property
    def whole_numbers(self) -> tuple[int, npt.NDArray[np.int32]]:
        """A whole number, and the codes of it and the next ones, -1 where `plain_codes` leaves one to its text.

        The last one is left, as all beyond are. Of the schema alone. Empty where they would be too many, where floats
        do not tell them apart, and where the column is not of numbers.
        """
        attribute, low, high = self.attribute, 0, last_whole(self.attribute)
        if attribute.grid is not None:
            low = math.floor(attribute.grid.low)
        elif attribute.edges:
            low = math.floor(attribute.edges[0])
        exact = max(abs(low), abs(high)) < _MAX_EXACT
        if not attribute.plain_numbers or not exact or not 0 <= high - low < _TABLE:
            return 0, np.empty(0, np.int32)
        found, left = plain_codes(self, np.arange(low, high + 2, dtype=np.float64))
        codes = found.astype(np.int32)
        codes[left] = -1
        codes[-1] = -1  # on a coarse grid it would be rounded to the last point, and with it all that is beyond
        return low, codes

    @cached_property
    def spellings(self) -> Spellings:
        """The codes of texts that a library has, by their bytes."""
        return Spellings(self, Dialect(quote=""))

    @cached_property
    def days(self) -> tuple[int, npt.NDArray[np.int32]]:
        """A day, and the codes of it and the next ones, -1 where one is left to its text, as a missing mark may be one.

        The last one is left, as all beyond are. Of the schema alone. Empty where they would be too many, and where the
        column is not of bins of days.
        """
        attribute = self.attribute
        if attribute.kind != "date" or attribute.grid is not None or not attribute.edges or attribute.writing.format:
            return 0, np.empty(0, np.int32)
        low, high = int(attribute.edges[0]), int(attribute.edges[-1])
        if high - low >= _TABLE:
            return 0, np.empty(0, np.int32)
        numbers = np.arange(low, high + 2, dtype=np.float64)
        codes, left = _bins(attribute, numbers, np.dtype(np.int32))
        codes[left] = -1
        for mark in attribute.missing:
            means, number = attribute.meaning(mark.strip()), attribute.parse(mark)
            day = (means.date() - EPOCH).days if isinstance(means, datetime) else None
            codes[(numbers == number) | (numbers == day)] = -1
        return low, codes

    def fault(self, values: Iterable[object]) -> tuple[int, InvalidInput]:
        """The position of the first value that has no code, and why."""
        for position, value in enumerate(values):
            try:
                self.code(value)
            except InvalidInput as error:
                return position, error
        raise LookupError("every value has a code")


class Misplaced(InvalidInput):
    """A value without a code, and the position of its record in a piece."""

    def __init__(self, position: int, error: InvalidInput) -> None:
        super().__init__(str(error))
        self.position = position


def last_whole(attribute: Attribute) -> int:
    """A whole number that is at or above all values of a column of numbers."""
    if attribute.grid is not None:
        return math.ceil(attribute.grid.high)
    return math.ceil(attribute.edges[-1]) if attribute.edges else attribute.codes - 1


def looked_up(
    numbers: npt.NDArray[Any], low: int, table: npt.NDArray[np.int32], dtype: np.dtype[Any]
) -> tuple[Codes, npt.NDArray[np.int64]]:
    """The codes (n,) of whole numbers by a table from `low` on, and the places of those that it leaves, in order.

    The table's last entry is -1; an empty one leaves all.
    """
    codes, left = np.empty(len(numbers), dtype), np.empty(len(numbers), np.int64)
    if not len(table):
        return codes, np.arange(len(numbers))
    wide = numbers.dtype.itemsize > 4 or numbers.dtype == np.uint32  # two types for the loop to be compiled for
    count = table_codes(read_only(numbers, np.int64 if wide else np.int32), low, table, codes, left)
    return codes, left[:count]


def plain_codes(encoder: Encoder, numbers: npt.NDArray[np.float64]) -> tuple[Codes, npt.NDArray[np.int64]]:
    """The codes (n,) of the numbers that are plainly inside, and the places of the others, in order.

    The same codes as `Encoder.code` gives to the numbers, and `Attribute.encode` to their numerals, for all of these
    compare floats. Not plain are numbers outside of the bins, fractions among whole numbers, and those that a missing
    mark may stand for.
    """
    attribute, codes = encoder.attribute, np.empty(len(numbers), encoder.dtype)
    if attribute.edges and attribute.grid is None:
        codes, left = _bins(attribute, numbers, encoder.dtype)
    else:
        with np.errstate(invalid="ignore"):
            if attribute.grid is not None:
                places = attribute.grid.places(numbers)
            else:
                places = np.where(np.isnan(numbers), -1, numbers).astype(np.int64)
            plain = (places >= 0) & (places < attribute.values)
            if attribute.whole:
                plain &= np.floor(numbers) == numbers
        codes, left = places.astype(encoder.dtype), np.flatnonzero(~plain)
    for mark in attribute.missing:
        means = meaning(mark.strip())
        if isinstance(means, float):  # not a word: a number is none
            left = np.union1d(left, np.flatnonzero(numbers == means))
    return codes, left


def _bins(
    attribute: Attribute, numbers: npt.NDArray[np.float64], dtype: np.dtype[Any]
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """The bins (n,) of the numbers that are inside, and the places of the others, in order."""
    codes, left = np.empty(len(numbers), dtype), np.empty(len(numbers), np.int64)
    count = bin_codes(read_only(numbers, np.float64), np.array(attribute.edges), attribute.whole, codes, left)
    return codes, left[:count]


@final
class Spellings:
    """The codes that `Encoder` gives to the texts of cells, each by itself.

    What has been looked up is remembered with its code, up to a bound; whole numbers near those of the schema have
    theirs in a table, and other plain numerals are read as the floats that they spell and given codes all at once. So
    a code never depends on which way it was found.

    encoder  of the column, and of no other
    dialect  of the file
    """

    def __init__(self, encoder: Encoder, dialect: Dialect) -> None:
        self.encoder = encoder
        numeric = encoder.attribute.plain_numbers
        self._point, self._dialect = ord(dialect.decimal) if numeric else -1, dialect
        self._known = KnownCells()

    def codes(self, block: bytes, starts: Places, ends: Places) -> Codes:
        """The codes (n,) of cells (n,) of a block, which has `PADDING` more bytes.

        Raises `Misplaced` for the first record whose text has no code.
        """
        found, places, numbers = self._known.find(block, starts, ends, self._point, *self.encoder.whole_numbers)
        codes: Codes = found.astype(self.encoder.dtype)
        if len(places) and self._point >= 0:
            codes[places], rest = plain_codes(self.encoder, numbers)
            places = places[rest]
        few = _LOOKED_UP_FIRST
        while len(places):  # a few by their texts, which the others may have too, and so on
            first, places = places[:few], places[few:]
            codes[first] = self._looked_up(block, starts, ends, first)
            if len(places):
                found, left, _ = self._known.find(block, starts[places], ends[places])
                known = found >= 0
                codes[places[known]] = found[known]
                places = places[left]
            few *= 4
        return codes

    def _looked_up(self, block: bytes, starts: Places, ends: Places, places: Places) -> list[int]:
        """The codes of cells at some places, in order: in that of the records, texts that are learned are numbered."""
        new: dict[bytes, int] = {}
        codes = []
        for place, start, end in zip(places.tolist(), starts[places].tolist(), ends[places].tolist(), strict=True):
            raw = block[start:end]
            code = new.get(raw)
            if code is None:
                try:
                    text = unquoted(raw, self._dialect.quote)
                    code = self.encoder[self._dialect.text(self.encoder.attribute, text)]
                except InvalidInput as error:
                    raise Misplaced(place, error) from None
                new[raw] = code
            codes.append(code)
        self._known.remember(new)
        return codes


def unquoted(raw: bytes, quote: str) -> str:
    """The text of a cell from its bytes, without the quotes around it."""
    text = raw.decode()
    return text.replace(quote * 2, quote) if quote and quote in text else text


def cell_texts(block: bytes, starts: Places, ends: Places, quote: str) -> list[str]:
    """The texts of cells (n,) of a block."""
    return [unquoted(block[start:end], quote) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
