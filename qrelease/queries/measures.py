"""Measures: what each record adds to a cell of a table of sums, as whole numbers; and which measures a question needs.

A count adds 1 for each record. A sum adds the record's value, clipped and centred: with bounds l and u on the column's
grid, w = u - l steps, a value at place x adds V = 2x - l - u, a whole number from -w to w, so that ΣV and the number of
records give the sum of the clipped values, l + w/2 steps for each record and ΣV/2 more. Squares add U = 2V² - w², from
-w² to w². The share of records that meet a condition is the mean of +1 and -1. A record that does not meet `where`, or
has no value, adds 0 to them. How many records have a value is half of the number of all and of the sum of signs, +1 for
each that has one and -1 for each that has none: the number of all serves every column, and the signs are needed half as
exactly. Whatever a record says, it adds at most `top` in size to one cell of each table.

A grid with more steps than `most` is made coarser, by a public stride: a value then counts as the nearest of the places
kept, and what that may change of a mean, half a stride, belongs to its interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Final, final

from qrelease._util.typing import Axes
from qrelease.data import predicates
from qrelease.data.conditions import name_text
from qrelease.data.domain import Attribute, Domain
from qrelease.data.grids import PointGrid, exact_number
from qrelease.data.points import has_points
from qrelease.errors import InvalidInput, TooLarge
from qrelease.queries.numeric import NumericQuestion, check_numbers

MAX_SUM: Final = 1 << 30
"""The most that one record may add, times the cells of the table: sums of 2^32 records are below 2^63."""

_PRIOR: Final = 1 / 3
"""The mean square of a mean that may be anywhere between the bounds, which are -1 and 1: a guess that is public."""

Clips = Mapping[str, tuple[float, float]]
"""Bounds of columns: values of their grids."""


def grid_of(attribute: Attribute) -> PointGrid:
    """The exact values of a column of numbers; `InvalidInput` where the schema knows bins alone."""
    check_numbers(attribute, "sum")
    found = attribute.grid or _grid_of_cells(attribute)
    if found is None:
        raise InvalidInput(
            f"column {attribute.name!r} has bins and no exact values: a sum takes `within` and `step` in the schema"
        )
    return found


def _grid_of_cells(attribute: Attribute) -> PointGrid | None:
    """The values of a column each of whose cells is one number, without a grid in the schema; None for other bins."""
    if attribute.kind == "coded":
        return PointGrid(Fraction(0), Fraction(1), attribute.codes)
    edges = attribute.edges
    if attribute.whole and edges[-1] - edges[0] == len(edges) - 1:
        return PointGrid(Fraction(edges[0]), Fraction(1), attribute.values)
    return None


def clip_places(attribute: Attribute, clip: tuple[float, float] | None) -> tuple[int, int]:
    """The first and the last place that a column is clipped to; `InvalidInput` for bounds that are none."""
    grid, name = grid_of(attribute), attribute.name
    if clip is None:
        if grid.size < 2:
            raise InvalidInput(f"column {name!r} has one value only")
        return 0, grid.size - 1
    found = []
    for bound in clip:
        if isinstance(bound, bool) or not isinstance(bound, int | float) or not math.isfinite(bound):
            raise InvalidInput(f"clip of {name!r}: a bound must be a number, got {bound!r}")
        place = grid.steps(exact_number(bound))
        if place.denominator != 1 or not 0 <= place < grid.size:
            raise InvalidInput(
                f"clip of {name!r}: {bound:g} is not on its grid, {attribute.shown(grid.low)} to"
                f" {attribute.shown(grid.high)} in steps of {float(grid.step):g}"
            )
        found.append(int(place))
    if len(found) != 2 or found[0] >= found[1]:
        raise InvalidInput(f"clip of {name!r}: it takes a lower and a higher bound, got {list(clip)}")
    return found[0], found[1]


@final
@dataclass(frozen=True)
class Measure:
    """What a record adds to its cell: see the module.

    Parameters
    ----------
    column : str
        The column of the values; of a count, one that has to have a value, or empty.
    power : int
        0 for counts, 1 for sums, 2 for sums of squares.
    low, high : int
        The bounds, as places on the grid of the column.
    stride : int
        How many steps of the grid are one here.
    where, met : str
        Which records count at all; and the condition that makes +1 or -1 of each.

    Examples
    --------
    >>> hours = Measure("hours", 1, 0, 98)
    >>> hours.top, Measure("hours", 1, 0, 98, stride=7).top
    (98, 14)
    """

    column: str = ""
    power: int = 0
    low: int = 0
    high: int = 0
    stride: int = 1
    where: str = ""
    met: str = ""

    @property
    def width(self) -> int:
        """The width of the clipping, in strides, rounded up."""
        return -(-(self.high - self.low) // self.stride)

    @property
    def top(self) -> int:
        """The most that one record adds, in size; the least is 1."""
        return int(self.width**self.power) if self.power else 1

    @property
    def is_plain(self) -> bool:
        """Whether every record adds 1."""
        return not (self.column or self.where or self.met)

    def to_json(self) -> dict[str, Any]:
        """Its fields; those that hold the default are left out."""
        fields = {name: getattr(self, name) for name in ("column", "power", "low", "high", "where", "met")}
        return {name: v for name, v in fields.items() if v} | ({"stride": self.stride} if self.stride > 1 else {})

    def __str__(self) -> str:
        what = {0: "count", 1: "sum", 2: "squares"}[self.power]
        told = f"{what}{' of ' if self.column else ''}{self.column}{f' of {self.met}' if self.met else ''}"
        return f"{told}{f' where {self.where}' if self.where else ''}"


@final
@dataclass(frozen=True)
class Scale:
    """How values come of what is measured: V in -1..1 stands for `middle + half * V`; strides are off by `off`."""

    middle: float
    half: float
    off: float = 0.0


@final
@dataclass(frozen=True)
class Needs:
    """What answers a question: its measures on one set of columns, and how its error grows with theirs.

    axes      the columns of the table, ascending
    counts    who is counted
    present   +1 for who has a value in the column and -1 for who has none, where some have none: half of both is who
              has one
    sums      the centred sum, of everything but counts
    squares   of a variance
    scale     of the values; of a share 1/2 ± 1/2
    clipped   whether the bounds are within those of the schema
    kind      of the question
    kept      a condition on some columns of the table: their cells that meet it are added up; empty where all columns
              are groups
    """

    axes: Axes
    counts: Measure
    sums: Measure | None = None
    squares: Measure | None = None
    present: Measure | None = None
    scale: Scale = Scale(0.0, 1.0)
    clipped: bool = False
    kind: str = "count"
    kept: str = ""

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The measures, the count first, then of all that has a value."""
        found = (self.counts, self.sums, self.squares, self.present)
        return tuple(measure for measure in found if measure is not None)

    @cached_property
    def weights(self) -> tuple[tuple[Measure, float], ...]:
        """The measures, each with the weight of its cells' variance in the error of an answer, at V in -1..1.

        A mean m = S/C has about the error (var S + m² var C)/C², a variance (U/C + 1)/2 - m² about
        (var U/4 + 4m² var S + (2m² - U/2C)² var C)/C²; m² is taken to be `_PRIOR`. A sum is C·middle + S·half.
        """
        counts, *others = self._weights
        if self.present is None:
            return (counts, *others)
        return ((self.counts, counts[1] / 4), (self.present, counts[1] / 4), *others)

    @property
    def _weights(self) -> tuple[tuple[Measure, float], ...]:
        """The measures that the question needs, the count first, and how much each counts for it."""
        match self.kind:
            case "count" | "histogram" | "quantile":
                return ((self.counts, 1.0),)
            case "variance":
                assert self.sums is not None
                assert self.squares is not None
                return ((self.counts, 0.25), (self.sums, 4 * _PRIOR), (self.squares, 0.25))
            case "sum":
                assert self.sums is not None
                return ((self.counts, (self.scale.middle / self.scale.half) ** 2), (self.sums, 1.0))
        assert self.sums is not None
        return ((self.counts, _PRIOR), (self.sums, 1.0))


