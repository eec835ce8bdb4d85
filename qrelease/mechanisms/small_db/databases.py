# mypy: disallow-untyped-decorators=False
"""The range of SmallDB: all databases of m records over a universe of s cells, as the leaves of one tree.

A database is a multiset of m cells, so there are N = C(s + m - 1, m) of them. The tree halves the universe into
*blocks*, those again, down to *atoms*: cells that no query tells apart. It decides, block by block from the top down,
how many of the records in a block lie in its first half. A node therefore stands for all databases that agree
on some of these numbers; over each block still to be halved, and within each atom, the records lie anyhow, so that a
node counts Π C(cells + records - 1, records) databases. The databases are numbered 0..N-1 in the order of the tree.

The error of a database y is e(y) = max_q |t_q - g_q (W y)_q| for integer targets t, strides g and queries W (k, s).
**Bound**: in a node, (W y)_q is an integer between the sums, over its blocks, of records times least and largest entry.
So |t_q - g_q (W y)_q| is at least the distance of t_q from the nearest g_q j in that range, for each q, and the largest
of these is at most e(y) for every y in the node. At a leaf the ranges are points, and the bound is the error.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple, final

import numpy as np
import numpy.typing as npt
from numba import njit

from qrelease._util.multisets import multiset, range_size
from qrelease._util.typing import Ints
from qrelease.errors import TooLarge

MAX_RANGE: Final = 1 << 62
"""Databases in a range, so that their numbers are int64."""

MAX_ENTRIES: Final = 1 << 22
"""Queries times cells: the bounds then take 128 MiB."""

MAX_RECORDS: Final = 1 << 12
"""Records of a database."""

TRIED_QUERIES: Final = 16
"""Queries that are tried as the one that halves a block."""


def check_range(queries: int, cells: int, records: int) -> None:
    """`TooLarge`, naming what would fit, for a range that cannot be searched. It looks at public numbers only."""
    if queries * cells > MAX_ENTRIES:
        raise TooLarge(
            f"{queries:,} queries on {cells:,} cells are too many for a search over small databases; at most"
            f" {MAX_ENTRIES:,} entries fit: ask fewer queries, or of fewer columns"
        )
    if records > MAX_RECORDS or range_size(cells, records) > MAX_RANGE:
        raise TooLarge(
            f"databases of {records:,} records over {cells:,} cells are too many to search; at most 2^62 are, of up to"
            f" {largest_size(cells):,} records"
        )


def largest_size(cells: int) -> int:
    """The most records with at most `MAX_RANGE` databases over so many cells."""
    low, high = 1, MAX_RECORDS
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if range_size(cells, middle) <= MAX_RANGE else (low, middle - 1)
    return low


class Bounds(NamedTuple):
    """What a search compares with: e(y) = max_q |targets_q - strides_q (W y)_q|, all below 2^61 in size."""

    targets: Ints
    strides: Ints


class Cut(NamedTuple):
    """Nodes in the order of the tree, their bounds (f,) and how many databases each holds (f,).

    Parameters
    ----------
    visited
        How many nodes were looked at.
    complete
        Whether every database lies in one of them; else there were more than fit.
    """

    errors: Ints
    counts: Ints
    visited: int
    complete: bool


@final
@dataclass(frozen=True, eq=False)
class Databases:
    """All databases of `records` records over s cells. `len` is their number N.

    Parameters
    ----------
    records
        m.
    queries
        (k, s) W: non-negative integers.
    order
        (s,) the cells, so that blocks and atoms are consecutive.
    atoms
        (a + 1,) where each atom begins in `order`, and the end.
    children
        (b, 2) each block's halves: the number of a later block, or -1 - i for atom i.
    ends
        (b, 3) each block's begin, the begin of its second half, its end, in `order`.
    """

    records: int
    queries: Ints
    order: Ints
    atoms: Ints
    children: Ints
    ends: Ints

    @classmethod
    def over(cls, queries: Ints, records: int) -> Databases:
        """The range for queries (k, s) and m; raises `TooLarge` as `check_range` does."""
        check_range(len(queries), queries.shape[1], records)
        order = np.arange(queries.shape[1])
        entries = _Entries.of(queries)
        ends: list[tuple[int, int, int]] = []
        children: list[list[int]] = []
        leaves: list[tuple[int, int, int]] = []  # begin, parent, side of each atom
        waiting = [(-len(order), 0, len(order), -1, 0)]
        while waiting:
            _, begin, end, parent, side = heapq.heappop(waiting)
            first = _first_half(entries, order[begin:end])
            if first is None:
                leaves.append((begin, parent, side))
                continue
            if parent >= 0:
                children[parent][side] = len(ends)
            block = order[begin:end]
            order[begin:end] = np.concatenate([block[first], block[~first]])
            middle = begin + int(first.sum())
            for half, (low, high) in enumerate([(begin, middle), (middle, end)]):
                heapq.heappush(waiting, (low - high, low, high, len(ends), half))
            ends.append((begin, middle, end))
            children.append([-1, -1])
        leaves.sort()
        for i, (_, parent, side) in enumerate(leaves):
            if parent >= 0:
                children[parent][side] = -1 - i
        atoms = np.array([*(begin for begin, _, _ in leaves), len(order)], np.int64)
        shaped = np.array(children, np.int64).reshape(-1, 2), np.array(ends, np.int64).reshape(-1, 3)
        return cls(records, queries, order, atoms, *shaped)

    def of(self, records: int) -> Databases:
        """The range for another m: the same tree; raises `TooLarge` as `check_range` does."""
        check_range(len(self.queries), self.queries.shape[1], records)
        return replace(self, records=records)

    def __len__(self) -> int:
        return range_size(self.queries.shape[1], self.records)

    def cut(self, bounds: Bounds, gamma: float, tolerance: float, most: int) -> Cut:
        """A frontier of at most so many nodes: cut where ln(count) - gamma · bound is at most `tolerance`.

        -inf goes down to the leaves. Floats decide where the tree is cut, and nothing else.
        """
        if not len(self.children):
            same = np.abs(bounds.targets - bounds.strides * self.records * self.queries[:, 0]).max()
            return Cut(np.array([same]), np.array([len(self)]), 1, complete=True)
        errors, counts = np.empty(most, np.int64), np.empty(most, np.int64)
        visited, filled = _cut(self._tree, self._spans, *bounds, gamma, tolerance, errors, counts)
        return Cut(errors[: max(filled, 0)], counts[: max(filled, 0)], visited, filled >= 0)

    def errors(self, bounds: Bounds, numbers: Ints) -> Ints:
        """e(y) of the databases of these numbers, (r,)."""
        found = np.empty(len(numbers), np.int64)
        _errors(self._tree, self._columns, *bounds, numbers, found)
        return found

    def all_errors(self, bounds: Bounds) -> Ints:
        """e(y) of every database, (N,), in a time that does not depend on the targets."""
        leaves = self.cut(bounds, 0.0, -math.inf, len(self))
        return np.repeat(leaves.errors, leaves.counts)

    def cells(self, number: int) -> Ints:
        """The cells of the database of that number, (m,), ascending."""
        counts = np.zeros(len(self.atoms) - 1, np.int64)
        rest = int(_decode(self._tree, number, counts))
        found = []
        for i in np.flatnonzero(counts).tolist():
            begin, cells, records = int(self.atoms[i]), int(np.diff(self.atoms)[i]), int(counts[i])
            rest, index = divmod(rest, range_size(cells, records))
            found += [begin + j for j in multiset(index, cells, records)]
        return np.sort(self.order[found])

    @cached_property
    def _tree(self) -> _Tree:
        table: dict[int, list[int]] = {}
        for begin, middle, end in self.ends.tolist():
            for cells in (end - begin, middle - begin, end - middle):
                table[cells] = table.get(cells) or [range_size(cells, j) for j in range(self.records + 1)]
        ways = [[table[c] for c in (e - b, m - b, e - m)] for b, m, e in self.ends.tolist()]
        shape = (-1, 3, self.records + 1)
        depth = min(len(self.children), self.records * _height(self.children)) + 1
        return _Tree(self.children, np.array(ways, np.int64).reshape(shape), self.records, len(self), depth)

    @cached_property
    def _spans(self) -> _Spans:
        """How the least and the largest entry of each query in a half differ from those in the block."""
        low, high = (np.empty((len(self.ends), 2, len(self.queries)), np.int64) for _ in range(2))
        for found, extreme in ((low, np.minimum), (high, np.maximum)):
            whole = np.empty((len(self.ends), len(self.queries)), np.int64)
            for i in reversed(range(len(self.ends))):  # a block after its halves, which are later blocks, or atoms
                for half, child in enumerate(self.children[i].tolist()):
                    found[i, half] = whole[child] if child >= 0 else self._columns[-1 - child]
                whole[i] = extreme(found[i, 0], found[i, 1])
                found[i] -= whole[i]
        return _Spans(self.records * self.queries.min(axis=1), self.records * self.queries.max(axis=1), low, high)

    @cached_property
    def _columns(self) -> Ints:
        """What one record in each atom answers, (a, k)."""
        return np.ascontiguousarray(self.queries[:, self.order[self.atoms[:-1]]].T)


class _Tree(NamedTuple):
    """children (b, 2) as above; ways (b, 3, m + 1): databases of c records over a block, its first, its second half."""

    children: Ints
    ways: Ints
    records: int
    total: int
    depth: int


class _Spans(NamedTuple):
    """Ranges (k,) of (W y)_q over all databases, and how they change with each record in a half, (b, 2, k)."""

    least: Ints
    largest: Ints
    low: Ints
    high: Ints


class _Entries(NamedTuple):
    """Queries, those with entries 0 and 1 by where these are 1: of whole marginals each cell is in few.

    counting  (k,) which queries have no entries but 0 and 1
    begins    (s + 1,) where those begin in `within` that a cell is in
    within    the numbers of these queries
    others    (j, s) the queries with other entries
    """

    counting: npt.NDArray[np.bool_]
    begins: Ints
    within: Ints
    others: Ints

    @classmethod
    def of(cls, queries: Ints) -> _Entries:
        """Of queries (k, s)."""
        counting = queries.max(axis=1) <= 1
        cells, found = np.nonzero(queries[counting].T)
        begins = np.searchsorted(cells, np.arange(queries.shape[1] + 1))
        return cls(counting, begins, np.flatnonzero(counting)[found], queries[~counting])

    def ones(self, block: Ints) -> tuple[Ints, Ints]:
        """Where entries are 1 in a block: queries, and the places of the cells in the block."""
        sizes = self.begins[block + 1] - self.begins[block]
        skipped = self.begins[block] - (sizes.cumsum() - sizes)
        return self.within[np.arange(sizes.sum()) + np.repeat(skipped, sizes)], np.repeat(np.arange(len(block)), sizes)


def _first_half(entries: _Entries, block: Ints) -> npt.NDArray[np.bool_] | None:
    """Which cells of a block (c,) make its first half, (c,); None if no query tells them apart.

    Those below the median of a query: of the queries that cut most evenly, the one that leaves the least spread of all.
    Of entries 0 and 1 the zeros are below it, whatever the median is.
    """
    of, where = entries.ones(block)
    below = len(block) - np.bincount(of, minlength=len(entries.counting))  # cells (k,) below the median
    rows = entries.others[:, block]
    other_cuts: npt.NDArray[np.bool_] = rows <= np.minimum(np.median(rows, axis=1), rows.max(axis=1) - 1)[:, None]
    if len(rows):
        below[~entries.counting] = np.count_nonzero(other_cuts, axis=1)
    varying = np.flatnonzero((below > 0) & (below < len(block)))
    if not varying.size:
        return None
    even = varying[np.argsort(np.abs(below[varying] / len(block) - 0.5), kind="stable")[:TRIED_QUERIES]]
    apart: dict[bytes, npt.NDArray[np.bool_]] = {}
    for i in even:  # many queries cut a small block alike
        if entries.counting[i]:
            cut = np.ones(len(block), np.bool_)
            cut[where[of == i]] = False
        else:
            cut = other_cuts[np.count_nonzero(~entries.counting[:i])]
        apart.setdefault((cut ^ cut[0]).tobytes(), cut)
    if len(apart) == 1:
        return next(iter(apart.values()))

    def spread(first: npt.NDArray[np.bool_]) -> int:
        """How much the queries vary in each half, times its cells."""
        found = 0
        for half in (first, ~first):
            size = int(np.count_nonzero(half))
            ones = np.bincount(of[half[where]], minlength=len(entries.counting))
            varies = int(np.count_nonzero((ones > 0) & (ones < size)))
            found += size * (varies + (int(np.ptp(rows[:, half], axis=1).sum()) if len(rows) else 0))
        return found

    return min(apart.values(), key=spread)


def _height(children: Ints) -> int:
    """The most blocks one inside the other."""
    heights = np.ones(len(children), np.int64)
    for i in reversed(range(len(children))):
        heights[i] += max((heights[c] for c in children[i] if c >= 0), default=0)
    return int(heights.max(initial=0))


@njit(cache=True, nogil=True)
def _cut(
    tree: _Tree,
    spans: _Spans,
    targets: Ints,
    strides: Ints,
    gamma: float,
    tolerance: float,
    errors: Ints,
    counts: Ints,
) -> tuple[int, int]:
    """`Databases.cut` into `errors` and `counts`: nodes looked at, and nodes of the frontier, -1 if they do not fit.

    Depth first. `block[d]` is the block whose halving is decided at depth d, with `inside[d]` records of which
    `taken[d]` go to its first half; blocks that this puts records into are queued behind it, up to `tail`.
    """
    k = targets.size
    nearest = np.empty(k, np.int64)
    for q in range(k):  # the answer whose product with the stride comes closest to the target
        nearest[q] = (2 * targets[q] + strides[q]) // (2 * strides[q])
    block = np.zeros(2 * tree.depth + 2, np.int64)
    inside = np.zeros(2 * tree.depth + 2, np.int64)
    taken = np.zeros(tree.depth + 1, np.int64)
    tails = np.zeros(tree.depth + 1, np.int64)
    ways = np.zeros(tree.depth + 1, np.int64)
    least = np.empty((tree.depth + 1, k), np.int64)
    largest = np.empty((tree.depth + 1, k), np.int64)
    least[0], largest[0] = spans.least, spans.largest
    inside[0], ways[0], tails[0], taken[0] = tree.records, tree.total, 1, -1
    visited = filled = d = 0
    while d >= 0:
        taken[d] += 1
        b, first, second = block[d], taken[d], inside[d] - taken[d]
        if second < 0:
            d -= 1
            continue
        visited += 1
        error = 0
        for q in range(k):
            low = least[d, q] + first * spans.low[b, 0, q] + second * spans.low[b, 1, q]
            high = largest[d, q] + first * spans.high[b, 0, q] + second * spans.high[b, 1, q]
            least[d + 1, q], largest[d + 1, q] = low, high
            error = max(error, abs(targets[q] - strides[q] * min(max(nearest[q], low), high)))
        tail = tails[d]
        for half in range(2):
            records = second if half else first
            if records and tree.children[b, half] >= 0:
                block[tail], inside[tail] = tree.children[b, half], records
                tail += 1
        count = ways[d] // tree.ways[b, 0, inside[d]] * (tree.ways[b, 1, first] * tree.ways[b, 2, second])
        if tail == d + 1 or math.log(count) - gamma * error <= tolerance:
            if filled == errors.size:
                return visited, -1
            errors[filled], counts[filled] = error, count
            filled += 1
        else:
            d += 1
            taken[d], tails[d], ways[d] = -1, tail, count
    return visited, filled


@njit(cache=True, nogil=True)
def _decode(tree: _Tree, number: int, counts: Ints) -> int:
    """The database of that number: its records in each atom into `counts` (a,), zero before; returns the rest.

    The rest numbers the databases that no query tells from it, 0..Π C(cells + records - 1, records) - 1.
    """
    block = np.zeros(2 * tree.depth + 2, np.int64)
    inside = np.zeros(2 * tree.depth + 2, np.int64)
    inside[0], ways, tail, d = tree.records, tree.total, 1, 0
    if tree.children.shape[0] == 0:
        counts[0], tail = tree.records, 0
    while d < tail:
        b, records = block[d], inside[d]
        without = ways // tree.ways[b, 0, records]
        first = 0
        ways = without * (tree.ways[b, 1, 0] * tree.ways[b, 2, records])
        while number >= ways:
            number -= ways
            first += 1
            ways = without * (tree.ways[b, 1, first] * tree.ways[b, 2, records - first])
        for half in range(2):
            child, part = tree.children[b, half], records - first if half else first
            if child < 0:
                counts[-1 - child] = part
            elif part:
                block[tail], inside[tail] = child, part
                tail += 1
        d += 1
    return number


@njit(cache=True, nogil=True)
def _errors(tree: _Tree, columns: Ints, targets: Ints, strides: Ints, numbers: Ints, found: Ints) -> None:
    """`Databases.errors` into `found`; columns (a, k)."""
    counts = np.zeros(columns.shape[0], np.int64)
    answers = np.zeros(columns.shape[1], np.int64)
    for i in range(numbers.size):
        counts[:] = 0
        answers[:] = 0
        _decode(tree, numbers[i], counts)
        for atom in range(counts.size):
            if counts[atom]:
                for q in range(answers.size):
                    answers[q] += counts[atom] * columns[atom, q]
        error = 0
        for q in range(answers.size):
            error = max(error, abs(targets[q] - strides[q] * answers[q]))
        found[i] = error
