"""Answers of a release to questions about numbers, at no cost: each with an interval where one can be had honestly.

**Values** are those of the release's synopsis, or, of separate noisy answers, what these say without bias: a cell of
the column counts as its mean, by the column's shape where it has one, else by its middle.

Where sums were measured for the question (`inference.number_tables`) their answers are taken, which know no bins.

**Intervals** come from what was measured, and hold with 95 % whatever the model says: they count the noise, and that a
record may stand anywhere in its bin. They are stretched to the value where it lies outside. Where the column and the
groups were not measured together, the answer is a model's alone; how far a model is off by what it leaves out cannot be
bounded, so it has no interval. Counts are between 0 and what the measured margins allow, or as far off as a model that
knows its own error says: theirs is that of `Release.model_bars`, which the answers to a workload have.

*Sums* Σ v(c) x(g, c) are between those for the lowest and for the highest value of each bin: both are linear, with
error bars of their own. *Means and shares* S/N: those t for which S - tN, a linear number too, is within its own error
bar of 0 (Fieller 1954); all that the column's bounds allow where the group may be empty. The lower end is that for the
lowest values of the bins, the upper end that for the highest. *Quantiles*: the bins k for which neither fewer records
than asked in the bins up to k, nor more in the bins below k, is ruled out; each side at 2.5 %, as the true bin is one
fixed bin. *Variances*: the standard deviation of bins' middles is off by at most the root mean square R of how far a
value can be from its bin's middle, because it is the distance from the records to the nearest constant; and of the
middles it is at most the root mean square distance to any m, and smaller by no more than m is off. These hold together
for all m chosen by the noisy numbers, where all weighted sums of the k numbers they come from are within √χ²_k(0.95)
standard deviations (Scheffé 1953).

The noise is taken for normal in sums of several numbers; half-widths of a single Laplace draw are those of its own law.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np

from qrelease._util.typing import Floats, Ints, Mask
from qrelease._util.validate import natural, real
from qrelease.data.conditions import cell_text
from qrelease.data.structural_zeros import children_of
from qrelease.errors import InvalidInput
from qrelease.inference.noisy_answers import Answers
from qrelease.inference.number_tables import fieller
from qrelease.inference.synopsis import SelfAssessed
from qrelease.privacy.costs import Neighbours
from qrelease.queries.functionals import NORMAL, Bars, between_groups, counts_of, marginal_of, weighted_counts
from qrelease.queries.numeric import NumericQuestion, at_a_bound, cell_quantiles, only_bounds
from qrelease.queries.workload import Workload
from qrelease.release.frames import Column, cells_of, key_name, told_apart
from qrelease.release.published_counts import from_numbers, group_sizes
from qrelease.release.schema_cost import learned_columns

if TYPE_CHECKING:
    from qrelease.data.domain import Attribute, Domain
    from qrelease.inference.number_tables import NumberTable
    from qrelease.release.release import Release

NUMBERS: Final = ("value", "low_95", "high_95", "unbiased", "n", "source")
"""The columns of a table beside those that name a line."""

UNBIASED_ENDS: Final = ("unbiased_low_95", "unbiased_high_95")
"""Those of the intervals of the unbiased answers, where they are asked for."""

_HARDLY_KNOWN: Final = 0.25
"""A number of records that may be off by more than such a part of it, either way, is hardly known."""

_SCHEFFE: Final[Mapping[int, float]] = {3: 2.795483482915108, 4: 3.0802155194893837}
"""√χ²_k(0.95)."""


@final
@dataclass(frozen=True)
class GroupNumbers:
    """Answers to a question, each array (groups, L): L is 1, or the number of quantiles, or of the column's cells.

    value     what the release says; NaN where there is nobody to say it of
    low, high the ends of the 95 % intervals; NaN where the answer is a model's alone, and no count
    unbiased  from the noisy numbers alone, a quotient of two where the answer is one; NaN where there is none
    n         how many records the release says it is of
    measured  whether it has an interval by what was measured, though it may not be shown
    clipped   whether it is of values clipped to narrower bounds than the column's: how far that moves it is not known
    apart     the ends of the unbiased answers' own intervals, where they are others
    bounded   whether the interval is all that the column's bounds allow, so that what was measured says nothing
    at_bound  whether noise moved the value to a bound, so that the interval alone says something
    """

    question: NumericQuestion
    value: Floats
    low: Floats
    high: Floats
    unbiased: Floats
    n: Floats
    measured: Mask
    clipped: bool = False
    apart: tuple[Floats, Floats] | None = None
    bounded: Mask | None = None
    at_bound: Mask | None = None

    @property
    def unbiased_ends(self) -> tuple[Floats, Floats]:
        """The ends of the 95 % intervals of the unbiased answers."""
        return (self.low, self.high) if self.apart is None else self.apart


def numbers(release: Release, question: NumericQuestion, *, cumulative: bool = False) -> GroupNumbers:
    """The answers to a question.

    cumulative  sums and counts of each group and those before it, by one column
    """
    found = _possible(_numbers(release, question, cumulative))
    at_bound = at_a_bound(question, found.value, found.low, found.high)
    return replace(found, bounded=only_bounds(found.low, found.high, question.limits), at_bound=at_bound)


def _possible(found: GroupNumbers) -> GroupNumbers:
    """Sums and counts, and their intervals, as far as the column's bounds make them possible: what holds still holds.

    The unbiased numbers, which may be added up, are left as they are.
    """
    if found.question.kind not in ("sum", "count"):
        return found  # others are already
    value, low, high = _within(found, *found.question.limits)
    return replace(found, value=value, low=low, high=high, apart=found.unbiased_ends)


def _within(found: GroupNumbers, least: float, most: float) -> tuple[Floats, Floats, Floats]:
    """The values and their intervals between these limits.

    An interval that noise moved beyond a limit altogether begins there, as wide as half of it was: of no width it would
    say that nothing else is possible.
    """
    half = (found.high - found.low) / 2
    value, low, high = (np.clip(part, least, most) for part in (found.value, found.low, found.high))
    with np.errstate(invalid="ignore"):
        high = np.where(found.high <= least, np.minimum(least + half, most), high)
        low = np.where(found.low >= most, np.maximum(most - half, least), low)
    return value, low, high


def number_tables(release: Release) -> Iterator[NumberTable]:
    """The answers to the questions that a release measured, in order; counts as they are published everywhere."""
    sums = release.measured_sums
    if sums is not None:
        yield from (_published(release, sums.answer(text, release.measurements)) for text in sums.questions)


def _published(release: Release, answer: NumberTable) -> NumberTable:
    """An answer with the counts that are published: its own, or the synopsis's, and the records of its groups."""
    question, lines = answer.question, len(answer) // answer.question.groups
    if question.kind in ("count", "histogram") and not from_numbers(release, question.axes):
        found = numbers(release, question)
        parts = (found.unbiased, *found.unbiased_ends, found.value, found.low, found.high, found.n)
        value, low, high, model, model_low, model_high, n = (part.reshape(-1) for part in parts)
        keys = answer.keys
        if question.kind == "histogram":  # records without a value were counted too, and are in no cell of it
            keys = keys[keys[:, -1] < question.attribute.values]
        made = replace(answer, value=value, low=low, high=high, model=model, model_low=model_low, model_high=model_high)
        return replace(made, keys=keys, count=n)
    sizes = None if question.kind in ("count", "histogram") else group_sizes(release, question)
    return answer if sizes is None else replace(answer, count=np.repeat(sizes, lines))