def needs_of(question: NumericQuestion, clips: Clips) -> Needs:
    """The measures that answer a question.

    clips  bounds of columns; the ends of their grids by default

    A quantile needs the counts of all its columns. Raises `InvalidInput` for a column without exact values, and for
    bounds that are none.
    """
    if question.kind == "quantile":
        return Needs(question.axes, Measure(), kind="quantile")
    domain, where = question.domain, question.where
    axes = tuple(sorted(question.by_axes))
    if question.kind == "count":
        return Needs(axes, Measure(where=where))
    if question.kind == "histogram":
        return Needs(tuple(sorted({*axes, domain.axis(question.column)})), Measure(where=where), kind="histogram")
    _check_derived(question)
    if question.kind == "ratio":
        sums = Measure(where=where, met=question.threshold)
        return Needs(axes, Measure(where=where), sums, scale=Scale(0.5, 0.5), kind="ratio")
    attribute = domain[question.column]
    grid, (low, high) = grid_of(attribute), clip_places(attribute, clips.get(question.column))
    counts = Measure(where=where)
    present = Measure(where=where, met=not_missing(domain, question.column)) if attribute.missing else None
    most, squared = MAX_SUM // domain.cells(axes), question.kind == "variance"
    stride = _stride(high - low, math.isqrt(most) if squared else most)
    sums = Measure(question.column, 1, low, high, stride, where)
    squares = Measure(question.column, 2, low, high, stride, where) if squared else None
    step = float(grid.step) * stride
    middle = float(grid.value(low)) + step * sums.width / 2
    scale = Scale(middle, step * sums.width / 2, float(grid.step) * (stride // 2))
    clipped = (low, high) != (0, grid.size - 1)
    return Needs(axes, counts, sums, squares, present, scale, clipped, question.kind)


def _check_derived(question: NumericQuestion) -> None:
    """Raise `InvalidInput` where exact values of a column are needed that rules derive: it has its bins alone."""
    domain = question.domain
    if domain.person is None or not domain.person.derive:
        return
    if question.column:
        attribute = question.attribute
        is_exact = not has_points(attribute) if attribute.grid else _grid_of_cells(attribute) is not None
    else:
        is_exact = not question.through_bins
    if not is_exact:
        raise InvalidInput(
            f"{str(question)!r}: derived columns have their bins alone, and no exact values: give them bins of one"
            " number each (width = 1) in the schema, or leave the question out of --numbers: a release of counts"
            " answers it, too (--workload marginals:…, with its columns)"
        )


def not_missing(domain: Domain, column: str) -> str:
    """The condition, as a measure has it, that a column has a value."""
    return str(predicates.parse(f"{name_text(column)} is not missing", domain))


def needs_by_cells(question: NumericQuestion, clips: Clips) -> Needs | None:
    """What answers a question from tables that its condition does not limit: by its groups and the condition's columns.

    None for a question without a condition, for a quantile, for a condition on columns that are groups or asked about,
    and for tables that are too large.
    """
    predicate = question.predicate
    if predicate is None or question.kind == "quantile":
        return None
    asked_of = (
        {question.domain.axis(question.column)} if question.column else set(question.met.axes if question.met else ())
    )
    if set(predicate.axes) & {*question.by_axes, *asked_of}:
        return None
    names = (question.domain.names[a] for a in predicate.axes)
    try:
        return replace(needs_of(replace(question, by=(*question.by, *names), where=""), clips), kept=question.where)
    except TooLarge:
        return None


def _stride(steps: int, most: int) -> int:
    """The least stride that leaves at most so many steps."""
    return max(-(-steps // max(most, 1)), 1)


def measure_from_json(domain: Domain, content: Mapping[str, Any]) -> Measure:
    """The measure that `to_json` described; `InvalidInput` for one that the domain does not have."""
    known = {"column": "", "power": 0, "low": 0, "high": 0, "stride": 1, "where": "", "met": ""}
    if not set(content) <= set(known):
        raise InvalidInput(f"a measure has {', '.join(known)}, got {', '.join(content)}")
    for name, value in content.items():
        if type(value) is not type(known[name]):
            raise InvalidInput(f"{name}: got {value!r}")
    measure = Measure(**content)
    if measure.column:
        attribute = domain[measure.column]
        if measure.power and not 0 <= measure.low < measure.high < grid_of(attribute).size:
            raise InvalidInput(f"bounds {measure.low} and {measure.high} are not on the grid of {measure.column!r}")
    if measure.power not in (0, 1, 2) or (measure.power and not measure.column) or measure.stride < 1:
        raise InvalidInput(f"power {measure.power} and stride {measure.stride} are of no measure")
    return measure
