"""What each record of the private table adds to a measure, and exact tables of sums: whole numbers, all private."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qrelease._util.typing import Axes, Codes, Ints, Mask
from qrelease.data import predicates
from qrelease.data.fractional_records import sums_by_cell
from qrelease.data.points import has_points
from qrelease.data.source import Source
from qrelease.errors import InvalidInput
from qrelease.queries.measures import Measure


def check_values(source: Source, measures: Sequence[Measure]) -> None:
    """Raise `InvalidInput` without records, and where they have bins alone: both are public, as the schema is."""
    if not source.keeps_records:
        raise InvalidInput("sums of numbers are of records: exact counts alone do not have them")
    divided = (
        name for m in measures if m.met for name in _divided(source, predicates.parse_finely(m.met, source.domain))
    )
    for column in dict.fromkeys([*(m.column for m in measures if m.power), *divided]):
        axis = source.domain.axis(column)
        if has_points(source.domain[column]) and not (source.points and source.points[axis] is not None):
            raise InvalidInput(f"column {column!r}: this table was made of bins, without the points of its grid")


def record_values(source: Source, measure: Measure) -> Ints:
    """f(x) of each record, (n,), at most `measure.top` in size."""
    found = np.ones(len(source), np.int64)
    if measure.power:
        places = np.clip(column_places(source, measure.column), measure.low, measure.high) - measure.low
        steps = (2 * places + measure.stride) // (2 * measure.stride)
        found = 2 * np.minimum(steps, measure.width) - measure.width
        if measure.power == 2:
            found = 2 * found**2 - measure.width**2
    elif measure.met:
        found = 2 * _meets(source, measure.met).astype(np.int64) - 1
    if measure.column:
        axis = source.domain.axis(measure.column)
        found[source.codes(axis) >= source.domain.attributes[axis].values] = 0
    if measure.where:
        found[~_meets(source, measure.where)] = 0
    return found


def table_of_sums(source: Source, values: Ints, axes: Axes) -> Ints:
    """Σ f(x) of the records in each cell of some columns, (cells,) in C order; exact, as |f| <= 2^30."""
    return sums_by_cell(source.domain, [source.codes(a) for a in axes], values, axes)


def column_places(source: Source, column: str) -> Ints:
    """The records of a column on its grid, (n,); a missing value is at any place."""
    axis = source.domain.axis(column)
    points = source.points[axis] if source.points else None
    return (source.codes(axis) if points is None else points).astype(np.int64)


def _finer(source: Source, axis: int, condition: predicates.Predicate) -> Codes:
    """The records of a column in the bins of a condition, (n,)."""
    attribute = condition.domain.attributes[axis]
    missing = source.codes(axis) >= source.domain.attributes[axis].values
    return np.where(missing, attribute.values, attribute.bins_of(column_places(source, source.domain.names[axis])))


def _divided(source: Source, condition: predicates.Predicate) -> list[str]:
    """The columns through whose bins a condition runs, so that it is about their exact values."""
    finer = condition.domain.attributes
    return [a.name for a, known in zip(finer, source.domain.attributes, strict=True) if a != known]


def _meets(source: Source, condition: str) -> Mask:
    """Which records meet a condition, (n,); by their exact values where it runs through bins."""
    parsed = predicates.parse_finely(condition, source.domain)
    divided = _divided(source, parsed)
    shape = [parsed.domain.shape[a] for a in parsed.axes]
    cells = [_finer(source, a, parsed) if source.domain.names[a] in divided else source.codes(a) for a in parsed.axes]
    codes = np.ravel_multi_index([column.astype(np.int64) for column in cells], shape)
    met: Mask = parsed.mask()[codes]
    return met