def _numbers(release: Release, question: NumericQuestion, cumulative: bool) -> GroupNumbers:
    if question.domain != release.domain:
        raise InvalidInput("the question is over another domain than this release")
    if cumulative and (question.kind not in ("sum", "count") or len(question.by) != 1):
        raise InvalidInput("a running total needs a sum or a count, by one column")
    summed = _summed_table(release, question)
    if summed is not None:
        found = _of_sums(summed.cumulative() if cumulative else summed)
        size = None if question.kind == "count" else group_sizes(release, question)
        return found if size is None else replace(found, n=np.repeat(size[:, None], found.value.shape[1], axis=1))
    added = None if cumulative else _of_children(release, question)
    if added is not None:
        return added
    if question.kind in ("mean", "sum") and not cumulative:
        return _as_measured(release, _answered(release, question, cumulative))
    if question.kind != "count" or cumulative:
        return _answered(release, question, cumulative)
    try:
        found = _answered(release, question, cumulative)
    except InvalidInput:
        added = _counted_children(release, question)
        if added is None:
            raise
        return added
    added = None if found.measured.all() else _counted_children(release, question)
    return added or _as_published(release, found)


def _as_measured(release: Release, found: GroupNumbers) -> GroupNumbers:
    """Means and sums by counts of bins, moved so that together they are what was measured of fewer, larger groups.

    As many columns of groups as sums were measured for, where those are nearer than what the bins say of them (the
    benchmarking of small areas; Pfeffermann 2013, section 6). Means of one larger group are all moved by the same, and
    within their own intervals, so that none leaves what was measured of it; a sum by as much a record.
    """
    question = found.question
    for by in (by for size in range(len(question.by) - 1, -1, -1) for by in combinations(question.by, size)):
        whole = _summed_table(release, replace(question, by=by))
        if whole is None or whole.note:
            continue
        of_bins = _answered(release, whole.question, False)
        width, other = whole.model_high - whole.model_low, (of_bins.high - of_bins.low)[:, 0]
        nearer = ~whole.bounded & ~(width >= other)  # and where the bins say nothing
        member = _members(question, by)
        parts = np.maximum(np.nan_to_num(found.n[:, 0]), 0.0)
        size = np.bincount(member, parts, len(whole))
        is_mean = question.kind == "mean"
        value = np.nan_to_num(found.value[:, 0])
        total = np.bincount(member, value * parts if is_mean else value, len(whole))
        with np.errstate(invalid="ignore", divide="ignore"):
            off = np.where(
                nearer & (size > 0), (whole.model - total / size if is_mean else (whole.model - total) / size), 0
            )
        moved = found.value + (off[member] * (1.0 if is_mean else parts))[:, None]
        least, most = question.limits
        low, high = np.where(np.isnan(found.low), least, found.low), np.where(np.isnan(found.high), most, found.high)
        return replace(found, value=np.where(off[member][:, None] == 0, found.value, np.clip(moved, low, high)))
    return found


