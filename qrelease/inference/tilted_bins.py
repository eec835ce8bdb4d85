"""Where numbers lie inside their bins, given the means that were measured of them.

Counts say how many records are in a bin and nothing of where; in a wide bin, such as the last of a long tail, that
decides the mean. Where means by group were measured besides, the records of a bin have, of all densities with these
means, the one of least relative entropy to the column's own (even, or by its shape). It is the column's density times
exp(λv), with λ the sum of one number for each group that the record belongs to (exponential tilting; Csiszár,
*I-divergence geometry*, 1975). So narrow bins hardly change and wide ones may, and how many records a bin has does not
change at all.

A measured mean m of a group's n records is off by its noise, and so are the counts of bins, with a variance of V
together. The density minimises (misfit of m)²/2V plus its relative entropy, so that the column's own density counts as
much as one record would: the numbers λ are those that minimise Σ log Z over all records less Σ nλm - nVλ²/2 over all
groups, which is convex (relaxed maximum entropy; Dudík, Phillips and Schapire, *Maximum entropy density estimation with
generalized regularization*, 2007). What noise may explain is left to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from qrelease._util.typing import Axes, Floats, Ints
from qrelease.data.attribute import Attribute
from qrelease.data.bin_pieces import BinPieces
from qrelease.data.domain import Domain
from qrelease.data.predicates import Predicate

_SLICES: Final = 32
"""Slices of a bin, in each of which the density is the column's own; narrow at both ends, where it may be steep."""

_STEEPEST: Final = 1000.0
"""|λ| times the width of the column at most: the density of bins a hundredth as wide changes by a factor of e^10."""

_ROWS: Final = 1 << 18
"""Records drawn at a time."""

Codes = Sequence[npt.NDArray[np.integer[Any]]]


@final
@dataclass(frozen=True, eq=False)
class GroupMeans:
    """Measured means of a column by group.

    axes        the columns of the groups; none for all records together
    shape       how many cells each has
    kept        the condition that the records meet; None for all
    means       (groups,), in the units of the column; NaN where it is not known
    deviations  (groups,), the standard deviation of mean and counts together
    """

    axes: Axes
    shape: tuple[int, ...]
    kept: Predicate | None
    means: Floats
    deviations: Floats

    def groups(self, codes: Codes) -> Ints:
        """The group of each record, (n,); -1 where it is in none that is known."""
        if self.axes:
            found = np.ravel_multi_index([np.asarray(codes[axis]) for axis in self.axes], self.shape)
        else:
            found = np.zeros(len(codes[0]), np.intp)
        known = ~np.isnan(self.means)[found]
        if self.kept is not None:
            shape = tuple(self.kept.domain.shape[axis] for axis in self.kept.axes)
            known &= self.kept.mask().reshape(shape)[tuple(np.asarray(codes[axis]) for axis in self.kept.axes)]
        return np.where(known, found, -1)


