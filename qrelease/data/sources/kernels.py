"""Numba loops from numbers to codes, and over the records of persons: arrays in, arrays out.

What loops to codes leave open is -1, and is looked up by text.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

Places = npt.NDArray[np.int32]


def read_only(numbers: npt.NDArray[Any], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """The same numbers as the one type of array that loops are compiled for: what Arrow gives cannot be written."""
    found = np.ascontiguousarray(numbers, dtype).view()
    found.flags.writeable = False
    return found


_jit: Any = njit(cache=True, nogil=True, error_model="numpy")


@_jit
def bin_codes(
    numbers: npt.NDArray[np.float64], edges: npt.NDArray[np.float64], whole: bool, found: Places
) -> None:  # pragma: no cover
    """The bins of numbers (n,), `read_only`, from `edges` on; -1 outside, and for fractions where values are whole."""
    count = len(edges)
    low, high = edges[0], edges[count - 1]
    for i in range(len(numbers)):
        number = numbers[i]
        code = -1
        if low <= number < high and (not whole or np.floor(number) == number):
            first, last = 0, count - 1  # edges[first] <= number < edges[last]
            while last - first > 1:
                middle = (first + last) >> 1
                if edges[middle] <= number:
                    first = middle
                else:
                    last = middle
            code = first
        found[i] = code


@_jit
def table_codes(numbers: npt.NDArray[np.int64], low: int, table: Places, found: Places) -> int:  # pragma: no cover
    """Codes of whole numbers (n,), `read_only`, by a table from `low` on; -1 for those not in it, which are counted."""
    left = 0
    for i in range(len(numbers)):
        place = numbers[i] - low
        code = -1
        if 0 <= place < len(table):
            code = int(table[place])
        found[i] = code
        left += code < 0
    return left


@_jit
def key_places(
    keys: npt.NDArray[np.int64],
    slots: npt.NDArray[np.int64],
    places: npt.NDArray[np.int64],
    known: int,
    found: npt.NDArray[np.int64],
    firsts: npt.NDArray[np.int64],
) -> int:  # pragma: no cover
    """Places of keys (n,), `read_only`, among those that have come, `known` so far; and how many of these are new.

    slots, places  an open table of a power of two of keys, and the place of each, -1 for an empty slot; it is added to
    firsts         where each new key comes first, in order
    """
    new, last = 0, np.uint64(len(slots) - 1)
    for i in range(len(keys)):
        word = np.uint64(keys[i])
        word = (word ^ (word >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
        slot = np.int64((word ^ (word >> np.uint64(29))) & last)
        while places[slot] >= 0 and slots[slot] != keys[i]:
            slot = np.int64(np.uint64(slot + 1) & last)
        if places[slot] < 0:
            slots[slot], places[slot] = keys[i], known + new
            firsts[new] = i
            new += 1
        found[i] = places[slot]
    return new


_FEW = 32  # values that are sorted by insertion


@_jit
def order_within(
    values: npt.NDArray[np.uint64],
    groups: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    order: npt.NDArray[np.int64],
) -> None:  # pragma: no cover
    """What `np.lexsort((values, groups))` gives, (n,), of values and of the number of each one's group: sooner.

    Groups are gathered first; most have few values, which stay in a cache while they are sorted.

    ends  where each group begins; then, where it ends
    """
    for i in range(len(values)):
        order[ends[groups[i]]] = i
        ends[groups[i]] += 1
    first = 0
    for last in ends:
        for low in range(first, last, _FEW):
            _insert(values, order, low, min(low + _FEW, last))
        width = _FEW
        while width < last - first:
            for low in range(first, last - width, 2 * width):
                _merge(values, order, low, low + width, min(low + 2 * width, last))
            width *= 2
        first = last


@_jit
def _insert(
    values: npt.NDArray[np.uint64], order: npt.NDArray[np.int64], low: int, high: int
) -> None:  # pragma: no cover
    """Sort a part of an order by value; equal ones stay in theirs."""
    for i in range(low + 1, high):
        place, moved = i, order[i]
        while place > low and values[order[place - 1]] > values[moved]:
            order[place] = order[place - 1]
            place -= 1
        order[place] = moved


@_jit
def _merge(
    values: npt.NDArray[np.uint64], order: npt.NDArray[np.int64], low: int, middle: int, high: int
) -> None:  # pragma: no cover
    """Make one sorted part of two neighbouring ones."""
    left = order[low:middle].copy()
    i, j, place = 0, middle, low
    while i < len(left):
        if j < high and values[order[j]] < values[left[i]]:
            order[place] = order[j]
            j += 1
        else:
            order[place] = left[i]
            i += 1
        place += 1
