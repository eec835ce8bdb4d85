"""Texts and days in Arrow's columns to codes, each distinct one looked up once. pyarrow is imported on first need.

The codes are those that `Encoder` gives to each text by itself. Arrow finds which texts are equal, and, where a column
of numbers has many distinct ones, reads those that are plain numerals as the floats that they spell; all others are
looked up one by one.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

import numpy as np
import numpy.typing as npt

from qrelease._util.typing import Codes
from qrelease.data.sources.csv_kernels import PADDING
from qrelease.data.sources.encoder import Encoder, Misplaced, looked_up, plain_codes
from qrelease.data.spelling import shown
from qrelease.errors import InvalidInput

_DISTINCT_TEXTS = 64
"""Distinct texts of a piece from which on those of numbers are read all at once."""

_ROWS = 1 << 14  # texts that are looked at at a time
_MAX_COLUMN_BYTES = 1 << 31  # bytes of a column whose places are told by 32 bits

_EXACT = 1 << 53  # whole numbers up to this are floats of their own

_NUMERAL = r"^-?[0-9]{1,300}(\.[0-9]{1,300})?$"


def is_looked_up(kind: Any) -> bool:
    """Whether a column of a pyarrow type is read by `distinct_codes`: texts, dictionary-encoded or not, and days."""
    import pyarrow as pa

    return _is_texts(kind.value_type if pa.types.is_dictionary(kind) else kind) or bool(pa.types.is_date32(kind))


def _is_texts(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


class Distinct:
    """A column (n,), with nulls: its distinct values in the order in which they first come.

    distinct  a pyarrow array of them, (m,)
    firsts    where each comes first, (m,)
    places    which of them each record has, (n,); m for a null
    """

    def __init__(self, column: Any) -> None:
        import pyarrow as pa

        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        listed, indices = column.dictionary, column.indices
        count, null = len(listed), bool(indices.null_count)
        places = (indices.fill_null(count) if null else indices).to_numpy(zero_copy_only=False).astype(np.int64)
        firsts = np.full(count + 1, -1)
        firsts[places[::-1]] = np.arange(len(places) - 1, -1, -1)  # the last that is written is the first that comes
        used = np.flatnonzero(firsts[:count] >= 0)  # a dictionary may list what no record has
        used = used[np.argsort(firsts[used])]
        number = np.full(count + 1, len(used))
        number[used] = np.arange(len(used))
        self.distinct = listed.take(pa.array(used))
        self.firsts, self.places = firsts[used], number[places]
        self.first_null = int(firsts[count])


def distinct_codes(encoder: Encoder, column: Any) -> Codes:
    """The codes (n,) of a pyarrow column of texts, dictionary-encoded or not, or of days.

    Raises `Misplaced` for the first record whose text has no code.
    """
    import pyarrow as pa

    if _is_texts(column.type) and not column.null_count and column.nbytes < _MAX_COLUMN_BYTES:
        return _spelled(encoder, column)
    known = _days(encoder, column) if pa.types.is_date32(column.type) else _known(encoder, column)
    if known is not None:
        return known
    texts = Distinct(column)
    found = np.zeros(len(texts.distinct) + 1, encoder.dtype)
    left = _numerals(encoder, texts.distinct, found)
    values: list[object] = texts.distinct.take(left).to_pylist()
    places, firsts = left.tolist(), texts.firsts[left].tolist()
    if texts.first_null >= 0:  # in its order too, by which texts that are to be learned are numbered
        at = bisect_left(firsts, texts.first_null)
        values.insert(at, None)
        places.insert(at, len(texts.distinct))
        firsts.insert(at, texts.first_null)
    for place, first, value in zip(places, firsts, values, strict=True):
        try:
            found[place] = encoder.code(value)
        except InvalidInput as error:
            raise Misplaced(first, error) from None
    codes: Codes = found[texts.places]
    return codes


def _spelled(encoder: Encoder, column: Any) -> Codes:
    """The codes of texts without nulls, by their bytes."""
    import pyarrow as pa

    found = [np.empty(0, encoder.dtype)]
    done = 0
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        for first in range(0, len(chunk), _ROWS):
            part = chunk.slice(first, _ROWS)
            _, places, data = part.buffers()
            places = np.frombuffer(places, np.int32 if pa.types.is_string(part.type) else np.int64)
            places = places[part.offset : part.offset + len(part) + 1]
            block = b"" if data is None else memoryview(data)[places[0] : places[-1]].tobytes()
            ends = (places - places[0]).astype(np.int32)
            try:
                found.append(encoder.spellings.codes(block + bytes(PADDING), ends[:-1], ends[1:]))
            except Misplaced as error:
                raise Misplaced(done + error.position, error) from None
            done += len(part)
    return np.concatenate(found)


def _known(encoder: Encoder, column: Any) -> Codes | None:
    """The codes of a dictionary-encoded column of texts without nulls, all of which the encoder remembers; else None.

    A dictionary may list what no record has: nothing is worked out, and nothing remembered, for one that it lists.
    """
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        if column.num_chunks != 1:
            return None
        column = column.chunk(0)
    if not pa.types.is_dictionary(column.type) or not _is_texts(column.type.value_type) or column.null_count:
        return None
    listed, places = column.dictionary, column.indices.to_numpy(zero_copy_only=False)
    if len(listed) > _DISTINCT_TEXTS or listed.null_count or places.dtype == np.uint64:
        return None
    known = [encoder.get(text, -1) for text in listed.to_pylist()]
    if -1 in known or max(known, default=0) > np.iinfo(np.int32).max:
        return None
    codes, left = looked_up(places, 0, np.array([*known, -1], np.int32), encoder.dtype)
    return None if len(left) else codes


def _days(encoder: Encoder, column: Any) -> Codes | None:
    """The codes of a column of days without nulls, all of which are plainly in the bins of their column; else None."""
    low, table = encoder.days
    if column.null_count or not len(table):
        return None
    codes, left = looked_up(column.cast("int32").to_numpy(), low, table, encoder.dtype)
    return None if len(left) else codes


def _numerals(encoder: Encoder, distinct: Any, found: Codes) -> npt.NDArray[np.intp]:
    """Codes of the plain numerals among many distinct texts, written to their places; the places that are left."""
    from pyarrow import ArrowInvalid, compute

    everything = np.arange(len(distinct))
    numeric = encoder.attribute.plain_numbers and _is_texts(distinct.type)
    if not numeric or len(distinct) < _DISTINCT_TEXTS:
        return everything
    try:
        numerals, numbers = everything, distinct.cast("float64").to_numpy(zero_copy_only=False)
    except ArrowInvalid:  # some are no numerals to Arrow
        spelled = compute.match_substring_regex(distinct, _NUMERAL).to_numpy(zero_copy_only=False)
        numerals = np.flatnonzero(spelled)
        numbers = distinct.take(numerals).cast("float64").to_numpy(zero_copy_only=False)
    codes, rest = plain_codes(encoder, numbers)
    found[numerals] = codes  # those of the rest are overwritten
    return np.setdiff1d(everything, np.delete(numerals, rest))


def shown_texts(column: Any) -> list[str]:
    """What `shown` gives for the values of a column; each of those that are the same is spelled once."""
    import pyarrow as pa

    kind, types = column.type, pa.types
    texts = (types.is_string, types.is_large_string, types.is_dictionary, types.is_boolean)
    numbers = (types.is_integer, types.is_float32, types.is_float64, types.is_decimal128)
    if not any(holds(kind) for holds in (*texts, *numbers, types.is_date, types.is_timestamp)):
        return [shown(value) for value in column.to_pylist()]
    whole = column.combine_chunks()
    listed = whole if types.is_dictionary(kind) else whole.dictionary_encode()
    spelled = np.array([*_each_spelled(listed.dictionary), shown(None)], object)
    places = listed.indices.cast(pa.int64()).fill_null(-1)
    found: list[str] = spelled[places.to_numpy(zero_copy_only=False)].tolist()
    return found


def _each_spelled(values: Any) -> list[str]:
    """The texts of an array: of whole numbers that floats hold exactly, Arrow's own are those of `shown`."""
    import pyarrow as pa
    from pyarrow import compute

    if pa.types.is_integer(values.type) and len(values) and not values.null_count:
        ends = compute.min_max(values).as_py()
        if ends["min"] >= -_EXACT and ends["max"] <= _EXACT:
            spelled: list[str] = values.cast(pa.string()).to_pylist()
            return spelled
    return [shown(value) for value in values.to_pylist()]
