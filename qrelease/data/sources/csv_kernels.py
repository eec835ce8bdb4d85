"""Numba loops over the bytes of a CSV file: where its cells are, and the codes of those whose spelling is known.

A spelling is the bytes of a cell, without the quotes around it. `known` has a power of two rows, one for each spelling,
of five words: the first eight bytes, its length and one (0: the row is empty), where it begins in `spelled`, its code,
and its hash. A loop that comes to bytes that it does not know how to read says so, and reads nothing further.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from qrelease._util.typing import Words

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int32]

PADDING = 8
"""Bytes that stand after those that are looked at: words are read whole."""

_LONGEST = np.uint64(1 << 17)  # bytes: Python's reader refuses a longer field
_DIGITS = 15  # so many are exact as a float, and so is their quotient by a power of ten
_LINE_FEED, _RETURN, _MINUS, _ZERO = 0x0A, 0x0D, 0x2D, 0x30
_HALF = np.uint64(32)  # the upper half of a hash depends on every byte
_MIX = np.uint64(0x9E3779B97F4A7C15)

FIRST, LENGTH, START, CODE, HASH = range(5)
"""The words of a row of `known`."""

_MASKS = np.array([(1 << 8 * k) - 1 for k in range(9)], np.uint64)
_TENS = 10.0 ** np.arange(_DIGITS + 1)

_jit: Any = njit(cache=True, nogil=True, error_model="numpy")
_inlined: Any = njit(cache=True, nogil=True, error_model="numpy", forceinline=True)  # a call takes longer than these


@_jit
def split_cells(
    block: Bytes, size: int, separator: int, quote: int, wanted: Places, starts: Places, ends: Places
) -> tuple[int, int, bool]:  # pragma: no cover
    """Where the cells of whole records begin and end, without quotes around them.

    block   bytes of some records, the last of which may go on after `size`, and `PADDING` more
    quote   a byte, or -1 where nothing quotes
    wanted  by the columns of the file, the row that each has in `starts` and `ends`; -1 for one that is left out
    starts  (columns, line feeds + 1), written; so are `ends`

    Returns the number of records, that of the bytes that they take with blank lines that are skipped, and whether all
    was plain so far: not where a quote stands in a field without quotes or text after one with them, a return without
    a line feed, a field too long for Python, or more or fewer cells than columns.
    """
    special = np.zeros(256, np.bool_)
    special[separator] = special[_LINE_FEED] = special[_RETURN] = True
    if quote >= 0:
        special[quote] = True
    width, records, i = len(wanted), 0, np.uint64(0)
    taken: Any = 0
    one, last = np.uint64(1), np.uint64(size)
    while i < last:
        if width > 1:
            if block[i] == _LINE_FEED:
                i += one
                taken = np.int64(i)
                continue
            if block[i] == _RETURN and i + one < last and block[i + one] == _LINE_FEED:
                i += one + one
                taken = np.int64(i)
                continue
        for column in range(width):
            if i >= last:
                return records, taken, True
            if block[i] == quote:
                i += one
                start = i
                while True:
                    while i < last and block[i] != quote:
                        i += one
                    if i + one >= last:
                        return records, taken, bool(i - start <= _LONGEST)
                    if block[i + one] != quote:
                        break
                    i += one + one
                end = i
                i += one
                if not special[block[i]]:
                    return records, taken, False
            else:
                start = i
                while i < last and not special[block[i]]:
                    i += one
                end = i
            if end - start > _LONGEST:
                return records, taken, False
            if i >= last:
                return records, taken, True
            row = wanted[column]
            if row >= 0:
                starts[row, records] = start
                ends[row, records] = end
            if column < width - 1:
                if block[i] != separator:
                    return records, taken, False
                i += one
        if block[i] == _RETURN:
            i += one
            if i >= last:
                return records, taken, True
        if block[i] != _LINE_FEED:
            return records, taken, False
        i += one
        records += 1
        taken = np.int64(i)
    return records, taken, True


@_inlined
def _word(block: Bytes, i: np.uint64) -> np.uint64:  # pragma: no cover
    """Eight bytes as one number: a single load."""
    found = np.uint64(block[i])
    found |= np.uint64(block[i + np.uint64(1)]) << np.uint64(8)
    found |= np.uint64(block[i + np.uint64(2)]) << np.uint64(16)
    found |= np.uint64(block[i + np.uint64(3)]) << np.uint64(24)
    found |= np.uint64(block[i + np.uint64(4)]) << np.uint64(32)
    found |= np.uint64(block[i + np.uint64(5)]) << np.uint64(40)
    found |= np.uint64(block[i + np.uint64(6)]) << np.uint64(48)
    found |= np.uint64(block[i + np.uint64(7)]) << np.uint64(56)
    return found


@_inlined
def _hash(block: Bytes, start: np.uint64, length: np.uint64, first: np.uint64) -> np.uint64:  # pragma: no cover
    """Of all bytes of a spelling, whose first word is known."""
    found = (first ^ length) * _MIX
    done = np.uint64(8)
    while done < length:
        rest = min(length - done, np.uint64(8))
        found = ((found ^ (found >> np.uint64(29))) ^ (_word(block, start + done) & _MASKS[rest])) * _MIX
        done += np.uint64(8)
    return found


@_inlined
def _same(
    block: Bytes, start: np.uint64, spelled: Bytes, other: np.uint64, length: np.uint64
) -> bool:  # pragma: no cover
    """Whether two spellings whose first words are equal are equal."""
    k = np.uint64(8)
    while k < length and spelled[other + k] == block[start + k]:
        k += np.uint64(1)
    return bool(k >= length)


@_jit
def remember(
    spelled: Bytes, offsets: npt.NDArray[np.int64], codes: npt.NDArray[np.int64], known: Words
) -> None:  # pragma: no cover
    """Puts new spellings into `known`, at most half of whose rows are taken then.

    spelled  the spellings, one after another, and `PADDING` more bytes
    offsets  where those begin that are new, and the last one ends
    codes    of those
    """
    rows, one = np.uint64(len(known)), np.uint64(1)
    for k in range(len(codes)):
        start, length = np.uint64(offsets[k]), np.uint64(offsets[k + 1] - offsets[k])
        first = _word(spelled, start) & _MASKS[min(length, np.uint64(8))]
        hashed = _hash(spelled, start, length, first)
        row = ((hashed >> _HALF) * rows) >> _HALF
        while known[row, LENGTH]:
            row = (row + one) & (rows - one)
        known[row, FIRST] = first
        known[row, LENGTH] = length + one
        known[row, START] = start
        known[row, CODE] = codes[k]
        known[row, HASH] = hashed


@_jit
def cell_codes(
    block: Bytes,
    starts: Places,
    ends: Places,
    point: int,
    low: int,
    table: Places,
    known: Words,
    spelled: Bytes,
    found: Places,
    left: Places,
    numbers: npt.NDArray[np.float64],
) -> int:  # pragma: no cover
    """The codes (n,) of cells (n,): of whole numbers by a table that begins at `low`, of others by their spellings.

    point    the byte before decimals; -1 in a column that is not of numbers
    found    (n,), written: -1 for a cell that is in neither
    left     (n,), written: the places of these, in order
    numbers  (n,), written: the float that each of these spells, if it is a plain numeral of up to 15 digits, else NaN

    Returns how many are left.
    """
    count, zero, one, eight, ten = 0, np.uint64(_ZERO), np.uint64(1), np.uint64(8), np.uint64(10)
    rows = np.uint64(len(known))
    for record in range(len(found)):
        start, end = np.uint64(starts[record]), np.uint64(ends[record])
        code: Any = -1
        number = np.nan
        if point >= 0:
            i, whole = start, np.uint64(0)
            negative = i < end and block[i] == _MINUS
            if negative:
                i += one
            first = i
            while i < end:
                digit = np.uint64(block[i]) - zero
                if digit >= ten:
                    break
                whole = whole * ten + digit
                i += one
            digits = i - first
            if i == end:
                if np.uint64(0) < digits <= np.uint64(_DIGITS):
                    signed = -np.int64(whole) if negative else np.int64(whole)
                    place = signed - low
                    if 0 <= place < len(table):
                        code = table[place]
                    number = np.float64(signed)
            elif digits > np.uint64(0) and block[i] == point:
                i += one
                comma = i
                while i < end:
                    digit = np.uint64(block[i]) - zero
                    if digit >= ten:
                        break
                    whole = whole * ten + digit
                    i += one
                decimals = i - comma
                if i == end and decimals > np.uint64(0) and digits + decimals <= np.uint64(_DIGITS):
                    number = np.float64(np.int64(whole)) / _TENS[decimals]
                    if negative:
                        number = -number
        if code < 0:
            length = end - start
            word = _word(block, start) & _MASKS[min(length, eight)]
            hashed = _hash(block, start, length, word)
            row = ((hashed >> _HALF) * rows) >> _HALF
            while known[row, LENGTH]:
                if (
                    known[row, FIRST] == word
                    and known[row, LENGTH] == length + one
                    and (
                        length <= eight
                        or (known[row, HASH] == hashed and _same(block, start, spelled, known[row, START], length))
                    )
                ):
                    code = np.int64(known[row, CODE])
                    break
                row = (row + one) & (rows - one)
        found[record] = code
        if code < 0:
            left[count] = record
            numbers[count] = number
            count += 1
    return count
