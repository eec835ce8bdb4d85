"""Coordinates for the residuals of marginals, in which those of independent columns are uncorrelated.

The residuals of a set S are the tables over its columns whose sums along each axis are zero, a space of Π (nᵢ-1)
dimensions. It is the product of one such space for each column, and so is its basis here: for column i the eigenvectors
of the covariance of its indicators under a distribution pᵢ, diag(pᵢ) - pᵢpᵢᵀ, restricted to sums of zero. Of N records
with independent columns that are distributed like pᵢ, a coordinate, once freed of what coordinates of fewer columns
say, has the variance N Π λᵢ: N times the product of the columns' eigenvalues.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import groupby, product
from math import prod
from typing import final

import numpy as np
import numpy.typing as npt
from scipy import linalg

from qrelease._util.typing import Axes, Floats


@final
class Interactions:
    """A basis for the residuals of some sets of columns, each set of one column at least, side by side.

    sets        those of equal shapes stand next to each other
    orders      (sets,) how many columns each has
    owner       (dimensions,) the index of the set of each coordinate
    spectrum    (dimensions,) Π λᵢ, the variance of each coordinate for one record of independent columns
    places      where the coordinates of each set are
    """

    def __init__(self, sets: Sequence[Axes], singles: Sequence[Floats]) -> None:
        """singles: a distribution of each column of the universe, (nᵢ,), all positive."""
        shape = [len(p) for p in singles]
        self.sets = tuple(sorted(sets, key=lambda s: (len(s), [shape[a] for a in s])))
        self.orders = np.array([len(s) for s in self.sets])
        self._vectors, values = zip(*map(_eigen, singles), strict=True)
        self._centred = [u - p @ u for u, p in zip(self._vectors, singles, strict=True)]
        spectra = [reduce(np.multiply.outer, [values[a] for a in s]).reshape(-1) for s in self.sets]
        self.spectrum = np.concatenate([np.zeros(0), *spectra])
        self.owner = np.repeat(np.arange(len(self.sets)), [len(x) for x in spectra])
        ends = np.cumsum([len(x) for x in spectra]).tolist()
        self.places = {s: slice(end - len(x), end) for s, x, end in zip(self.sets, spectra, ends, strict=True)}
        self._batches: list[tuple[slice, slice, list[Floats]]] = []
        self._alike: list[list[Axes]] = []  # the sets of each batch
        begin = first = 0
        for sizes, alike in groupby(self.sets, key=lambda s: tuple(shape[a] for a in s)):
            group = list(alike)
            cells, width = len(group) * prod(sizes), len(group) * prod(n - 1 for n in sizes)
            bases = [np.stack([self._vectors[s[i]] for s in group]) for i in range(len(sizes))]
            self._batches.append((slice(begin, begin + cells), slice(first, first + width), bases))
            self._alike.append(group)
            begin, first = begin + cells, first + width
        self._cells = begin

    def coordinates(self, tables: Floats) -> Floats:
        """The coordinates of the residuals of tables, one a set, one after another: (cells,) to (dimensions,)."""
        found = np.empty(len(self.spectrum))
        for cells, place, bases in self._batches:
            found[place] = _along(tables[cells], [b.transpose(0, 2, 1) for b in bases])
        return found

    def tables(self, coordinates: Floats) -> Floats:
        """The residuals with these coordinates: the adjoint of `coordinates`, (dimensions,) to (cells,)."""
        found = np.empty(self._cells)
        for cells, place, bases in self._batches:
            found[cells] = _along(coordinates[place], bases)
        return found

    def variances(self, tables: Floats) -> Floats:
        """The variance of each coordinate for one record with these marginals, (cells,) to (dimensions,).

        It is the `spectrum` where the columns are independent and distributed like pᵢ.
        """
        found = np.empty(len(self.spectrum))
        for (cells, place, _), group in zip(self._batches, self._alike, strict=True):
            axes = zip(*group, strict=True)
            centred = [np.stack([self._centred[a] for a in column]).transpose(0, 2, 1) for column in axes]
            means = _along(tables[cells], centred)
            found[place] = _along(tables[cells], [c**2 for c in centred]) - means**2
        return found

    def features(self, codes: Sequence[npt.NDArray[np.integer]]) -> npt.NDArray[np.float32]:
        """The coordinates of single records, given as codes (records,) of each column: (records, dimensions)."""
        single = [u.astype(np.float32)[c] for u, c in zip(self._vectors, codes, strict=True)]
        found = np.empty((len(codes[0]), len(self.spectrum)), np.float32)
        begin = 0
        for s in self.sets:
            block = single[s[0]]
            for a in s[1:]:
                block = (block[:, :, None] * single[a][:, None, :]).reshape(len(block), -1)
            found[:, begin : begin + block.shape[1]] = block
            begin += block.shape[1]
        return found

    def spread(self, axes: Axes) -> list[Floats]:
        """A matrix (n, n) for each column of a marginal: 1/n in its first column, then the basis.

        Their Kronecker product takes the coordinates of all subsets to cells: the even part is the first of each axis.
        """
        return [np.column_stack([np.full(len(u), 1 / len(u)), u]) for u in (self._vectors[a] for a in axes)]

    def inside(self, axes: Axes) -> npt.NDArray[np.intp]:
        """The indices of the coordinates that `spread` takes to a marginal, (n_i for i in axes); -1 where none is."""
        found = np.full([len(self._vectors[a]) for a in axes], -1)
        for within in product([False, True], repeat=len(axes)):
            s = tuple(a for a, chosen in zip(axes, within, strict=True) if chosen)
            if s in self.places:  # not the empty set, nor one with a column of a single cell
                part = tuple(slice(1, None) if chosen else 0 for chosen in within)
                place = self.places[s]
                found[part] = np.arange(place.start, place.stop).reshape(found[part].shape)
        return found


def needed(shape: Sequence[int]) -> int:
    """Bytes that the bases of columns of so many cells take while they are made, about: some matrices of each."""
    return sum(64 * n * n for n in shape)


def _eigen(distribution: Floats) -> tuple[Floats, Floats]:
    """Eigenvectors (n, n-1) of the covariance of a column's indicators on vectors of sum zero, and its eigenvalues.

    Cells of one probability, as hundreds of rare categories have it, are an eigenspace but for their sum: that of m
    such cells has m - 1 dimensions. What is left has one for each probability.
    """
    n = len(distribution)
    chances, cell, sizes = np.unique(distribution, return_inverse=True, return_counts=True)
    root = np.sqrt(sizes)
    constant = root / np.sqrt(n)  # among the sums of each probability's cells, over the root of their number
    covariance = np.diag(chances) - np.outer(root * chances, root * chances)
    covariance -= np.outer(covariance @ constant, constant)
    covariance -= np.outer(constant, constant @ covariance)
    # The constant vector, which goes to 0, is to be the last: it goes to its double, more than any other.
    between, among = np.linalg.eigh(covariance + 2 * np.outer(constant, constant))
    vectors, values = np.zeros((n, n - 1)), np.repeat(chances, sizes - 1)
    done = len(chances) - 1
    vectors[:, :done] = (among[:, :-1] / root[:, None])[cell]
    for chance in np.flatnonzero(sizes > 1):
        more = sizes[chance] - 1
        vectors[cell == chance, done : done + more] = linalg.helmert(more + 1).T
        done += more
    return vectors, np.maximum(np.concatenate([between[:-1], values]), 0.0)


def _along(tables: Floats, matrices: Sequence[Floats]) -> Floats:
    """Tables of one shape, flat, each multiplied along every axis by its own matrix, (tables, n', n)."""
    block = tables
    for matrix in matrices:
        count, _, before = matrix.shape
        # The first axis is multiplied and becomes the last, so that after all of them the order is the old one.
        block = np.matmul(matrix, block.reshape(count, before, -1)).transpose(0, 2, 1)
    return block.reshape(-1)
