"""Transcripts as numbers: what a sampled audit looks at.

A batch of transcripts, whatever they are, becomes a matrix of float columns. Beside every column of many values stands
the exponent of its lowest set bit: floating-point noise gives itself away there (Mironov 2012).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from decimal import Decimal
from numbers import Real
from typing import Any, Final
from zlib import crc32

import numpy as np
import numpy.typing as npt

from qrelease._util.typing import Floats
from qrelease.errors import InvalidInput

OutputBatch = npt.NDArray[Any] | Sequence[Any]

MAX_SINGLE_VALUES: Final = 64
"""Columns with at most so many values are taken value by value, others by their quantiles."""

_ZERO_BIT: Final = -2_000.0  # below the exponent of any bit of a float
_ADDRESS: Final = re.compile(r" at 0x[0-9a-fA-F]+>")


@dataclass(frozen=True)
class Reading:
    """How transcripts are read, fixed on a first batch: the columns and their names.

    width    numbers in a transcript: shorter ones are filled up with NaN, longer ones cut
    varying  whether their lengths differ; then the length is a column of its own
    bits     the columns that get one for their lowest set bit
    words    what is no number, by the number that stands for it
    """

    width: int
    varying: bool
    bits: tuple[int, ...]
    words: Mapping[float, str]

    @classmethod
    def of(cls, *batches: OutputBatch) -> Reading:
        """The reading that suits these batches."""
        words: dict[float, str] = {}
        rows = [_rows(batch, words) for batch in batches]
        lengths = {length for _, found in rows for length in found}
        width, varying = max(1, *lengths), len(lengths) > 1
        tables = np.concatenate([_padded(table, width) for table, _ in rows])
        bits = [i for i in range(width) if len(np.unique(tables[:, i])) > MAX_SINGLE_VALUES]
        return cls(width, varying, tuple(bits), words)

    @np.errstate(over="ignore", invalid="ignore")
    def columns(self, batch: OutputBatch) -> Floats:
        """(n, m) numbers for n transcripts."""
        table, lengths = _rows(batch, {})
        table = _padded(table, self.width)
        extra = [lowest_bit(table[:, i]) for i in self.bits]
        if self.varying:
            extra.append(np.asarray(lengths, np.float64))
        if self.varying or self.width > 1:
            extra += [summary(table) for _, summary in _SUMMARIES]
        return np.column_stack([table, *extra])

    def unordered(self, values: Floats) -> bool:
        """Whether some of the values stand for words."""
        return bool(self.words) and bool(np.isin(values, list(self.words)).any())

    @property
    def names(self) -> list[str]:
        """What the columns are, (m,)."""
        if self.width == 1 and not self.varying:
            numbers, extra = ["the output"], []
        else:
            numbers, extra = [f"number {i} of the output" for i in range(self.width)], [name for name, _ in _SUMMARIES]
        bits = [f"the exponent of the lowest bit of {numbers[i]}" for i in self.bits]
        return numbers + bits + ["the length of the output"] * self.varying + extra


def _among_finite(reduce: np.ufunc, nothing: float) -> Callable[[Floats], Floats]:
    """`reduce` over the finite numbers of each output; `nothing` stands for the others."""
    return lambda table: reduce.reduce(np.where(np.isfinite(table), table, nothing), axis=1)


_SUMMARIES: Final[tuple[tuple[str, Callable[[Floats], Floats]], ...]] = (
    ("the number of missing values", lambda table: np.isnan(table).sum(axis=1).astype(np.float64)),
    ("the number of infinite values", lambda table: np.isinf(table).sum(axis=1).astype(np.float64)),
    ("the sum of the output", _among_finite(np.add, 0.0)),
    ("the largest number of the output", _among_finite(np.maximum, -np.inf)),
    ("the smallest number of the output", _among_finite(np.minimum, np.inf)),
)


def spell(value: float, words: Mapping[float, str]) -> str:
    """A number, or what it stands for."""
    return words.get(value, "missing" if np.isnan(value) else f"{value:.9g}")


def in_range(low: float, high: float) -> str:
    """A sentence: a number lies between two others, of which one may be infinite."""
    parts = [f"at least {low:.9g}" * (low > -np.inf), f"at most {high:.9g}" * (high < np.inf)]
    return " and ".join(part for part in parts if part) or "anything"


def lowest_bit(values: Floats) -> Floats:
    """The e for which 2^e is the lowest set bit of a float, (n,); NaN stays, infinities count as zeros."""
    mantissa, exponent = np.frexp(np.where(np.isfinite(values), values, 0.0))
    whole = np.abs(mantissa * 2.0**53).astype(np.int64)
    trailing = np.frexp((whole & -whole).astype(np.float64))[1] - 1
    lowest = np.where(whole == 0, _ZERO_BIT, exponent - 53.0 + trailing)
    return np.where(np.isnan(values), np.nan, lowest)


def _rows(batch: OutputBatch, words: dict[float, str]) -> tuple[Floats, Sequence[int]]:
    """A batch as (n, width) floats, and how many numbers each transcript has, (n,); adds to `words`."""
    if isinstance(batch, np.ndarray) and batch.dtype.kind in "biuf":
        table = batch.reshape(len(batch), -1).astype(np.float64)
        return table, [table.shape[1]] * len(table)
    flat = [list(numbers_in(transcript, words)) for transcript in batch]
    lengths = [len(row) for row in flat]
    width = max(lengths)
    table = np.full((len(flat), width), np.nan)
    for row, numbers in zip(table, flat, strict=True):
        row[: len(numbers)] = numbers
    return table, lengths


def numbers_in(transcript: Any, words: dict[float, str]) -> Iterator[float]:
    """The numbers in a transcript, in order. None is NaN; what is no number becomes one that stands for it."""
    if transcript is None:
        yield np.nan
    elif isinstance(transcript, Real | Decimal | np.bool_):
        yield _float(transcript)
    elif (parts := _parts(transcript)) is not None:
        for part in parts:
            yield from numbers_in(part, words)
    else:
        word = repr(transcript)
        if not isinstance(transcript, str | bytes) and _ADDRESS.search(word):
            # Where things lie in memory depends on the runs before: such transcripts would not be independent.
            raise InvalidInput(f"transcripts must show what is in them, got a {type(transcript).__name__} without repr")
        number = float(crc32(word.encode()))
        words[number] = word
        yield number


def _parts(transcript: Any) -> Collection[Any] | None:
    """What a transcript is made of; None if it is one thing."""
    if hasattr(transcript, "__array__"):  # arrays, and columns and frames of other libraries
        array = transcript if isinstance(transcript, np.ndarray) else np.asarray(transcript)
        listed: list[Any] = array.ravel().tolist()
        return listed
    if isinstance(transcript, Mapping):
        return list(transcript.items())
    if is_dataclass(transcript) and not isinstance(transcript, type):
        return [getattr(transcript, field.name) for field in fields(transcript)]
    if isinstance(transcript, Collection) and not isinstance(transcript, str | bytes | set | frozenset):
        return transcript
    return None


def _float(number: Any) -> float:
    try:
        return float(number)
    except OverflowError:
        bits = int(number).bit_length()
        raise InvalidInput(f"numbers in transcripts must fit a float, got one of {bits} bits") from None


def _padded(table: Floats, width: int) -> Floats:
    if table.shape[1] >= width:
        return table[:, :width]
    return np.pad(table, ((0, 0), (0, width - table.shape[1])), constant_values=np.nan)
