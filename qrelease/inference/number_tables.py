"""Answers to questions about numbers from noisy tables of sums: `MeasuredSums`, and a `NumberTable` for each question.

`Release.table` is the door to them, and says which groups are shown.

*Unbiased answers.* A mean is the ratio S/C of two noisy tables with independent noise, of variances V and W in every
cell. Its interval is Fieller's: all m in [-1, 1] with (S - mC)² <= z²(V + m²W), for S - mC is normal about 0 at the
true m: it covers at 95 % however few records there are; where C is lost in its noise it is the whole range. Sums,
counts and all that is linear in them have normal intervals, with the covariance of the cells of one table (`residuals`)
counted. A variance, and a difference of two means, has that of its first derivatives where all counts are several times
their noise, and else what follows from the intervals of its parts.

The noise has steps: where it is one draw, half a step is added to its bar (`MeasuredSums._lattice`).

*What intervals are about.* The values as they are, where the bounds are those of the schema. Where they are narrower
the answer is about values clipped to them: how far clipping moved it is not known from what was measured, and no
interval says so; `NumberTable.note` does. A stride of the grid (`queries.measures`) belongs to the interval.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np
import numpy.typing as npt

from qrelease._util.typing import Axes, Floats, Ints, Mask
from qrelease.data import predicates
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.inference.chosen_quantiles import ChosenQuantiles, counted
from qrelease.inference.measurement import Measurement
from qrelease.inference.residuals import Estimates, vector_variances
from qrelease.inference.small_areas import TableNoise, shrunk_counts, shrunk_means, shrunk_shares, shrunk_totals
from qrelease.noise.distributions import Noise
from qrelease.queries.families import Cells, Residuals
from qrelease.queries.measures import Clips, Measure, Needs, Scale, needs_by_cells, needs_of
from qrelease.queries.numeric import CellValues, NumericQuestion, at_a_bound, cell_quantiles, only_bounds

if TYPE_CHECKING:
    from qrelease.inference.sums_plan import PlannedTable

_NORMAL: Final = 1.959964
_LAPLACE: Final = 2.118307
"""Standard deviations of a normal and of one Laplace draw that are exceeded with a probability of 5 %. Sums of Laplace
draws are nearer to normal."""

_CLEAR: Final = 5.0
"""Standard deviations of its noise that a count is above 0 where ratios are differentiated."""

_Groups = tuple[tuple[int, ...], tuple[int, ...]]
"""The shape of groups, and how many cells of each of their columns are in order: as `small_areas` takes them."""

_MAX_RUNNING: Final = 2048

_MAX_KEPT: Final = 128
"""Answers that are kept, in case they are asked again."""

_MAX_EDGES: Final = 15
"""Bounds of bins at which shares of groups are shrunk; between them a group's records go as those of all groups do."""


@final
@dataclass(frozen=True, eq=False)
class _Sums:
    """A noisy table: values (k,) in the order of the question, and the sₛ that its noise is made of.

    mask  of the columns that are no groups: which of their cells are added up, of a shape to multiply tables on `axes`
    """

    values: Floats
    variance: float
    axes: Axes
    order: tuple[int, ...]
    shape: tuple[int, ...]
    variances: Mapping[Axes, float]
    mask: Floats

    def half_with(self, other: _Sums) -> _Sums:
        """Half of the sum of two tables of independent noise."""
        common = {s: (v + other.variances[s]) / 4 for s, v in self.variances.items() if s in other.variances}
        return replace(
            self,
            values=(self.values + other.values) / 2,
            variance=(self.variance + other.variance) / 4,
            variances=common,
        )

    @property
    def noise(self) -> TableNoise:
        """With the variances of what cells have in common, in proportion to that of a cell."""
        sizes = [self.shape[self.axes[i]] for i in self.order]
        cells = math.prod(sizes)
        rows = [np.ones(sizes) / math.sqrt(cells)]
        for place, n in enumerate(sizes):
            contrast = np.zeros(n)
            contrast[: min(n, 2)] = [1.0, -1.0][: min(n, 2)] if n > 1 else 0.0
            rows.append(np.broadcast_to(_along(contrast, place, len(sizes)), sizes) * math.sqrt(n / (2 * cells)))
        cell, *parts = self.of_vector(np.stack([_unit(cells, {0: 1.0}), *(row.reshape(-1) for row in rows)]))
        return TableNoise(self.variance, tuple(float(v / cell * self.variance) for v in parts) if cell > 0 else ())

    def of_vector(self, vectors: Floats) -> Floats:
        """The variances (r,) of Σ w·values for vectors (r, k)."""
        ordered = vectors.reshape(-1, *(self.shape[self.axes[i]] for i in self.order))
        cube = ordered.transpose(0, *(1 + self.order.index(i) for i in sorted(self.order)))
        sizes = [self.shape[a] if i in self.order else 1 for i, a in enumerate(self.axes)]
        return vector_variances(self.shape, self.axes, cube.reshape(-1, *sizes) * self.mask, self.variances)


