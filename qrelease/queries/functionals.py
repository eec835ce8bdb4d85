"""Weighted counts by group, as linear queries: their unbiased values and the sizes of their errors.

Whatever is said of a mean, a share or a quantile rests on numbers Σ w(c) x(g, c): over the cells c of one column, for
each group g. With weights for the cells they are queries on one marginal, so the measurements of a release give them
with error bars that count correlated noise right.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

from qrelease._util.typing import Floats, Mask
from qrelease.data.predicates import Predicate
from qrelease.queries.families import Cells, Vectors
from qrelease.queries.numeric import NumericQuestion
from qrelease.queries.products import Factor, IntegerRows, Product
from qrelease.queries.workload import Group, Workload

Bars = Callable[[Workload], tuple[Floats, Floats]]
"""Unbiased answers (k,) to a workload and half-widths (k,) of their 95 % error bars; NaN where there are none."""

NORMAL: Final = 1.959963984540054
"""The half-width of a 95 % error bar, in standard deviations."""

MAX_ENTRIES: Final = 1 << 22
"""Entries of explicit queries, where a condition is no product of conditions on single columns."""

MAX_FUNCTIONALS: Final = 1 << 22
"""Weighted counts of one question, over all groups."""

_NORM_BITS = 49  # a column of integer rows has a squared norm below 2^50
_FINEST_BITS = 20


@final
@dataclass(frozen=True)
class WeightedCounts:
    """Weighted counts of each group.

    values      (groups, F); NaN where nothing was measured
    deviations  (groups, F), the half-widths of their 95 % error bars over 1.96
    """

    values: Floats
    deviations: Floats


def marginal_of(question: NumericQuestion) -> Workload:
    """The marginal that answers a question."""
    axes = question.axes
    return Workload(question.domain, (Group(axes, Cells(question.domain.cells(axes))),))


def weighted_counts(question: NumericQuestion, weights: Floats, bars: Bars, *, running: bool = False) -> WeightedCounts:
    """Σ over the cells of the question's column of weights (F, m) times the records of each group there.

    Parameters
    ----------
    question
        Which records, and their groups. The column of a ratio has two cells: where its condition holds, and where not.
        That of a count has one.
    weights
        (F, m), of either sign.
    bars
        What was measured.
    running
        Whether each group takes in those before it; of one column.
    """
    largest = np.abs(weights).max(axis=1)
    largest[largest == 0] = 1.0
    scaled = weights / largest[:, None]
    count = question.groups * len(weights)
    group = None if count > MAX_FUNCTIONALS else _product(question, scaled, running=running)
    if group is None and count * question.domain.cells(question.axes) <= MAX_ENTRIES:
        group = _explicit(question, scaled, running=running)
    if group is None:
        nothing = np.full((question.groups, len(weights)), np.nan)
        return WeightedCounts(nothing, nothing)
    values, halves = bars(Workload(question.domain, (group,)))
    values = np.where(np.isnan(halves), np.nan, values)
    found, widths = (_in_order(question, part, len(weights), group) * largest for part in (values, halves))
    return WeightedCounts(found, widths / NORMAL)


def counts_of(question: NumericQuestion, of: Callable[[Workload], Sequence[Floats]]) -> Sequence[Floats] | None:
    """What is known of how many records each group of a question has, (groups,) each; None for too many entries.

    of  what is known of a workload's queries, (k,) each
    """
    domain, axes = question.domain, question.axes
    if question.predicate is None:
        found = of(Workload(domain, (Group(axes, Cells(domain.cells(axes))),)))
        places, shape = [axes.index(axis) for axis in question.by_axes], [domain.shape[axis] for axis in axes]
        return [part.reshape(shape).transpose(places).reshape(-1) for part in found]
    if question.groups * domain.cells(axes) > MAX_ENTRIES:
        return None
    kept, by, _ = placed(question, 1)
    rows = (np.arange(question.groups)[:, None] == by) & kept
    return of(Workload(domain, (Group(axes, Vectors.rounded(rows.astype(np.float64), rows.shape[1])),)))


def _in_order(question: NumericQuestion, flat: Floats, functionals: int, group: Group) -> Floats:
    """Answers in the order of a product's columns as (groups, F)."""
    if isinstance(group.queries, Cells):
        return flat.reshape(question.groups, functionals)
    if isinstance(group.queries, IntegerRows):
        return flat.reshape(question.groups, functionals)
    counts = [f.count for f in group.queries.factors]  # type: ignore[attr-defined]
    cube = flat.reshape(counts)
    places = [group.axes.index(a) for a in question.by_axes]
    rest = [i for i in range(len(counts)) if i not in places]  # one has F queries, the others one
    return cube.transpose([*places, *rest]).reshape(question.groups, functionals)


