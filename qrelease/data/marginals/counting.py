"""Records counted into tables, each one added to every table, in one streamed pass; what it costs, and into how few."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import log2, prod
from typing import Any

import numpy as np
import numpy.typing as npt

from qrelease._util import memory
from qrelease._util.parallel import cores, in_parallel
from qrelease._util.typing import Axes, Ints
from qrelease.data.marginals import kernels
from qrelease.errors import InvalidInput


@dataclass(frozen=True)
class CountingSettings:
    """Sizes that fit a core's caches, and measured times in nanoseconds, by which the way of counting is chosen."""

    shared_table_cells: int = 1 << 12
    """Cells of the largest table from which several marginals are read: it stays in a core's first cache."""
    block_bytes: int = 1 << 18
    """Bytes of codes and cell numbers handled at a time: they stay in a core's second cache."""
    block_records: int = 1 << 8
    """Records handled at a time at least, where there are so many columns that fewer fill a block."""
    blocks_mapped: int = 1 << 9
    """Blocks after which what was read of mapped files is let go of: 128 MiB for each core."""
    private_table_cells: int = 1 << 23
    """Cells, over all cores together, up to which each core counts into tables of its own."""
    per_table: float = 0.6
    """Nanoseconds for each record and table."""
    per_column: float = 0.15
    """Nanoseconds for each record and column of a table."""
    per_cache_doubling: float = 1.5
    """Nanoseconds for each record and doubling of a table beyond `shared_table_cells`."""
    search_per_set: float = 100_000
    """Nanoseconds for each set of columns, while they are few, to look for tables that sets can share."""
    search_doubling_sets: int = 1 << 12
    """The number of sets at which that search takes twice as long for each."""


SETTINGS = CountingSettings()


def by_record(shape: Sequence[int], tables: Iterable[Axes]) -> float:
    """Nanoseconds that it takes to add a record to tables over some columns each."""
    total = 0.0
    for table in tables:
        doublings = log2(max(prod(shape[a] for a in table) / SETTINGS.shared_table_cells, 1))
        total += SETTINGS.per_table + SETTINGS.per_column * len(table) + SETTINGS.per_cache_doubling * doublings
    return total


def searching(sets: int) -> float:
    """Nanoseconds that `gathered` takes for so many sets."""
    return SETTINGS.search_per_set * sets * (1 + sets / SETTINGS.search_doubling_sets)


def gathered(shape: tuple[int, ...], sets: tuple[Axes, ...]) -> Iterator[tuple[Axes, tuple[Axes, ...]]]:
    """Tables of at most `shared_table_cells` cells, each with the sets of columns whose marginals are read from it.

    They are chosen greedily, starting from the largest set that has no table yet. A column is added to a table for the
    sets that it completes, with some weight for those that then lack one column more, and relative to the logarithm of
    the column's size, by which the table grows.
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
            fitting = ~table & (size * prod(size[table].tolist()) <= SETTINGS.shared_table_cells)
            gains = ((left & (lacking == 1)) + 0.3 * (left & (lacking == 2))) @ members
            gains = np.where(fitting, gains / np.log(size + 0.5), 0)
            if not gains.any():
                break
            table[gains.argmax()] = True
        held = left & (lacking == 0)
        left &= ~held
        yield tuple(np.flatnonzero(table).tolist()), tuple(sets[j] for j in np.flatnonzero(held))


def counting_cores(cells: int, available: int) -> int:
    """How many of the cores count at once into tables of so many cells: as many as `private_table_cells` allow."""
    return min(available, max(SETTINGS.private_table_cells // max(cells, 1), 1))


def add_records(
    columns: Sequence[npt.NDArray[np.unsignedinteger[Any]]],
    names: Sequence[str],
    shape: Sequence[int],
    tables: Mapping[Axes, int],
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
        np.searchsorted(used, digits).astype(np.int64),
        np.array([shape[a] for a in digits], np.uint32),
        np.array([*accumulate(map(len, tables), initial=0)], np.int64),
        np.array([*tables.values()], np.int64),
    )
    arrays = [np.asarray(columns[a]) for a in used]
    maps = [columns[a] for a in used]
    narrow = np.result_type(np.uint8, *arrays)
    step = max(SETTINGS.block_bytes // (len(used) * narrow.itemsize + 4), SETTINGS.block_records)

    def work(_: int, cut: slice) -> Ints:
        counts, index = np.zeros(cells, np.int64), np.empty(step, np.uint32)
        for number, first in enumerate(range(cut.start, cut.stop, step)):
            if number % SETTINGS.blocks_mapped == 0:
                memory.forget(maps)
            rows = slice(first, min(first + step, cut.stop))
            codes = np.empty((len(used), rows.stop - first), narrow)
            for row, array in zip(codes, arrays, strict=True):
                row[:] = array[rows]
            wrong = kernels.count_codes(codes, *arguments, index, counts)
            if wrong >= 0:
                name = names[used[wrong]]
                raise InvalidInput(f"column {name!r} has other codes than when it was read: did a file change?")
        return counts

    records = len(columns[0])
    counts, *others = in_parallel(work, records, records * len(tables), counting_cores(cells, cores()))
    for other in others:
        counts += other
    return counts
