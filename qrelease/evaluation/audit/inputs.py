"""Pairs of neighbouring inputs that audits try: small ones, and extreme ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from qrelease._util.typing import Ints
from qrelease._util.validate import whole
from qrelease.data.table import Table
from qrelease.privacy.costs import Neighbours


def query_pairs(k: int, *, monotone: bool = False) -> Iterator[tuple[Ints, Ints]]:
    """Pairs of k query answers or scores that one record may set apart: each moves by at most 1.

    The patterns of Ding, Wang, Wang, Zhang & Kifer 2018, *Detecting violations of differential privacy*, and a few
    more: one moves, all but one, half, or all of them; one or half of them against the others. Under `monotone`, only
    those where all move the same way. Raises `InvalidInput` unless k is a whole number of at least 2.
    """
    k = whole("k", k, least=2)
    ones, half = np.ones(k, np.int64), np.arange(k) < k // 2
    first = np.arange(k) == 0
    last = np.arange(k) == k - 1
    moves = [1 * first, -1 * first, 1 * last, ones - last, ones, -ones, 1 * half, -1 * half]
    if not monotone:
        moves += [ones - 2 * first, 2 * first - ones, 2 * last - ones, ones - 2 * half]
    for move in moves:
        yield np.zeros(k, np.int64), move
    if not monotone:
        yield ones - half, 1 * half


def table_pairs(table: Table, neighbours: Neighbours) -> Iterator[tuple[Table, Table]]:
    """A table and each of its neighbours, but for the order of the records.

    Under add-remove: one record less, or one more of any cell of the universe. Under replace-one: one record moved to
    any other cell. Raises `TooLarge` past 2^28 cells.
    """
    counts = table.histogram()
    held = np.flatnonzero(counts)
    changes: list[tuple[int | None, int | None]]
    if neighbours is Neighbours.ADD_REMOVE:
        changes = [(int(c), None) for c in held] + [(None, c) for c in range(counts.size)]
    else:
        changes = [(int(a), b) for a in held for b in range(counts.size) if b != a]
    for away, new in changes:
        changed = counts.copy()
        if away is not None:
            changed[away] -= 1
        if new is not None:
            changed[new] += 1
        yield table, _of_counts(table, changed)


def _of_counts(table: Table, counts: Ints) -> Table:
    """A table over the same domain with so many records of each cell, (|X|,)."""
    cells = np.repeat(np.arange(counts.size), counts)
    return Table(table.domain, tuple(np.asarray(c) for c in np.unravel_index(cells, table.domain.shape)))