def _members(question: NumericQuestion, by: Sequence[str]) -> Ints:
    """Which group by some of a question's columns each of its own groups belongs to, (groups,)."""
    sizes = [question.domain[name].size for name in question.by]
    codes = np.indices(sizes).reshape(len(sizes), -1)
    kept = [codes[question.by.index(name)] for name in by]
    shape = [question.domain[name].size for name in by]
    found: Ints = np.ravel_multi_index(kept, shape) if by else np.zeros(question.groups, np.int64)
    return found


def _answered(release: Release, question: NumericQuestion, cumulative: bool) -> GroupNumbers:
    """By the release's counts, and with intervals where these were measured."""
    _check_asked(release, question)
    bars = _exact_count(release)
    counts = question.tabulated(_said(release, marginal_of(question), bars))
    if cumulative:
        counts = counts.cumsum(axis=0)
    made = _Answering(question, counts, bars, cumulative)
    found = made.answer()
    outside = [found.value < found.low, found.value > found.high]
    low, high = (np.where(out, found.value, end) for out, end in zip(outside, (found.low, found.high), strict=True))
    return replace(found, low=low, high=high, apart=found.unbiased_ends)


def _check_asked(release: Release, question: NumericQuestion) -> None:
    """Raise `InvalidInput` for a number of a column that no model knows: it has made all of it up."""
    if not question.column:
        return
    asked = {a for s in release.workload.sets for a in s} | {a for m in release.measurements for a in m.group.axes}
    if release.domain.axis(question.column) in asked:
        return
    sums = release.measured_sums
    known = [] if sums is None else [t for t in sums.questions if _is_about(release.domain, t, question.column)]
    told = f"of {question.column} only {known[0]!r} was measured" if len(known) == 1 else ""
    told = told or f"of {question.column} only other questions were measured, such as {known[0]!r}" if known else ""
    told = told or f"nothing was measured of {question.column}"
    by = "--workload" if release.domain.counts_once else "--workload or --numbers"  # whose sums are over records
    raise InvalidInput(f"{told}: ask for it at the release, by {by}")


def _is_about(domain: Domain, text: str, column: str) -> bool:
    question = NumericQuestion.parse(domain, text)
    return column == question.column or (question.met is not None and domain.axis(column) in question.met.axes)


def _summed_table(release: Release, question: NumericQuestion) -> NumberTable | None:
    """What was measured for questions about numbers says: of sums, which know no bins; None where it says nothing.

    Nor where it is of counts, and the synopsis's are nearer.
    """
    if release.measured_sums is None:
        return None
    if question.kind in ("count", "histogram") and not from_numbers(release, question.axes):
        return None
    try:
        return release.measured_sums.answer(question, release.measurements)
    except InvalidInput:  # not of these groups, or sums of a column of bins
        return None


def _of_children(release: Release, question: NumericQuestion) -> GroupNumbers | None:
    """Numbers by a parent, such as a province, where sums were measured by its children: those of each are added up.

    None where no column of the question is a parent by the rules of the schema, or its children were not measured; and
    for counts and shares, which the workload may tell more exactly.
    """
    if release.measured_sums is None or question.kind not in ("sum", "mean", "variance"):
        return None

    def told(part: NumericQuestion) -> GroupNumbers | None:
        found = _summed_table(release, part)
        return None if found is None else _of_sums(found)

    return _by_children(release, question, told)


def _counted_children(release: Release, question: NumericQuestion) -> GroupNumbers | None:
    """Counts by a parent, where they were not measured themselves and those by its children were."""

    def told(part: NumericQuestion) -> GroupNumbers | None:
        try:
            found = numbers(release, part)
        except InvalidInput:
            return None
        return found if found.measured.all() else None

    return _by_children(release, question, told)


def _by_children(
    release: Release, question: NumericQuestion, told: Callable[[NumericQuestion], GroupNumbers | None]
) -> GroupNumbers | None:
    """An answer for each parent, made of those about its children alone; None where not all of them are told."""
    limited = () if question.predicate is None else question.predicate.axes
    for place, name in enumerate(question.by):
        for child, groups in children_of(release.domain, name):
            if child in question.by or release.domain.axis(child) in limited or not all(groups):
                continue
            attribute = release.domain[child]
            by, parts = tuple(column for column in question.by if column != name), list[GroupNumbers]()
            for codes in groups:
                where = " or ".join(cell_text(attribute, code) for code in codes)
                both = f"({question.where}) and ({where})" if question.where else where
                found = told(replace(question, by=by, where=both))
                if found is None:
                    break
                parts.append(found)
            if len(parts) == len(groups):
                return _stacked(question, place, parts)
    return None


def _stacked(question: NumericQuestion, place: int, parts: Sequence[GroupNumbers]) -> GroupNumbers:
    """Answers for each group of one of the columns, the one at a place, as answers to the question by all of them."""
    shape = [question.domain[name].size for name in question.by]
    inner = [size for at, size in enumerate(shape) if at != place]

    def whole(of: Callable[[GroupNumbers], Any]) -> Any:
        arrays = [np.asarray(of(part)) for part in parts]
        lines = arrays[0].shape[1]
        return np.stack([a.reshape(*inner, lines) for a in arrays], axis=place).reshape(-1, lines)

    return GroupNumbers(
        question,
        whole(lambda part: part.value),
        whole(lambda part: part.low),
        whole(lambda part: part.high),
        whole(lambda part: part.unbiased),
        whole(lambda part: part.n),
        whole(lambda part: part.measured),
        clipped=parts[0].clipped,
        apart=(whole(lambda part: part.unbiased_ends[0]), whole(lambda part: part.unbiased_ends[1])),
    )


