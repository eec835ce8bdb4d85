"""A workload as one matrix over the whole universe: for small universes, where that is possible."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from qrelease._util.texts import readable
from qrelease.errors import TooLarge
from qrelease.queries.families import Queries
from qrelease.queries.workload import Workload

MAX_ENTRIES: Final = 1 << 22
"""Queries times cells."""


def check_dense(workload: Workload) -> None:
    """Raise `TooLarge` if the queries over all cells of the universe would not fit; allocates nothing."""
    cells = workload.domain.size
    if len(workload) * cells > MAX_ENTRIES:
        raise TooLarge(
            f"it evaluates every query in every cell of the universe, at most {MAX_ENTRIES:,} times in all:"
            f" {len(workload):,} queries over {readable(cells)} cells are more; ask fewer queries, use fewer columns or"
            " coarser bins, or use mwem"
        )


def dense(workload: Workload) -> tuple[npt.NDArray[np.int64], float]:
    """All queries over the universe, (k, |X|) integers, and the unit that an entry of 1 stands for, in counts.

    The cells are in C order. The unit is the finest of the groups'. Raises `TooLarge` as `check_dense` does.
    """
    check_dense(workload)
    domain = workload.domain
    codes = np.unravel_index(np.arange(domain.size), domain.shape)
    unit = min(g.queries.unit for g in workload.groups)
    parts = []
    for group in workload.groups:
        shape = [domain.shape[a] for a in group.axes]
        where = np.ravel_multi_index([codes[a] for a in group.axes], shape) if shape else np.zeros(domain.size, int)
        parts.append(_rows(group.queries)[:, where] * int(group.queries.unit / unit))
    return np.concatenate(parts), unit


def _rows(queries: Queries) -> npt.NDArray[np.int64]:
    """The matrix of a family, (k, cells), in its units."""
    one = np.zeros(queries.count)
    rows = []
    for i in range(queries.count):
        one[i] = 1
        rows.append(np.rint(queries.adjoint(one)).astype(np.int64))  # entries are below 2^53: exact as floats
        one[i] = 0
    return np.array(rows)