@final
@dataclass(frozen=True)
class Interval:
    """A number with the ends of its 95 % interval."""

    value: float
    low: float
    high: float


@final
@dataclass(frozen=True, eq=False)
class NumberTable:
    """The answer to a question about numbers, a line for each group.

    Attributes
    ----------
    question
        What was asked.
    keys
        The codes of each group's cells, (k, columns).
    value, low, high
        The unbiased answer and its 95 % interval, (k,) each.
    count, count_error
        How many records each group has, with noise, and the half-width of its error bar.
    model, model_low, model_high
        The answer that is shrunk to what groups have in common (`small_areas`): what to publish of small groups.
    note
        What no interval counts; empty where they count everything.
    way
        How quantiles were answered that were not read off noisy counts; else empty.
    """

    question: NumericQuestion
    keys: Ints
    value: Floats
    low: Floats
    high: Floats
    count: Floats
    count_error: float
    model: Floats
    model_low: Floats
    model_high: Floats
    note: str = ""
    way: str = ""
    _needs: Needs | None = field(default=None, repr=False)
    _tables: tuple[_Sums, ...] = field(default=(), repr=False)
    _z: float = field(default=_NORMAL, repr=False)

    def __len__(self) -> int:
        return len(self.value)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns whose codes are in `keys`."""
        return _key_names(self.question)

    @property
    def bounded(self) -> Mask:
        """Whether the interval of `model` is all that the column's bounds allow, (k,): see `only_bounds`."""
        return only_bounds(self.model_low, self.model_high, self.question.limits)

    @property
    def at_bound(self) -> Mask:
        """Whether noise moved `model` to a bound, (k,): see `at_a_bound`."""
        return at_a_bound(self.question, self.model, self.model_low, self.model_high)

    def difference(self, first: int, second: int) -> Interval:
        """What the group on the first line has more than that on the second, with its own interval.

        The noise of two groups is correlated: their tables have residuals in common. That is counted.
        """
        i, j = first, second
        value = float(self.value[i] - self.value[j])
        needs, rows = self._of_kind(), []
        if needs.kind in ("count", "histogram", "sum"):
            weights = (1.0,) if needs.sums is None else (needs.scale.middle, needs.scale.half)
            rows = [_unit(len(self), {i: w, j: -w}) for w in weights]
        elif needs.kind in ("mean", "ratio"):
            counts, sums = self._tables[:2]
            if min(counts.values[i], counts.values[j]) <= _CLEAR * math.sqrt(counts.variance):
                return Interval(value, float(self.low[i] - self.high[j]), float(self.high[i] - self.low[j]))
            a, b = needs.scale.half / counts.values[i], needs.scale.half / counts.values[j]
            m = {k: sums.values[k] / counts.values[k] for k in (i, j)}  # of other groups it may be 0/0
            rows = [_unit(len(self), {i: -a * m[i], j: b * m[j]}), _unit(len(self), {i: a, j: -b})]
        else:
            raise InvalidInput(f"differences are of counts, sums, means and ratios, not of a {needs.kind}")
        if i == j:
            return Interval(0.0, 0.0, 0.0)
        variance = sum(float(t.of_vector(row[None])[0]) for t, row in zip(self._tables, rows, strict=False))
        half = self._z * math.sqrt(max(variance, 0.0)) + 2 * needs.scale.off * (needs.kind in ("mean", "ratio"))
        return Interval(value, value - half, value + half)

    def shares(self) -> NumberTable:
        """Each group's part of the total of all, in percent: of counts and sums."""
        tables, weights = self._linear()
        total = float(self.value.sum())
        ones = np.ones((1, len(self)))
        whole = sum(w**2 * float(t.of_vector(ones)[0]) for t, w in zip(tables, weights, strict=True))
        own = sum(w**2 * t.variance for t, w in zip(tables, weights, strict=True))
        # Cells of one table are alike: each has the same covariance with their sum.
        value, low, high = fieller(
            self.value, np.full(len(self), total), own, whole, self._z, whole / len(self), (-math.inf, math.inf)
        )
        return self._with(100 * value, 100 * low, 100 * high)

    def cumulative(self) -> NumberTable:
        """Running totals over the groups in their order: of counts and sums."""
        tables, weights = self._linear()
        if len(self) > _MAX_RUNNING:
            raise InvalidInput(f"running totals are of {_MAX_RUNNING:,} groups at most, got {len(self):,}")
        rows = np.tril(np.ones((len(self), len(self))))
        variance = sum(w**2 * t.of_vector(rows) for t, w in zip(tables, weights, strict=True))
        half = self._z * np.sqrt(variance)
        value = np.cumsum(self.value)
        return self._with(value, value - half, value + half)

    def _with(self, value: Floats, low: Floats, high: Floats) -> NumberTable:
        return replace(
            self,
            value=value,
            low=low,
            high=high,
            model=value,
            model_low=low,
            model_high=high,
            _tables=(),
            _needs=None,
        )

    def _of_kind(self) -> Needs:
        if self._needs is None:
            raise InvalidInput("this is made of an answer: ask the whole one")
        return self._needs

    def _linear(self) -> tuple[tuple[_Sums, ...], tuple[float, ...]]:
        needs = self._of_kind()
        if needs.kind not in ("count", "histogram", "sum"):
            raise InvalidInput(f"parts of a total are of counts and sums, not of a {needs.kind}")
        if needs.sums is None:
            return self._tables[:1], (1.0,)
        return self._tables[:2], (needs.scale.middle, needs.scale.half)


