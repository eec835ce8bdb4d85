"""Which cells of some columns have a count, a sum or a mean of at least T: a session of sparse vector over all of them.

The cells are asked one after another, in their order, whether they are above T; a ⊥ is free, and after c times ⊤ the
session ends. The forms are those of `noise.sparse_vector`, with their proofs: `best` is the engine's stream, with
monotone queries where records come and go; `sparse` and `numeric` are Dwork & Roth's algorithms 2 and 3, with the
threshold drawn anew after each ⊤ and, in the second, a fresh noisy number for each.

*What is compared.* A record is in one cell, and adds to its query alone, a whole number X of public units: 1 to a
count; to a sum its value, clipped to public bounds l and u, as a multiple of the largest unit of which 0 and all values
are multiples; and to a mean its clipped value less T, for a mean is at least T where these add up to 0 or more. So no
count is needed beside the sum, and the values are centred where it matters. A missing value adds 0.

*Sensitivity.* A record that comes or goes moves one query, by at most A, the larger of the sizes of X at l and at u,
and no other: the queries are monotone for these neighbours, of whichever sign X is. One that is replaced leaves one
query and enters another, or moves one query by X - X': by at most A, or the distance of X at l and at u, the larger of
the two. (Where a person has up to m records, the cost is that of one record: `privacy.unit`.)

*Empty cells* have a sum of 0: of means that is T itself, and noise alone would call half of them above. Means are
therefore asked whether their X add up to more than the reach of the noise, which is public: with probability 1 - β all
that are said to be above T are.

Asking each of K cells by itself with Laplace noise costs K times as much, or has noise for ε/K; but where the cells are
disjoint, one record is in one of them, and all counts together cost what one does: `qrelease release` is better then.
What a session is for is queries that overlap or come one at a time, of which few are above.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Final, Literal, final, get_args

import numpy as np

from qrelease._util.typing import Ints
from qrelease._util.validate import real, whole
from qrelease.data.domain import Domain
from qrelease.data.grids import exact_number
from qrelease.errors import InvalidInput
from qrelease.noise.calibration import currency
from qrelease.noise.sparse_vector import Calibration, NumericSparse, Sparse, SparseVector
from qrelease.privacy.costs import Cost, Neighbours
from qrelease.statistics.base import BETA, EstimateResult, Measured
from qrelease.statistics.grid import Grid
from qrelease.statistics.private_columns import PrivateColumns
from qrelease.statistics.selection import cell_label, check_columns

_FORMS: Final[dict[str, Any]] = {"best": SparseVector, "sparse": Sparse, "numeric": NumericSparse}

_MAX_ADDED: Final = 1 << 30
"""Units that one record adds, at most: sums of 2^32 records are below 2^63."""

Compared = Literal["count", "sum", "mean"]

_UNITS_OF_ERRORS: Final[dict[str, str]] = {
    "count": "records",
    "sum": "in the unit of the value",
    "mean": "in the sum of a cell's values",
}


@final
@dataclass(frozen=True)
class _Units:
    """The whole numbers that are compared; public.

    unit       what 1 stands for, in the unit of the values; 1 record for counts
    threshold  T, of means 0
    low, high  the codes of the bounds
    least      what a record at the lower bound adds, and `each` more for every code above it
    """

    unit: float
    threshold: int
    low: int = 0
    high: int = 0
    least: int = 1
    each: int = 0

    @property
    def most(self) -> int:
        """What a record at the upper bound adds."""
        return self.least + (self.high - self.low) * self.each

    @property
    def largest(self) -> int:
        """How far a record that comes or goes moves a query, at most."""
        return max(abs(self.least), abs(self.most))

    def moved(self, neighbours: Neighbours) -> int:
        """How far a query moves between neighbours, at most."""
        return self.largest if neighbours is Neighbours.ADD_REMOVE else max(self.largest, self.most - self.least)

    def added(self, codes: Ints) -> Ints:
        """What records add, (n,), by the codes of their values; nothing where these are missing."""
        found: Ints = np.where(codes < 0, 0, self.least + (np.clip(codes, self.low, self.high) - self.low) * self.each)
        return found


@final
@dataclass(frozen=True)
class AboveThresholds:
    """Finds the first c cells, in their order, that are above T in count, sum or mean; see the module's docstring.

    Parameters
    ----------
    columns
        Names. A query is about a combination of their cells; at most 2^20 of them.
    threshold
        T: of counts a whole number, else in the unit of the values.
    positives
        c, after how many the session ends.
    form
        `best`, `sparse` or `numeric`.
    measure
        `count`, of the records; or the `sum` or the `mean` of the values of a column.
    column
        That of the values, on a grid; for counts none.
    low, high
        Bounds that values are clipped to; by default the least and the largest that the column can have.

    Notes
    -----
    Errors are counted in records, or in the unit of the values: with probability 1 - β all that were said to be above
    have at least T - α, and all that were asked and not said to be have at most T + α. For means, the values of those
    said to be above are in sum more than T each, and of the others by at most α more. A numeric answer is a pair of a
    label and a noisy number: the count, the sum, or by how much the values are in sum more than T each.

    References
    ----------
    Dwork & Roth 2014, Algorithms 2 and 3, Theorems 3.25 and 3.27; for the best form Lyu, Su & Li 2017 and Liu,
    Wang, Liu, Li & Chen 2024, with the proof and the constants in `noise.sparse_vector`.

    Examples
    --------
    >>> from qrelease import Domain, Neighbours, PureDP
    >>> domain = Domain.coded({"job": 16, "hours": 100})
    >>> best, sparse = (AboveThresholds(("job",), 500, 3, form) for form in ("best", "sparse"))
    >>> asked = domain, 10_000, PureDP(1.0), Neighbours.ADD_REMOVE
    >>> best.error_bound(*asked, beta=0.05) < sparse.error_bound(*asked, beta=0.05) / 3
    True
    >>> AboveThresholds(("job",), 40, 3, measure="mean", column="hours").error_bound(*asked, beta=0.05)
    2356.0
    """

    columns: tuple[str, ...]
    threshold: float
    positives: int = 1
    form: Literal["best", "sparse", "numeric"] = "best"
    measure: Compared = "count"
    column: str = ""
    low: float | None = None
    high: float | None = None
    name: ClassVar[str] = "above-thresholds"

    def check(self, domain: Domain, cost: Cost, neighbours: Neighbours) -> None:
        """See `Statistic`."""
        cells = check_columns(domain, self.columns)
        if self.form not in _FORMS:
            raise InvalidInput(f"form must be one of {', '.join(_FORMS)}, got {self.form!r}")
        units = self._units(domain)
        self._asked(units, self._calibration(units, cost, neighbours), cells)

    def _units(self, domain: Domain) -> _Units:
        """What is compared; `InvalidInput` for parameters that do not go together."""
        if self.measure not in get_args(Compared):
            raise InvalidInput(f"measure must be one of {', '.join(get_args(Compared))}, got {self.measure!r}")
        if self.measure == "count":
            if self.column or self.low is not None or self.high is not None:
                raise InvalidInput("a count has no column of values and no bounds: say measure=sum or measure=mean")
            return _Units(1.0, whole("threshold", self.threshold, least=0))
        if not self.column:
            raise InvalidInput(f"a {self.measure} needs the column of its values, as in column=hours")
        grid = Grid.of(domain, self.column)
        low, high = grid.codes(self.low, self.high)
        first, step = exact_number(grid.low), exact_number(grid.step)
        level = exact_number(real("threshold", self.threshold))
        if self.measure == "mean" and not grid.value(low) < level < grid.value(high):
            raise InvalidInput(
                f"threshold must lie between the bounds of column {self.column!r}, {grid.value(low):g} and"
                f" {grid.value(high):g}, got {self.threshold:g}"
            )
        origin = ((level if self.measure == "mean" else Fraction(0)) - first) / step
        parts = origin.denominator
        reached = 0 if self.measure == "mean" else math.ceil(level / step * parts)
        units = _Units(float(step / parts), reached, low, high, int(parts * (low - origin)), parts)
        if units.moved(Neighbours.REPLACE_ONE) > _MAX_ADDED:
            raise InvalidInput(
                f"column {self.column!r} spans more than {_MAX_ADDED:,} units of {units.unit:.3g}, which its values and"
                " the threshold are multiples of: take a threshold with fewer digits, or narrower bounds"
            )
        return units

    def _stream(self, cost: Cost, neighbours: Neighbours) -> tuple[Cost, dict[str, bool]]:
        """The cost as the stream takes it, and its options."""
        if self.form == "best":
            return currency(cost), {"monotone": neighbours is Neighbours.ADD_REMOVE}
        return cost, {}

    def _calibration(self, units: _Units, cost: Cost, neighbours: Neighbours) -> Calibration:
        paid, options = self._stream(cost, neighbours)
        made: Calibration = _FORMS[self.form].calibrate(paid, self.positives, units.moved(neighbours), **options)
        return made

    def _asked(self, units: _Units, calibration: Calibration, cells: int) -> int:
        """What each query is compared with: of means, more than the noise reaches on a cell that is at T or below."""
        return units.threshold if self.measure != "mean" else calibration.alpha(cells, BETA)[0] + 1

    def _values(self, private: PrivateColumns, units: _Units) -> Ints:
        """The exact number of each cell, (cells,). Private."""
        if self.measure == "count":
            return private.counts(self.columns)
        return private.sums_by(self.columns, units.added(private.codes(self.column)))

    def estimate(self, private: PrivateColumns, cost: Cost) -> EstimateResult:
        """See `Statistic`."""
        units = self._units(private.domain)
        paid, options = self._stream(cost, private.neighbours)
        values = self._values(private, units)
        moved = units.moved(private.neighbours)
        level = self._asked(units, self._calibration(units, cost, private.neighbours), values.size)
        stream = private.stream("which are above", paid, _FORMS[self.form], self.positives, moved, **options)
        found: list[Any] = []
        asked = 0
        while asked < values.size and not stream.halted:
            hit = stream.ask_many(values[asked:], level)
            if hit is None:
                asked = values.size
                continue
            asked += hit[0] + 1
            label = cell_label(private.domain, self.columns, asked - 1)
            number = hit[1] if self.measure == "count" else hit[1] * units.unit
            found.append((label, number) if self.form == "numeric" else label)
        law = f"{type(stream).__name__}, {self.positives} positives"
        return EstimateResult(
            tuple(found),
            None,
            f"none: the theorem bounds {self.measure}s" if self.measure != "mean" else "none: the theorem bounds sums",
            self._covers(),
            (Measured("cells asked", asked, law),),
            {"asked": asked, "halted": stream.halted},
            records=math.inf,
            unit=_UNITS_OF_ERRORS[self.measure],
        )

    def _covers(self) -> str:
        cells = f"the cells of {' * '.join(self.columns)}"
        if self.measure == "count":
            return f"{cells} with at least {self.threshold:,} records"
        return f"{cells} whose {self.measure} of {self.column} is at least {self.threshold:,}"

    def error_bound(self, domain: Domain, records: float, cost: Cost, neighbours: Neighbours, *, beta: float) -> float:
        """See `Statistic`; α, in records or the unit of the values: of decisions, and of numbers if there are any."""
        units, cells = self._units(domain), check_columns(domain, self.columns)
        calibration = self._calibration(units, cost, neighbours)
        numeric = calibration.numeric is not None
        above, below = calibration.alpha(cells, beta / 2 if numeric else beta)
        level = self._asked(units, calibration, cells)
        decided = max(above, below) if self.measure != "mean" else max(above - level, level + below)
        error = max(decided, calibration.numeric_alpha(beta / 2)) if numeric else decided
        return error * units.unit if error < records * units.largest else math.inf
