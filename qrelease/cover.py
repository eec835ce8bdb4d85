"""The plan by which all marginals of a workload are read from a histogram, or updated, in about one pass.

A `Cover` is chosen once for a shape and a list of attribute sets. At its root is the histogram seen as four blocks
of adjacent attributes. A set of at most three attributes misses one of the blocks, so four tables, each without one
block, contain every such marginal, and one pass fills all four. The same idea is applied again inside each table,
until a table is small enough to be summed directly. Run upwards, the tree turns factors on the marginals into four
factors on the histogram: an update by any number of marginals is one pass too, and the pass that updates fills
the tables for the next answers on its way.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations
from math import prod

import numpy as np
import numpy.typing as npt

from qrelease import kernels

Axes = tuple[int, ...]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

# Below this many cells times sets a table is summed directly: a further level of tables would cost more than it saves.
_DIRECT = 1 << 14
# Passes over fewer cells than this stay on one core.
_PARALLEL = 1 << 21


@dataclass(frozen=True)
class _Direct:
    """Sets that are summed from a node's table one by one: arguments of `project_many`."""

    strides: Ints
    offsets: Ints


@dataclass(frozen=True)
class _Node:
    """A table over `axes`: some sets read directly from it, the others through tables that drop one block."""

    axes: Axes
    shape: Ints
    direct: _Direct | None
    blocks: tuple[int, int, int, int] | None = None
    children: "tuple[_Node, ...]" = ()

    @property
    def cells(self) -> int:
        return int(self.shape.prod())

    @property
    def empty(self) -> bool:
        return self.direct is None and self.blocks is None


