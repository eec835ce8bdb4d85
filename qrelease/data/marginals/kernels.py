"""Numba loops over a histogram, and over records: arrays in, arrays out. No validation, no randomness, no objects.

Every kernel releases the interpreter lock, so that `plan` can run one on each core over slices of an array; none is
compiled with numba's own threads, whose launch costs more than most of the work here. The layers above check shapes,
sizes and types once. The plain-NumPy twins live in `tests/data/marginals/test_kernels.py`.

A histogram y is float64 or float32. Sums of it, and the tables they go to, are float64 either way; where a sum runs in
y's own precision, for the sake of speed, it does so for `_BLOCK_CELLS` cells at a time.

The fused passes see the universe as four blocks of adjacent attributes, (A, B, C, D) in C order. A set of at most
three attributes always misses a block, so the four tables that drop one block each contain every such marginal,
and the product of four factors that ignore one block each is every update by such marginals.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit, types
from numba.extending import overload

Array = npt.NDArray[Any]

Tile = tuple[int, int, int, int]
"""From where to where in the first block, and in the second: tiles that share neither touch no cell of a table both."""

# Sums may be reassociated (that is what lets the compiler use vector instructions); NaN and infinity keep
# their meaning.
_jit: Any = njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")

_BLOCK_CELLS = 1 << 10
CACHE_CELLS = 1 << 15  # cells of float64 that fit a core's second-level cache with room to spare
LINE_CELLS = 64  # cells of a piece of a row that is worth fetching
_LOADS_AHEAD = 32  # loads that a core has under way at once


# --- updates


def _exp(x: Any) -> Any:
    """e^x in the precision of x, to 5e-16 or 2e-7 relative; exponents past the range of numbers are cut off.

    e^x = 2^n 2^r, with n the whole number nearest to x / ln 2: adding 1.5 times the power of two whose last digit is 1
    rounds to it, and leaves it in the last bits of the sum. 2^r is a minimax polynomial on [-1/2, 1/2]. Numba
    takes one of the two forms below. Unlike `math.exp` they are plain arithmetic, so that loops of them become vector
    instructions; unlike the sums above they may not be reassociated, which would undo the rounding.
    """
    raise NotImplementedError


@overload(_exp)
def _exp_in_precision(x: Any) -> Any:
    chosen = {types.float64: _exp64, types.float32: _exp32}[x]

    def exp(x: Any) -> Any:
        return chosen(x)

    return exp


@njit(fastmath={"contract"}, error_model="numpy")
def _exp64(x: Any) -> Any:
    x = min(max(x, -708.0), 709.0)
    rounded = x * 1.442695 + 6755399441055744.0
    n = rounded - 6755399441055744.0
    r = (x * 1.4426950408889634 - n) + x * 2.0355273740931033e-17
    p = 1.0208690299958306e-07 + r * 7.072585949269223e-09
    p = 1.5252657260200837e-05 + r * (1.321544258792169e-06 + r * p)
    p = 0.0013333558230164974 + r * (0.0001540353044173605 + r * p)
    p = 0.05550410866444772 + r * (0.009618129107606888 + r * p)
    p = 1.0 + r * (0.69314718055995 + r * (0.24022650695910097 + r * p))
    return np.int64(np.float64(p).view(np.int64) + (np.float64(rounded).view(np.int64) << 52)).view(np.float64)


@njit(fastmath={"contract"}, error_model="numpy")
def _exp32(x: Any) -> Any:
    f = np.float32
    x = min(max(x, f(-87.0)), f(88.0))
    rounded = x * f(1.4427) + f(12582912.0)
    n = rounded - f(12582912.0)
    r = (x * f(1.4426950216293335) - n) + x * f(1.925963033500011e-08)
    p = f(0.0013400428177615838) + r * f(0.0001546144469856913)
    p = f(0.05550327226670302) + r * (f(0.009618056678524637) + r * p)
    p = f(1.0) + r * (f(0.6931472067028326) + r * (f(0.24022650922288757) + r * p))
    return np.int32(f(p).view(np.int32) + (f(rounded).view(np.int32) << np.int32(23))).view(f)


@_jit
def scale_by_exp(y: Array, q: Array, step: float) -> float:
    """y *= e^(step q) in place, y and q (cells,) of one type; the new sum of y."""
    eta = y.dtype.type(step)
    total = 0.0
    for first in range(0, y.size, _BLOCK_CELLS):
        cells, query = y[first : first + _BLOCK_CELLS], q[first : first + _BLOCK_CELLS]
        part = y.dtype.type(0)
        for i in range(cells.size):
            v = cells[i] * _exp(eta * query[i])
            cells[i] = v
            part += v
        total += part
    return total


@_jit
def scale_masked(y: Array, mask: Array, factor: float) -> float:
    """Multiply the cells of y (cells,) where mask (cells,) bool is true; the new sum of y."""
    f, one = y.dtype.type(factor), y.dtype.type(1)
    total = 0.0
    for first in range(0, y.size, _BLOCK_CELLS):
        cells, chosen = y[first : first + _BLOCK_CELLS], mask[first : first + _BLOCK_CELLS]
        part = y.dtype.type(0)
        for i in range(cells.size):
            v = cells[i] * (f if chosen[i] else one)
            cells[i] = v
            part += v
        total += part
    return total


@_jit
def _load(y: Array, begin: int, stride: int, left: int, ahead: Array) -> int:
    """Copy as many of the cells that are left as `ahead` holds, one at each stride; how many that are."""
    count = min(ahead.size, left)
    for i in range(count):
        ahead[i] = y[begin + i * stride]
    return count


@_jit
def scale_support(y: Array, starts: Array, logs: Array, run: int, tile: Array, shape: Array, strides: Array) -> float:
    """y *= e^logs on the cells that a query on some axes sees, touching no others; by how much the sum of y grew.

    Row j of logs (m, w) belongs to the runs of `run` adjacent cells that begin at starts[j] (m,) and at every step
    from there along the other axes, of the given shape (f,) and strides (f,), f >= 1. With w = 1 it is one number for
    the whole run, else cell k has the one at tile[k] (run,); zeros at either end of a run are left out.
    """
    gained, last = 0.0, shape.size - 1
    index, row, ahead = np.empty(last, np.int64), np.empty(tile.size), np.empty(_LOADS_AHEAD, y.dtype)
    for j in range(starts.size):
        low, high = _unroll(logs[j], tile, run, row)
        for k in range(row.size):
            row[k] = np.exp(row[k])
        factor = np.exp(logs[j, 0]) if tile.size == 0 else row[low]
        index[:] = 0
        at, part = starts[j] + low, 0.0
        while at >= 0:
            if high - low == 1:  # cells far from each other: a store between their loads would hold up the next ones
                for first in range(0, shape[last], _LOADS_AHEAD):
                    begin = at + first * strides[last]
                    for i in range(_load(y, begin, strides[last], shape[last] - first, ahead)):
                        part += ahead[i]
                        y[begin + i * strides[last]] = ahead[i] * factor
            elif tile.size == 0:
                for i in range(shape[last]):
                    cells = y[at + i * strides[last] : at + i * strides[last] + high - low]
                    for k in range(cells.size):
                        part += cells[k]
                        cells[k] *= factor
            else:
                for i in range(shape[last]):
                    cells = y[at + i * strides[last] : at + i * strides[last] + high - low]
                    factors = row[low:high]
                    for k in range(cells.size):
                        gained += cells[k] * (factors[k] - 1.0)
                        cells[k] *= factors[k]
            at = _next(at, index, shape[:last], strides)
        gained += part * (factor - 1.0)
    return gained


@_jit
def sum_support(y: Array, starts: Array, weights: Array, run: int, tile: Array, shape: Array, strides: Array) -> float:
    """Σ q(x) y(x) over the cells that a query q sees; its weights are laid out as the logs of `scale_support`."""
    total, last = 0.0, shape.size - 1
    index, row, ahead = np.empty(last, np.int64), np.empty(tile.size), np.empty(_LOADS_AHEAD, y.dtype)
    for j in range(starts.size):
        low, high = _unroll(weights[j], tile, run, row)
        weight = weights[j, 0] if tile.size == 0 else row[low]
        index[:] = 0
        at, part = starts[j] + low, 0.0
        while at >= 0:
            if high - low == 1:
                for first in range(0, shape[last], _LOADS_AHEAD):
                    begin = at + first * strides[last]
                    for i in range(_load(y, begin, strides[last], shape[last] - first, ahead)):
                        part += ahead[i]
            elif tile.size == 0:
                for i in range(shape[last]):
                    cells = y[at + i * strides[last] : at + i * strides[last] + high - low]
                    for k in range(cells.size):
                        part += cells[k]
            else:
                for i in range(shape[last]):
                    cells = y[at + i * strides[last] : at + i * strides[last] + high - low]
                    inner = row[low:high]
                    for k in range(cells.size):
                        total += cells[k] * inner[k]
            at = _next(at, index, shape[:last], strides)
        total += part * weight
    return total


@_jit
def _unroll(numbers: Array, tile: Array, run: int, row: Array) -> tuple[int, int]:
    """Write row[k] = numbers[tile[k]]; from where to where in the run they are not zero."""
    if tile.size == 0:
        return 0, run
    low, high = run - 1, run
    for k in range(run - 1, -1, -1):
        row[k] = numbers[tile[k]]
        if row[k] != 0.0:
            low = k
    while high > low + 1 and row[high - 1] == 0.0:
        high -= 1
    return low, high


@_jit
def _next(at: int, index: Array, shape: Array, strides: Array) -> int:
    """The position after `at` in the order of an index into `shape`, which it moves on; -1 after the last."""
    for axis in range(shape.size - 1, -1, -1):
        index[axis] += 1
        at += strides[axis]
        if index[axis] < shape[axis]:
            return at
        at -= shape[axis] * strides[axis]
        index[axis] = 0
    return -1


# --- marginals and factors


@_jit
def sum_blocks(y: Array, tile: Tile, without_a: Array, without_b: Array, without_c: Array, without_d: Array) -> None:
    """Add y (A, B, C, D) into the four tables that drop one block each: (B,C,D), (A,C,D), (A,B,D), (A,B,C)."""
    _, _, C, D = y.shape
    for i in range(tile[0], tile[1]):
        for j in range(tile[2], tile[3]):
            a, b = np.uintp(i), np.uintp(j)  # which, unlike others, need not be looked at for counting from the end
            row_c = without_c[a, b]
            for c in range(C):
                row, row_a, row_b = y[a, b, c], without_a[b, c], without_b[a, c]
                total = 0.0
                for d in range(D):
                    v = row[d]
                    total += v
                    row_a[d] += v
                    row_b[d] += v
                    row_c[d] += v
                without_d[a, b, c] += total


@_jit
def scale_blocks(y: Array, by_bcd: Array, by_acd: Array, by_abd: Array, by_abc: Array) -> None:
    """Multiply y (A, B, C, D) in place by four factors, each of which ignores one block."""
    A, B, C, D = y.shape
    for a in range(A):
        for b in range(B):
            f_c = by_abd[a, b]
            for c in range(C):
                row, f_a, f_b, f_d = y[a, b, c], by_bcd[b, c], by_acd[a, c], by_abc[a, b, c]
                for d in range(D):
                    row[d] *= (f_a[d] * f_b[d]) * (f_c[d] * f_d)


@_jit
def scale_and_sum_blocks(
    y: Array,
    tile: Tile,
    by_bcd: Array,
    by_acd: Array,
    by_abd: Array,
    by_abc: Array,
    without_a: Array,
    without_b: Array,
    without_c: Array,
    without_d: Array,
) -> None:
    """`scale_blocks`, then `sum_blocks` of the result, in one pass over a tile of y."""
    _, _, C, D = y.shape
    for i in range(tile[0], tile[1]):
        for j in range(tile[2], tile[3]):
            a, b = np.uintp(i), np.uintp(j)  # which, unlike others, need not be looked at for counting from the end
            f_c, row_c = by_abd[a, b], without_c[a, b]
            for c in range(C):
                row, f_a, f_b, f_d = y[a, b, c], by_bcd[b, c], by_acd[a, c], by_abc[a, b, c]
                row_a, row_b = without_a[b, c], without_b[a, c]
                total = 0.0
                for d in range(D):
                    v = row[d] * ((f_a[d] * f_b[d]) * (f_c[d] * f_d))
                    row[d] = v
                    total += v
                    row_a[d] += v
                    row_b[d] += v
                    row_c[d] += v
                without_d[a, b, c] += total


@_jit
def project_many(table: Array, shape: Array, strides: Array, offsets: Array, out: Array) -> None:
    """Add several marginals of one table into a flat vector.

    table (cells,), shape (d,), strides (m, d): the step in marginal j for a step on each axis, 0 where the axis is
    summed out; offsets (m,): where marginal j begins in out.
    """
    last = shape.size - 1
    sizes, steps, index = np.empty(last + 1, np.int64), np.empty(last + 1, np.int64), np.empty(last, np.int64)
    for j in range(offsets.size):
        first = _merge(shape, strides[j], sizes, steps)
        inner, step, at, i = sizes[last], steps[last], offsets[j], 0
        index[:] = 0
        while at >= 0:
            if step == 0:
                total = 0.0
                for k in range(inner):
                    total += table[i + k]
                out[at] += total
            else:
                for k in range(inner):
                    out[at + k * step] += table[i + k]
            i += inner
            at = _next(at, index[first:], sizes[first:last], steps[first:last])


@_jit
def expand_many(table: Array, shape: Array, strides: Array, offsets: Array, factors: Array) -> None:
    """Multiply a table in place by several factors over its marginals: the adjoint of `project_many`."""
    last = shape.size - 1
    sizes, steps, index = np.empty(last + 1, np.int64), np.empty(last + 1, np.int64), np.empty(last, np.int64)
    for j in range(offsets.size):
        first = _merge(shape, strides[j], sizes, steps)
        inner, step, at, i = sizes[last], steps[last], offsets[j], 0
        index[:] = 0
        while at >= 0:
            if step == 0:
                f = factors[at]
                for k in range(inner):
                    table[i + k] *= f
            else:
                for k in range(inner):
                    table[i + k] *= factors[at + k * step]
            i += inner
            at = _next(at, index[first:], sizes[first:last], steps[first:last])


@_jit
def _merge(shape: Array, strides: Array, sizes: Array, steps: Array) -> int:
    """Write axes that can be walked as one as one, to the ends of sizes and steps (d,); where the first of them is."""
    first = shape.size
    for axis in range(shape.size - 1, -1, -1):
        if first < shape.size and strides[axis] == steps[first] * sizes[first]:
            sizes[first] *= shape[axis]
        else:
            first -= 1
            sizes[first], steps[first] = shape[axis], strides[axis]
    return first


# --- the tree of tables below the universe


class Tree(NamedTuple):
    """m tables in one vector, each before the tables that drop one of its four blocks; `MarginalPlan` lays them out.

    begins (m,), cells (m,)  where a table lies in the vector
    blocks (m, 4)            its shape as blocks, zeros if it is not divided
    children (m, 4)          the numbers of the tables without one block each
    axes (m + 1,)            axes[i]:axes[i + 1] are its axes in `shapes`
    sets (m + 1,)            sets[i]:sets[i + 1] are its marginals in `offsets`: those summed from it directly
    steps (m + 1,)           steps[i]:steps[i + 1] are their strides, flat, in `strides`
    """

    begins: Array
    cells: Array
    blocks: Array
    children: Array
    axes: Array
    shapes: Array
    sets: Array
    offsets: Array
    steps: Array
    strides: Array


@_jit
def _children(tree: Tree, tables: Array, i: int) -> tuple[Array, Array, Array, Array]:
    """The four tables below table i, each without one of its blocks, as views of the vector of all tables."""
    A, B, C, D = tree.blocks[i]
    a, b = tree.begins[tree.children[i, 0]], tree.begins[tree.children[i, 1]]
    c, d = tree.begins[tree.children[i, 2]], tree.begins[tree.children[i, 3]]
    return (
        tables[a : a + B * C * D].reshape((B, C, D)),
        tables[b : b + A * C * D].reshape((A, C, D)),
        tables[c : c + A * B * D].reshape((A, B, D)),
        tables[d : d + A * B * C].reshape((A, B, C)),
    )


@_jit
def _direct_marginals(tree: Tree, i: int) -> tuple[Array, Array, Array]:
    """The shape of table i, and the strides and offsets of the marginals that are summed from it directly."""
    shape, offsets = tree.shapes[tree.axes[i] : tree.axes[i + 1]], tree.offsets[tree.sets[i] : tree.sets[i + 1]]
    return shape, tree.strides[tree.steps[i] : tree.steps[i + 1]].reshape((offsets.size, shape.size)), offsets


@_jit
def collect(tree: Tree, tables: Array, out: Array) -> None:
    """From the first tables, fill those below, which must be zeros, and add all marginals into out."""
    for i in range(tree.begins.size):
        table = tables[tree.begins[i] : tree.begins[i] + tree.cells[i]]
        A, B, C, D = tree.blocks[i]
        if A > 0:
            bcd, acd, abd, abc = _children(tree, tables, i)
            sum_blocks(table.reshape((A, B, C, D)), (0, A, 0, B), bcd, acd, abd, abc)
        shape, strides, offsets = _direct_marginals(tree, i)
        project_many(table, shape, strides, offsets, out)


@_jit
def spread(tree: Tree, tables: Array, factors: Array) -> None:
    """Multiply the first four tables by the factors of all marginals, by way of the others, which must be ones."""
    for i in range(tree.begins.size - 1, -1, -1):
        table = tables[tree.begins[i] : tree.begins[i] + tree.cells[i]]
        A, B, C, D = tree.blocks[i]
        if A > 0:
            bcd, acd, abd, abc = _children(tree, tables, i)
            scale_blocks(table.reshape((A, B, C, D)), bcd, acd, abd, abc)
        shape, strides, offsets = _direct_marginals(tree, i)
        expand_many(table, shape, strides, offsets, factors)


# --- transforms, samples and counts


@_jit
def walsh_hadamard(y: Array, width: int) -> None:
    """Replace each piece of y by its transform: Σ_x (-1)^(s·x) y(x) for each s, s·x a product of bit vectors.

    y (2^k,) in pieces of `width`, a power of two.
    """
    for first in range(0, y.size, width):
        _butterflies(y[first : first + width], 1)


@_jit
def walsh_hadamard_across(y: Array, width: int, low: int, high: int) -> None:
    """The levels of the transform of y that are left after `walsh_hadamard`: each column low..high-1 of the pieces.

    A few columns at a time, whole cache lines, which are brought together.
    """
    rows = y.size // width
    columns = np.empty(rows * LINE_CELLS, y.dtype)
    for first in range(low, high, LINE_CELLS):
        for row in range(rows):
            for k in range(LINE_CELLS):
                columns[row * LINE_CELLS + k] = y[row * width + first + k]
        _butterflies(columns, LINE_CELLS)
        for row in range(rows):
            for k in range(LINE_CELLS):
                y[row * width + first + k] = columns[row * LINE_CELLS + k]


@_jit
def _butterflies(y: Array, step: int) -> None:
    """All levels of the transform of y (n,) from one step on: cells so far apart become their sum and difference.

    The first three, whose loops would be too short for vectors, are written out.
    """
    n = y.size
    if step == 1 and n >= 8:
        for first in range(0, n, 8):
            cells = y[first : first + 8]
            a, b, c, d = cells[0] + cells[1], cells[0] - cells[1], cells[2] + cells[3], cells[2] - cells[3]
            e, f, g, h = cells[4] + cells[5], cells[4] - cells[5], cells[6] + cells[7], cells[6] - cells[7]
            a, b, c, d = a + c, b + d, a - c, b - d
            e, f, g, h = e + g, f + h, e - g, f - h
            cells[0], cells[1], cells[2], cells[3] = a + e, b + f, c + g, d + h
            cells[4], cells[5], cells[6], cells[7] = a - e, b - f, c - g, d - h
        step = 8
    while step < n:
        for first in range(0, n, 2 * step):
            left, right = y[first : first + step], y[first + step : first + 2 * step]
            for i in range(step):
                u, v = left[i], right[i]
                left[i], right[i] = u + v, u - v
        step *= 2


@_jit
def systematic_marks(
    weights: Array, first: int, before: float, step: float, start: float, number: int, out: Array
) -> None:
    """On which cells of a piece the marks fall that are known to fall on some, in order: (j + start) step, j = number…

    weights (n,), not all zero, of cells that are numbered from `first`, after others whose weights sum to `before`;
    out (m,) int64. A mark falls on the cell in which the running sum passes it.
    """
    running, last, j = before, first, 0
    for i in range(weights.size):
        if weights[i] > 0.0:
            last = first + i
            running += weights[i]
            while j < out.size and (number + j + start) * step < running:
                out[j] = last
                j += 1
    while j < out.size:  # the running sum may end a rounding error below that of the piece
        out[j] = last
        j += 1


@_jit
def count_codes(
    codes: Array,
    sizes: Array,
    digits: Array,
    radices: Array,
    starts: Array,
    offsets: Array,
    index: Array,
    counts: Array,
) -> int:
    """Add the records of codes (d, m) into the tables that lie one after another in counts; -1.

    Table s has the digits `digits[starts[s]:starts[s + 1]]` (rows of codes) and begins at `offsets[s]`. The
    index (at least m,) is built digit by digit over all records, so that those loops are vector instructions.

    If a code is not below its column's size (d,), the number of the first such column, and nothing is counted: codes
    may come from a file that is not what it was when they were checked.
    """
    rows = codes.shape[1]
    for column in range(len(sizes)):
        row, most = codes[column], codes.dtype.type(0)
        for r in range(rows):
            most = max(most, row[r])
        if most >= sizes[column] and rows:
            return column
    for s in range(len(offsets)):
        index[:rows] = 0
        for digit in range(starts[s], starts[s + 1]):
            row, radix = codes[digits[digit]], radices[digit]
            for r in range(rows):
                index[r] = index[r] * radix + row[r]
        table = counts[offsets[s] :]
        for r in range(rows):
            table[index[r]] += 1
    return -1
