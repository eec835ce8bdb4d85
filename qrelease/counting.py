"""Records counted into tables, each one added to every table, in one streamed pass; what it costs, and into how few."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from math import log2, prod
from typing import Any

import numpy as np
import numpy.typing as npt

from qrelease import kernels
from qrelease.cores import cores, in_parallel
from qrelease.errors import InvalidInput

Columns = tuple[int, ...]
Ints = npt.NDArray[np.int64]

_SHARED = 1 << 12  # cells of a table from which several marginals are read: it stays in a core's first cache
_STEP = 1 << 18  # bytes of codes and indices a step: they stay in its second
_OWN = 1 << 23  # cells, of all cores together, up to which each counts into tables of its own

# Nanoseconds that a record takes, measured: for each table, each of its digits, and each doubling past the first cache.
_TABLE, _DIGIT, _MISS = 0.6, 0.15, 1.5
# And that it takes to look for tables that sets can share: for each of a few sets, which is twice as many at so many.
_SEARCH, _MANY = 100_000, 1 << 12


def by_record(shape: Sequence[int], tables: Iterable[Columns]) -> float:
    """Nanoseconds that it takes to add a record to tables over some columns each."""
    return sum(
        _TABLE + _DIGIT * len(table) + _MISS * log2(max(prod(shape[a] for a in table) / _SHARED, 1)) for table in tables
    )


def searching(sets: int) -> float:
    """Nanoseconds that `gathered` takes for so many sets."""
    return _SEARCH * sets * (1 + sets / _MANY)


def gathered(shape: tuple[int, ...], sets: tuple[Columns, ...]) -> Iterator[tuple[Columns, tuple[Columns, ...]]]:
    """Tables of at most `_SHARED` cells, with the sets that each holds: greedily, from the largest set that is left.

    A column is added to a table for the sets that it completes, and somewhat for those that then lack one more, per
    digit that it makes the table longer.
    """
    members = np.zeros((len(sets), len(shape)), np.int64)
    for row, s in zip(members, sets, strict=True):
        row[list(s)] = 1
    left = np.ones(len(sets), bool)
    size = np.array(shape)
    for i in sorted(range(len(sets)), key=lambda i: -prod(shape[a] for a in sets[i])):
        if not left[i]:
            continue
        table = members[i] > 0
        while True:
            lacking = members[:, ~table].sum(axis=1)
            fitting = ~table & (size * prod(size[table].tolist()) <= _SHARED)
            gains = ((left & (lacking == 1)) + 0.3 * (left & (lacking == 2))) @ members
            gains = np.where(fitting, gains / np.log(size + 0.5), 0)
            if not gains.any():
                break
            table[gains.argmax()] = True
        held = left & (lacking == 0)
        left &= ~held
        yield tuple(np.flatnonzero(table).tolist()), tuple(sets[j] for j in np.flatnonzero(held))


def count(
    columns: Sequence[npt.NDArray[np.unsignedinteger[Any]]],
    names: Sequence[str],
    shape: Sequence[int],
    tables: Mapping[Columns, int],
    cells: int,
) -> Ints:
    """Records added to tables over some columns each, which begin where it is said in a vector (cells,) of zeros.

    columns  d arrays of codes (n,), which may be files mapped into memory: they are read once, some thousand records at
             a time

    Raises `InvalidInput`, with the column's name, for a code that its column has not: what was checked when it was read
    may be a file that has changed. No such code is counted.
    """
    used = sorted({a for table in tables for a in table})
    digits = [a for table in tables for a in table]
    arguments = (
        np.array([shape[a] for a in used], np.uint32),
        np.array([used.index(a) for a in digits], np.int64),
        np.array([shape[a] for a in digits], np.uint32),
        np.array([*accumulate(map(len, tables), initial=0)], np.int64),
        np.array([*tables.values()], np.int64),
    )
    arrays = [np.asarray(columns[a]) for a in used]
    narrow = np.result_type(np.uint8, *arrays)
    step = max(_STEP // (len(used) * narrow.itemsize + 4), 1)

    def work(_: int, cut: slice) -> Ints:
        counts, index = np.zeros(cells, np.int64), np.empty(step, np.uint32)
        for first in range(cut.start, cut.stop, step):
            rows = slice(first, min(first + step, cut.stop))
            codes = np.empty((len(used), rows.stop - first), narrow)
            for row, array in zip(codes, arrays, strict=True):
                row[:] = array[rows]
            wrong = kernels.count(codes, *arguments, index, counts)
            if wrong >= 0:
                name = names[used[wrong]]
                raise InvalidInput(f"column {name!r} has codes that it had not when it was read: did a file change?")
        return counts

    records, most = len(columns[0]), max(_OWN // max(cells, 1), 1)
    counts, *others = in_parallel(work, records, records * len(tables), min(cores(), most))
    for other in others:
        counts += other
    return counts