def _unit(size: int, entries: Mapping[int, float]) -> Floats:
    row = np.zeros(size)
    for at, value in entries.items():
        row[at] += value
    return row


def _key_names(question: NumericQuestion) -> tuple[str, ...]:
    return (*question.by, question.column) if question.kind == "histogram" else tuple(question.by)


@final
@dataclass(frozen=True, eq=False)
class MeasuredSums:
    """What was measured for questions about numbers. Public.

    Parameters
    ----------
    domain
        The universe.
    questions
        Those that it was made for, as texts.
    clips
        Bounds of columns, where they are not those of the schema.
    parts, measured
        The tables, and what was measured of each, in whole numbers.
    records
        Their number, where that is public.
    chosen
        The quantiles that were chosen one by one, and are not read off counts.
    """

    domain: Domain
    questions: tuple[str, ...]
    clips: Clips
    parts: tuple[PlannedTable, ...]
    measured: tuple[Measurement, ...]
    records: float | None = None
    chosen: tuple[ChosenQuantiles, ...] = ()
    _known: dict[tuple[Measure, int], tuple[list[Measurement], Estimates]] = field(
        default_factory=dict, init=False, repr=False
    )
    _made: dict[NumericQuestion, tuple[list[Measurement], NumberTable]] = field(
        default_factory=dict, init=False, repr=False
    )

    def answer(self, question: NumericQuestion | str, counts: Iterable[Measurement] = ()) -> NumberTable:
        """The answer to a question whose tables were measured, or are sums of those that were.

        counts  further noisy marginals of all records, which are averaged with the counts measured here
        """
        asked = NumericQuestion.parse(self.domain, question) if isinstance(question, str) else question
        averaged, (before, made) = list(counts), self._made.get(asked, ([], None))
        if made is None or not _are(before, averaged):
            if len(self._made) >= _MAX_KEPT:
                self._made.clear()
            made = self._answer(asked, averaged)
            self._made[asked] = averaged, made
        return made

    def _answer(self, asked: NumericQuestion, counts: list[Measurement]) -> NumberTable:
        """See `answer`, which keeps it: shrinking takes long, and synthetic records need again what tables show."""
        if asked.kind == "quantile":
            for choices in self.chosen:
                places = choices.places(asked)
                if places is not None:
                    return self._chosen(asked, choices, places, counts)
            return self._quantiles(asked, needs_of(asked, self.clips), counts)
        needs = self._measured_for(asked, counts)
        names = _key_names(asked)
        wanted = [self.domain.axis(name) for name in names]
        measures = [m for m in (needs.counts, needs.sums, needs.squares) if m is not None]
        tables = [self._table(measure, needs, wanted, counts) for measure in measures]
        if needs.present is not None:
            tables[0] = tables[0].half_with(self._table(needs.present, needs, wanted, ()))
        z = self._z(counts)
        shape = tuple(self.domain.shape[a] for a in wanted)
        groups = shape or (1,), self._ordered(wanted)
        keys = np.array(list(np.ndindex(*shape)), np.int64).reshape(math.prod(shape), len(wanted))
        value, low, high = _answered(needs, tables, z)
        model, model_low, model_high = value, low, high
        if needs.kind in ("count", "histogram"):
            model = np.maximum(shrunk_counts(value, tables[0].variance, shape), 0.0)
            raised, half = np.maximum(value, 0.0), high - value  # nearer than what is below 0: the bar holds as it is
            model_low = np.minimum(np.maximum(raised - half, 0.0), model)
            model_high = np.maximum(raised + half, model)
        elif needs.kind == "sum":
            model, model_low, model_high = _shrunk_sum(tables, needs.scale, groups, z)
        elif needs.kind == "variance":
            model, model_low, model_high = _shrunk_variance(tables, needs.scale, groups)
        elif needs.kind in ("mean", "ratio"):
            middle, half = shrunk_means(tables[1].values, tables[0].values, (tables[1].noise, tables[0].noise), *groups)
            ends = (np.clip(middle - half, -1, 1), np.clip(middle + half, -1, 1))
            model, model_low, model_high = (needs.scale.middle + needs.scale.half * v for v in (middle, *ends))
            model_low, model_high = model_low - needs.scale.off, model_high + needs.scale.off
        error = z * math.sqrt(tables[0].variance)
        note = _note(asked, needs)
        if asked.kind in ("mean", "ratio", "variance"):  # strides of a wide column go a little beyond its bounds
            bounds = (value, low, high, model, model_low, model_high)
            value, low, high, model, model_low, model_high = (np.clip(part, *asked.limits) for part in bounds)
        return NumberTable(
            asked,
            keys,
            value,
            low,
            high,
            tables[0].values,
            error,
            model,
            model_low,
            model_high,
            note,
            _needs=needs,
            _tables=tuple(tables),
            _z=z,
        )

    def counts(self, further: Iterable[Measurement]) -> Estimates:
        """The counts of all records that were measured here, averaged with further noisy marginals of them."""
        return self._estimates(Measure(), further)

    def _z(self, counts: Sequence[Measurement]) -> float:
        """Half-widths of intervals in standard deviations, for the widest law of noise that there is."""
        laws = {m.noise.law for m in (*self.measured, *counts)}
        return _LAPLACE if "discrete Laplace" in laws else _NORMAL

    def _chosen(
        self, asked: NumericQuestion, choices: ChosenQuantiles, places: list[int], counts: Sequence[Measurement]
    ) -> NumberTable:
        """Quantiles that were chosen, with the noisy numbers of the groups' records."""
        groups = self.answer(counted(asked), counts)
        unbiased, model = choices.answer(places, groups.value, groups.low)
        keys, count = np.repeat(groups.keys, len(places), axis=0), np.repeat(groups.value, len(places))
        value, low, high, middle, least, most = (part.reshape(-1) for part in (*unbiased, *model))
        return NumberTable(
            asked, keys, value, low, high, count, groups.count_error, middle, least, most, way=choices.way
        )

    def rank_spread(self, asked: NumericQuestion) -> list[Floats]:
        """By how much the noise moves the counts up to each bin, less the part of all that a quantile is: public.

        Parameters
        ----------
        asked : NumericQuestion
            Of quantiles.

        Returns
        -------
        list of ndarray of float, shape (groups or 1, m)
            A standard deviation for each bin, one array for each quantile; of one group where all are alike.
        """
        needs = needs_of(asked, self.clips)
        variances = self._estimates(needs.counts, ()).variances
        return [self._running_spread(asked, needs.axes, variances, p) for p in asked.probabilities]

    def _quantiles(self, asked: NumericQuestion, needs: Needs, counts: Sequence[Measurement]) -> NumberTable:
        """Quantiles by group, from noisy counts by group and bin.

        The interval is of bins: the quantile lies in bin k where at least p of the records are in the bins up to it,
        and fewer in those before it. Each of the two is ruled out at 2.5 % (Woodruff 1952), by the noise of the
        count up to k less p times that of all. So it holds the width of the bins as well.
        """
        estimates = self._estimates(needs.counts, counts)
        if not estimates.gives(needs.axes):
            raise InvalidInput(f"{needs.counts} was not measured by {self.domain.named(needs.axes)}, as {asked} needs")
        noisy = asked.tabulated(estimates.marginal(needs.axes)[0])
        groups, m = noisy.shape
        probabilities = np.array(asked.probabilities)
        z, values = self._z(counts), asked.values
        value = cell_quantiles(asked.attribute, noisy, probabilities)
        running, total = noisy.cumsum(axis=1), noisy.sum(axis=1)
        low, high = np.empty(value.shape), np.empty(value.shape)
        for i, p in enumerate(probabilities.tolist()):
            spread = self._running_spread(asked, needs.axes, estimates.variances, p)
            above = running - p * total[:, None]  # of the records up to each bin
            low[:, i], high[:, i] = _quantile_ends(values, above - z * spread, above + z * spread)
        nowhere = (values.low[0] + values.high[-1]) / 2
        value = np.where(np.isnan(value), nowhere, value)
        low, high = np.minimum(low, value), np.maximum(high, value)
        model, model_low, model_high = value, low, high
        of_parts = self._running_spread(asked, needs.axes, estimates.variances, 0.0)
        if groups > 1 and m > 1:
            of_rest = self._running_spread(asked, needs.axes, estimates.variances, 1.0)
            shape = tuple(asked.domain.shape[a] for a in asked.by_axes)
            grouped = shape, self._ordered(asked.by_axes)
            shares, least, most = _shrunk_running(running, of_parts**2, of_rest**2, grouped)
            parts = np.diff(shares, axis=1, prepend=0.0)
            shrunk = cell_quantiles(asked.attribute, parts, probabilities, noisy.sum(axis=0))
            ends = [_quantile_ends(values, least - p, most - p) for p in probabilities.tolist()]
            below, upto = (np.stack(part, axis=1) for part in zip(*ends, strict=True))
            below, upto = np.minimum(below, shrunk), np.maximum(upto, shrunk)
            nearer = upto - below < high - low  # of large groups the others say nothing
            nearer |= (low <= values.low[0]) & (high >= values.high[-1])  # and of those that are lost in noise all
            model, model_low, model_high = (
                np.where(nearer, one, other)
                for one, other in zip((shrunk, below, upto), (value, low, high), strict=True)
            )
            together = self._of_lost_groups(asked, needs.axes, estimates.variances, noisy)
            model = np.where(np.isnan(together), model, np.clip(together, model_low, model_high))
        keys = np.repeat(_keys(asked), len(probabilities), axis=0)
        unbiased: list[Floats] = [part.reshape(-1) for part in (value, low, high)]
        shrunk_to: list[Floats] = [part.reshape(-1) for part in (model, model_low, model_high)]
        count, error = np.repeat(total, len(probabilities)), z * float(of_parts[0, -1])
        value, low, high = unbiased
        model, model_low, model_high = shrunk_to
        return NumberTable(asked, keys, value, low, high, count, error, model, model_low, model_high)

    def _of_lost_groups(
        self, asked: NumericQuestion, axes: Axes, variances: Mapping[Axes, float], noisy: Floats
    ) -> Floats:
        """The quantiles of all groups together, for those whose own counts the noise drowns, (groups, p); else NaN.

        Where larger tables were measured much better than this one, as where hardly anything was spent on how two
        columns go together, the noise of the groups cancels out in their sum: what they say one by one, however it is
        shrunk, is noise, but what they say together is not.
        """
        z, total, everybody = _NORMAL, noisy.sum(axis=1), replace(asked, by=())
        found = np.full((len(noisy), len(asked.probabilities)), np.nan)
        all_of_them = cell_quantiles(asked.attribute, noisy.sum(axis=0, keepdims=True), np.array(asked.probabilities))[
            0
        ]
        for i, p in enumerate(asked.probabilities):
            own = np.median(self._running_spread(asked, axes, variances, p), axis=1)
            whole = float(np.median(self._running_spread(everybody, axes, variances, p)))
            if z * whole < total.sum():
                found[z * own > np.maximum(total, 0.0), i] = all_of_them[i]
        return found

    def _ordered(self, axes: Sequence[int]) -> tuple[int, ...]:
        """How many cells of each column are in order, which come first; 0 where they are in none."""
        return tuple(a.values if a.ordered else 0 for a in (self.domain.attributes[axis] for axis in axes))

    def _running_spread(self, asked: NumericQuestion, axes: Axes, variances: Mapping[Axes, float], p: float) -> Floats:
        """The standard deviation of the count up to each bin less p times that of all, (groups or 1, m)."""
        apart = asked.predicate is not None and bool(set(asked.predicate.axes) & set(asked.by_axes))
        found = []
        for key in _keys(asked)[: None if apart else 1].tolist():  # else it is the same in all groups
            rows = _running_rows(asked, axes, key, p)
            found.append(np.sqrt(vector_variances(self.domain.shape, axes, rows, variances)))
        return np.array(found)

    def _measured_for(self, asked: NumericQuestion, counts: Sequence[Measurement]) -> Needs:
        """What answers a question: its own sums, or, where those were not measured, sums by its condition's columns."""

        def given(needs: Needs) -> bool:
            return all(self._estimates(measure, counts).gives(needs.axes) for measure in needs.measures)

        needs = needs_of(asked, self.clips)
        other = None if given(needs) else needs_by_cells(asked, self.clips)
        return needs if other is None or not given(other) else other

    def _table(self, measure: Measure, needs: Needs, wanted: Sequence[int], counts: Sequence[Measurement]) -> _Sums:
        axes, estimates = needs.axes, self._estimates(measure, counts)
        if not estimates.gives(axes):
            raise InvalidInput(f"{measure} was not measured by {self.domain.named(axes)}")
        table, variance = estimates.marginal(axes)
        order = tuple(axes.index(a) for a in wanted)
        away = tuple(i for i in range(len(axes)) if i not in order)
        mask = self._mask(needs)
        cube = (table.reshape([self.domain.shape[a] for a in axes]) * mask).sum(axis=away)
        values = cube.transpose([sorted(order).index(i) for i in order]).reshape(-1)
        found = _Sums(values, variance, axes, order, self.domain.shape, estimates.variances, mask)
        if away:
            found = replace(found, variance=float(found.of_vector(_unit(len(values), {0: 1.0}))[0]))
        step = self._lattice(measure, axes, counts)
        z = self._z(counts)
        if not step or not found.variance:  # which is nothing where the number of records is public
            return found
        return replace(found, variance=(math.sqrt(found.variance) + step / (2 * z)) ** 2)

    def _lattice(self, measure: Measure, axes: Axes, counts: Sequence[Measurement]) -> float:
        """What lies between two values that the noise of a cell may have, where it is one draw; 0 where it is several.

        The noise is discrete: of one draw some multiple of the step is within the bar or is not, so that bars as of the
        normal law would hold .88 at a standard deviation of one step, and .93 at three. Half a step more is always
        enough: the chance of at most k steps is about that of k + 1/2 under a law without steps. Sums of draws of
        several sizes are nearer to normal. Residuals of columns that the table is not of are no part of its noise.
        """
        own = [(p, m) for p, m in zip(self.parts, self.measured, strict=True) if p.measure == measure]
        further = [m for m in counts if isinstance(m.group.queries, Cells | Residuals)] if measure.is_plain else []
        draws = [*((m, measure.top) for _, m in own), *((m, 1) for m in further)]
        draws = [
            (m, top) for m, top in draws if not isinstance(m.group.queries, Residuals) or {*m.group.axes} <= {*axes}
        ]
        if len(draws) != 1 or (isinstance(draws[0][0].group.queries, Residuals) and draws[0][0].group.axes):
            return 0.0
        (drawn, top), *_ = draws
        return drawn.noise.unit / top

    def _mask(self, needs: Needs) -> Floats:
        """Which cells of the columns that are no groups are added up, of a shape to multiply a table with."""
        if not needs.kept:
            return np.ones([1] * len(needs.axes))
        predicate = predicates.parse(needs.kept, self.domain)
        shape = [self.domain.shape[a] if a in predicate.axes else 1 for a in needs.axes]
        return predicate.mask().reshape(shape).astype(np.float64)

    def _estimates(self, measure: Measure, counts: Iterable[Measurement]) -> Estimates:
        further = [m for m in counts if isinstance(m.group.queries, Cells | Residuals)] if measure.is_plain else []
        key = measure, len(further)  # a release asks with the same measurements again and again, or with none
        averaged, found = self._known.get(key, ([], None))
        if found is None or not _are(averaged, further):
            own = [m for p, m in zip(self.parts, self.measured, strict=True) if p.measure == measure]
            scaled = [_normalised(m, measure.top) for m in own] + further
            found = Estimates.of(self.domain, scaled, self.records if measure.is_plain else None)
            self._known[key] = further, found
        return found


