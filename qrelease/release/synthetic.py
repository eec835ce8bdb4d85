"""Synthetic records of a release, as codes: how many by default, drawn or weighted, of all or of some."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qrelease._util import memory
from qrelease._util.typing import CodeColumns, Floats
from qrelease.data import predicates
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.inference.conditional import conditional
from qrelease.inference.histogram import Histogram
from qrelease.inference.measurement import RECORDS
from qrelease.inference.synopsis import Tabulated, Weighted
from qrelease.queries.workload import Workload

if TYPE_CHECKING:
    from qrelease.release.release import Release

"""Records as codes, one array (rows,) a column."""

MAX_ROWS = 1 << 26
"""Synthetic records in one table."""

FEW_ROWS = 100_000
"""Where the number of records is unknown, a table has no more by default: its noise alone may be billions."""

WEIGHTED_ROWS = 1 << 20
"""Rows of a weighted table at most, by default: a universe of so few cells is written out as it is."""

_NOTHING = 1e-6  # records: all cells that a weighted table leaves out come to one at most, by default


def check_rows(rows: object) -> None:
    """Raise `InvalidInput` unless so many synthetic rows can be drawn."""
    if isinstance(rows, bool) or not isinstance(rows, int | np.integer) or rows < 1:
        raise InvalidInput(f"rows must be a positive whole number, got {rows!r}")
    if rows > MAX_ROWS:
        raise InvalidInput(f"rows must be at most {MAX_ROWS:,}, got {rows:,}")


def check_fit(domain: Domain, rows: int, *, ahead: bool = True) -> None:
    """`OutOfMemory`, or `TooLarge`, unless so many synthetic records fit in memory; `ahead` as in `memory.check`."""
    memory.check(8 * (len(domain) + 2) * rows, f"{rows:,} synthetic records", "ask for fewer rows", ahead=ahead)


def default_rows(release: Release) -> int:
    """About how many records there are, by what is released; fewer where that is unknown, or more than can be."""
    return min(max(0, round(release.synopsis.total)), MAX_ROWS if _counted(release) else FEW_ROWS)


def synthetic_codes(release: Release, rows: int | None, rng: np.random.Generator) -> CodeColumns:
    """Records of a release; see `Release.synthetic`."""
    if rows is None:
        rows = default_rows(release)
        if rows == 0 and release.has_table:  # there may be nobody, and the synopsis says so
            return [np.empty(0, np.int64)] * len(release.domain)
        rows = max(rows, 1)  # of a release without a table, which says that it has none
    check_rows(rows)
    check_fit(release.domain, int(rows), ahead=False)
    return release.synopsis.sample(int(rows), rng)


def some_codes(release: Release, where: str, rows: int | None, rng: np.random.Generator) -> CodeColumns:
    """Records that meet a condition; see `Release.sample`."""
    found = conditional(release.synopsis, predicates.parse(where, release.domain))
    count = min(max(round(found.total), 1), FEW_ROWS) if rows is None else rows
    check_rows(count)
    check_fit(release.domain, int(count), ahead=False)
    return found.sample(int(count), rng)


def weighted_codes(release: Release, rows: int | None, rng: np.random.Generator) -> tuple[CodeColumns, Floats]:
    """Records and their weights (r,); see `Release.weighted`."""
    rows = WEIGHTED_ROWS if rows is None else rows
    check_rows(rows)
    needed = 16 * (len(release.domain) + 2) * min(rows, release.domain.size)
    memory.check(needed, f"{rows:,} weighted records", "ask for fewer rows", ahead=False)
    if release.has_table and not release.synopsis.total > 0:  # there is nobody
        return [np.empty(0, np.int64)] * len(release.domain), np.empty(0)
    if release.domain.size <= rows and isinstance(release.synopsis, Histogram | Tabulated):
        table = release.synopsis if isinstance(release.synopsis, Histogram) else release.synopsis.histogram
        values = table.values.astype(np.float64, copy=False)
        kept = np.flatnonzero(values >= _NOTHING)
        return np.unravel_index(kept, release.domain.shape), values[kept]
    if isinstance(release.synopsis, Weighted) and len(release.synopsis.weights) <= rows:
        codes, weights = list(release.synopsis.codes), release.synopsis.weights
    else:
        codes, weights = list(release.codes(rows, rng)), np.full(rows, 1 / rows)
    order = np.lexsort(codes[::-1])
    first = np.arange(len(order)) == 0  # of equal records
    for column in codes:
        first[1:] |= np.diff(column[order]) != 0
    together = np.add.reduceat(weights[order], np.flatnonzero(first))
    return [column[order[first]] for column in codes], together * release.synopsis.total


def _counted(release: Release) -> bool:
    """Whether the number of records is known: public, or more than twice the error bar of the best estimate."""
    if release.unit.public_records:
        return True
    half = release.measured_bars(Workload(release.domain, (RECORDS,)))[1]
    return bool(release.synopsis.total > 2 * half[0])
