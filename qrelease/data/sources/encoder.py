"""Values of one column to the codes of its cells, remembered as they come."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime, time
from functools import cached_property
from typing import Any, final

import numpy as np
import numpy.typing as npt

from qrelease._util.typing import Codes, Mask
from qrelease.data.attribute import MAX_KEYS, Attribute
from qrelease.data.sources.kernels import bin_codes
from qrelease.data.spelling import NAN, meaning, text_of
from qrelease.errors import InvalidInput

REMEMBERED_VALUES = 1 << 16
"""Distinct raw values whose codes are remembered for a column."""

_TABLE = 1 << 16
"""Whole numbers from the first to the last value of a column whose codes are kept in a table, at most."""

_MAX_EXACT = 2**53  # whole numbers up to here are exact as floats


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

        Of the schema alone. Empty where they would be too many, where floats do not tell them apart, and where the
        column is not of numbers.
        """
        attribute, low, high = self.attribute, 0, last_whole(self.attribute)
        if attribute.grid is not None:
            low = math.floor(attribute.grid.low)
        elif attribute.edges:
            low = math.floor(attribute.edges[0])
        exact = max(abs(low), abs(high)) <= _MAX_EXACT
        if attribute.kind not in ("coded", "number") or not exact or not 0 <= high - low < _TABLE:
            return 0, np.empty(0, np.int32)
        codes, plain = plain_codes(self, np.arange(low, high + 1, dtype=np.float64))
        return low, np.where(plain, codes.astype(np.int64), -1).astype(np.int32)

    def fault(self, values: Iterable[object]) -> tuple[int, InvalidInput]:
        """The position of the first value that has no code, and why."""
        for position, value in enumerate(values):
            try:
                self.code(value)
            except InvalidInput as error:
                return position, error
        raise LookupError("every value has a code")


def last_whole(attribute: Attribute) -> int:
    """A whole number that is at or above all values of a column of numbers."""
    if attribute.grid is not None:
        return math.ceil(attribute.grid.high)
    return math.ceil(attribute.edges[-1]) if attribute.edges else attribute.codes - 1


def plain_codes(encoder: Encoder, numbers: npt.NDArray[np.float64]) -> tuple[Codes, Mask]:
    """The codes (n,) of the numbers that are plainly inside, 0 for the others, and which ones these are, (n,).

    The same codes as `Encoder.code` gives to the numbers, and `Attribute.encode` to their numerals, for all of these
    compare floats. Not plain are numbers outside of the bins, fractions among whole numbers, and those that a missing
    mark may stand for.
    """
    attribute = encoder.attribute
    with np.errstate(invalid="ignore"):
        if attribute.grid is not None:
            places = attribute.grid.places(numbers)
        elif attribute.edges:
            places = np.empty(len(numbers), np.int32)
            # Copies, so that there is one type of array: what Arrow gives cannot be written, which is another.
            bin_codes(numbers.astype(np.float64), np.array(attribute.edges, np.float64), attribute.whole, places)
        else:
            places = np.where(np.isnan(numbers), -1, numbers).astype(np.int64)
        plain = (places >= 0) & (places < attribute.values)
        if attribute.whole:
            plain &= np.floor(numbers) == numbers
    for mark in attribute.missing:
        means = meaning(mark.strip())
        if isinstance(means, float):  # not a word: a number is none
            plain &= numbers != means
    return np.where(plain, places, 0).astype(encoder.dtype), plain
