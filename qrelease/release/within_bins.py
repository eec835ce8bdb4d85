"""Where numbers of synthetic records lie inside their bins, so that the means that were measured hold in them too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

from qrelease._util.typing import CodeColumns, Floats
from qrelease.data.attribute import Attribute
from qrelease.data.conditions import name_text
from qrelease.errors import InvalidInput
from qrelease.inference.tilted_bins import GroupMeans, TiltedBins
from qrelease.queries.functionals import NORMAL, marginal_of, weighted_counts
from qrelease.queries.measures import clip_places, grid_of
from qrelease.queries.numeric import NumericQuestion

if TYPE_CHECKING:
    from qrelease.inference.number_tables import NumberTable
    from qrelease.release.release import Release

_MODEL_ROWS: Final = 1 << 17
"""Records of the model that densities are fitted to, where it has too many to take them all."""

_WIDE: Final = 2.0
"""Bins are wide where one is so many times as wide as if all of its column were of one width."""


def model_records(release: Release) -> tuple[CodeColumns, Floats]:
    """Records of the model as codes, and the weights of each; the same at each call."""
    return release.weighted_codes(_MODEL_ROWS, np.random.default_rng(0))


def tilted_bins(release: Release) -> tuple[TiltedBins, ...]:
    """The densities inside the bins of each column whose means were measured, and whose bins have several values."""
    tables = {axis: [*_means(release, axis)] for axis in _summed(release)}
    wanted = {axis: found for axis, found in tables.items() if found}
    if not wanted:
        return ()
    codes, weights = release.model_records
    fitted = TiltedBins.fitted
    return tuple(fitted(release.domain, a, _clip(release, a), found, codes, weights) for a, found in wanted.items())


def _clip(release: Release, axis: int) -> tuple[int, int]:
    attribute, sums = release.domain.attributes[axis], release.measured_sums
    return clip_places(attribute, None if sums is None else sums.clips.get(attribute.name))


def _summed(release: Release) -> list[int]:
    """The columns whose sums were measured, and whose bins say less than that."""
    if release.measured_sums is None or not release.has_table:
        return []
    asked = (NumericQuestion.parse(release.domain, text) for text in release.measured_sums.questions)
    names = {question.column for question in asked if question.kind in ("mean", "sum", "variance")}
    found = [(axis, a) for axis, a in enumerate(release.domain) if a.name in names and a.grid is not None]
    return [axis for axis, a in found if a.grid is not None and a.grid.size > a.values]


def _means(release: Release, axis: int) -> Iterator[GroupMeans]:
    """The means of a column by the groups of each question, and of the records of each condition together."""
    sums, name, clip = release.measured_sums, release.domain.names[axis], _clip(release, axis)
    assert sums is not None
    asked = [NumericQuestion.parse(release.domain, text) for text in sums.questions]
    groups = {(part.where, by) for part in asked if part.column == name for by in ((), tuple(part.by))}
    for where, by in sorted(groups):
        question = NumericQuestion(release.domain, "mean", name, by, where)
        try:
            found = sums.answer(question, release.measurements)
        except InvalidInput:  # of this column something else was measured by these groups
            continue
        own = (found.model_high - found.model_low) / (2 * NORMAL)
        shape = tuple(release.domain.shape[a] for a in question.by_axes)
        means = np.where(found.bounded, np.nan, found.model)
        deviations = np.hypot(own, _of_counts(release, question, clip))
        yield GroupMeans(question.by_axes, shape, question.predicate, means, deviations)


def _of_counts(release: Release, question: NumericQuestion, clip: tuple[int, int]) -> Floats:
    """By how much the noise in the counts of bins moves the mean of a group, (groups,): a standard deviation.

    Nothing where the column and the groups were not counted together: a model's own error is not known.
    """
    try:
        counts = np.maximum(question.tabulated(release.published(marginal_of(question)).answers), 0.0)
    except InvalidInput:  # of separate answers, of which none is of these columns
        return np.zeros(question.groups)
    low, high = (float(grid_of(question.attribute).value(place)) for place in clip)
    n, values = counts.sum(axis=1), np.clip(question.values.mean, low, high)
    centre = float(np.average(values, weights=counts.sum(axis=0))) if n.sum() > 0 else float(values.mean())
    moved = weighted_counts(question, (values - centre)[None], release.error_bars).deviations[:, 0]
    return np.where(n > 0, np.nan_to_num(moved) / np.where(n > 0, n, 1.0), 0.0)


def about_bins(release: Release) -> tuple[str, ...]:
    """What the means of numbers in synthetic records are worth, a sentence each: for who takes the records in hand."""
    told = []
    if release.tilted_bins:
        told.append(
            "synthetic numbers lie inside their bins so that the measured means hold as nearly as the counts of bins"
            " allow: take means from the answers, which have intervals"
        )
    told += [
        f"the mean of {name} is {synthetic:.4g} in synthetic records and {measured:.4g} by what was measured: the"
        " counts of its bins are too noisy to follow it; fewer columns, fewer bins, or narrower limits that are public,"
        " help"
        for name, synthetic, measured in _missed_means(release)
    ]
    summed = {bins.axis for bins in release.tilted_bins}
    wide = [a.name for axis, a in enumerate(release.domain) if axis not in summed and _has_wide_bins(a)]
    if wide and release.has_table:
        told.append(
            f"nothing was measured of where in the wide bins of {', '.join(wide)} the values lie: synthetic ones lie"
            f" evenly there, and their mean may be far off; a measured mean:{name_text(wide[0])} moves them"
        )
    return tuple(told)


def _missed_means(release: Release) -> Iterator[tuple[str, float, float]]:
    """The means in synthetic records that are outside the interval of the measured ones: of what, and both means.

    So it is where the counts of bins are mostly noise: then no place inside them gives the mean. Of the groups of a
    question the one that is furthest off, in half-widths of its interval.
    """
    if not release.tilted_bins:
        return
    assert release.measured_sums is not None
    codes, weights = release.model_records
    for bins in release.tilted_bins:
        name, step = release.domain.names[bins.axis], float(release.domain.attributes[bins.axis].step)
        values = bins.moments(codes)[0]
        for means in bins.tables:
            found = _measured(release, bins.axis, means)
            if found is None:
                continue
            groups = means.groups(codes)
            there = ~np.isnan(values) & (groups >= 0)
            sizes, sums = (
                np.bincount(groups[there], part[there], len(means.means)) for part in (weights, weights * values)
            )
            known = (sizes > 0) & ~np.isnan(means.means)
            synthetic = np.divide(sums, sizes, where=known, out=np.full(len(sizes), np.nan))
            half = (found.model_high - found.model_low) / 2 + step
            off = np.where(known, np.abs(synthetic - (found.model_high + found.model_low) / 2) / half, 0.0)
            worst = int(off.argmax())
            if off[worst] > 1:
                yield _named(release, name, means, worst), float(synthetic[worst]), float(found.model[worst])


def _measured(release: Release, axis: int, means: GroupMeans) -> NumberTable | None:
    """The measured means by some groups of all records; None for those of a condition."""
    if means.kept is not None or release.measured_sums is None:
        return None
    names = release.domain.names
    question = NumericQuestion(release.domain, "mean", names[axis], tuple(names[a] for a in means.axes))
    return release.measured_sums.answer(question, release.measurements)


def _named(release: Release, name: str, means: GroupMeans, group: int) -> str:
    """What a mean is of: a column, and the labels of a group."""
    codes = np.unravel_index(group, means.shape) if means.axes else ()
    columns = [release.domain.attributes[axis] for axis in means.axes]
    labels = [f"{a.name} {a.labels[int(code)]}" for a, code in zip(columns, codes, strict=True)]
    return f"{name} of {', '.join(labels)}" if labels else name


def _has_wide_bins(attribute: Attribute) -> bool:
    """Whether a column is of numbers whose bins differ much in width, and nothing is known of the inside of these."""
    if attribute.kind != "number" or attribute.grid is None or attribute.undecided or attribute.shape:
        return False
    widths = np.diff(attribute.cuts)
    return bool(widths.max() * len(widths) >= _WIDE * widths.sum())