@final
@dataclass(frozen=True, eq=False)
class TiltedBins:
    """The densities of a column inside its bins, by group.

    axis    the column
    clip    the first and the last point of its grid that values were clipped to where they were summed
    tables  the groups whose means were measured, of such values
    tilts   λ for each group of each table, times the width of what values were clipped to
    """

    domain: Domain
    axis: int
    clip: tuple[int, int]
    tables: tuple[GroupMeans, ...]
    tilts: tuple[Floats, ...]

    @classmethod
    def fitted(
        cls,
        domain: Domain,
        axis: int,
        clip: tuple[int, int],
        tables: Sequence[GroupMeans],
        codes: Codes,
        weights: Floats,
    ) -> TiltedBins:
        """Densities that give records the means that were measured, as nearly as their noise asks.

        Parameters
        ----------
        domain
            The universe.
        axis
            A column with a grid and bins.
        clip
            The first and the last point of the grid that its values were clipped to.
        tables
            The means that were measured, of values that were clipped so.
        codes
            Records of a model, one array (n,) for each column.
        weights
            How many records each stands for, (n,).
        """
        attribute, slices = domain.attributes[axis], _Slices.of(domain.attributes[axis], clip)
        low, width = _ends(attribute, clip)
        valued = np.asarray(codes[axis]) < attribute.values
        kinds, which = _kinds([np.asarray(codes[axis], np.int64)[valued], *(t.groups(codes)[valued] for t in tables)])
        bins, sizes = kinds[0], np.bincount(which, weights[valued], len(kinds[0])).astype(np.float64)
        members, lengths = kinds[1:], [len(table.means) for table in tables]
        starts = np.cumsum([0, *lengths])  # the groups of all tables, one after another
        count = int(starts[-1])

        def by_group(parts: Floats) -> Floats:
            # Those of no group are counted in front.
            found = [np.bincount(of + 1, parts, n + 1)[1:] for of, n in zip(members, lengths, strict=True)]
            return np.concatenate([np.zeros(0), *found])

        def by_table(tilts: Floats) -> list[Floats]:
            return [tilts[a:b] for a, b in pairwise(starts)]

        means, deviations = (
            np.nan_to_num(np.concatenate([np.zeros(0), *(getattr(table, name) for table in tables)]))
            for name in ("means", "deviations")
        )
        n = by_group(sizes)  # nobody is in a group of which nothing is known
        targets, variances = n * (means - low) / width, n * (deviations / width) ** 2
        curvature = by_group(sizes * slices.moments(bins, np.zeros(len(bins)))[2]) + variances
        free = np.flatnonzero(curvature > 0)
        scale = np.sqrt(curvature[free])

        def spread(scaled: Floats) -> Floats:
            tilts = np.zeros(count)
            tilts[free] = scaled / scale
            return tilts

        def objective(scaled: Floats) -> tuple[float, Floats]:
            tilts = spread(scaled)
            log, mean, _ = slices.moments(bins, _each(members, by_table(tilts), len(bins)))
            value = float(sizes @ log - targets @ tilts + variances @ tilts**2 / 2)
            gradient = by_group(sizes * mean) - targets + variances * tilts
            return value, gradient[free] / scale

        found = np.zeros(0)
        if len(free):
            bounds = [(-_STEEPEST * s, _STEEPEST * s) for s in scale.tolist()]
            found = minimize(objective, np.zeros(len(free)), jac=True, method="L-BFGS-B", bounds=bounds).x
        tilts = spread(found)
        return cls(domain, axis, clip, tuple(tables), tuple(by_table(tilts)))

    def points(self, codes: Codes, rng: np.random.Generator) -> Ints:
        """A point of the column's grid for each record, (n,), in the bin that it is in; any for one without a value.

        Parameters
        ----------
        codes
            Records, one array (n,) for each column.
        rng
            Ordinary randomness: all that is drawn from is public.
        """
        attribute = self.domain.attributes[self.axis]
        slices = _Slices.of(attribute, self.clip)
        found = np.zeros(len(codes[0]), np.int64)
        for low in range(0, len(found), _ROWS):
            part = [np.asarray(column[low : low + _ROWS]) for column in codes]
            bins = np.minimum(part[self.axis], attribute.values - 1)
            each = _each([table.groups(part) for table in self.tables], self.tilts, len(bins))
            found[low : low + _ROWS] = slices.draw(bins, each, rng)
        return found

    def moments(self, codes: Codes) -> tuple[Floats, Floats]:
        """The mean and the variance of records' clipped values, given their bins and groups, (n,) each; NaN for none.

        The variance is that of the means of slices: a little too small.
        """
        attribute = self.domain.attributes[self.axis]
        bins = np.asarray(codes[self.axis], np.int64)
        each = _each([table.groups(codes) for table in self.tables], self.tilts, len(bins))
        found = _Slices.of(attribute, self.clip).moments(np.minimum(bins, attribute.values - 1), each)
        (low, width), valued = _ends(attribute, self.clip), bins < attribute.values
        return np.where(valued, low + found[1] * width, np.nan), np.where(valued, found[2] * width**2, np.nan)


def _ends(attribute: Attribute, clip: tuple[int, int]) -> tuple[float, float]:
    """The first value that values are clipped to, and how far it is from there to the last."""
    assert attribute.grid is not None
    low, high = map(attribute.grid.value, clip)
    return float(low), float(high - low)


def _each(members: Sequence[Ints], tilts: Sequence[Floats], n: int) -> Floats:
    """λ of each record, (n,): the sum of those of its groups."""
    found = np.zeros(n)
    for member, tilt in zip(members, tilts, strict=True):
        found += np.where(member >= 0, tilt[member], 0.0)
    return found


def _kinds(columns: Sequence[Ints]) -> tuple[list[Ints], Ints]:
    """The different rows of columns (n,), as columns (k,), and which of them each row is, (n,)."""
    which = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values, code = np.unique(column, return_inverse=True)
        _, which = np.unique(which * max(len(values), 1) + code, return_inverse=True)
    first = np.full(int(which.max(initial=-1)) + 1, 0, np.int64)
    first[which[::-1]] = np.arange(len(which))[::-1]
    return [column[first] for column in columns], which


