"""Controlled rounding: a table of whole records whose marginals are as near to a histogram's as records can be.

A histogram expects a fractional number of records in a cell; a table holds one more or one less. Systematic sampling
rounds each cell down or up, by chance; but of all tables that do, most have far worse marginals than the best
[Cox 1987, *A constructive procedure for unbiased controlled rounding*]. So the records that were rounded up move on:
each in turn to a cell that differs in one column and was rounded down, drawn by what is left of the cells' fractional
parts, if that brings the marginals nearer. A cell still holds what it expects, rounded down or up. What is drawn is
nearer than by chance, and no longer right on average over all draws: where a table of few records cannot hold a rare
cell, it mostly does not.

All marginals on up to three columns count, as far as there are not too many of them: rounding many light cells down is
seen in the sums.
"""

from __future__ import annotations

from itertools import combinations
from math import comb, prod
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from qrelease._util.typing import Axes, Floats, Ints
from qrelease.data.marginals.plan import MarginalPlan

_ORDER = 3
MAX_MARGINAL_CELLS = 1 << 22  # of all marginals
MAX_WORK = 1 << 29  # records times marginals: a second or two
_PASSES = 3
_ROWS = 1 << 16  # records that are moved at a time


def marginals(shape: tuple[int, ...], rows: int) -> list[Axes]:
    """The sets of columns whose marginals are settled: all of up to three, two, or one, and always the first column."""
    sets: list[Axes] = [(0,)]
    for order in range(1, min(_ORDER, len(shape)) + 1):
        if rows * comb(len(shape), order) > MAX_WORK:
            break
        more = list(combinations(range(len(shape)), order))
        if sum(prod(shape[a] for a in s) for s in more) > MAX_MARGINAL_CELLS:
            break
        sets = list(dict.fromkeys([*sets, *more]))
    return sets


def settle(
    weights: npt.NDArray[Any],
    scale: float,
    cells: Ints,
    cover: MarginalPlan,
    expected: Floats,
    rng: np.random.Generator,
) -> None:
    """Move drawn records, in place, to where the squared errors of all marginals together are smaller.

    weights   (|X|,), of which `scale` times one is the number of records that its cell expects
    cells     (rows,), in ascending order: ⌊expected⌋ or ⌈expected⌉ of each
    expected  in the cells of the marginals of the cover, flat, numbers of records
    """
    kept, shape = cover.sets, cover.shape
    axes = np.array([a for s in kept for a in s])
    radices = np.array([prod(shape[b] for b in s[i + 1 :]) for s in kept for i in range(len(s))])
    starts = np.cumsum([0, *map(len, kept)])
    offsets, errors = np.array(cover.offsets[:-1]), -expected
    sizes = np.array(shape)
    strides = np.array([prod(shape[i + 1 :]) for i in range(len(shape))])
    taken = np.zeros(weights.size // 8 + 1, np.uint8)
    moving = np.empty(len(cells), np.int64)
    grid = sizes, strides, axes, radices, starts, offsets
    moving = moving[: _begin(weights, scale, cells, *grid, errors, taken, moving)]
    # The sets that hold each column, one after another.
    holders = [[i for i, s in enumerate(kept) if a in s] for a in range(len(shape))]
    which, bounds = np.array([i for h in holders for i in h], np.int64), np.cumsum([0, *map(len, holders)])
    for _ in range(_PASSES):
        rng.shuffle(moving)
        for some in np.split(moving, range(_ROWS, len(moving), _ROWS)):
            chances = rng.random((len(some), len(shape)))
            _move(weights, scale, cells, some, chances, *grid, which, bounds, errors, taken)


@njit(cache=True, nogil=True)
def _begin(
    weights: Any,
    scale: float,
    cells: Ints,
    sizes: Ints,
    strides: Ints,
    axes: Ints,
    radices: Ints,
    starts: Ints,
    offsets: Ints,
    errors: Floats,
    taken: npt.NDArray[np.uint8],
    moving: Ints,
) -> int:
    """Add the records to the errors, and list those that were rounded up; how many there are."""
    found, again = 0, 0
    digits = np.empty(len(sizes), np.int64)
    for r in range(len(cells)):
        x = cells[r]
        again = again + 1 if r and cells[r - 1] == x else 0
        if again == np.int64(weights[x] * scale):  # one more than the whole ones
            moving[found] = r
            taken[x >> 3] |= np.uint8(1 << (x & 7))
            found += 1
        for a in range(len(sizes)):
            digits[a] = x // strides[a] % sizes[a]
        for s in range(len(offsets)):
            index = offsets[s]
            for i in range(starts[s], starts[s + 1]):
                index += digits[axes[i]] * radices[i]
            errors[index] += 1.0
    return found


@njit(cache=True, nogil=True)
def _move(
    weights: Any,
    scale: float,
    cells: Ints,
    rows: Ints,
    chances: Floats,
    sizes: Ints,
    strides: Ints,
    axes: Ints,
    radices: Ints,
    starts: Ints,
    offsets: Ints,
    which: Ints,
    bounds: Ints,
    errors: Floats,
    taken: npt.NDArray[np.uint8],
) -> None:
    """Offer each record one move along each column, and take what makes the sum of squared errors smaller."""
    digits = np.empty(len(sizes), np.int64)
    left = np.empty(sizes.max())
    here, radix = np.empty(len(offsets), np.int64), np.empty(len(offsets), np.int64)
    for r in range(len(rows)):
        x = cells[rows[r]]
        for a in range(len(sizes)):
            digits[a] = x // strides[a] % sizes[a]
        for a in range(len(sizes)):
            base, whole = x - digits[a] * strides[a], 0.0
            for v in range(sizes[a]):
                y = base + v * strides[a]
                expected = weights[y] * scale
                left[v] = 0.0 if taken[y >> 3] >> (y & 7) & 1 else expected - np.floor(expected)
                whole += left[v]
            if whole <= 0.0:
                continue
            v, level = -1, chances[r, a] * whole
            while level >= 0.0 and v < sizes[a] - 1:
                v += 1
                level -= left[v]
            if left[v] <= 0.0:
                continue
            gain = 0.0  # half of what the squares grow by
            for j in range(bounds[a], bounds[a + 1]):
                s = which[j]
                index = offsets[s]
                for i in range(starts[s], starts[s + 1]):
                    index += digits[axes[i]] * radices[i]
                    if axes[i] == a:
                        radix[s] = radices[i]
                here[s] = index
                gain += errors[index + (v - digits[a]) * radix[s]] - errors[index] + 1.0
            if gain >= 0.0:
                continue
            for j in range(bounds[a], bounds[a + 1]):
                s = which[j]
                errors[here[s]] -= 1.0
                errors[here[s] + (v - digits[a]) * radix[s]] += 1.0
            y = base + v * strides[a]
            taken[x >> 3] &= np.uint8(255 - (1 << (x & 7)))
            taken[y >> 3] |= np.uint8(1 << (y & 7))
            x, digits[a] = y, v
        cells[rows[r]] = x