def _of_sums(found: NumberTable) -> GroupNumbers:
    """The numbers of a table of sums; without an interval where the values were clipped."""
    question = found.question
    parts = (found.model, found.model_low, found.model_high, found.value, found.low, found.high, found.count)
    value, low, high, unbiased, *apart, n = (
        np.asarray(part, np.float64).reshape(question.groups, -1) for part in parts
    )
    if found.note:
        low = high = np.full(value.shape, np.nan)
        apart = [low, high]
    ends = apart[0], apart[1]
    return GroupNumbers(question, value, low, high, unbiased, n, ~np.isnan(low), clipped=bool(found.note), apart=ends)


def _as_published(release: Release, found: GroupNumbers) -> GroupNumbers:
    """Counts by group as the release's own answers have them; with their bars, where those are a model's alone.

    And where the model knows its own error, and that is less. Else the interval is that of what was measured, up to the
    answer; the bar of the answer is as far as it reaches to one side.
    """
    published = counts_of(found.question, lambda asked: (release.published(asked).answers, release.model_bars(asked)))
    if published is None:
        return found
    value, half = (part.reshape(found.value.shape) for part in published)
    own = (found.high - found.low) / 2
    is_nearer = isinstance(release.synopsis, SelfAssessed) and bool(np.mean(half**2) < np.mean(own**2))
    by_bars = np.isnan(own) | is_nearer
    low = np.minimum(np.where(by_bars, np.maximum(value - half, 0.0), found.low), value)
    high = np.where(by_bars, value + half, np.maximum(found.high, value))
    return replace(found, value=value, n=value, low=low, high=high, apart=found.unbiased_ends)


def _said(release: Release, marginal: Workload, bars: Bars) -> Floats:
    """What the release says of a marginal; the unbiased counts of one without a model, where there are any.

    Its answers are noisy cells, those below 0 raised: sums of many of them would be too large.
    """
    answers = release.published(marginal).answers
    if not isinstance(release.synopsis, Answers):
        return answers
    noisy, widths = bars(marginal)
    return answers if np.isnan(widths).any() else noisy


def _exact_count(release: Release) -> Bars:
    """The error bars of a release, and the number of records where it is public."""

    def bars(workload: Workload) -> tuple[Floats, Floats]:
        if release.unit.public_records and not workload.groups[0].axes:
            return np.array([release.synopsis.total]), np.zeros(1)
        return release.error_bars(workload)

    return bars


def quotient_ends(parts: Floats, spread: Floats, bounds: tuple[float, float], quantile: float) -> tuple[Floats, Floats]:
    """Both ends, (groups,) each, of the t with |S - tN| at most so many standard deviations, within bounds.

    parts   (groups, 2): S and N
    spread  (groups, 3): the variances of S and N, and their covariance
    """
    (top, below), (var_top, var_below, covariance) = parts.T, spread.T
    _, *ends = fieller(top, below, var_top, var_below, quantile, covariance, bounds)
    sure, unknown = below > 0, np.isnan(top) | np.isnan(below)
    low, high = (np.where(sure, end, bound) for end, bound in zip(ends, bounds, strict=True))
    return np.where(unknown, np.nan, low), np.where(unknown, np.nan, high)


