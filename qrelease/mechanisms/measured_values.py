"""What each record of the private table adds to a measure, and exact tables of sums: whole numbers, all private."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from qrelease._util.typing import Axes, Ints, Mask
from qrelease.data import predicates
from qrelease.queries.measures import Measure

if TYPE_CHECKING:
    from qrelease.data.table import Table


def check_values(table: Table, measures: Sequence[Measure]) -> None:
    """`InvalidInput` where a table was made of bins alone: whether it was is public, as its schema is."""
    for column in dict.fromkeys(m.column for m in measures if m.power):
        if table.domain[column].grid is not None:
            table.grid(column)


def record_values(table: Table, measure: Measure) -> Ints:
    """f(x) of each record, (n,), at most `measure.top` in size."""
    found = np.ones(len(table), np.int64)
    if measure.power:
        places = np.clip(_places(table, measure.column), measure.low, measure.high) - measure.low
        steps = (2 * places + measure.stride) // (2 * measure.stride)
        found = 2 * np.minimum(steps, measure.width) - measure.width
        if measure.power == 2:
            found = 2 * found**2 - measure.width**2
    elif measure.met:
        found = 2 * _meets(table, measure.met).astype(np.int64) - 1
    if measure.column:
        axis = table.domain.axis(measure.column)
        found[table.columns[axis] >= table.domain.attributes[axis].values] = 0
    if measure.where:
        found[~_meets(table, measure.where)] = 0
    return found


def table_of_sums(table: Table, values: Ints, axes: Axes) -> Ints:
    """Σ f(x) of the records in each cell of some columns, (cells,) in C order.

    Sums are exact: |f| <= 2^30, so floats of 53 bits hold the sum of 2^22 records, and pieces of so many are added.
    """
    cells = table.domain.cells(axes)
    total = np.zeros(cells, np.int64)
    for start in range(0, len(values), _PIECE):
        piece = slice(start, start + _PIECE)
        shape = [table.domain.shape[a] for a in axes]
        codes = (
            np.ravel_multi_index([table.columns[a][piece].astype(np.int64) for a in axes], shape)
            if axes
            else np.zeros(len(values[piece]), np.int64)
        )
        total += np.rint(np.bincount(codes, values[piece].astype(np.float64), cells)).astype(np.int64)
    return total


_PIECE = 1 << 22


def _places(table: Table, column: str) -> Ints:
    """The records of a column on its grid, (n,); a missing value is at any place."""
    if table.domain[column].grid is not None:
        return table.grid(column)
    return table.columns[table.domain.axis(column)].astype(np.int64)


def _meets(table: Table, condition: str) -> Mask:
    """Which records meet a condition, (n,)."""
    parsed = predicates.parse(condition, table.domain)
    shape = [table.domain.shape[a] for a in parsed.axes]
    codes = np.ravel_multi_index([table.columns[a].astype(np.int64) for a in parsed.axes], shape)
    met: Mask = parsed.mask()[codes]
    return met