def _are(some: Sequence[Measurement], others: Sequence[Measurement]) -> bool:
    """Whether these are the same measurements, and not others with the same values."""
    return len(some) == len(others) and all(one is other for one, other in zip(some, others, strict=True))


def _quantile_ends(values: CellValues, least: Floats, most: Floats) -> tuple[Floats, Floats]:
    """The ends (groups,) of the bins that are not ruled out.

    least, most  by how much the records up to each bin are more than asked, at the least and at the most, (groups, m)
    """
    m = least.shape[1]
    enough = most >= 0  # may be the quantile's bin, or after it
    before = np.concatenate([np.full((len(least), 1), True), least[:, :-1] <= 0], axis=1)
    first = np.where(enough.any(axis=1), enough.argmax(axis=1), m - 1)
    return values.low[first], values.high[m - 1 - before[:, ::-1].argmax(axis=1)]


def _shrunk_running(
    running: Floats, of_parts: Floats, of_rest: Floats, groups_of: _Groups
) -> tuple[Floats, Floats, Floats]:
    """The shares of groups' records that are in the bins up to each one, with the ends of their bars: (groups, m) each.

    A share is shrunk to those of the other groups at the upper bound of each bin, or, of many bins, at bounds that all
    records together are divided evenly by; between two of these it is between theirs, and goes as that of all together.
    Shares that would fall are set to the nearest ones that do not.

    running            noisy counts of the records up to each bin, (groups, m)
    of_parts, of_rest  the variances of these, and of those in the bins after it, (groups or 1, m)
    groups_of          what the groups are
    """
    from scipy.optimize import isotonic_regression

    groups, m = running.shape
    together = np.maximum.accumulate(np.maximum(running.sum(axis=0), 0.0))
    together = together / together[-1] if together[-1] > 0 else np.arange(1, m + 1) / m
    edges = np.arange(m - 1)
    if len(edges) > _MAX_EDGES:
        wanted = np.arange(1, _MAX_EDGES + 1) / (_MAX_EDGES + 1)
        edges = np.unique(np.minimum(np.searchsorted(together, wanted), m - 2))
    shares, bars = np.zeros((groups, len(edges) + 2)), np.zeros((groups, len(edges) + 2))
    shares[:, -1], of_total = 1.0, of_parts[:, -1]
    for i, k in enumerate(edges.tolist(), start=1):
        noise = of_parts[:, k], of_total, (of_parts[:, k] + of_total - of_rest[:, k]) / 2
        shares[:, i], bars[:, i] = shrunk_shares(running[:, k], running[:, -1], noise, *groups_of)
    shares[:, 1:-1] = np.stack([isotonic_regression(row).x for row in shares[:, 1:-1]])
    at = np.concatenate([[0.0], together[edges], [1.0]])
    last = np.searchsorted(edges, np.arange(m)) + 1  # the bound at or after each bin
    exact = np.isin(np.arange(m), edges) | (np.arange(m) == m - 1)
    first = np.where(exact, last, last - 1)
    width = at[last] - at[last - 1]
    part = np.where(width > 0, (together - at[last - 1]) / np.where(width > 0, width, 1.0), 1.0)
    found = shares[:, last - 1] + part * (shares[:, last] - shares[:, last - 1])
    return found, (shares - bars)[:, first], (shares + bars)[:, last]


