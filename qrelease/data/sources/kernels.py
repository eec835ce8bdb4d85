"""Numba loops from numbers to codes, and over the records of persons: arrays in, arrays out.

What loops to codes leave open is looked up by text.
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


_FEW_EDGES = 256  # edges that a number is compared with all of: a processor has nothing to guess
_BLOCK = 2048  # numbers that are looked at at once; only blocks in which some are left open are searched for them


@_jit
def bin_codes(
    numbers: npt.NDArray[np.float64],
    edges: npt.NDArray[np.float64],
    whole: bool,
    found: npt.NDArray[Any],
    left: npt.NDArray[np.int64],
) -> int:  # pragma: no cover
    """Write the bins of numbers (n,), `read_only`, from `edges` on, and leave open those outside.

    whole  whether fractions are left open too
    found  (n,), of a type that holds the bins; what is left open is arbitrary
    left   (n,), the places of these, in order, as many as are returned
    """
    count, total = len(edges), 0
    last, places = np.uint64(count - 1), np.empty(_BLOCK, np.int64)
    for first in range(0, len(numbers), _BLOCK):
        some, codes = numbers[first : first + _BLOCK], found[first : first + _BLOCK]
        for i in range(len(some)):
            places[i] = -1  # NaN is below all edges
        if count <= _FEW_EDGES:
            for edge in edges:
                for i in range(len(some)):
                    places[i] += np.int64(1) if edge <= some[i] else np.int64(0)
        else:
            for i in range(len(some)):
                begin, end = -1, count  # edges[begin] <= number < edges[end]
                while end - begin > 1:
                    middle = (begin + end) >> 1
                    if edges[middle] <= some[i]:
                        begin = middle
                    else:
                        end = middle
                places[i] = begin
        open_ones: Any = 0
        for i in range(len(some)):
            codes[i] = places[i]
        for i in range(len(some)):
            open_ones += np.uint64(places[i]) >= last
        if whole:
            for i in range(len(some)):
                open_ones += np.floor(some[i]) != some[i]
        if open_ones:
            for i in range(len(some)):
                if np.uint64(places[i]) >= last or (whole and np.floor(some[i]) != some[i]):
                    left[total] = first + i
                    total += 1
    return total


@_jit
def table_codes(
    numbers: npt.NDArray[Any], low: int, table: Places, found: npt.NDArray[Any], left: npt.NDArray[np.int64]
) -> int:  # pragma: no cover
    """Write the codes of whole numbers (n,), `read_only`, by a table from `low` on, and leave open those not in it.

    table  its last entry is -1, as is any other that leaves a number open
    found  (n,), of a type that holds the codes; what is left open is arbitrary
    left   (n,), the places of these, in order, as many as are returned
    """
    total, end = 0, np.uint64(len(table) - 1)
    for first in range(0, len(numbers), _BLOCK):
        some, codes = numbers[first : first + _BLOCK], found[first : first + _BLOCK]
        open_ones = 0
        for i in range(len(some)):
            code = table[min(np.uint64(np.int64(some[i]) - low), end)]
            codes[i] = code
            open_ones += code < 0
        if open_ones:
            for i in range(len(some)):
                if table[min(np.uint64(np.int64(some[i]) - low), end)] < 0:
                    left[total] = first + i
                    total += 1
    return total


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


@_jit
def all_between(numbers: npt.NDArray[np.int64], low: int, high: int) -> bool:  # pragma: no cover
    """Whether all numbers (n,), `read_only`, are above one bound and below another."""
    outside = 0
    for number in numbers:
        outside += (number <= low) | (number >= high)
    return outside == 0


BUCKET_BITS = 12
BUCKETS = 1 << BUCKET_BITS
"""Into which persons are spread by their words, as evenly as these allow: for the memory that their records take."""

_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio: Knuth's multiplicative hash


@_jit
def _bucket(word: int) -> int:  # pragma: no cover
    mixed = np.uint64(word)
    mixed = (mixed ^ (mixed >> np.uint64(32))) * _SPREAD
    return int((mixed ^ (mixed >> np.uint64(29))) * _SPREAD >> np.uint64(64 - BUCKET_BITS))


@_jit
def count_buckets(words: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> None:  # pragma: no cover
    """Add how many words (n,), `read_only`, are in each bucket to `counts` (BUCKETS,)."""
    for word in words:
        counts[_bucket(word)] += 1


@_jit
def bucket_order(words: npt.NDArray[np.int64], ends: npt.NDArray[np.int64], order: Places) -> None:  # pragma: no cover
    """Where the words (n,), `read_only`, are that come one after another if ordered by their buckets.

    ends  how many are in the buckets before each, (BUCKETS,); it is written over
    """
    for i in range(len(words)):
        bucket = _bucket(words[i])
        order[ends[bucket]] = i
        ends[bucket] += 1


@_jit
def gather(column: npt.NDArray[Any], order: Places, found: npt.NDArray[Any]) -> None:  # pragma: no cover
    """Write the entries of a column, `read_only`, that are at some places (n,)."""
    for i in range(len(order)):
        found[i] = column[order[i]]


@_jit
def gather_buckets(
    column: npt.NDArray[Any],
    order: Places,
    counts: npt.NDArray[np.int64],
    begins: npt.NDArray[np.int64],
    found: npt.NDArray[Any],
) -> None:  # pragma: no cover
    """Write the entries of a column, `read_only`, to where each of some buckets begins.

    order   their places, by bucket
    counts  of each bucket
    """
    place = 0
    for bucket in range(len(counts)):
        begin = begins[bucket]
        for i in range(counts[bucket]):
            found[begin + i] = column[order[place + i]]
        place += counts[bucket]


_FEW = 64  # values that are sorted by comparing each with all others
_ABREAST = 16  # that one is compared with at a time, by vector instructions
_LAST = np.uint64(0xFFFFFFFFFFFFFFFF)


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
    gathered, rows = np.empty(len(values), np.uint64), np.empty(len(values), np.int32)
    for i in range(len(values)):
        place = ends[groups[i]]
        gathered[place], rows[place] = values[i], i
        ends[groups[i]] = place + 1
    first, drawn, order = 0, np.empty(_FEW, np.uint64), np.empty(len(values), np.int64)
    for last in ends:
        _draw(gathered, first, last, rank_word, drawn, order)
        for i in range(first, last):
            places[rows[i]] = order[i - first]
        first = last


@_jit
def first_drawn(
    records: npt.NDArray[np.uint64],
    groups: npt.NDArray[np.int64],
    of_groups: npt.NDArray[np.uint64],
    ends: npt.NDArray[np.int64],
    rank_word: np.uint64,
    at_most: int,
    found: npt.NDArray[np.bool_],
) -> None:  # pragma: no cover
    """Mark those whose places are below a bound by `drawn_places`, of the sums of two values, mixed.

    records    one of these of each, (n,)
    of_groups  the other, by group
    found      (n,), all true
    """
    gathered, rows = np.empty(len(records), np.uint64), np.empty(len(records), np.int32)
    for i in range(len(records)):
        place = ends[groups[i]]
        gathered[place], rows[place] = _mixed(records[i] + of_groups[groups[i]]), i
        ends[groups[i]] = place + 1
    first, drawn, order = 0, np.empty(_FEW, np.uint64), np.empty(len(records), np.int64)
    for last in ends:
        if last - first > at_most:
            _draw(gathered, first, last, rank_word, drawn, order)
            for i in range(first, last):
                found[rows[i]] = order[i - first] < at_most
        first = last


@_jit
def _draw(
    values: npt.NDArray[np.uint64],
    first: int,
    last: int,
    rank_word: np.uint64,
    drawn: npt.NDArray[np.uint64],
    order: npt.NDArray[np.int64],
) -> None:  # pragma: no cover
    """Write the places of the values from `first` to `last`, mixed with their ranks, to `order`.

    Where no two are equal all ranks are 0, and mixing makes none equal. That is found from the places, which are then
    those of a permutation: so ranks are looked for in the other groups alone. (Parts of the arrays are not handed over
    as arrays: to make one takes longer than to sort it.) `values` and `drawn` are written over.
    """
    count = last - first
    if count > _FEW:
        rows = np.arange(count)
        _sort(values[first:last], rows)
        rank, before = np.uint64(0), np.uint64(0)
        for i in range(first, last):
            value = values[i]
            rank = rank + np.uint64(1) if i > first and value == before else np.uint64(0)
            before = value
            values[i] = _mixed(value + rank * rank_word)
        _sort(values[first:last], rows)
        for i in range(count):
            order[rows[i]] = i
        return
    for i in range(count):
        drawn[i] = _mixed(values[first + i])
    if _count_smaller(drawn, count, order) == count * (count - 1) // 2:
        return
    for i in range(count):
        value, rank = values[first + i], np.uint64(0)
        for j in range(first, first + i):
            rank += np.uint64(values[j] == value)
        drawn[i] = _mixed(value + rank * rank_word)
    if _count_smaller(drawn, count, order) != count * (count - 1) // 2:
        for i in range(count):
            for j in range(i):
                order[i] += drawn[j] == drawn[i]


@_jit
def _count_smaller(drawn: npt.NDArray[np.uint64], count: int, order: npt.NDArray[np.int64]) -> int:  # pragma: no cover
    """Write how many of some values are smaller than each to `order`, and give the sum.

    The sum is the largest there can be where no two are equal, and less elsewhere.
    """
    end, total = (count + _ABREAST - 1) // _ABREAST * _ABREAST, 0
    for i in range(count, end):
        drawn[i] = _LAST  # which is smaller than none
    for i in range(count):
        value, smaller = drawn[i], 0
        for j in range(end):
            smaller += drawn[j] < value
        order[i] = smaller
        total += smaller
    return total


@_jit
def add_products(codes: npt.NDArray[Any], factor: np.uint64, sums: npt.NDArray[np.uint64]) -> None:  # pragma: no cover
    """Add codes (n,), `read_only`, times a factor to sums (n,), modulo 2^64."""
    for i in range(len(codes)):
        sums[i] += np.uint64(codes[i]) * factor


@_jit
def pack(column: npt.NDArray[Any], chosen: npt.NDArray[np.bool_], found: npt.NDArray[Any]) -> None:  # pragma: no cover
    """Write the chosen entries of a column (n,), `read_only`, one after another; `found` has one entry more."""
    count = 0
    for i in range(len(column)):  # without a branch, which no processor could guess
        found[count] = column[i]
        count += chosen[i]


@_jit
def _mixed(word: np.uint64) -> np.uint64:  # pragma: no cover
    """As `mixing.mixed` has it."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(MIX_FACTORS[0])
    word = (word ^ (word >> np.uint64(27))) * np.uint64(MIX_FACTORS[1])
    return word ^ (word >> np.uint64(31))


@_jit
def _sort(values: npt.NDArray[np.uint64], rows: npt.NDArray[np.int64]) -> None:  # pragma: no cover
    """Sort values, and their rows with them: of equal ones the first rows come first."""
    by_row = np.argsort(rows)
    order = by_row[np.argsort(values[by_row], kind="mergesort")]
    values[:], rows[:] = values[order], rows[order]
