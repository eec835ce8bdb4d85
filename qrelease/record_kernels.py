# mypy: disallow-untyped-decorators=False
"""Numba loops over weighted records, and the moves of a Gibbs sampler: arrays in, arrays out, as in `kernels`.

Records are codes (d, n), a row a column of the universe. Tables lie one after another in a flat vector; the j-th, over
the columns axes[firsts[j]:firsts[j + 1]] with the given steps, begins at begins[j].
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from qrelease.kernels import _exp, _jit

Array = npt.NDArray[Any]

_NEVER = np.float32(-80)  # below that, e^x is 0: what has the logarithm -∞ must never be drawn
_BLOCK = 1 << 12  # records whose codes and positions stay in a core's first two caches


@_jit
def spread(
    codes: Array, weights: Array, axes: Array, steps: Array, firsts: Array, begins: Array, tables: Array
) -> None:
    """Add the weight (n,) of each record to its cell in every table."""
    where = np.empty(_BLOCK, np.int64)
    for first in range(0, codes.shape[1], _BLOCK):
        weight = weights[first : first + _BLOCK]
        for j in range(begins.size):
            _places(codes, first, weight.size, axes, steps, firsts[j], firsts[j + 1], begins[j], where)
            for i in range(weight.size):
                tables[where[i]] += weight[i]


@_jit
def gather(codes: Array, tables: Array, axes: Array, steps: Array, firsts: Array, begins: Array, sums: Array) -> None:
    """Add to each record's sum (n,) what every table says at its cell: the adjoint of `spread`."""
    where = np.empty(_BLOCK, np.int64)
    for first in range(0, codes.shape[1], _BLOCK):
        part = sums[first : first + _BLOCK]
        for j in range(begins.size):
            _places(codes, first, part.size, axes, steps, firsts[j], firsts[j + 1], begins[j], where)
            for i in range(part.size):
                part[i] += tables[where[i]]


@_jit
def _places(
    codes: Array, first: int, count: int, axes: Array, steps: Array, low: int, high: int, begin: int, where: Array
) -> None:
    """Write where the records from the first on lie in one table."""
    where[:count] = begin
    for q in range(low, high):
        column, step = codes[axes[q]], steps[q]
        for i in range(count):
            where[i] += np.int64(column[first + i]) * step


@_jit
def redraw(
    codes: Array,
    column: int,
    size: int,
    axes: Array,
    steps: Array,
    firsts: Array,
    begins: Array,
    tables: Array,
    begin: int,
    end: int,
    seed: Any,
) -> None:
    """Draw one column of the records begin..end-1 anew, each from its distribution given the record's other columns.

    Its weights are e^(the sum of the tables, float32), in which this column is the last axis, `size` long, and `axes`
    are the other ones. The draw of a record depends on the seed and the record's number alone. What has no weight is
    never drawn: a record that has no other choice keeps what it has.
    """
    record, logs = np.empty(codes.shape[0], np.int64), np.empty(size, np.float32)
    for r in range(begin, end):
        for a in range(codes.shape[0]):
            record[a] = codes[a, r]
        logs[:] = 0
        for j in range(begins.size):
            at = begins[j]
            for q in range(firsts[j], firsts[j + 1]):
                at += record[axes[q]] * steps[q]
            row = tables[at : at + size]
            for k in range(size):
                logs[k] += row[k]
        most = logs[0]
        for k in range(size):
            most = max(most, logs[k])
        if most == -np.inf:
            continue
        total = np.float32(0)
        for k in range(size):
            difference = logs[k] - most
            logs[k] = _exp(difference) if difference > _NEVER else np.float32(0)
            total += logs[k]
        mark, k = np.float32(_uniform(seed, r)) * total, 0
        while k < size - 1:
            mark -= logs[k]
            if mark < 0:
                break
            k += 1
        while k > 0 and logs[k] == 0:  # the last ones: what rounding left of the mark is no part of them
            k -= 1
        codes[column, r] = k


@_jit
def _uniform(seed: Any, number: int) -> float:
    """The number-th of a seed's sequence, in [0, 1): SplitMix64 (Steele, Lea & Flood 2014)."""
    z = np.uint64(seed) + np.uint64(number + 1) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return np.float64(z >> np.uint64(11)) * 2.0**-53