def _keys(asked: NumericQuestion) -> Ints:
    """The codes of each group's cells, (groups, columns)."""
    shape = [asked.domain.shape[a] for a in asked.by_axes]
    return np.array(list(np.ndindex(*shape)), np.int64).reshape(asked.groups, len(shape))


def _running_rows(asked: NumericQuestion, axes: Axes, key: Sequence[int], p: float) -> Floats:
    """Over the cells of a marginal, (m, n_1, …): 1 - p in a group's bins up to each one, and -p in those after it."""
    shape = [asked.domain.shape[a] for a in axes]
    column, m = axes.index(asked.domain.axis(asked.column)), asked.attribute.values
    kept = np.ones(shape, bool)
    for axis, code in zip(asked.by_axes, key, strict=True):
        kept &= _along(np.arange(asked.domain.shape[axis]) == code, axes.index(axis), len(axes))
    if asked.predicate is not None:
        kept &= asked.predicate.mask().reshape(
            [n if a in asked.predicate.axes else 1 for a, n in zip(axes, shape, strict=True)]
        )
    weights = np.zeros((m, shape[column]))
    weights[:, :m] = np.tri(m) - p
    return np.stack([kept * _along(row, column, len(axes)) for row in weights])


def _along(values: npt.NDArray[Any], place: int, axes: int) -> npt.NDArray[Any]:
    """A vector along one axis of a table."""
    return values.reshape([-1 if i == place else 1 for i in range(axes)])