@final
@dataclass(frozen=True, eq=False)
class _Answering:
    """What is answered from: the synopsis's counts (groups, m) by group and cell, and what was measured.

    quantile  the half-widths of intervals of means and shares, in standard deviations
    """

    question: NumericQuestion
    counts: Floats
    bars: Bars
    running: bool
    quantile: float = NORMAL

    def answer(self) -> GroupNumbers:
        """By the kind of the question."""
        kinds = {
            "count": self._count,
            "sum": self._sum,
            "mean": self._mean,
            "ratio": self._ratio,
            "variance": self._variance,
            "quantile": self._quantile,
            "histogram": self._histogram,
        }
        return kinds[self.question.kind]()

    @property
    def _n(self) -> Floats:
        return np.asarray(self.counts.sum(axis=1))

    def _made(self, value: Floats, low: Floats, high: Floats, unbiased: Floats) -> GroupNumbers:
        """The answer, of arrays with one number for each group, or several."""
        a, b, c, d = (part.reshape(self.question.groups, -1) for part in (value, low, high, unbiased))
        return GroupNumbers(self.question, a, b, c, d, np.broadcast_to(self._n[:, None], a.shape), ~np.isnan(b))

    def _weighted(self, *rows: Floats) -> tuple[Floats, Floats]:
        """Weighted counts (groups, F) and their variances and covariances, (groups, F, F), by those of sums of two."""
        pairs = [(i, j) for i in range(len(rows)) for j in range(i)]
        sums = [_alike(rows[i]) + _alike(rows[j]) for i, j in pairs]
        largest = np.array([np.abs(row).max() or 1.0 for row in rows])
        found = weighted_counts(self.question, np.stack([*map(_alike, rows), *sums]), self.bars, running=self.running)
        k = len(rows)
        spread = np.zeros((self.question.groups, k, k))
        for i in range(k):
            spread[:, i, i] = found.deviations[:, i] ** 2
        for place, (i, j) in enumerate(pairs, start=k):
            both = (found.deviations[:, place] ** 2 - spread[:, i, i] - spread[:, j, j]) / 2
            limit = found.deviations[:, i] * found.deviations[:, j]
            spread[:, i, j] = spread[:, j, i] = np.clip(both, -limit, limit)
        return found.values[:, :k] * largest, spread * largest[:, None] * largest

    def _count(self) -> GroupNumbers:
        found = weighted_counts(self.question, np.ones((1, 1)), self.bars, running=self.running)
        half, value = NORMAL * found.deviations, np.maximum(found.values, 0.0)  # as `error_bars` has it
        return self._made(np.maximum(self._n, 0.0), np.maximum(value - half, 0.0), value + half, found.values)

    def _histogram(self) -> GroupNumbers:
        m = self.counts.shape[1]
        found = weighted_counts(self.question, np.eye(m), self.bars) if m * m <= 1 << 24 else None
        values = np.full(self.counts.shape, np.nan) if found is None else found.values
        half = values if found is None else NORMAL * found.deviations
        raised = np.maximum(values, 0.0)
        return self._made(np.maximum(self.counts, 0.0), np.maximum(raised - half, 0.0), raised + half, values)

    def _sum(self) -> GroupNumbers:
        cells = self.question.values
        found = weighted_counts(
            self.question, np.stack([cells.low, cells.high, cells.mean]), self.bars, running=self.running
        )
        half = NORMAL * found.deviations
        low, high = found.values[:, 0] - half[:, 0], found.values[:, 1] + half[:, 1]
        low = np.maximum(low, 0.0) if cells.low.min() >= 0 else low
        return self._made(self.counts @ cells.mean, low, high, found.values[:, 2])

    def _mean(self) -> GroupNumbers:
        cells = self.question.values
        bounds = float(cells.low.min()), float(cells.high.max())
        with np.errstate(invalid="ignore", divide="ignore"):
            value = np.where(self._n > 0, np.clip((self.counts @ cells.mean) / self._n, *bounds), np.nan)
        # About the middle of all groups the sum and the number of records hardly depend on each other.
        centre = _centre(self.counts, cells.mean)
        shifted = bounds[0] - centre, bounds[1] - centre
        every = np.ones(len(cells.mean))
        values, spread = self._weighted(every, cells.low - centre, cells.high - centre, cells.mean - centre)
        low, _ = quotient_ends(values[:, [1, 0]], _three(spread, 1), shifted, self.quantile)
        _, high = quotient_ends(values[:, [2, 0]], _three(spread, 2), shifted, self.quantile)
        return self._made(value, low + centre, high + centre, _quotient(values[:, 3], values[:, 0]) + centre)

    def _ratio(self) -> GroupNumbers:
        met = self.question.met_values
        with np.errstate(invalid="ignore", divide="ignore"):
            value = np.where(self._n > 0, np.clip(self.counts @ met.mean / self._n, 0, 1), np.nan)
        ends = (met.mean,) if met.exact else (met.mean, met.low, met.high)
        values, spread = self._weighted(np.ones(len(met.mean)), *ends)
        at_least, at_most = (1, 1) if met.exact else (2, 3)
        low, _ = quotient_ends(values[:, [at_least, 0]], _three(spread, at_least), (0.0, 1.0), self.quantile)
        _, high = quotient_ends(values[:, [at_most, 0]], _three(spread, at_most), (0.0, 1.0), self.quantile)
        return self._made(value, low, high, _quotient(values[:, 1], values[:, 0]))

    def _variance(self) -> GroupNumbers:
        cells = self.question.values
        centre, n = _centre(self.counts, cells.mean), self._n
        v = cells.mean - centre
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = (self.counts @ v) / n
            square = (self.counts @ (cells.square - 2 * centre * cells.mean + centre**2)) / n
            value = np.where(n > 0, np.maximum(square - mean**2, 0.0), np.nan)
        apart = np.maximum(cells.mean - cells.low, cells.high - cells.mean)
        rows = [np.ones(len(v)), v, v**2] + ([] if cells.exact else [apart**2])
        values, spread = self._weighted(*rows)
        quantile = _SCHEFFE[len(rows)]
        reach = float(cells.high.max() - cells.low.min())
        bounds = float(cells.low.min()) - centre, float(cells.high.max()) - centre
        near, far = quotient_ends(values[:, [1, 0]], _three(spread, 1), bounds, quantile)
        # About m: v² - 2mv + m², in terms of the rows, with m the noisy mean within its interval.
        m = np.clip(np.nan_to_num(_quotient(values[:, 1], values[:, 0])), near, far)
        weights = np.stack([m**2, -2 * m, np.ones(len(m))], axis=1)
        about, basis = np.einsum("gi,gi->g", weights, values[:, :3]), spread[:, :3, :3]
        var = np.einsum("gi,gij,gj->g", weights, basis, weights)
        cov = np.einsum("gi,gi->g", weights, basis[:, :, 0])
        pair = np.stack([about, values[:, 0]], axis=1)
        three = np.stack([np.maximum(var, 0.0), spread[:, 0, 0], cov], axis=1)
        low, high = quotient_ends(pair, three, (0.0, reach**2), quantile)
        low = np.maximum(low - np.maximum(m - near, far - m) ** 2, 0.0)
        if not cells.exact:
            _, most = quotient_ends(values[:, [3, 0]], _three(spread, 3), (0.0, float((apart**2).max())), quantile)
            low, high = np.maximum(np.sqrt(low) - np.sqrt(most), 0.0) ** 2, (np.sqrt(high) + np.sqrt(most)) ** 2
        high = np.minimum(high, reach**2 / 4)  # no variance within bounds is larger (Popoviciu)
        within = float(np.average(cells.square - cells.mean**2, weights=np.maximum(self.counts.sum(axis=0), 1e-300)))
        unbiased = _quotient(values[:, 2], values[:, 0]) - _quotient(values[:, 1], values[:, 0]) ** 2 + within
        return self._made(value, low, high, unbiased)

    def _quantile(self) -> GroupNumbers:
        cells, question = self.question.values, self.question
        m, probabilities = self.counts.shape[1], np.array(question.probabilities)
        value = cell_quantiles(question.attribute, self.counts, probabilities)
        rows = np.tri(m)[None] - probabilities[:, None, None]
        nothing = np.full(value.shape, np.nan)
        if rows.size > 1 << 24:
            return self._made(value, nothing, nothing, nothing)
        found = weighted_counts(question, rows.reshape(-1, m), self.bars)
        above = found.values.reshape(question.groups, len(probabilities), m)
        half = NORMAL * found.deviations.reshape(above.shape)
        # The bins that are not ruled out from below: the first whose running count may be as much as asked.
        possible = above + half >= 0
        possible[..., -1] = True
        first = possible.argmax(axis=2)
        less = np.concatenate([np.full((*value.shape, 1), -np.inf), (above - half)[..., :-1]], axis=2) < 0
        last = m - 1 - less[..., ::-1].argmax(axis=2)
        unknown = np.isnan(half).any(axis=2)
        low, high = np.where(unknown, np.nan, cells.low[first]), np.where(unknown, np.nan, cells.high[last])
        return self._made(value, low, np.maximum(low, high), nothing)


