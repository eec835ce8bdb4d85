"""Exact marginals of encoded records: the plan by which they are counted, and one streamed pass over the records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from qrelease import kernels
from qrelease.cover import Axes, Ints, Node, in_parallel, laid_out, lines

_SHARED = 1 << 12  # cells of a table from which several marginals are read: it stays in a core's first cache
_ROWS = 1 << 12  # records a step: 15 columns of codes and the index stay in its second

# To look for tables that sets can share takes some 50 ms: below this many records times sets it would not pay, and
# above this many sets it takes longer.
_WORTHWHILE, _MOST_SETS = 1 << 26, 1 << 12

_PARALLEL = 1 << 22  # cells up to which each core counts into tables of its own

_KEPT = 16  # plans that are kept for whoever counts the same sets again


@dataclass(frozen=True)
class CountingPlan:
    """How the marginals on `sets` are counted from records: each record adds one to every table.

    A set has a table of its own, or shares one over more columns, from which its marginal is read in the end. An
    increment costs the same in any table that stays in the cache, so the fewer the better.

    shared  the columns of such tables, and the sets that are read from each
    """

    shape: tuple[int, ...]
    sets: tuple[Axes, ...]
    shared: tuple[tuple[Axes, tuple[Axes, ...]], ...]

    @classmethod
    def choose(cls, shape: Sequence[int], sets: Sequence[Axes], rows: int) -> CountingPlan:
        """The plan for distinct, sorted sets of columns and about so many records."""
        share = rows * len(sets) >= _WORTHWHILE and len(sets) <= _MOST_SETS
        return _chosen(tuple(shape), tuple(sets), share)

    @cached_property
    def offsets(self) -> list[int]:
        """Where each set's marginal begins, and the length of the whole last: len(sets) + 1 numbers."""
        return [*accumulate((prod(self.shape[a] for a in s) for s in self.sets), initial=0)]

    @cached_property
    def _nodes(self) -> list[Node]:
        """The shared tables."""
        offset = dict(zip(self.sets, self.offsets, strict=False))
        return [
            Node(axes, prod(self.shape[a] for a in axes), {s: offset[s] for s in held}) for axes, held in self.shared
        ]

    @cached_property
    def _tree(self) -> kernels.Tree:
        """The shared tables, which lie behind the marginals."""
        return laid_out(self.shape, self._nodes)

    @cached_property
    def _arguments(self) -> tuple[list[int], tuple[Ints, npt.NDArray[np.uint32], Ints, Ints]]:
        """The columns that are read, and the tables over them as `kernels.count` takes them."""
        shared = {s for _, held in self.shared for s in held}
        tables = {s: begin for s, begin in zip(self.sets, self.offsets, strict=False) if s not in shared}
        for (axes, _), begin in zip(self.shared, self._tree.begins.tolist(), strict=True):
            tables[axes] = self.offsets[-1] + begin
        used = sorted({a for axes in tables for a in axes})
        digits = [a for axes in tables for a in axes]
        return used, (
            np.array([used.index(a) for a in digits], np.int64),
            np.array([self.shape[a] for a in digits], np.uint32),
            np.array([*accumulate(map(len, tables), initial=0)], np.int64),
            np.array([*tables.values()], np.int64),
        )

    def count(self, columns: Sequence[npt.NDArray[np.unsignedinteger[Any]]]) -> Ints:
        """All marginals, one after another in a flat vector, int64, of d columns of codes (n,).

        The columns are read once, some thousand records at a time, so they may be files mapped into memory.
        """
        used, arguments = self._arguments
        end, tree = self.offsets[-1], self._tree
        total = end + (int(tree.begins[-1] + tree.cells[-1]) if self.shared else 0)

        def work(_: int, cut: slice) -> Ints:
            counts, index = np.zeros(total, np.int64), np.empty(_ROWS, np.uint32)
            for first in range(cut.start, cut.stop, _ROWS):
                rows = slice(first, min(first + _ROWS, cut.stop))
                codes = np.empty((len(used), rows.stop - first), np.uint32)
                for i, a in enumerate(used):
                    codes[i] = columns[a][rows]
                kernels.count(codes, *arguments, index, counts)
            return counts

        rows = len(columns[0])
        counts, *others = in_parallel(work, rows, rows * len(arguments[-1]) if total <= _PARALLEL else 0)
        for other in others:
            counts += other
        if self.shared:
            read = np.zeros(end)  # exact: counts are below 2^53
            kernels.collect(tree, counts[end:].astype(np.float64), read)
            counts[:end] += read.astype(np.int64)
        return counts[:end]

    def __str__(self) -> str:
        alone = len(self.sets) - sum(len(held) for _, held in self.shared)
        head = f"{len(self.sets)} marginals of {' x '.join(map(str, self.shape))} cells, in one pass over the records:"
        tables = [line for node in self._nodes for line in lines(node, 1)]
        return "\n".join([head, *tables, *([f"  {alone} counted by themselves"] if alone else [])])


@lru_cache(_KEPT)
def _chosen(shape: tuple[int, ...], sets: tuple[Axes, ...], share: bool) -> CountingPlan:
    shared = [(axes, held) for axes, held in _gathered(shape, sets) if len(held) > 1] if share else []
    return CountingPlan(shape, sets, tuple(shared))


def _gathered(shape: tuple[int, ...], sets: tuple[Axes, ...]) -> Iterator[tuple[Axes, tuple[Axes, ...]]]:
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