def _normalised(measurement: Measurement, top: int) -> Measurement:
    """In units of the most that one record adds."""
    noise = measurement.noise
    scaled = Noise(noise.law, noise.scale / top, noise.unit / top)
    return Measurement(measurement.group, measurement.values / top, scaled, measurement.repeats)


def _note(question: NumericQuestion, needs: Needs) -> str:
    if not needs.clipped:
        return ""
    assert needs.sums is not None
    scale = needs.scale
    ends = f"{scale.middle - scale.half:g}..{scale.middle + scale.half:g}"
    return (
        f"of {question.column} clipped to {ends}: how far the clipping moves it is not bounded by what was measured,"
        " and not in the interval"
    )


def _answered(needs: Needs, tables: Sequence[_Sums], z: float) -> tuple[Floats, Floats, Floats]:
    """The unbiased answers and the ends of their intervals."""
    counts, scale = tables[0], needs.scale
    if needs.sums is None:
        half = z * math.sqrt(counts.variance)
        return counts.values, counts.values - half, counts.values + half
    sums = tables[1]
    if needs.kind == "sum":
        value = scale.middle * counts.values + scale.half * sums.values
        deviation = math.hypot(scale.middle * math.sqrt(counts.variance), scale.half * math.sqrt(sums.variance))
        reach = z * deviation + scale.off * np.maximum(counts.values + z * math.sqrt(counts.variance), 0)
        return value, value - reach, value + reach
    if needs.kind == "variance":
        return _variance(counts, sums, tables[2], scale, z)
    mean, low, high = fieller(sums.values, counts.values, sums.variance, counts.variance, z)
    return (
        scale.middle + scale.half * mean,
        scale.middle + scale.half * low - scale.off,
        scale.middle + scale.half * high + scale.off,
    )