def _alike(row: Floats) -> Floats:
    """A row scaled to a largest entry of 1 in size: of rows of one size the sums tell how they vary together."""
    found: Floats = row / (np.abs(row).max() or 1.0)
    return found


def _three(spread: Floats, which: int) -> Floats:
    """The variances of one number and of the first, and their covariance, (groups, 3)."""
    return np.stack([spread[:, which, which], spread[:, 0, 0], spread[:, which, 0]], axis=1)


def _quotient(above: Floats, below: Floats) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Floats = np.where(below > 0, above / below, np.nan)
    return found


def _centre(counts: Floats, values: Floats) -> float:
    """About the mean of all records: from what is public, and no number that is answered."""
    total = np.maximum(counts.sum(axis=0), 0.0)
    return float(np.average(values, weights=total)) if total.sum() > 0 else float(values.mean())


# As a table


def percent_of_total(release: Release, found: GroupNumbers) -> GroupNumbers:
    """The part of each group in the sum of all, in percent: of counts and sums.

    Of sums that were measured as such it is a quotient with Fieller's interval. Else it is of numbers that cannot be
    negative: where S lies in S' ± s and T in T' ± t with 95 % each, S - uT is off by s + ut at most, with 95 % too,
    however the two are correlated, so that u is between (S' - s)/(T' + t) and (S' + s)/(T' - t).
    """
    question = found.question
    if question.kind not in ("sum", "count"):
        raise InvalidInput(f"a share of the total needs a sum or a count, not a {question.kind}")
    summed = _summed_table(release, question)
    if summed is not None:
        shares = _of_sums(summed.shares())
        if not all(map(np.isinf, question.limits)):  # parts of a total of one sign
            ends = shares.unbiased_ends
            value, low, high = _within(shares, 0.0, 100.0)
            shares = replace(shares, value=value, low=low, high=high, apart=ends)
        return replace(shares, bounded=only_bounds(shares.low, shares.high, (0.0, 100.0)))
    if question.kind == "sum" and question.values.low.min() < 0:
        raise InvalidInput(f"column {question.column!r} may be negative: its sums by group are not shares of a total")
    total = numbers(release, replace(question, by=()))
    with np.errstate(invalid="ignore", divide="ignore"):
        value = np.where(total.value > 0, 100 * found.value / total.value, np.nan)
        low = 100 * np.maximum(found.low, 0) / np.maximum(total.high, 0)
        high = np.where(total.low > 0, np.minimum(100 * found.high / total.low, 100.0), total.low + 100.0)
        unbiased = np.where(total.unbiased > 0, 100 * found.unbiased / total.unbiased, np.nan)
    ends = np.minimum(low, value), np.maximum(high, value)
    bounded = only_bounds(*ends, (0.0, 100.0))
    return replace(found, value=value, low=ends[0], high=ends[1], unbiased=unbiased, apart=(low, high), bounded=bounded)


_MIN_SIZE_DEVIATIONS: Final = 5.0
"""Standard deviations that a group's number of records must be from 0, for the difference of two means as one linear
number."""

_TOGETHER: Final = 2.2414027276049464
"""The half-width of a 97.5 % error bar, in standard deviations: two of them hold together with 95 %."""


