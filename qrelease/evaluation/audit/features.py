"""Transcripts as numbers: what a sampled audit looks at.

A batch of transcripts, whatever they are, becomes a matrix of float columns. Beside every column of many values stands
the exponent of its lowest set bit: floating-point noise gives itself away there (Mironov 2012).

Columns are places in a transcript; those of `Named` transcripts are names, so that what one of them lacks moves no
other value to another column.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from decimal import Decimal
from itertools import chain
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

_PLACED_RUNS: Final = 100
"""So many transcripts of either input show where their numbers are, for the names of columns."""

_ZERO_BIT: Final = -2_000.0  # below the exponent of any bit of a float


class _Empty:
    """What stands in the place of a list, an array or a mapping of nothing: a word, which adds nothing to a length."""

    def __repr__(self) -> str:
        return "empty"


_EMPTY: Final = _Empty()
_ADDRESS: Final = re.compile(r" at 0x[0-9a-fA-F]+>")


class Named(dict[str, Any]):
    """A transcript of values by name, each a number, a text or None: outputs are compared name by name."""


@dataclass(frozen=True)
class Reading:
    """How transcripts are read, fixed on a first batch: the columns and their names.

    places   what the numbers of a transcript are, in words
    named    whether places are the names of `Named` transcripts; else shorter ones are filled up with NaN, longer cut
    varying  whether their lengths differ; then the length is a column of its own
    bits     the columns that get one for their lowest set bit
    words    what is no number, by the number that stands for it
    texts    the columns of names that have words: a sum or a largest number of these would say nothing
    """

    places: tuple[str, ...]
    named: bool
    varying: bool
    bits: tuple[int, ...]
    words: Mapping[float, str]
    texts: tuple[int, ...] = ()

    @classmethod
    def of(cls, *batches: OutputBatch) -> Reading:
        """The reading that suits these batches."""
        words: dict[float, str] = {}
        if all(isinstance(transcript, Named) for batch in batches for transcript in batch):
            places = tuple(dict.fromkeys(name for batch in batches for transcript in batch for name in transcript))
            tables, varying, named = [_by_name(batch, places, words) for batch in batches], False, True
        else:
            rows = [_rows(batch, words) for batch in batches]
            lengths = {length for _, found in rows for length in found}
            width = max(1, *(table.shape[1] for table, _ in rows))
            places, varying, named = _places(batches, width), len(lengths) > 1, False
            tables = [_padded(table, len(places)) for table, _ in rows]
        both = np.concatenate(tables)
        bits = [i for i in range(len(places)) if len(np.unique(both[:, i])) > MAX_SINGLE_VALUES]
        texts = np.flatnonzero(np.isin(both, list(words)).any(axis=0)).tolist() if named and words else []
        return cls(places, named, varying, tuple(bits), words, tuple(texts) if len(texts) < len(places) else ())

    @property
    def width(self) -> int:
        """Numbers in a transcript."""
        return len(self.places)

    @np.errstate(over="ignore", invalid="ignore")
    def columns(self, batch: OutputBatch) -> Floats:
        """(n, m) numbers for n transcripts."""
        if self.named:
            table = _by_name(batch, self.places, {})
        else:
            rows, lengths = _rows(batch, {})
            table = _padded(rows, self.width)
        extra = [lowest_bit(table[:, i]) for i in self.bits]
        if self.varying:
            extra.append(np.asarray(lengths, np.float64))
        if self.varying or self.width > 1:
            numbers = np.delete(table, self.texts, axis=1) if self.texts else table
            extra += [summary(numbers) for _, summary in _SUMMARIES]
        return np.column_stack([table, *extra])

    def unordered(self, values: Floats) -> bool:
        """Whether some of the values stand for words."""
        return bool(self.words) and bool(np.isin(values, list(self.words)).any())

    @property
    def names(self) -> list[str]:
        """What the columns are, (m,)."""
        extra = [name for name, _ in _SUMMARIES] if self.varying or self.width > 1 else []
        bits = [f"the exponent of the lowest bit of {self.places[i]}" for i in self.bits]
        return [*self.places, *bits, *["the length of the output"] * self.varying, *extra]


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


def _by_name(batch: OutputBatch, names: Sequence[str], words: dict[float, str]) -> Floats:
    """Named transcripts as (n, names) floats, NaN where one lacks a name; adds to `words`."""
    table, column = np.full((len(batch), len(names)), np.nan), {name: i for i, name in enumerate(names)}
    for row, transcript in zip(table, batch, strict=True):
        for name, value in transcript.items():
            place = column.get(name)
            if place is not None:
                if type(value) is float:
                    row[place] = value
                elif type(value) is str:
                    row[place] = _of_word(repr(value), words)
                else:
                    row[place] = next(numbers_in(value, words))
    return table


def _places(batches: Sequence[OutputBatch], width: int) -> tuple[str, ...]:
    """What the numbers are: by where they are in the first transcripts, if that is alike in all of these."""
    some = [transcript for batch in batches for transcript in batch[:_PLACED_RUNS]]
    found = {tuple(path for path, _ in leaves(transcript)) for transcript in some}
    (paths,) = found if len(found) == 1 else ((),)
    if width == 1 and paths in (("",), ("[0]",)):
        return ("the output",)
    if len(paths) == width and not all(path.removeprefix("[").removesuffix("]").isdecimal() for path in paths):
        return tuple(f"{path} of the output" for path in paths)
    return tuple(f"number {i} of the output" for i in range(width))


def _rows(batch: OutputBatch, words: dict[float, str]) -> tuple[Floats, Sequence[int]]:
    """A batch as (n, width) floats, and how many numbers and words each transcript has, (n,); adds to `words`."""
    if isinstance(batch, np.ndarray) and batch.dtype.kind in "biuf":
        table = batch.reshape(len(batch), -1).astype(np.float64)
        return table, [table.shape[1]] * len(table)
    flat = [list(numbers_in(transcript, words)) for transcript in batch]
    empty = float(crc32(repr(_EMPTY).encode()))
    lengths, width = [len(row) - row.count(empty) for row in flat], max(map(len, flat))
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
        for _, part in parts:
            yield from numbers_in(part, words)
    else:
        word = repr(transcript)
        if not isinstance(transcript, str | bytes) and _ADDRESS.search(word):
            # Where things lie in memory depends on the runs before: such transcripts would not be independent.
            raise InvalidInput(f"transcripts must show what is in them, got a {type(transcript).__name__} without repr")
        yield _of_word(word, words)


def _of_word(word: str, words: dict[float, str]) -> float:
    """The number that stands for a word; adds to `words`."""
    number = float(crc32(word.encode()))
    words[number] = word
    return number


def leaves(transcript: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """What `numbers_in` makes a number of, each with its place: fields and keys as `.name`, others as `[i]`."""
    parts = None if isinstance(transcript, Real | Decimal | np.bool_) else _parts(transcript)
    if parts is None:
        yield path, transcript
    else:
        for place, part in parts:
            yield from leaves(part, f"{path}{place}".removeprefix("."))


def _parts(transcript: Any) -> Iterator[tuple[str, Any]] | None:
    """What a transcript is made of, each with its place in it; None if it is one thing. Of one that is empty that
    is told, in its place: which of two lists is the empty one shows in no length, where the other makes up for it."""
    found = _contents(transcript)
    if found is None:
        return None
    first = next(found, ("", _EMPTY))
    return chain([first], found)


def _contents(transcript: Any) -> Iterator[tuple[str, Any]] | None:
    if hasattr(transcript, "__array__"):  # arrays, and columns and frames of other libraries
        array = transcript if isinstance(transcript, np.ndarray) else np.asarray(transcript)
        return _items(array.ravel().tolist()) if array.ndim else iter([("", array.tolist())])
    if isinstance(transcript, Mapping):
        return (
            item
            for i, (key, value) in enumerate(transcript.items())
            for item in ((f"[key {i}]", key), (f".{key}" if _is_word(key) else f"[{key!r}]", value))
        )
    if is_dataclass(transcript) and not isinstance(transcript, type):
        return ((f".{field.name}", getattr(transcript, field.name)) for field in fields(transcript))
    if isinstance(transcript, Collection) and not isinstance(transcript, str | bytes | set | frozenset):
        return _items(transcript)
    return None


def _is_word(key: object) -> bool:
    return isinstance(key, str) and key.isidentifier()


def _items(parts: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    return ((f"[{i}]", part) for i, part in enumerate(parts))


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
