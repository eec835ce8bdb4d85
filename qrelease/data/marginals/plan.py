"""The plan by which all marginals of a workload are read from a histogram, or updated, in about one pass; or counted.

A `MarginalPlan` is chosen once for a shape and a list of attribute sets. At its root is the histogram seen as four
blocks of adjacent attributes, and below it a tree of smaller tables. Run upwards, the tree turns factors on the
marginals into four factors on the histogram: an update by any number of marginals is one pass too, and the pass that
updates fills the tables for the next answers on its way. Where there are records instead of a histogram, they are
counted into tables at the roots of the same kind of trees: one over the whole universe, if that has few cells compared
with the number of records, or else many small ones.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, combinations
from math import ceil, isqrt, log2, prod
from typing import Any

import numpy as np
import numpy.typing as npt

from qrelease._util import parallel
from qrelease._util.typing import Axes, Floats, Ints, Reals
from qrelease.data.marginals import counting, kernels
from qrelease.errors import InvalidInput

# Below this many cells times sets a table is summed directly: a further level of tables would cost more than it saves.
MAX_DIRECT_WORK = 1 << 14
# Covers that are kept for whoever asks about the same sets again.
_MAX_PLANS = 16
# Tiles of a large histogram, along each of its first two blocks.
_MAX_TILES = 16
# Reals of the largest universe that records are counted into, and nanoseconds for each: to clear it, and for a pass.
_MAX_UNIVERSE_CELLS, _CELL_NANOSECONDS = 1 << 22, 4.0
# Sets for which a text says which tables they share, which takes milliseconds to find; and cells of what it describes.
_MAX_LISTED_SETS, _MAX_DESCRIBED_CELLS = 1 << 8, 1 << 32

_UNIVERSE_TEXT = "the universe, which is then read in the one pass"
_SHARED_TEXT = "those that sets can share are looked for, and taken where they cost less"


@dataclass(frozen=True)
class Node:
    """A table over `axes` of a universe of this `shape`, and the `wanted` sets (with their offsets) read from it.

    What is below it is planned when it is asked for. With at most `direct_work` cells times sets it is summed directly.
    """

    shape: tuple[int, ...]
    axes: Axes
    wanted: dict[Axes, int]
    direct_work: int = MAX_DIRECT_WORK

    @cached_property
    def cells(self) -> int:
        """The number of cells of the table."""
        return prod(self.shape[a] for a in self.axes)

    @cached_property
    def _runs(self) -> tuple[Axes, ...]:
        """The axes as four blocks, if the table is divided."""
        if len(self.axes) < 4 or len(self.wanted) < 3 or self.cells * len(self.wanted) <= self.direct_work:
            return ()
        return choose_blocks(self.shape, self.axes, tuple(self.wanted)) or ()

    @cached_property
    def blocks(self) -> tuple[int, ...]:
        """The sizes of its four blocks, if it is divided."""
        return tuple(prod(self.shape[a] for a in run) for run in self._runs)

    @cached_property
    def _shares(self) -> tuple[dict[Axes, int], ...]:
        """The sets that are read from each of the tables that drop one block each, and those that miss no block."""
        shares: list[dict[Axes, int]] = [{} for _ in range(len(self._runs) + 1)]
        sizes = self.blocks
        for s, offset in self.wanted.items():
            missed = [i for i, run in enumerate(self._runs) if not set(run) & set(s)]
            # The largest block missed leaves the smallest table to read from.
            shares[max(missed, key=sizes.__getitem__) if missed else -1][s] = offset
        return tuple(shares)

    @property
    def direct(self) -> dict[Axes, int]:
        """The sets that are summed from the table itself; the others are from its children."""
        return self._shares[-1]

    @cached_property
    def children(self) -> "tuple[Node, ...]":
        """The tables that drop one block each."""
        kept = [tuple(a for a in self.axes if a not in run) for run in self._runs]
        shares = zip(kept, self._shares, strict=False)
        return tuple(Node(self.shape, axes, share, self.direct_work) for axes, share in shares)

    def __str__(self) -> str:
        blocks = f" in blocks of {' x '.join(map(str, self.blocks))}" if self.blocks else ""
        alone = f", {len(self.direct):,} of them in a pass each" if self.blocks and self.direct else ""
        return f"columns {_numbers(self.axes)}: {self.cells:,} cells{blocks}, for {len(self.wanted):,} marginals{alone}"


@dataclass(frozen=True, eq=False)
class CountingTables:
    """Tables that records are counted into, one increment a record each, and the marginals that are read from them.

    An increment costs the same in any table that stays in the cache, so the fewer tables the better.

    alone   sets whose marginals are tables themselves, and where they begin in the flat vector of all marginals
    shared  other tables, behind that vector, and those below them
    end     the length of that vector
    fixed   nanoseconds that it takes for no records at all
    """

    shape: tuple[int, ...]
    alone: dict[Axes, int]
    shared: tuple[Node, ...]
    end: int
    fixed: float

    @cached_property
    def by_record(self) -> float:
        """Nanoseconds for each record more, on one core."""
        return counting.by_record(self.shape, [*self.alone, *(node.axes for node in self.shared)])

    def cost(self, records: int) -> float:
        """Nanoseconds for so many."""
        return self.fixed + records * self.by_record

    @cached_property
    def _tree(self) -> kernels.Tree:
        return _laid_out(self.shape, self.shared)

    def count(self, columns: Sequence[npt.NDArray[np.unsignedinteger[Any]]], names: Sequence[str]) -> Ints:
        """Count records; see `MarginalPlan.count`."""
        if not self.shared:
            return counting.add_records(columns, names, self.shape, self.alone, self.end)
        tree, end = self._tree, self.end
        tables = self.alone | {node.axes: end + int(b) for node, b in zip(self.shared, tree.begins, strict=False)}
        cells = end + int(tree.begins[-1] + tree.cells[-1])
        counts = counting.add_records(columns, names, self.shape, tables, cells)
        read = np.zeros(end)  # exact: counts are below 2^53
        kernels.collect(tree, counts[end:].astype(np.float64), read)
        np.add(counts[:end], read, out=counts[:end], casting="unsafe")
        return counts[:end]

    def lines(self) -> Iterator[str]:
        """The tables as lines of text."""
        yield from map(str, self.shared)
        if self.alone:
            yield f"{len(self.alone):,} for a marginal each"


@dataclass(frozen=True)
class MarginalPlan:
    """How the marginals on `sets` are read from, and written into, a table of the given shape, or counted from records.

    The marginals lie one after another in a flat vector, in the order of the sets, each in C order.

    direct_work  cells times sets up to which a table is summed directly, since a further level would cost more
    """

    shape: tuple[int, ...]
    sets: tuple[Axes, ...]
    direct_work: int = MAX_DIRECT_WORK

    @classmethod
    def choose(cls, shape: Sequence[int], sets: Sequence[Axes]) -> "MarginalPlan":
        """The cover for distinct, sorted sets of axes: one object for all who ask about the same sets.

        Raises `InvalidInput` for sets that are not.
        """
        return _chosen(tuple(map(int, shape)), tuple(sets))

    @cached_property
    def offsets(self) -> list[int]:
        """Where each set's marginal begins, and the length of the whole last: len(sets) + 1 numbers."""
        return [*accumulate((prod(self.shape[a] for a in s) for s in self.sets), initial=0)]

    @property
    def _wanted(self) -> dict[Axes, int]:
        return dict(zip(self.sets, self.offsets, strict=False))

    @cached_property
    def _root(self) -> Node:
        return Node(self.shape, tuple(range(len(self.shape))), self._wanted, self.direct_work)

    @cached_property
    def _direct(self) -> tuple[Ints, Ints, Ints]:
        """The sets that are summed from the histogram itself, as `project_many` takes them."""
        return np.array(self.shape, np.int64), _strides(self.shape, self._root), _ints(self._root.direct.values())

    @cached_property
    def tree(self) -> kernels.Tree:
        """The tables below the histogram, as kernels take them."""
        return _laid_out(self.shape, self._root.children)

    @property
    def tree_cells(self) -> int:
        """The number of cells of all tables below the histogram."""
        return int(self.tree.begins[-1] + self.tree.cells[-1]) if self._root.children else 0

    def marginals(self, table: npt.NDArray[Any]) -> Floats:
        """All marginals of a table (|X|,), flat, one after another. `InvalidInput` for a table of another size."""
        if table.size != prod(self.shape):
            raise InvalidInput(f"a table over {prod(self.shape):,} cells is needed, got {table.size:,}")
        precise = table if table.dtype in (np.float32, np.float64) else table.astype(np.float64)
        y = np.ascontiguousarray(precise).reshape(-1)
        out = np.zeros(self.offsets[-1])
        kernels.project_many(y, *self._direct, out)
        if self._root.children:
            kernels.collect(self.tree, self._pass(y, None), out)
        return out

    def scale(self, table: Reals, factors: Floats) -> Floats:
        """Multiply a table in place by one factor a cell of every marginal; return the new marginals.

        table (|X|,) float64 or float32, contiguous; factors: flat, as `marginals` returns them. Raises `InvalidInput`
        for other sizes.
        """
        if table.size != prod(self.shape) or factors.size != self.offsets[-1]:
            raise InvalidInput(
                f"a table over {prod(self.shape):,} cells and {self.offsets[-1]:,} factors are needed, "
                f"got {table.size:,} and {factors.size:,}"
            )
        out = np.zeros(self.offsets[-1])
        kernels.expand_many(table, *self._direct, factors)
        if self._root.children:
            by = parallel.filled(self.tree_cells, 1.0)
            kernels.spread(self.tree, by, factors)
            kernels.collect(self.tree, self._pass(table, by), out)
        kernels.project_many(table, *self._direct, out)
        return out

    def _pass(self, table: Reals, by: Floats | None) -> Floats:
        """One pass over a table: scale it by the four factors in `by`, if given, and fill four new tables.

        In tiles along the first two blocks, of which those that share neither are passed over at once: so no two
        write to the same cell, and what is added to a cell comes in one order, on however many cores.
        """
        blocks, begins = self._root.blocks, self.tree.begins[:4]
        shapes = [blocks[:i] + blocks[i + 1 :] for i in range(4)]

        def views(tables: Floats) -> list[Floats]:
            return [tables[b : b + prod(s)].reshape(s) for b, s in zip(begins, shapes, strict=True)]

        y, sums = table.reshape(blocks), parallel.filled(self.tree_cells, 0.0)
        tables = [*(() if by is None else views(by)), *views(sums)]
        kernel: Callable[..., None] = kernels.sum_blocks if by is None else kernels.scale_and_sum_blocks
        most = min(blocks[0], blocks[1], _MAX_TILES)
        n = max(min(2 * isqrt(table.size // parallel.MIN_PARALLEL_CELLS), most), 1)

        def work(tile: tuple[int, int]) -> None:
            cuts = (block * (i + end) // n for block, i in zip(blocks[:2], tile, strict=False) for end in (0, 1))
            kernel(y, tuple(cuts), *tables)

        for turn in range(n):
            parallel.at_once(work, [(i, (i + turn) % n) for i in range(n)])
        return sums

    @property
    def scratch_cells(self) -> int:
        """Reals of float64 that one pass needs beside the histogram: factors and sums."""
        flat = 8 * self.offsets[-1]  # factors, sums, logarithms and what callers derive from them
        return flat + 2 * (self.tree_cells + parallel.PAGE_BYTES)

    def count(self, columns: Sequence[npt.NDArray[np.unsignedinteger[Any]]], names: Sequence[str]) -> Ints:
        """All marginals of records, flat, int64: d columns of codes (n,), with their names.

        The columns are read once, some thousand records at a time, so they may be files mapped into memory.
        Raises `InvalidInput` for codes that are not below their column's size: nothing is written out of bounds.
        """
        return self.counting_tables(len(columns[0])).count(columns, names)

    def counting_tables(self, records: int) -> CountingTables:
        """The tables into which it costs least to count so many records."""
        best = self.alone
        if self.whole is not None:
            best = min(best, self.whole, key=lambda way: way.cost(records))
        if len(self.sets) > 1 and best.cost(records) > counting.searching(len(self.sets)):
            best = min(best, self.shared, key=lambda way: way.cost(records))
        return best

    @cached_property
    def alone(self) -> CountingTables:
        """Every marginal is a table."""
        return CountingTables(self.shape, self._wanted, (), self.offsets[-1], 0.0)

    @cached_property
    def whole(self) -> CountingTables | None:
        """The whole universe is the only one, if it is small enough."""
        cells = prod(self.shape)
        if cells > _MAX_UNIVERSE_CELLS:
            return None
        return CountingTables(self.shape, {}, (self._root,), self.offsets[-1], _CELL_NANOSECONDS * cells)

    @cached_property
    def shared(self) -> CountingTables:
        """Sets that fit a small table together share it."""
        wanted, found = self._wanted, [*counting.gathered(self.shape, self.sets)]
        alone = {s: wanted[s] for _, held in found if len(held) == 1 for s in held}
        groups = [(axes, held) for axes, held in found if len(held) > 1]
        shared = [Node(self.shape, axes, {s: wanted[s] for s in held}, self.direct_work) for axes, held in groups]
        return CountingTables(self.shape, alone, tuple(shared), self.offsets[-1], counting.searching(len(self.sets)))

    def __str__(self) -> str:
        """The first tables of the tree, and those that are counted into.

        Of very many sets it does not look for what they share, but says from how many records on that is looked for.
        """
        head = f"{len(self.sets):,} marginals of {' x '.join(map(str, self.shape))} cells"
        if prod(self.shape) <= _MAX_DESCRIBED_CELLS:
            below = [f"    {child}" for child in self._root.children if child.wanted]
            text = [f"{head}, in one pass over them:", f"  {self._root}", *below]
        else:
            text = [f"{head}, more than a table can have"]
        text.append("counted from records, of which each adds one to every table:")
        listed = len(self.sets) <= _MAX_LISTED_SETS
        for first, tables in self.ways(search=listed):
            lines = [_UNIVERSE_TEXT] if tables is self.whole else tables.lines()
            text += [f"  from {first:,} records on", *(f"    {line}" for line in lines)]
        if not listed:
            text += [f"  from {self._searched:,} records on", f"    {_SHARED_TEXT}"]
        return "\n".join(text)

    def ways(self, *, search: bool = True) -> Iterator[tuple[int, CountingTables]]:
        """Into which tables records are counted, with the number of records from which on they are.

        search  whether tables that sets share are among them
        """
        first, way = 0, self.alone
        others = [o for o in (self.whole, self.shared if search else None) if o is not None]
        while True:
            yield first, way
            cheaper = [o for o in others if o.by_record < way.by_record]
            if not cheaper:
                return
            crossing = {o: ceil((o.fixed - way.fixed) / (way.by_record - o.by_record)) for o in cheaper}
            first, way = min(((n, o) for o, n in crossing.items()), key=lambda found: (found[0], found[1].by_record))

    @property
    def _searched(self) -> int:
        """The number of records from which on `counting_tables` looks for tables that sets share."""
        ways = [way for way in (self.alone, self.whole) if way is not None]
        most = counting.searching(len(self.sets))
        return max(0, *(int((most - way.fixed) / way.by_record) + 1 for way in ways))


@lru_cache(_MAX_PLANS)
def _chosen(shape: tuple[int, ...], sets: tuple[Axes, ...]) -> MarginalPlan:
    for s in sets:
        if list(s) != sorted({*s}) or not all(0 <= a < len(shape) for a in s):
            raise InvalidInput(f"a set of columns must be ascending numbers below {len(shape)}, got {s}")
    if len({*sets}) != len(sets):
        raise InvalidInput("a set of columns is there twice")
    return MarginalPlan(shape, sets)


# --- the choice


def choose_blocks(sizes: tuple[int, ...], axes: Axes, sets: tuple[Axes, ...]) -> tuple[Axes, ...] | None:
    """Cut the axes into four runs so that a pass is fast, the four tables are small and few sets hit all four."""
    best, choice = float("inf"), None
    upto = [*accumulate((sizes[a] for a in axes), lambda x, y: x * y, initial=1)]
    cells = upto[-1]
    wide = [sum(1 << a for a in s) for s in sets if len(s) > 3]  # a smaller set always misses one of four blocks
    for i, j, k in combinations(range(1, len(axes)), 3):
        bcd, cd, d = cells // upto[i], cells // upto[j], cells // upto[k]
        tables = bcd + (cells // upto[j]) * upto[i] + (cells // upto[k]) * upto[j] + upto[k]
        # Measured: the innermost run should fill vector registers. Where the table comes from memory, too, a row of the
        # one without the second block, which is used again after c·d cells, should still be in the first cache by then,
        # and the one without the outermost block, of a few megabytes at most, be swept a few dozen times at most.
        slow = 0.5 if d < 8 else 0.2 if d < 16 else 0.1 if d < 32 else 0.0
        if cells > 1 << 20:
            slow += 0.25 * min(cd / (1 << 11), 1) + 0.09 * log2(upto[i]) + 0.3 * (bcd > 1 << 20)
        cost = 3 * tables + cells * slow
        if cost < best:
            runs = (axes[:i], axes[i:j], axes[j:k], axes[k:])
            p, q, r, t = (sum(1 << a for a in run) for run in runs)
            # Sets that miss no block cost a pass each.
            cost += cells * sum(1 for s in wide if s & p and s & q and s & r and s & t)
            if cost < best:
                best, choice = cost, runs
    return None if choice is None or best > cells * len(sets) else choice


# --- the tree as arrays


def _walk(first: Sequence[Node]) -> Iterator[tuple[Node, int]]:
    """The first tables and those below, level by level, each with a number that its parent and siblings do not have."""
    level = [*enumerate(first, 1)]
    while level:
        yield from ((node, i) for i, node in level)
        level = [pair for i, node in level for pair in enumerate(node.children, i + 1)]


def _laid_out(sizes: Sequence[int], first: Sequence[Node]) -> kernels.Tree:
    """Tables and those below them as `kernels` takes them."""
    nodes = [*_walk(first)]
    begins, end, children, number = [], 0, [], len(first)
    for node, i in nodes:
        begins.append(_place(end, node.cells, i))
        end = begins[-1] + node.cells
        children.append([number + c for c in range(4)] if node.children else [0] * 4)
        number += len(node.children)
    steps = [_strides(sizes, node) for node, _ in nodes]
    return kernels.Tree(
        _ints(begins),
        _ints(node.cells for node, _ in nodes),
        _ints(node.blocks or (0,) * 4 for node, _ in nodes).reshape(-1, 4),
        _ints(children).reshape(-1, 4),
        _ints(accumulate((len(node.axes) for node, _ in nodes), initial=0)),
        _ints(sizes[a] for node, _ in nodes for a in node.axes),
        _ints(accumulate((len(node.direct) for node, _ in nodes), initial=0)),
        _ints(offset for node, _ in nodes for offset in node.direct.values()),
        _ints(accumulate((s.size for s in steps), initial=0)),
        np.concatenate([s.reshape(-1) for s in steps]) if steps else _ints([]),
    )


def _place(end: int, cells: int, number: int) -> int:
    """Where a table may begin: on a cache line and, if it is large, on an eighth of a page that its number tells.

    A pass reads one table and writes to the same rows of four: at equal places of a page they would get in each other's
    way. (Those numbered 0 are universes.)
    """
    page, line = parallel.PAGE_BYTES // 8, 8
    if cells < page:
        return -(-end // line) * line
    return -(-end // page) * page + number % 8 * page // 8


def _strides(sizes: Sequence[int], node: Node) -> Ints:
    """The step in the marginal of each direct set for a step on each axis of the table, (sets, axes)."""
    strides = np.zeros((len(node.direct), len(node.axes)), np.int64)
    position = {a: i for i, a in enumerate(node.axes)}
    for row, s in zip(strides, node.direct, strict=True):
        step = 1
        for a in reversed(s):
            row[position[a]] = step
            step *= sizes[a]
    return strides


def _ints(numbers: Any) -> Ints:
    return np.array([*numbers], np.int64)


def _numbers(axes: Axes) -> str:
    """Sorted numbers as `0-2, 5`."""
    runs: list[list[int]] = []
    for a in axes:
        if runs and runs[-1][-1] == a - 1:
            runs[-1].append(a)
        else:
            runs.append([a])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
