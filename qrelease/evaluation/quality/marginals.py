"""Distances between the marginals of two tables, and the k-marginal score.

The score is that of NIST's synthetic data challenges and Collaborative Research Cycle: for sets of k columns, the mean
of the L1 distances between the two tables' densities, d, from 0 to 2, and (2 - d) * 500, from 0 for tables that have no
record in common to 1000 for equal ones. (Ridgeway, Theofanos, Manley & Task 2021, NIST TN 2151; Task, Bhagat, Streat,
Simpson & Howarth 2023, SDNist.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from qrelease._util.typing import Axes, Codes, Floats, Ints
from qrelease.data.table import Table
from qrelease.errors import InvalidInput

BEST = 1000.0
"""The score of equal tables."""

DENSE = 1 << 20
"""Cells of a marginal up to which all are counted; of more only those that occur."""


def sets_of(columns: int, k: int, most: int) -> tuple[Axes, ...]:
    """All sets of k columns, or, where these are more than `most`, so many at random: always the same, so public."""
    if not 1 <= k <= columns:
        raise InvalidInput(f"sets of columns must have 1 to {columns} of them, got {k}")
    if math.comb(columns, k) <= most:
        return tuple(combinations(range(columns), k))
    rng = np.random.default_rng([columns, k])
    found: dict[Axes, None] = {}
    while len(found) < most:
        found[tuple(sorted(rng.choice(columns, k, replace=False).tolist()))] = None
    return tuple(found)


def record_cells(table: Table, axes: Axes) -> Ints:
    """The cell of the marginal that each record is in, (n,)."""
    return cells_of([table.columns[a] for a in axes], [table.domain.shape[a] for a in axes])


def cells_of(columns: Sequence[Codes] | Sequence[Ints], shape: Sequence[int]) -> Ints:
    """The cell of each record in the marginal on columns of so many cells, (n,)."""
    if math.prod(shape) > 2**62:
        raise InvalidInput(f"a marginal on {len(shape)} columns has too many cells to number")
    found = np.zeros(len(columns[0]), np.int64)
    for column, size in zip(columns, shape, strict=True):
        found *= size
        found += column
    return found


def cell_counts(tables: Sequence[Table], axes: Axes) -> list[Ints]:
    """The counts of each table in the cells of a marginal that any of them has a record in; or in all, if few."""
    return counted([record_cells(table, axes) for table in tables], tables[0].domain.cells(axes))


def counted(cells: Sequence[Ints], size: int) -> list[Ints]:
    """How many records of each table are in each cell of `size`, from the cells of its records."""
    if size > DENSE:
        where, inverse = np.unique(np.concatenate(cells), return_inverse=True)
        cells = np.split(inverse, np.cumsum([len(c) for c in cells])[:-1])
        size = len(where)
    return [np.bincount(c, minlength=size).astype(np.int64) for c in cells]


def distances(real: Table, others: Sequence[Table], sets: Sequence[Axes]) -> Floats:
    """L1 distances of densities, (others, sets), each from 0 to 2."""
    found = np.empty((len(others), len(sets)))
    for j, axes in enumerate(sets):
        truth, *counts = cell_counts([real, *others], axes)
        density = truth / len(real)
        for i, other in enumerate(counts):
            found[i, j] = np.abs(other / len(others[i]) - density).sum()
    return found


def marginal_score(distance: Floats) -> float:
    """(2 - the mean of some L1 distances) * 500.

    Examples
    --------
    >>> marginal_score(np.array([0.1, 0.3]))
    900.0
    """
    return (2.0 - float(np.mean(distance))) * BEST / 2


def sampling_distance(shares: Floats, times: Floats, size: int) -> float:
    """The expected L1 distance between a density and that of `size` records drawn from it, one by one.

    That of one cell of share p is E|X/k - p| = 2 ν C(k, ν) p^ν (1 - p)^(k - ν + 1)/k with ν = ⌊kp⌋ + 1 (de Moivre; see
    Diaconis & Zabell 1991). Of k records of n that are drawn without replacement it is nearly that of k/(1 - k/n).

    Parameters
    ----------
    shares : ndarray of float, shape (c,)
        Densities of cells, in (0, 1].
    times : ndarray of float, shape (c,)
        How many cells have each.
    size : int
        Records that are drawn, k.

    Examples
    --------
    >>> round(sampling_distance(np.array([0.5]), np.array([2.0]), 100), 4)
    0.0796
    """
    from scipy.special import gammaln, xlog1py, xlogy

    v = np.floor(size * shares) + 1
    inside = v <= size  # of a share of 1 nothing is left to chance
    p, v = shares[inside], v[inside]
    ways = gammaln(size + 1) - gammaln(v + 1) - gammaln(size - v + 1)
    logs = ways + xlogy(v, p) + xlog1py(size - v + 1, -p)
    return float((times[inside] * 2 * v / size * np.exp(logs)).sum())