def fieller(
    sums: Floats,
    counts: Floats,
    variance: Floats | float,
    of_counts: Floats | float,
    z: float,
    covariance: Floats | float = 0.0,
    within: tuple[float, float] = (-1.0, 1.0),
) -> tuple[Floats, Floats, Floats]:
    """S/C, and the least and the largest m within some range with (S - mC)² <= z²(V - 2m·cov + m²W), (k,) each.

    Where the set of such m is two pieces it is taken with all between them.
    """
    least, most = within
    middle = 0.0 if math.isinf(least) else (least + most) / 2
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.clip(np.where(counts > 0, sums / counts, middle), least, most)
        a = counts**2 - z**2 * of_counts
        b = sums * counts - z**2 * covariance
        c = sums**2 - z**2 * variance
        root = np.sqrt(np.maximum(b**2 - a * c, 0.0))
        low, high = (b - root) / a, (b + root) / a
    bounded = (a > 0) & (counts > 0)
    low, high = (np.clip(np.where(bounded, end, w), least, most) for end, w in ((low, least), (high, most)))
    return ratio, low, high


def _variance(counts: _Sums, sums: _Sums, squares: _Sums, scale: Scale, z: float) -> tuple[Floats, Floats, Floats]:
    """(U/C + 1)/2 - (S/C)², of values in -1..1, which is in 0..1."""
    count = counts.values
    clear = count > _CLEAR * math.sqrt(counts.variance)
    safe = np.where(clear, count, 1.0)
    mean, square = np.clip(sums.values / safe, -1, 1), squares.values / safe
    value = (square + 1) / 2 - mean**2
    deviation = np.sqrt(
        squares.variance / 4 + 4 * mean**2 * sums.variance + (2 * mean**2 - square / 2) ** 2 * counts.variance
    )
    half = z * deviation / safe + sums.variance / safe**2  # the bias of a noisy mean squared
    value = np.clip(np.where(clear, value, 0.5), 0, 1)
    low, high = (np.clip(np.where(clear, value + sign * half, (1 + sign) / 2), 0, 1) for sign in (-1, 1))
    width = 4 * scale.half * scale.off
    return value * scale.half**2, low * scale.half**2 - width, high * scale.half**2 + width


