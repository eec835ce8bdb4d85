"""What the records of a table answer to counts, exactly. Private: for comparisons with the truth alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qrelease._util.typing import Axes, Floats
from qrelease.data.table import Table
from qrelease.queries.workload import Workload


def record_parts(table: Table) -> Floats | None:
    """In what part of its person each record counts, (n,), where persons count once: of all records, kept or not."""
    if table.persons is None or not table.domain.counts_once:
        return None
    codes = table.persons.codes
    found: Floats = 1 / np.bincount(codes)[codes]
    return found


def exact_answers(table: Table, workload: Workload) -> Floats:
    """The exact answers (k,) of a table to a workload, as counts. Private."""
    parts = record_parts(table)
    marginals: dict[Axes, npt.NDArray[Any]] = (
        dict(zip(workload.sets, table.counts(workload.sets), strict=True))
        if parts is None
        else {axes: _summed(table, parts, axes) for axes in workload.sets}
    )
    return np.concatenate([g.queries.apply(marginals[g.axes]) * g.queries.unit for g in workload.groups])


def _summed(table: Table, parts: Floats, axes: Axes) -> Floats:
    """The sum of the parts of the records in each cell of some columns, (cells,)."""
    shape = [table.domain.shape[a] for a in axes]
    codes = [table.columns[a].astype(np.int64) for a in axes]
    cells = np.ravel_multi_index(codes, shape) if axes else np.zeros(len(parts), np.int64)
    return np.bincount(cells, parts, table.domain.cells(axes)).astype(np.float64)
