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

from collections.abc import Sequence
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
_SCANNED = 16  # values of a column up to which all are read
_VAIN = 4  # of a longer one: a proposal for every so many values is made before all are read
_UNIT, _HALF = 2.0**53, 2.0**32


def marginals(shape: tuple[int, ...], rows: int, columns: Sequence[int] | None = None) -> list[Axes]:
    """The sets of columns whose marginals are settled: all of up to three, two, or one, and always the first column.

    columns  only sets of these, by default of all
    """
    columns = range(len(shape)) if columns is None else columns
    sets: list[Axes] = [(0,)]
    for order in range(1, min(_ORDER, len(columns)) + 1):
        if rows * comb(len(columns), order) > MAX_WORK:
            break
        more = list(combinations(columns, order))
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
    radix_of = {(i, a): prod(shape[b] for b in s[k + 1 :]) for i, s in enumerate(kept) for k, a in enumerate(s)}
    steps = np.array([radix_of[i, a] for a, h in enumerate(holders) for i in h], np.int64)
    for _ in range(_PASSES):
        rng.shuffle(moving)
        for some in np.split(moving, range(_ROWS, len(moving), _ROWS)):
            chances = rng.random((len(some), len(shape)))
            _move(weights, scale, cells, some, chances, *grid, which, steps, bounds, errors, taken)


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


@njit(cache=True, nogil=True, inline="always")
def _left(weights: Any, scale: float, y: Any, taken: npt.NDArray[np.uint8]) -> float:
    """The fractional part of what a cell expects; 0 where it was rounded up."""
    if taken[y >> 3] >> (y & 7) & 1:
        return 0.0
    expected = weights[y] * scale
    return float(expected - np.floor(expected))


@njit(cache=True, nogil=True)
def proposed(
    weights: Any, scale: float, base: Any, size: Any, stride: Any, chance: float, taken: npt.NDArray[np.uint8]
) -> int:
    """A value drawn by what is left of the cells of a line, by rejection: it reads few of them.

    -1 after so many proposals in vain that all may as well be read. The law stays what it is.
    """
    state = np.uint64(chance * _UNIT)
    for _ in range(size // _VAIN):
        # The generator of Steele, Lea & Flood 2014 (SplitMix), started anew by each chance.
        state += np.uint64(0x9E3779B97F4A7C15)
        mixed = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
        v = np.int64(((mixed >> np.uint64(32)) * np.uint64(size)) >> np.uint64(32))
        if np.float64(mixed & np.uint64(0xFFFFFFFF)) < _left(weights, scale, base + v * stride, taken) * _HALF:
            return int(v)
    return -1


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
    steps: Ints,
    bounds: Ints,
    errors: Floats,
    taken: npt.NDArray[np.uint8],
) -> None:
    """Offer each record one move along each column, and take what makes the sum of squared errors smaller.

    which, steps, bounds  the sets that hold each column, one column after another, and how far apart in the marginal
                          neighbouring values of that column are; the first set of each column
    """
    digits = np.empty(len(sizes), np.int64)
    left = np.empty(sizes.max())
    here = np.empty(len(offsets), np.int64)  # where the record is in each marginal
    for r in range(len(rows)):
        x = cells[rows[r]]
        for a in range(len(sizes)):
            digits[a] = x // strides[a] % sizes[a]
        for s in range(len(offsets)):
            here[s] = offsets[s]
            for i in range(starts[s], starts[s + 1]):
                here[s] += digits[axes[i]] * radices[i]
        for a in range(len(sizes)):
            if bounds[a] == bounds[a + 1]:  # no marginal would show it
                continue
            base, v = x - digits[a] * strides[a], -1
            if sizes[a] > _SCANNED:
                v = proposed(weights, scale, base, sizes[a], strides[a], chances[r, a], taken)
            if v < 0:
                whole = 0.0
                for u in range(sizes[a]):
                    left[u] = _left(weights, scale, base + u * strides[a], taken)
                    whole += left[u]
                if whole <= 0.0:
                    continue
                level = chances[r, a] * whole
                while level >= 0.0 and v < sizes[a] - 1:
                    v += 1
                    level -= left[v]
                if left[v] <= 0.0:
                    continue
            gain, change = 0.0, v - digits[a]  # half of what the squares grow by
            for j in range(bounds[a], bounds[a + 1]):
                index = here[which[j]]
                gain += errors[index + change * steps[j]] - errors[index] + 1.0
            if gain >= 0.0:
                continue
            for j in range(bounds[a], bounds[a + 1]):
                s = which[j]
                errors[here[s]] -= 1.0
                here[s] += change * steps[j]
                errors[here[s]] += 1.0
            y = base + v * strides[a]
            taken[x >> 3] &= np.uint8(255 - (1 << (x & 7)))
            taken[y >> 3] |= np.uint8(1 << (y & 7))
            x, digits[a] = y, v
        cells[rows[r]] = x