def _shrunk_sum(tables: Sequence[_Sums], scale: Scale, groups: _Groups, z: float) -> tuple[Floats, Floats, Floats]:
    """Between the noisy sum and the noisy count times the model's mean; of values of one sign it has that sign."""
    counts, sums = tables
    line = scale.middle, scale.half
    value, half = shrunk_totals(sums.values, counts.values, (sums.noise, counts.noise), line, *groups)
    reach = half * z / _NORMAL + scale.off * np.maximum(counts.values + z * math.sqrt(counts.variance), 0)
    least = 0.0 if scale.middle >= scale.half else -math.inf
    most = 0.0 if scale.middle <= -scale.half else math.inf
    low, found, high = (np.clip(end, least, most) for end in (value - reach, value, value + reach))
    return found, low, high


def _shrunk_variance(tables: Sequence[_Sums], scale: Scale, groups: _Groups) -> tuple[Floats, Floats, Floats]:
    """Of the shrunk means of values and of their squares: (u + 1)/2 - m², less the variance of what m is off by."""
    counts, sums, squares = tables
    mean, of_mean = shrunk_means(sums.values, counts.values, (sums.noise, counts.noise), *groups)
    square, of_square = shrunk_means(squares.values, counts.values, (squares.noise, counts.noise), *groups)
    value = np.clip((square + 1) / 2 - mean**2 - (of_mean / _NORMAL) ** 2, 0, 1)
    half = of_square / 2 + 2 * np.abs(mean) * of_mean + of_mean**2  # however the two are correlated
    low, high = np.clip(value - half, 0, 1), np.clip(value + half, 0, 1)
    width = 4 * scale.half * scale.off
    return value * scale.half**2, low * scale.half**2 - width, high * scale.half**2 + width