@final
@dataclass(frozen=True, eq=False)
class _Slices:
    """The bins of a column, each cut into slices that have the same parts of its records in every bin.

    pieces  how records lie inside the bins
    parts   of a bin's records, those before each slice, and 1: (slices + 1,)
    means   the mean of each slice's clipped points, from 0 to 1 between what they are clipped to, (m, slices)
    """

    pieces: BinPieces
    parts: Floats
    means: Floats

    @classmethod
    def of(cls, attribute: Attribute, clip: tuple[int, int]) -> _Slices:
        pieces = BinPieces.of(attribute)
        parts = (1 - np.cos(np.pi * np.arange(_SLICES + 1) / _SLICES)) / 2
        found = cls(pieces, parts, np.empty((0, 0)))
        # ∫ of the points up to each edge: of the runs before it, and of a part of its own.
        cells = np.repeat(np.arange(attribute.values), len(parts))
        run, at = found._places(cells, np.tile(parts, attribute.values))
        height = pieces.shares / pieces.lengths
        begins, ends = (_sum_of_points(places, clip) for places in (pieces.starts, pieces.starts + pieces.lengths))
        whole = height * (ends - begins)
        before = np.concatenate([[0.0], np.cumsum(whole)])
        summed = before[run] + height[run] * (_sum_of_points(at, clip) - begins[run])
        means = np.diff(summed.reshape(-1, len(parts)), axis=1) / np.diff(parts)
        return cls(pieces, parts, (means - clip[0]) / (clip[1] - clip[0]))

    def _places(self, cells: Ints, upto: Floats) -> tuple[Ints, Floats]:
        """Where so large a part of a bin's records ends, (n,): in which run, and where among the points of the grid."""
        pieces = self.pieces
        ends = np.cumsum(pieces.shares)
        first, last = pieces.first[cells], np.append(pieces.first[1:], len(ends))[cells] - 1
        wanted = ends[first] - pieces.shares[first] + upto
        run = np.clip(np.searchsorted(ends, wanted, side="right"), first, last)
        inside = np.where(pieces.shares[run] > 0, (wanted - ends[run]) / np.maximum(pieces.shares[run], 1e-300) + 1, 0)
        return run, pieces.starts[run] + np.clip(inside, 0, 1) * pieces.lengths[run]

    def moments(self, bins: Ints, tilts: Floats) -> tuple[Floats, Floats, Floats]:
        """log Z, the mean and the variance of records in bins under tilts, (k,) each."""
        found = np.empty((3, len(bins)))
        for low in range(0, len(bins), _ROWS // _SLICES):
            rows = slice(low, low + _ROWS // _SLICES)
            means = self.means[bins[rows]]
            weights, log = self._tilted(means, tilts[rows])
            mean = (weights * means).sum(axis=1)
            found[:, rows] = log, mean, (weights * (means - mean[:, None]) ** 2).sum(axis=1)
        return found[0], found[1], found[2]

    def draw(self, bins: Ints, tilts: Floats, rng: np.random.Generator) -> Ints:
        """A point of the grid for each record, (n,)."""
        values, which = np.unique(tilts, return_inverse=True)
        (tilt, cell), which = _kinds([which, bins])
        weights, _ = self._tilted(self.means[cell], values[tilt])
        running = np.cumsum(weights, axis=1)
        marks = (np.arange(len(cell))[:, None] + running / running[:, -1:]).reshape(-1)
        chosen = np.searchsorted(marks, which + rng.random(len(which)), side="right") - which * _SLICES
        chosen = np.clip(chosen, 0, _SLICES - 1)
        low, high = self.parts[chosen], self.parts[chosen + 1]
        run, at = self._places(bins, low + rng.random(len(which)) * (high - low))
        first, last = self.pieces.starts[run], self.pieces.starts[run] + self.pieces.lengths[run] - 1
        drawn: Ints = np.clip(np.floor(at).astype(np.int64), first, last)
        return drawn

    def _tilted(self, means: Floats, tilts: Floats) -> tuple[Floats, Floats]:
        """The parts of slices under tilts, (k, slices), and log Z, (k,), for slices of these means."""
        powers = tilts[:, None] * means
        top = powers.max(axis=1, keepdims=True)
        weights = np.diff(self.parts) * np.exp(powers - top)
        total = weights.sum(axis=1)
        return weights / total[:, None], np.log(total) + top[:, 0]


def _sum_of_points(ends: npt.NDArray[Any], clip: tuple[int, int]) -> Floats:
    """∫ of the point ⌊x⌋, clipped, from 0 up to some places, elementwise."""
    low, high = clip
    inside: Floats = np.clip(np.asarray(ends, np.float64), low, high)
    whole = np.floor(inside)
    of_whole = whole * (whole - 1) / 2 + whole * (inside - whole) - low * (low - 1) / 2
    found: Floats = low * np.minimum(ends, low) + of_whole + high * np.maximum(ends - np.float64(high), 0.0)
    return found
