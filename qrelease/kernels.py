"""Numba loops over a histogram: arrays in, arrays out. No validation, no randomness, no objects.

Every kernel releases the interpreter lock, so that `cover` can run one on each core over slices of the outermost
axis; none is compiled with numba's own threads, whose launch costs more than most of the work here.
The layer above (`cover`) checks shapes, sizes and types once. The plain-NumPy twins live in `tests/test_kernels.py`.

The fused passes see the universe as four blocks of adjacent attributes, (A, B, C, D) in C order. A set of at most
three attributes always misses a block, so the four tables that drop one block each contain every such marginal,
and the product of four factors that ignore one block each is every update by such marginals.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

Array = npt.NDArray[Any]

# Sums may be reassociated (that is what lets the compiler use vector instructions); NaN and infinity keep
# their meaning.
_jit: Any = njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")


@_jit
def sum_blocks(y: Array, without_a: Array, without_b: Array, without_c: Array, without_d: Array) -> None:
    """Add y (A, B, C, D) into the four tables that drop one block each: (B,C,D), (A,C,D), (A,B,D), (A,B,C)."""
    A, B, C, D = y.shape
    for a in range(A):
        for b in range(B):
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
    by_bcd: Array,
    by_acd: Array,
    by_abd: Array,
    by_abc: Array,
    without_a: Array,
    without_b: Array,
    without_c: Array,
    without_d: Array,
) -> None:
    """`scale_blocks`, then `sum_blocks` of the result, in one pass over y."""
    A, B, C, D = y.shape
    for a in range(A):
        for b in range(B):
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
    d = shape.size
    inner = shape[d - 1]
    index = np.zeros(d, np.int64)
    for j in range(offsets.size):
        index[:] = 0
        step, at, i = strides[j, d - 1], offsets[j], 0
        while True:
            if step == 0:
                total = 0.0
                for k in range(inner):
                    total += table[i + k]
                out[at] += total
            else:
                for k in range(inner):
                    out[at + k * step] += table[i + k]
            i += inner
            axis = d - 2
            while axis >= 0:
                index[axis] += 1
                at += strides[j, axis]
                if index[axis] < shape[axis]:
                    break
                at -= shape[axis] * strides[j, axis]
                index[axis] = 0
                axis -= 1
            if axis < 0:
                break


@_jit
def expand_many(table: Array, shape: Array, strides: Array, offsets: Array, factors: Array) -> None:
    """Multiply a table in place by several factors over its marginals: the adjoint of `project_many`."""
    d = shape.size
    inner = shape[d - 1]
    index = np.zeros(d, np.int64)
    for j in range(offsets.size):
        index[:] = 0
        step, at, i = strides[j, d - 1], offsets[j], 0
        while True:
            if step == 0:
                f = factors[at]
                for k in range(inner):
                    table[i + k] *= f
            else:
                for k in range(inner):
                    table[i + k] *= factors[at + k * step]
            i += inner
            axis = d - 2
            while axis >= 0:
                index[axis] += 1
                at += strides[j, axis]
                if index[axis] < shape[axis]:
                    break
                at -= shape[axis] * strides[j, axis]
                index[axis] = 0
                axis -= 1
            if axis < 0:
                break


@_jit
def systematic(weights: Array, total: float, start: float, out: Array) -> None:
    """Draw out.size cells, cell i either ⌊p_i m⌋ or ⌈p_i m⌉ times, in order, from one uniform start in [0, 1).

    weights (|X|,) non-negative with the given sum; out (m,) int64. The j-th draw is the cell in which the running
    sum passes (j + start) / m of the total.
    """
    m = out.size
    step = total / m
    running, j = 0.0, 0
    last = 0
    for i in range(weights.size):
        if weights[i] > 0.0:
            last = i
            running += weights[i]
            while j < m and (j + start) * step < running:
                out[j] = i
                j += 1
    while j < m:  # the running sum may end a rounding error below the total
        out[j] = last
        j += 1
