"""Numba loops from numbers to codes, and over the records of persons: arrays in, arrays out.

What loops to codes leave open is -1, and is looked up by text.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from qrelease.data.mixing import MIX_FACTORS

Places = npt.NDArray[np.int32]


def read_only(numbers: npt.NDArray[Any], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """The same numbers as the one type of array that loops are compiled for: what Arrow gives cannot be written."""
    found = np.ascontiguousarray(numbers, dtype).view()
    found.flags.writeable = False
    return found


_jit: Any = njit(cache=True, nogil=True, error_model="numpy")


_FEW_EDGES = 24  # edges that a number is compared with all of: a processor has nothing to guess
_BLOCK = 2048  # numbers that are compared with an edge at once


@_jit
def bin_codes(
    numbers: npt.NDArray[np.float64], edges: npt.NDArray[np.float64], whole: bool, found: Places
) -> None:  # pragma: no cover
    """The bins of numbers (n,), `read_only`, from `edges` on; -1 outside, and for fractions where values are whole."""
    count = len(edges)
    low, high = edges[0], edges[count - 1]
    if count <= _FEW_EDGES:
        for first in range(0, len(numbers), _BLOCK):
            last = min(first + _BLOCK, len(numbers))
            for i in range(first, last):
                found[i] = -1
            for edge in edges:  # NaN is below all
                for i in range(first, last):
                    found[i] += edge <= numbers[i]
            for i in range(first, last):
                if found[i] == count - 1 or (whole and np.floor(numbers[i]) != numbers[i]):
                    found[i] = -1
        return
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
def drawn_places(
    values: npt.NDArray[np.uint64],
    groups: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    rank_word: np.uint64,
    places: npt.NDArray[np.int64],
) -> None:  # pragma: no cover
    """The place of each value (n,) in its group, from 0, once equal ones of a group are told apart by their ranks.

    Each value is mixed with how many earlier ones of its group are equal to it, and these are sorted; what is still
    equal stays in its order. Groups are gathered first: most are small, and stay in a cache while they are sorted.

    groups     the number of each one's group
    ends       where each group begins, if they stand one after the other; then, where it ends
    rank_word  by which ranks are multiplied, odd
    """
    sorted_values, rows = np.empty(len(values), np.uint64), np.empty(len(values), np.int64)
    for i in range(len(values)):
        place = ends[groups[i]]
        sorted_values[place], rows[place] = values[i], i
        ends[groups[i]] = place + 1
    first = 0
    for last in ends:
        _sort(sorted_values[first:last], rows[first:last])
        rank, before = np.uint64(0), np.uint64(0)
        for i in range(first, last):
            value = sorted_values[i]
            rank = rank + np.uint64(1) if i > first and value == before else np.uint64(0)
            before = value
            sorted_values[i] = _mixed(value + rank * rank_word)
        _sort(sorted_values[first:last], rows[first:last])
        for i in range(first, last):
            places[rows[i]] = i - first
        first = last


@_jit
def _mixed(word: np.uint64) -> np.uint64:  # pragma: no cover
    """As `mixing.mixed` has it."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(MIX_FACTORS[0])
    word = (word ^ (word >> np.uint64(27))) * np.uint64(MIX_FACTORS[1])
    return word ^ (word >> np.uint64(31))


@_jit
def _sort(values: npt.NDArray[np.uint64], rows: npt.NDArray[np.int64]) -> None:  # pragma: no cover
    """Sort values, and their rows with them: of equal ones the first rows come first."""
    if len(values) > _FEW:
        by_row = np.argsort(rows)
        order = by_row[np.argsort(values[by_row], kind="mergesort")]
        values[:], rows[:] = values[order], rows[order]
        return
    for i in range(1, len(values)):
        place, value, row = i, values[i], rows[i]
        while place > 0 and (values[place - 1] > value or (values[place - 1] == value and rows[place - 1] > row)):
            values[place], rows[place] = values[place - 1], rows[place - 1]
            place -= 1
        values[place], rows[place] = value, row