def _integer_rows(rows: Floats) -> IntegerRows:
    """Rows with entries in [-1, 1], rounded to a grid that their squared norms allow."""
    bits = min((_NORM_BITS - max(math.ceil(math.log2(len(rows))), 0)) // 2, _FINEST_BITS)
    if (rows == np.rint(rows)).all():
        bits = 0
    return IntegerRows(np.rint(rows * 2.0**bits).astype(np.int64), 2.0**-bits)


def _product(question: NumericQuestion, weights: Floats, *, running: bool) -> Group | None:
    """The functional as a product of one family for each column; None where its condition is no product."""
    domain = question.domain
    sides = {} if question.predicate is None else _sides(question.predicate)
    met = question.met.axes if question.met is not None else ()
    if sides is None or len(met) > 1:
        return None
    factors: dict[int, Factor] = {}
    for axis in question.axes:
        size = domain.shape[axis]
        side = sides.get(axis)
        mask = np.ones(size) if side is None else side.astype(np.float64)
        if question.column and axis == domain.axis(question.column):
            wide = np.zeros((len(weights), size))
            wide[:, : weights.shape[1]] = weights
            factors[axis] = _integer_rows(wide * mask)
        elif axis in met:
            if axis in question.by_axes:
                return None
            factors[axis] = _integer_rows(weights[:, question.met_cells] * mask)
        elif axis in question.by_axes:
            rows = np.tri(size) if running else np.eye(size)
            factors[axis] = Cells(size) if side is None and not running else _integer_rows(rows * mask)
        else:
            factors[axis] = _integer_rows(mask[None, :])
    if not factors or (question.kind == "count" and all(isinstance(f, Cells) for f in factors.values())):
        if not (weights == 1).all() or question.by_axes != question.axes:
            return None
        return Group(question.axes, Cells(domain.cells(question.axes)))
    return Group(question.axes, Product(tuple(factors[axis] for axis in question.axes)))


def _sides(predicate: Predicate) -> dict[int, Mask] | None:
    """The cells of each column that a conjunction admits; None for another condition."""
    shape = [predicate.domain.shape[a] for a in predicate.axes]
    cube = predicate.mask().reshape(shape)
    sides = [np.asarray(cube.any(axis=tuple(j for j in range(len(shape)) if j != i))) for i in range(len(shape))]
    if np.count_nonzero(cube) != math.prod(int(np.count_nonzero(side)) for side in sides):
        return None
    return dict(zip(predicate.axes, sides, strict=True))


def between_groups(question: NumericQuestion, weights: Floats, groups: Sequence[int], bars: Bars) -> WeightedCounts:
    """Weighted counts over several groups at once, as one "group": weights (F, len(groups), m)."""
    nothing = np.full((1, len(weights)), np.nan)
    if len(weights) * question.domain.cells(question.axes) > MAX_ENTRIES:
        return WeightedCounts(nothing, nothing)
    largest = np.abs(weights).max(axis=(1, 2))
    largest[largest == 0] = 1.0
    kept, by, column = placed(question, weights.shape[2])
    rows = np.zeros((len(weights), len(kept)))
    for place, group in enumerate(groups):
        member = kept & (by == group)
        rows[:, member] += weights[:, place][:, column[member]] / largest[:, None]
    values, halves = bars(Workload(question.domain, (Group(question.axes, _integer_rows(rows)),)))
    values = np.where(np.isnan(halves), np.nan, values)
    return WeightedCounts((values * largest)[None], (halves * largest / NORMAL)[None])


def _explicit(question: NumericQuestion, weights: Floats, *, running: bool) -> Group:
    """The functionals as explicit rows over the marginal, (groups · F, cells)."""
    kept, by, column = placed(question, weights.shape[1])
    groups = np.arange(question.groups)[:, None, None]
    member = groups >= by if running else groups == by
    rows = np.where(member & kept, weights[:, column][None], 0.0)
    return Group(question.axes, _integer_rows(rows.reshape(-1, len(kept))))


def placed(question: NumericQuestion, cells: int) -> tuple[Mask, Any, Any]:
    """For each cell of the marginal that answers a question: whether it counts, its group, and its cell of the column.

    Parameters
    ----------
    question
        Which records, and their groups.
    cells
        How many cells of the column have a value, m: others do not count.
    """
    domain, axes = question.domain, question.axes
    shape = [domain.shape[a] for a in axes]
    codes = dict(zip(axes, np.indices(shape).reshape(len(axes), math.prod(shape)), strict=True))
    kept = np.ones(math.prod(shape), np.bool_) if question.predicate is None else _mask(question, question.predicate)
    by: Any = np.zeros(len(kept), np.int64)
    if question.by_axes:
        by = np.ravel_multi_index([codes[a] for a in question.by_axes], [domain.shape[a] for a in question.by_axes])
    if question.met is not None:
        return kept, by, _spread(question, question.met, question.met_cells)
    if not question.column:
        return kept, by, np.zeros(len(kept), np.int64)
    column = codes[domain.axis(question.column)]
    return kept & (column < cells), by, np.minimum(column, cells - 1)


def _mask(question: NumericQuestion, predicate: Predicate) -> Mask:
    """Where a condition holds, over the flat marginal."""
    found: Mask = _spread(question, predicate, predicate.mask())
    return found


def _spread(question: NumericQuestion, predicate: Predicate, of_cells: npt.NDArray[Any]) -> Any:
    """What is known of each cell of a condition's columns, over the flat marginal."""
    shape = [question.domain.shape[a] for a in question.axes]
    narrow = [n if a in predicate.axes else 1 for a, n in zip(question.axes, shape, strict=True)]
    return np.broadcast_to(of_cells.reshape(narrow), shape).reshape(-1)