@dataclass(frozen=True)
class Cover:
    """How the marginals on `sets` are read from, and written into, a table of the given shape.

    `offsets` says where each set's marginal begins in the flat vector of all of them; its cells are in C order.
    """

    shape: tuple[int, ...]
    sets: tuple[Axes, ...]
    _root: _Node = field(repr=False)

    @classmethod
    def choose(cls, shape: Sequence[int], sets: Sequence[Axes]) -> "Cover":
        """Choose the tree for distinct, sorted sets of axes."""
        sizes = tuple(int(s) for s in shape)
        cells = [prod(sizes[a] for a in s) for s in sets]
        offsets = dict(zip(sets, np.cumsum([0, *cells])[:-1].tolist(), strict=True))
        return cls(sizes, tuple(sets), _plan(sizes, tuple(range(len(sizes))), offsets))

    @property
    def offsets(self) -> list[int]:
        """Where each set's marginal begins, and the length of the whole last: len(sets) + 1 numbers."""
        cells = [prod(self.shape[a] for a in s) for s in self.sets]
        return [0, *np.cumsum(cells, dtype=np.int64).tolist()] if cells else [0]

    def marginals(self, table: npt.NDArray[np.generic]) -> Floats:
        """All marginals of a table (|X|,), one after another in a flat vector."""
        out = np.zeros(self.offsets[-1])
        _collect(self._root, np.ascontiguousarray(table, np.float64).reshape(-1), out)
        return out

    def scale(self, table: Floats, factors: Floats) -> Floats:
        """Multiply a table in place by one factor a cell of every marginal; return the new marginals.

        table (|X|,) float64, contiguous; factors: flat, as `marginals` returns them.
        """
        out = np.zeros(self.offsets[-1])
        root = self._root
        if root.blocks is None:
            _spread(root, table, factors)
            _collect(root, table, out)
            return out
        if root.direct is not None:
            _expand(root, table, factors)
        by = [_factor(child, factors) for child in root.children]
        sums = _fused(table.reshape(root.blocks), by)
        _gather(root, table, sums, out)
        return out

    @property
    def scratch_cells(self) -> int:
        """Cells of all the tables that one pass needs beside the histogram: factors and sums, on every core."""
        out = 8 * self.offsets[-1]  # factors, sums, logarithms and what callers derive from them
        if self._root.blocks is None:
            return out
        cells, (a, *rest) = self._root.cells, self._root.blocks
        tables = cells // a + sum(cells // b for b in rest)
        return out + 3 * tables + _cores() * (cells // a)

    def __str__(self) -> str:
        lines = [f"{len(self.sets)} marginals of {' x '.join(map(str, self.shape))} = {prod(self.shape):,} cells"]
        _describe(self._root, lines, 0)
        return "\n".join(lines)


def _plan(sizes: tuple[int, ...], axes: Axes, wanted: dict[Axes, int]) -> _Node:
    """The tree below a table over `axes` for the wanted sets (set -> offset in the flat vector)."""
    shape = np.array([sizes[a] for a in axes], np.int64)
    cells = int(shape.prod())
    blocks = None
    if len(axes) >= 4 and cells * len(wanted) > _DIRECT and len(wanted) > 2:
        blocks = _choose_blocks(sizes, axes, tuple(wanted))
    if blocks is None:
        return _Node(axes, shape, _direct(sizes, axes, wanted))
    shares: list[dict[Axes, int]] = [{} for _ in blocks]
    left: dict[Axes, int] = {}
    for s, offset in wanted.items():
        missed = [i for i, block in enumerate(blocks) if not set(block) & set(s)]
        if missed:  # the largest block missed leaves the smallest table to read from
            shares[max(missed, key=lambda i: prod(sizes[a] for a in blocks[i]))][s] = offset
        else:
            left[s] = offset
    children = tuple(
        _plan(sizes, tuple(a for a in axes if a not in block), share)
        for block, share in zip(blocks, shares, strict=True)
    )
    a, b, c, d = (prod(sizes[x] for x in block) for block in blocks)
    return _Node(axes, shape, _direct(sizes, axes, left), (a, b, c, d), children)


def _choose_blocks(sizes: tuple[int, ...], axes: Axes, sets: tuple[Axes, ...]) -> tuple[Axes, ...] | None:
    """Cut the axes into four runs so that the four tables are small and few sets hit all four blocks."""
    best, choice = float("inf"), None
    cells = prod(sizes[a] for a in axes)
    wide = [frozenset(s) for s in sets if len(s) > 3]  # a smaller set always misses one of four blocks
    for i, j, k in combinations(range(1, len(axes)), 3):
        runs = (axes[:i], axes[i:j], axes[j:k], axes[k:])
        a, b, c, d = (prod(sizes[x] for x in run) for run in runs)
        # The table without the outermost block is swept once for each of its rows, so it should stay in cache; the
        # innermost run should fill vector registers. Sets that miss no block cost a pass each.
        hit_all = sum(all(m & set(run) for run in runs) for m in wide)
        tables = cells / a * (4 if cells // a > 1 << 17 else 1) + cells / b + cells / c + cells / d
        cost = tables + cells * (hit_all + (0.5 if d < 16 else 0.0))
        if cost < best:
            best, choice = cost, runs
    return None if choice is None or best > cells * len(sets) else choice


def _direct(sizes: tuple[int, ...], axes: Axes, wanted: dict[Axes, int]) -> _Direct | None:
    if not wanted:
        return None
    strides = np.zeros((len(wanted), len(axes)), np.int64)
    for j, s in enumerate(wanted):
        step = 1
        for a in reversed(s):
            strides[j, axes.index(a)] = step
            step *= sizes[a]
    return _Direct(strides, np.array(list(wanted.values()), np.int64))


def _collect(node: _Node, table: Floats, out: Floats) -> None:
    """Fill the flat vector with the node's sets, down the tree."""
    if node.blocks is None:
        _project(node, table, out)
    else:
        _gather(node, table, _fused(table.reshape(node.blocks), None), out)


def _gather(node: _Node, table: Floats, sums: list[Floats], out: Floats) -> None:
    _project(node, table, out)
    for child, part in zip(node.children, sums, strict=True):
        if not child.empty:
            _collect(child, part.reshape(-1), out)


def _project(node: _Node, table: Floats, out: Floats) -> None:
    if node.direct is not None:
        kernels.project_many(table, node.shape, node.direct.strides, node.direct.offsets, out)


def _expand(node: _Node, table: Floats, factors: Floats) -> None:
    if node.direct is not None:
        kernels.expand_many(table, node.shape, node.direct.strides, node.direct.offsets, factors)


def _spread(node: _Node, table: Floats, factors: Floats) -> None:
    """Multiply a node's table by the factors of all its sets, up the tree."""
    _expand(node, table, factors)
    if node.blocks is not None:
        by = [_factor(child, factors) for child in node.children]
        _fused(table.reshape(node.blocks), by, sums=False)


def _factor(node: _Node, factors: Floats) -> Floats:
    table = np.ones(node.cells)
    if not node.empty:
        _spread(node, table, factors)
    return table


def _fused(y: Floats, by: list[Floats] | None, *, sums: bool = True) -> list[Floats]:
    """One pass over y (A, B, C, D): scale by four factors, or fill the four sums, or both; on all cores if large."""
    A, B, C, D = y.shape
    parts = min(_cores(), A) if y.size >= _PARALLEL else 1
    firsts = [np.zeros((B, C, D)) for _ in range(parts)] if sums else []
    rest = [np.zeros((A, C, D)), np.zeros((A, B, D)), np.zeros((A, B, C))] if sums else []
    shapes = ((B, C, D), (A, C, D), (A, B, D), (A, B, C))
    f = [x.reshape(s) for x, s in zip(by, shapes, strict=True)] if by is not None else []

    def work(part: int) -> None:
        cut = slice(A * part // parts, A * (part + 1) // parts)
        scaling = [f[0], *(x[cut] for x in f[1:])] if f else []
        filling = [firsts[part], *(x[cut] for x in rest)] if sums else []
        kernel: Callable[..., None] = (
            kernels.scale_and_sum_blocks if f and sums else kernels.scale_blocks if f else kernels.sum_blocks
        )
        kernel(y[cut], *scaling, *filling)

    if parts == 1:
        work(0)
    else:
        list(_pool(os.getpid()).map(work, range(parts)))
    return [sum(firsts[1:], start=firsts[0]), *rest] if sums else []


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _pool(process: int) -> ThreadPoolExecutor:  # a forked child has none of its parent's threads
    return ThreadPoolExecutor(_cores(), thread_name_prefix="qrelease")


def _describe(node: _Node, lines: list[str], depth: int) -> None:
    direct = 0 if node.direct is None else len(node.direct.offsets)
    blocks = "" if node.blocks is None else f", blocks {' x '.join(map(str, node.blocks))}"
    lines.append(f"{'  ' * (depth + 1)}{node.cells:,} cells: {direct} summed directly{blocks}")
    for child in node.children:
        if not child.empty:
            _describe(child, lines, depth + 1)
