"""Counts as a release publishes them: one answer, whoever asks for it in whatever way.

A release that measured numbers has counts of groups from two sources: its synopsis, and the tables of counts that
were measured with the numbers (`MeasuredSums.counts`, averaged with the other measurements by their precisions). A
model that was fitted to these tables is what is published, as its marginals agree with each other and with synthetic
records. Of a marginal of which there are tables beside the model one of the two is, the one whose error bars are
narrower, in root mean square over its cells. Bars of measurements are of noise whose size is public; those of a model
that knows its own error are in the release. So a count is the same in an answer, in a marginal, in `answers.csv`, in
`numbers.csv` and on the page.

A condition that one cell of its columns' marginal meets is that cell.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

import numpy as np

from qrelease._util.typing import Axes, Floats
from qrelease.errors import InvalidInput
from qrelease.inference.synopsis import SelfAssessed
from qrelease.noise.distributions import half_widths
from qrelease.queries.families import Cells, Vectors
from qrelease.queries.functionals import counts_of
from qrelease.queries.numeric import NumericQuestion
from qrelease.queries.workload import Group, Workload

MAX_MARGINAL: Final = 1 << 16
"""Cells of a marginal that is looked at for one of them."""

if TYPE_CHECKING:
    from qrelease.inference.number_tables import MeasuredSums, NumberTable
    from qrelease.inference.residuals import Estimates
    from qrelease.release.release import Release


@final
@dataclass(frozen=True)
class PublishedCounts:
    """Counts with both of their error bars, each array (k,).

    answers         what to publish
    noisy, widths   the unbiased counts, and half-widths of their bars; NaN where there are none
    bars            half-widths of the bars around the answers
    """

    answers: Floats
    noisy: Floats
    widths: Floats
    bars: Floats


def from_numbers(release: Release, axes: Axes) -> bool:
    """Whether counts on these columns are published as they were measured with the numbers."""
    sums = release.measured_sums
    return sums is not None and _is_nearer(release, sums, sums.counts(release.measurements), axes)


def _is_nearer(release: Release, sums: MeasuredSums, everything: Estimates, axes: Axes) -> bool:
    """The same. `everything` are the counts that were measured with the numbers, averaged with all others."""
    if not everything.gives(axes):
        return False
    if not sums.counts(()).gives(axes):  # what was measured of it is among what the synopsis is made of
        return not release.synopsis.has_table
    marginal = Workload(release.domain, (Group(axes, Cells(release.domain.cells(axes))),))
    if isinstance(release.synopsis, SelfAssessed):
        bars = release.synopsis.model_bars(marginal)
        if not np.isnan(bars).any():
            here = float(half_widths(everything.answer(marginal)[1], everything.order).max())
            return here < float(np.sqrt(np.mean(bars**2)))
    # Else the synopsis's own measurements, which are among everything, are all that bars its answers.
    return True


def with_numbers(
    release: Release, workload: Workload, of_synopsis: Callable[[Workload], PublishedCounts]
) -> PublishedCounts:
    """What is published of a workload, by the counts of the synopsis and those that were measured with numbers.

    of_synopsis  what the synopsis tells of some of its groups: it may not be able to answer the others
    """
    sums = release.measured_sums
    if sums is None:
        return of_synopsis(workload)
    everything = sums.counts(release.measurements)
    theirs = {axes: _is_nearer(release, sums, everything, axes) for axes in {group.axes for group in workload.groups}}
    own = tuple(group for group in workload.groups if not theirs[group.axes])
    found = of_synopsis(Workload(workload.domain, own)) if own else None
    parts, at = [], 0
    for group in workload.groups:
        if found is None or theirs[group.axes]:
            parts.append(_of_group(release, sums, group))
        else:
            place = slice(at, at := at + group.queries.count)
            parts.append((found.answers[place], found.noisy[place], found.widths[place], found.bars[place]))
    return PublishedCounts(*map(np.concatenate, zip(*parts, strict=True)))


def as_cell(asked: Workload) -> tuple[Workload, int]:
    """The marginal that has the answer to a workload of one condition as a cell, and which; else the same, and 0."""
    (group,) = asked.groups
    queries = group.queries
    cells = np.flatnonzero(queries.rows[0]) if isinstance(queries, Vectors) else np.zeros(0)
    if len(cells) != 1 or not group.axes or queries.cells > MAX_MARGINAL:
        return asked, 0
    return Workload(asked.domain, (Group(group.axes, Cells(queries.cells)),)), int(cells[0])


def count_table(release: Release, sums: MeasuredSums, axes: Axes) -> NumberTable:
    """The counts of a marginal's cells, in their order, as they were measured with numbers."""
    question = NumericQuestion(release.domain, "count", by=[release.domain.names[a] for a in axes])
    return sums.answer(question, release.measurements)


def group_sizes(release: Release, question: NumericQuestion) -> Floats | None:
    """How many records each group of a question has, (groups,).

    None where not all of them count in it, and where nothing tells: no counts were measured with sums.
    """
    if question.where or (question.column and question.attribute.missing):
        return None
    counts = NumericQuestion(question.domain, "count", by=question.by)
    with suppress(InvalidInput):
        found = counts_of(counts, lambda asked: [release.published(asked).answers])
        return None if found is None else found[0]
    return None


def _of_group(release: Release, sums: MeasuredSums, group: Group) -> tuple[Floats, Floats, Floats, Floats]:
    if isinstance(group.queries, Cells):
        table = count_table(release, sums, group.axes)
        half = np.maximum(table.model_high - table.model, table.model - table.model_low)
        return table.model, table.value, np.full(len(table), table.count_error), half
    everything = sums.counts(release.measurements)
    values, variances = everything.answer(Workload(release.domain, (group,)))
    widths = half_widths(variances, everything.order)
    return np.maximum(values, 0.0) if isinstance(group.queries, Vectors) else values, values, widths, widths
