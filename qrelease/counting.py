"""Exact marginal counts of encoded records, in one pass. Arrays in, arrays out; `Table` checks them."""

from collections.abc import Sequence
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

Array = npt.NDArray[Any]

_ROWS = 1 << 12  # records a step: 15 columns of codes and the index stay in a core's second-level cache


def count_marginals(
    columns: Sequence[Array], shape: tuple[int, ...], sets: Sequence[tuple[int, ...]]
) -> list[npt.NDArray[np.int64]]:
    """One int64 table of counts, flat in C order, for each set of columns; a repeated set gets its own table.

    columns   d arrays (n,) of codes, unsigned; those in a set below 2^32
    shape     (n_1, …, n_d), the number of codes of each column
    sets      tuples of column positions, in the order in which the table's digits run
    """
    sizes = [prod(shape[a] for a in axes) for axes in sets]
    *offsets, total = accumulate(sizes, initial=0)
    counts = np.zeros(total, dtype=np.int64)
    used = sorted({a for axes in sets for a in axes})
    position = {a: i for i, a in enumerate(used)}
    digits = np.array([position[a] for axes in sets for a in axes], dtype=np.int64)
    radices = np.array([shape[a] for axes in sets for a in axes], dtype=np.uint32)
    starts = np.array([*accumulate(map(len, sets), initial=0)], dtype=np.int64)
    index = np.empty(_ROWS, dtype=np.uint32)
    rows = len(columns[0])
    for first in range(0, rows, _ROWS):
        step = [columns[a][first : first + _ROWS] for a in used]
        codes = np.empty((len(used), min(_ROWS, rows - first)), dtype=np.uint32)
        for i, column in enumerate(step):
            codes[i] = column
        _add(codes, digits, radices, starts, np.array(offsets, dtype=np.int64), index, counts)
    return [counts[offset : offset + size] for offset, size in zip(offsets, sizes, strict=True)]


@njit(cache=True, nogil=True, error_model="numpy")
def _add(
    codes: Array, digits: Array, radices: Array, starts: Array, offsets: Array, index: Array, counts: Array
) -> None:
    """Add the records of codes (d, m) into the tables that lie one after another in counts.

    Table s has the digits `digits[starts[s]:starts[s + 1]]` (rows of codes) and begins at `offsets[s]`. The
    index is built digit by digit over all records, so that those loops are vector instructions.
    """
    rows = codes.shape[1]
    for s in range(len(offsets)):
        index[:rows] = 0
        for digit in range(starts[s], starts[s + 1]):
            row, radix = codes[digits[digit]], radices[digit]
            for r in range(rows):
                index[r] = index[r] * radix + row[r]
        table = counts[offsets[s] :]
        for r in range(rows):
            table[index[r]] += 1