def difference(release: Release, question: NumericQuestion, first: int, second: int) -> GroupNumbers:
    """What two groups differ by, the first less the second, by their numbers in the order of the groups.

    Its interval is of one linear number, so noise that both share is counted right: of a sum or a count itself, of a
    mean or a share of (v - m)/N, with m and N of each group as measured. Where a group may have few records for its
    noise, that is no good approximation: there the interval is made of one for each group.
    """
    if question.kind not in ("sum", "count", "mean", "ratio"):
        raise InvalidInput(f"groups are compared by a sum, a count, a mean or a ratio, not by a {question.kind}")
    found, places = numbers(release, question), [first, second]
    summed = _summed_table(release, question)
    if summed is not None:
        return _summed_difference(summed, found, places)
    signs = np.array([1.0, -1.0])
    value, n = (float(signs @ found.value[places, 0]), float(found.n[places, 0].min()))
    low, high, every = _ends(question)
    bars = _exact_count(release)
    if question.kind in ("sum", "count"):
        ends = [np.stack([low, -high]), np.stack([high, -low])]
        middle, shifts = np.stack([(low + high) / 2, -(low + high) / 2]), np.zeros(2)
    else:
        counted = weighted_counts(question, np.stack([every, low, high]), bars)
        numbers_of = counted.values[places, 0]
        if not (numbers_of > _MIN_SIZE_DEVIATIONS * counted.deviations[places, 0]).all():
            return _apart(release, found, first, second)
        means = counted.values[places, 1:] / numbers_of[:, None]
        # Lowest for the first and highest for the second group, and the other way round.
        pairs = [(means[0, 0], means[1, 1]), (means[0, 1], means[1, 0])]
        rows = [(low, high), (high, low)]
        ends = [
            np.stack([(a - m) / numbers_of[0], -(b - k) / numbers_of[1]])
            for (a, b), (m, k) in zip(rows, pairs, strict=True)
        ]
        middle, shifts = ends[0], np.array([m - k for m, k in pairs])
    parts = between_groups(question, np.stack([*ends, middle]), places, bars)
    half = NORMAL * parts.deviations[0]
    if question.kind in ("sum", "count"):
        shifts, unbiased = parts.values[0, :2], float(signs @ found.unbiased[places, 0])
    else:
        unbiased = float(signs @ found.unbiased[places, 0])
    ends_of = min(shifts[0] - half[0], value), max(shifts[1] + half[1], value)
    return _one(question, value, *ends_of, unbiased, n)


def _summed_difference(summed: NumberTable, found: GroupNumbers, places: Sequence[int]) -> GroupNumbers:
    """By the sums that were measured for the question; without an interval where their values were clipped."""
    first, second = places
    answer = summed.difference(first, second)
    value, n = found.value[first, 0] - found.value[second, 0], float(found.n[[first, second], 0].min())
    low, high = (np.nan, np.nan) if found.clipped else (min(answer.low, value), max(answer.high, value))
    return replace(_one(found.question, value, low, high, answer.value, n), clipped=found.clipped)


def _apart(release: Release, found: GroupNumbers, first: int, second: int) -> GroupNumbers:
    """The difference of two groups by intervals of each that hold together, however their noise is correlated."""
    question, bars = found.question, _exact_count(release)
    counts = question.tabulated(_said(release, marginal_of(question), bars))
    wide = _Answering(question, counts, bars, running=False, quantile=_TOGETHER).answer()
    low, high = wide.low[first, 0] - wide.high[second, 0], wide.high[first, 0] - wide.low[second, 0]
    value, unbiased = (part[first, 0] - part[second, 0] for part in (found.value, found.unbiased))
    n = min(found.n[first, 0], found.n[second, 0])
    if not np.isnan(value):  # else the ends are all there is; those of a model alone are null
        low, high = np.minimum(low, value), np.maximum(high, value)
    return _one(question, value, low, high, unbiased, n)


def _ends(question: NumericQuestion) -> tuple[Floats, Floats, Floats]:
    """The lowest and the highest number that each cell counts as, and 1 for each."""
    if question.kind == "count":
        return np.ones(1), np.ones(1), np.ones(1)
    if question.kind == "ratio":
        return question.met_values.low, question.met_values.high, np.ones(len(question.met_values.low))
    return question.values.low, question.values.high, np.ones(len(question.values.low))


def _one(question: NumericQuestion, value: float, low: float, high: float, unbiased: float, n: float) -> GroupNumbers:
    a, b, c, d, e = (np.array([[part]]) for part in (value, low, high, unbiased, n))
    least, most = question.limits
    return GroupNumbers(question, a, b, c, d, e, ~np.isnan(b), bounded=only_bounds(b, c, (least - most, most - least)))


@final
@dataclass(frozen=True)
class TableOptions:
    """What of the answers is shown, and how: see `Release.table`."""

    top: int | None = None
    _: KW_ONLY
    above: float | None = None
    percent: bool = False
    cumulative: bool = False
    suppress: float | None = None
    intervals: bool = False

    def __post_init__(self) -> None:
        if self.top is not None:
            object.__setattr__(self, "top", natural("top", self.top))
        for name in ("above", "suppress"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, real(name, getattr(self, name)))
        if self.percent and self.cumulative:
            raise InvalidInput("parts of the total and running totals are asked for one at a time")


def uncertain_number(release: Release) -> str:
    """Within what the number of all records is known, where that is wide.

    Empty where it is not, where the number is public, and where nothing was released that says it.
    """
    if release.neighbours is Neighbours.REPLACE_ONE:
        return ""
    try:
        found = numbers(release, NumericQuestion(release.domain, "count"))
    except InvalidInput:  # of separate answers to conditions
        return ""
    value, low, high = (float(part[0, 0]) for part in (found.value, found.low, found.high))
    if not high - low > 2 * value * _HARDLY_KNOWN:
        return ""
    return (
        f"How many records there are is hardly known itself: between {low:,.0f} and {high:,.0f}, 19 times out of 20."
        " Totals, and parts of all records, are as uncertain."
    )


