"""Models of records that follow measured means by group, and not the noisy counts of bins alone.

A mean by group takes all bins of a column together. So where each count of a bin is noisy, the mean of a model that was
fitted to them is off by much more than a mean that was measured. The model is then brought to the measured means: of
all distributions that have these means, and the model's own marginals on the other columns, it becomes the one of least
relative entropy to the model (I-projection; Csiszár, *I-divergence geometry of probability distributions and
minimization problems*, 1975). That is the model times e^(λ v) in each group, with v the mean value of a bin, and times
a factor for each cell of those marginals, which are found in turns. They are those of single columns, of the groups,
and of measured pairs as far as there is time: so the number of records of a group does not change.

How far it goes depends on what may be wrong. Of a group, let the model's mean be off by a variance of C for the noise
in the counts of bins, and of B for where inside the bins the values lie, and the measured one by M. Of the difference
between the two, C / (C + B + M) is the share that is expected to come from the counts, and the model makes up for that
much. A model is nearer than its counts by themselves, so C is taken to be no more than what the squared differences of
all groups are above B + M beyond chance; and where they are above all three, what is more is taken to be of B. What
comes from inside the bins is left to `tilted_bins`; as much of it as all records show is taken to be so in each group.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol, final

import numpy as np

from qrelease._util.typing import Axes, Floats, Ints
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.inference.histogram import Histogram
from qrelease.inference.measurement import Measurement
from qrelease.inference.number_tables import MeasuredSums
from qrelease.inference.residual_synopses import Modelled
from qrelease.inference.weighted_records import WeightedCodes
from qrelease.queries.classes import maximal_sets
from qrelease.queries.families import Cells
from qrelease.queries.functionals import NORMAL, placed, weighted_counts
from qrelease.queries.measures import clip_places, grid_of
from qrelease.queries.numeric import NumericQuestion
from qrelease.queries.workload import Group, Workload

_TURNS: Final = 6
"""Turns at most of tilting the groups and of bringing the other columns back."""

_LEAST_TURNS: Final = 2
"""Turns at most where cells are very many."""

_NEAR: Final = 1e-3
"""Of the records, those that are in another cell of some column than before: below it the turns end."""

_MOST_VISITED: Final = 1 << 31
"""Cells or records that are visited in all turns, where that is more than `_LEAST_TURNS`: some seconds."""

_HALVINGS: Final = 60
"""Of the range that λ is in."""

_MOST_CELLS: Final = 1 << 22
"""Of the marginal on a column and its groups: means by more groups are left to `tilted_bins`."""

_SIGNIFICANT: Final = 2.0
"""Standard deviations by which the squared differences of the means must be above those of chance."""

_STEEPEST: Final = 50.0
"""|λ| times the width of the column at most: its two ends change by a factor of e^50 against each other."""


class Reweighted(Protocol):
    """A distribution on records that can be reweighted."""

    domain: Domain

    def marginal(self, axes: Axes) -> Floats:
        """The records in each cell, (cells,) counts."""

    def multiply(self, axes: Axes, logs: Floats) -> None:
        """Scale what is in each cell by e^logs, (cells,); the total stays."""


def follow(
    synopsis: Modelled | WeightedCodes, sums: MeasuredSums, measurements: Sequence[Measurement]
) -> Modelled | WeightedCodes:
    """The synopsis, brought to the means that were measured: see the module.

    Parameters
    ----------
    synopsis
        What was fitted; a histogram is changed in place.
    sums
        What was measured of numbers.
    measurements
        Further noisy marginals, which are averaged with the counts that were measured with the sums.

    Returns
    -------
    Modelled or WeightedCodes
        The same where no means were measured.
    """
    if not synopsis.total > 0:
        return synopsis
    tilts = [*_tilts(synopsis, sums, measurements)]
    moved = {tilt.column for tilt in tilts if tilt.moves}
    wanted = [tilt for tilt in tilts if tilt.column in moved]
    if not wanted:
        return synopsis
    others = _others(synopsis, wanted)
    turns = _turns(synopsis, len(wanted) + len(others))
    if isinstance(synopsis, Modelled):
        project(ReweightedCells(synopsis.histogram), wanted, others, turns)
        return synopsis
    records = ReweightedRecords(synopsis)
    project(records, wanted, others, turns)
    return replace(synopsis, weights=records.weights)


def _tilts(
    synopsis: Modelled | WeightedCodes, sums: MeasuredSums, measurements: Sequence[Measurement]
) -> Iterator[Tilt]:
    """Of the means of each question by its groups, and then of all its records together, which are known best."""
    asked = [NumericQuestion.parse(sums.domain, text) for text in sums.questions]
    parts: dict[tuple[str, str], dict[tuple[str, ...], None]] = {}
    for question in asked:
        if question.kind in ("mean", "sum", "variance") and question.attribute.values > 1:
            parts.setdefault((question.column, question.where), {})[tuple(question.by)] = None
    for (column, where), groups in parts.items():
        bins = _Bins.of(NumericQuestion(sums.domain, "mean", column, (), where), synopsis, sums)
        whole = Tilt.of(bins.question, synopsis, sums, measurements, bins)
        if whole is not None:
            bins = bins.moved(whole)
        for by in groups:
            if by:
                question = NumericQuestion(sums.domain, "mean", column, by, where)
                tilt = Tilt.of(question, synopsis, sums, measurements, bins)
                if tilt is not None:
                    yield tilt
        if whole is not None:
            yield whole


@final
@dataclass(frozen=True, eq=False)
class _Bins:
    """What the bins of a column stand for.

    question    the mean of all records that are asked about
    low, width  what values were clipped to
    shares      of these records, in each bin by the model, (m,)
    values      the mean of each bin, from 0 to 1 between what values were clipped to, (m,)
    deviations  the standard deviation of that, (m,)
    """

    question: NumericQuestion
    low: float
    width: float
    shares: Floats
    values: Floats
    deviations: Floats

    @classmethod
    def of(cls, question: NumericQuestion, synopsis: Modelled | WeightedCodes, sums: MeasuredSums) -> _Bins:
        """Those of a column whose values lie in its bins as its shape says, or evenly.

        By a density that falls off with a length L, the mean of a narrow bin of width w is w²/12L from its middle, and
        that of a wide one at its end. L is how far the records of the model are from their median, on average.
        """
        attribute, cells = question.attribute, question.values
        low, high = map(float, map(grid_of(attribute).value, clip_places(attribute, sums.clips.get(attribute.name))))
        width = high - low
        values = (np.clip(cells.mean, low, high) - low) / width
        table = question.tabulated(_marginal(synopsis, question.axes)).sum(axis=0)
        shares = np.maximum(table, 0.0) / max(float(np.maximum(table, 0.0).sum()), 1e-300)
        median = values[min(int(np.searchsorted(np.cumsum(shares), 0.5)), len(values) - 1)]
        length = max(float(shares @ np.abs(values - median)), 1e-9)
        wide = (np.minimum(cells.high, high) - np.maximum(cells.low, low)).clip(0) / width
        ratio = wide / (12 * length)
        known = bool(attribute.shape)
        deviations = np.zeros(len(values)) if known else wide * ratio / np.sqrt(1 + 4 * ratio**2)
        return cls(question, low, width, shares, values, deviations)

    def moved(self, whole: Tilt) -> _Bins:
        """With values that explain what the counts do not explain of the mean of all records."""
        left = whole.left[0]
        variances = self.shares * self.deviations**2
        if np.isnan(left) or not variances.any():
            return self
        ends = (self.question.values.low - self.low) / self.width, (self.question.values.high - self.low) / self.width
        values = np.clip(self.values + variances / (self.shares @ variances) * left, *(np.clip(e, 0, 1) for e in ends))
        return replace(self, values=values)


def _others(synopsis: Modelled | WeightedCodes, tilts: Sequence[Tilt]) -> list[Axes]:
    """The marginals that stay, without those in others: of columns, groups and measured pairs; the latter if in time.

    None is of a column whose means are followed.
    """
    moved = {tilt.column for tilt in tilts}
    sets = {tuple(a for a in tilt.axes if a != tilt.column) for tilt in tilts}
    sets |= {(a,) for a, size in enumerate(synopsis.domain.shape) if size > 1}
    wider = sets | {s for s in synopsis.measured_sets if len(s) == 2}
    first, all_of_them = (maximal_sets(sorted(s for s in found if s and not moved & {*s})) for found in (sets, wider))
    return all_of_them if _turns(synopsis, len(tilts) + len(all_of_them)) > _LEAST_TURNS else first


def _turns(synopsis: Modelled | WeightedCodes, marginals: int) -> int:
    """How many turns there is time for with so many marginals, each of which is read and scaled."""
    visited = synopsis.domain.size if isinstance(synopsis, Modelled) else len(synopsis.weights)
    return min(max(_MOST_VISITED // (2 * marginals * visited), _LEAST_TURNS), _TURNS)


def project(model: Reweighted, tilts: Sequence[Tilt], others: Sequence[Axes], turns: int) -> None:
    """Tilt the groups and bring other marginals back, in turns, until all are as they shall be."""
    before = {axes: model.marginal(axes) for axes in others}
    for _ in range(turns):
        for tilt in tilts:
            tilt.apply(model)
        off = 0.0
        for axes, wanted in before.items():
            now = model.marginal(axes)
            off = max(off, float(np.abs(now - wanted).sum() / wanted.sum()))
            both = (now > 0) & (wanted > 0)
            model.multiply(axes, np.log(np.divide(wanted, now, where=both, out=np.ones(len(now)))))
        if off < _NEAR:
            break


@final
@dataclass(frozen=True, eq=False)
class Tilt:
    """Brings the means of groups to where they are wanted.

    column   that is asked about
    axes     the columns that it looks at
    place    (cells,) of each cell of the marginal on them: its group and bin, as a cell of (groups, m); -1 if in none
    values   of each bin, from 0 to 1 between what values were clipped to, (m,)
    targets  the mean of such values in each group, (groups,); NaN where nothing is wanted
    left     what of the difference of the means is expected to come from inside the bins, (groups,)
    moves    whether the model's means are elsewhere
    """

    column: int
    axes: Axes
    place: Ints
    values: Floats
    targets: Floats
    left: Floats
    moves: bool = True

    @classmethod
    def of(
        cls,
        question: NumericQuestion,
        synopsis: Modelled | WeightedCodes,
        sums: MeasuredSums,
        measurements: Sequence[Measurement],
        bins: _Bins,
    ) -> Tilt | None:
        """For means that were measured; None for others, and for too many groups."""
        m = len(bins.values)
        if question.domain.cells(question.axes) > _MOST_CELLS:
            return None
        try:
            found = sums.answer(question, measurements)
        except InvalidInput:  # something else was measured of this column by these groups
            return None
        kept, group, cell = placed(question, m)
        axis = question.domain.axis(question.column)
        place = np.where(kept, group * m + cell, -1)
        nothing = np.full(question.groups, np.nan)
        made = cls(axis, question.axes, place, bins.values, nothing, nothing)
        table = made.table(_marginal(synopsis, question.axes))
        n = table.sum(axis=1)
        shares = table / np.maximum(n, 1e-300)[:, None]
        means = shares @ bins.values
        off = (found.model - bins.low) / bins.width - means
        wanted = ~found.bounded & (n > 0)
        measured = ((found.model_high - found.model_low) / (2 * NORMAL) / bins.width) ** 2
        inside = shares**2 @ bins.deviations**2
        centred = bins.values - means @ n / max(n.sum(), 1e-300)
        of_groups = weighted_counts(question, centred[None], synopsis.error_bars).deviations[:, 0]
        counts = (of_groups / np.maximum(n, 1e-300)) ** 2
        sizes = np.where(wanted, n, 0.0) / max(float(n[wanted].sum()), 1e-300)
        squares = np.where(wanted, off**2, 0.0)
        # A model is nearer than its counts by themselves: no more is amiss with it than these means show beyond chance.
        chance = 1 + _SIGNIFICANT * math.sqrt(2 / max(int(wanted.sum()), 1))
        amiss = float(sizes @ (squares - np.where(wanted, chance * (inside + measured), 0.0)))
        # Where the column and the groups were not counted together, marginals that were would be moved with them.
        counts = np.minimum(np.nan_to_num(counts), max(amiss, 0.0))
        moves = bool((counts[wanted] > 0).any())
        # What is more than all three explain comes from inside the bins.
        whole = np.maximum(np.maximum(counts + inside + measured, float(sizes @ squares)), 1e-300)
        targets, left = (
            np.where(wanted, part, np.nan) for part in (means + counts / whole * off, inside / whole * off)
        )
        return replace(made, targets=targets, left=left, moves=moves)

    def table(self, marginal: Floats) -> Floats:
        """The records by group and bin, (groups, m)."""
        shape, kept = (len(self.targets), len(self.values)), self.place >= 0
        found = np.bincount(self.place[kept], marginal[kept], shape[0] * shape[1])
        return np.asarray(found.reshape(shape), np.float64)

    def apply(self, model: Reweighted) -> None:
        """Multiply each group by e^(λ v), with the λ that gives it the mean that is wanted."""
        table = self.table(model.marginal(self.axes))
        sizes = table.sum(axis=1)
        wanted = ~np.isnan(self.targets) & (sizes > 0)
        low, high = np.full((2, len(sizes)), [[-_STEEPEST], [_STEEPEST]])
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            tilted = table * np.exp(middle[:, None] * (self.values - 0.5))
            less = tilted @ self.values < self.targets * tilted.sum(axis=1)
            low, high = np.where(less, middle, low), np.where(less, high, middle)
        powers = np.where(wanted, (low + high) / 2, 0.0)[:, None] * (self.values - 0.5)
        grown = (table * np.exp(powers)).sum(axis=1)
        logs = powers - np.log(np.divide(grown, sizes, where=wanted, out=np.ones(len(sizes))))[:, None]
        model.multiply(self.axes, np.where(self.place >= 0, logs.reshape(-1)[self.place], 0.0))


def _marginal(synopsis: Modelled | WeightedCodes | Histogram, axes: Axes) -> Floats:
    """The records in each cell, (cells,) counts."""
    domain = synopsis.domain
    return synopsis.answer(Workload(domain, (Group(axes, Cells(domain.cells(axes))),)))


@final
class ReweightedCells:
    """A histogram, which is changed in place."""

    def __init__(self, histogram: Histogram) -> None:
        self.domain, self._histogram = histogram.domain, histogram

    def marginal(self, axes: Axes) -> Floats:
        """See `Reweighted`."""
        return _marginal(self._histogram, axes)

    def multiply(self, axes: Axes, logs: Floats) -> None:
        """See `Reweighted`."""
        self._histogram.update(Group(axes, Cells(len(logs))), logs)


@final
class ReweightedRecords:
    """Records whose weights change.

    weights  (n,) with sum 1
    """

    def __init__(self, synopsis: WeightedCodes) -> None:
        self.domain, self._codes, self._total = synopsis.domain, synopsis.codes, synopsis.total
        self.weights = synopsis.weights.copy()
        self._places: dict[Axes, Ints] = {}

    def marginal(self, axes: Axes) -> Floats:
        """See `Reweighted`."""
        found = np.bincount(self._place(axes), self.weights, self.domain.cells(axes))
        return np.asarray(found * self._total, np.float64)

    def multiply(self, axes: Axes, logs: Floats) -> None:
        """See `Reweighted`."""
        self.weights *= np.exp(logs)[self._place(axes)]
        self.weights /= self.weights.sum()

    def _place(self, axes: Axes) -> Ints:
        if axes not in self._places:
            codes = [self._codes[a].astype(np.int64) for a in axes]
            self._places[axes] = np.ravel_multi_index(codes, [self.domain.shape[a] for a in axes])
        return self._places[axes]