def unnamed_records(release: Release) -> list[str]:
    """How many records have none of the categories that were learned of a column, by what is released: a sentence each.

    Nothing of a column of which the release does not say it.
    """
    told = []
    for name in learned_columns(release):
        attribute = release.domain[name]
        if attribute.outside not in attribute.categories:
            continue
        others = cell_text(attribute, attribute.categories.index(attribute.outside))
        try:
            found = numbers(release, NumericQuestion(release.domain, "count", where=others))
        except InvalidInput:  # it was not counted
            continue
        value, low, high = (float(part[0, 0]) for part in (found.value, found.low, found.high))
        within = "" if np.isnan(high - low) else f" (between {low:,.0f} and {high:,.0f}, 19 times out of 20)"
        told.append(
            f"{name}: about {value:,.0f} records{within} have none of the learned categories, and are counted in"
            f" {attribute.outside!r} ({others})"
        )
    return told


def wide_bins(release: Release) -> list[str]:
    """That the intervals of quantiles are no narrower than bins, a sentence for each column of which any was asked."""
    sums = release.measured_sums
    if sums is None:
        return []
    asked = [NumericQuestion.parse(release.domain, text) for text in sums.questions]
    read_off = [q for q in asked if all(choices.places(q) is None for choices in sums.chosen)]
    return list(dict.fromkeys(q.bins_told for q in read_off if q.bins_told))


def numbers_table(release: Release, question: NumericQuestion, options: TableOptions) -> dict[str, Column]:
    """The answers to a question as columns: a line for each group, and each of its quantiles or cells."""
    found = numbers(release, question, cumulative=options.cumulative)
    if options.top is not None and found.value.shape[1] > 1:
        raise InvalidInput(f"groups are ranked by one number each, and a {question.kind} has several")
    if options.percent:
        found = percent_of_total(release, found)
    if options.suppress is not None:
        found = _suppressed(found, options.suppress)
    named = {**_labels(found), **line_numbers(found, unbiased=options.intervals)}
    lines = np.arange(found.value.size)
    if options.top is not None:
        lines = np.argsort(-np.nan_to_num(found.value.reshape(-1), nan=-np.inf), kind="stable")
    if options.above is not None:  # no line without an interval is
        lines = lines[found.low.reshape(-1)[lines] > options.above]
    lines = lines[: options.top]
    return {name: Column(c.values[lines], None if c.missing is None else c.missing[lines]) for name, c in named.items()}


def _suppressed(found: GroupNumbers, least: float) -> GroupNumbers:
    """Without the numbers, n too, of groups of fewer records; it goes by the noisy n, so that it says nothing else."""
    few = found.n < least
    parts = (found.value, found.low, found.high, found.unbiased, found.n, *found.unbiased_ends)
    value, low, high, unbiased, n, *apart = (np.where(few, np.nan, part) for part in parts)
    return replace(found, value=value, low=low, high=high, unbiased=unbiased, n=n, apart=(apart[0], apart[1]))


def _labels(found: GroupNumbers) -> dict[str, Column]:
    """What names each line: the values or bins of its group, and its quantile or cell."""
    question = found.question
    groups, lines = found.value.shape
    named: dict[str, Column] = {}
    own, names = (*NUMBERS, *UNBIASED_ENDS, "probability"), question.domain.names
    keys = np.array(list(question.group_codes()), np.int64).reshape(groups, len(question.by))
    for place, name in enumerate(question.by):
        of_lines = np.repeat(keys[:, place], lines)
        named[key_name(name, own, names)] = _cells(question.domain[name]).taken(of_lines)
    if question.kind == "quantile":
        named["probability"] = Column(np.tile(np.array(question.probabilities), groups))
    elif question.kind == "histogram":
        of_lines = np.tile(np.arange(lines), groups)
        named[key_name(question.column, own, names)] = _cells(question.attribute).taken(of_lines)
    return named


def _cells(attribute: Attribute) -> Column:
    """The value of each cell, as synthetic records have it, so that tables join; the labels of bins."""
    cells = cells_of(attribute)
    return Column(np.array(told_apart(attribute), object)) if cells is None else cells


def line_numbers(found: GroupNumbers, *, unbiased: bool = False) -> dict[str, Column]:
    """The numbers of each line, as `NUMBERS` names them.

    unbiased  whether the intervals of the unbiased answers are among them
    """
    named = {"value": found.value, "low_95": found.low, "high_95": found.high, "unbiased": found.unbiased}
    if unbiased:
        named |= dict(zip(UNBIASED_ENDS, found.unbiased_ends, strict=True))
    columns = {
        name: Column(np.array(part).reshape(-1), np.isnan(part).reshape(-1))
        for name, part in {**named, "n": found.n}.items()
    }
    source = np.where(found.measured.reshape(-1), "measured", "clipped" if found.clipped else "model").astype(object)
    if found.bounded is not None:
        source[found.bounded.reshape(-1)] = "bounds"
    if found.at_bound is not None:
        source[found.at_bound.reshape(-1)] = "noise"
    return {**columns, "source": Column(source)}
