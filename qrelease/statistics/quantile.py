"""A quantile of a column, or one in each group, by the exponential mechanism, or permute-and-flip, over its grid.

Let q = a/b. A value v of the grid is a q-quantile of n numbers if at most qn of them are smaller and at most (1 - q)n
larger. Its loss is how far that fails, in b-ths of a rank: with c = 0,

    loss(v) = max(b #{x < v} - a n + c, b #{x > v} - (b - a) n - c, 0).

A quantile has loss 0, and the loss is one number for each value of the grid however many records tie there (Smith 2011
scores the gaps between sorted records, which is this where no two are equal). A record that comes or goes moves the
first term by -a or b - a, the second by a - b or a, hence the loss by at most max(a, b - a); one that is replaced by b.

**Error.** With K values and γ = ε/(2Δ), any one value of loss d is chosen with probability at most e^(-γd), so with
probability 1 - β the loss is at most (ln K + ln 1/β)/γ: a rank error of that over b.

**Interval.** With c > 0 the target is the rank qn - c/b. Where that is below 0 no value has loss 0, so the lower end
has one candidate more, before the grid: its loss is max(an - c, 0), and where it is chosen the grid's lowest value is
the end. Then some candidate has loss 0: this one if an <= c, and else a value, as the rank is between 0 and n. So if c
is the bound above for K + 1 candidates at β/2, the loss of the chosen one is at most c; if it is a value v, then
#{x < v} <= qn, and some quantile is not below v; none is below the lowest. The upper end is the mirror image: -c, and a
candidate after the grid, of loss max((b - a)n - c, 0), for the highest value. The quantiles are neighbours on the grid,
so between the two ends lies one with probability 1 - β, for every n >= 0. A record that comes or goes moves the loss of
a candidate beyond the grid by at most a, or b - a, which is at most Δ = max(a, b - a); one that is replaced moves it by
as much if one of the two values is missing, else not at all, and Δ <= b. So they move by no more than those of values.

**Groups.** A record is in one group, so one quantile of each costs what one of everybody does. One that comes or goes
moves the losses of one group, by at most Δ = max(a, b - a). One that is replaced moves those of one group by at most b,
or leaves a group and enters another, and moves the losses of each of the two by at most Δ: so the choices are made as
for losses that move by 2Δ, which is at least b. Under pure ε each of two costs ε/2 then; in ρ, where a choice at ε
costs ε²/8, the two cost half of what one may. (Taking b for both groups would be too little, unless a = b - a.) With G
groups all errors are as above at once with β/G in place of β.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Final, final

import numpy as np

from qrelease._util.typing import Ints
from qrelease._util.validate import positive_probability
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput, TooLarge
from qrelease.noise.calibration import better_rule, currency, selection_epsilon
from qrelease.privacy.costs import ZCDP, Cost, Neighbours, PureDP, split
from qrelease.statistics.base import BETA, EstimateResult, Measured
from qrelease.statistics.grid import Grid, Numbers
from qrelease.statistics.private_columns import PrivateColumns
from qrelease.statistics.selection import cell_label, check_columns

MAX_CELLS: Final = 1 << 20
"""Values of a grid that are scored one by one."""

MAX_GROUP_CELLS: Final = 1 << 22
"""And of all groups together."""

PARTS: Final = 10_000
"""A quantile is a whole number of these parts of 1."""

_SHARES: Final = (2, 1, 1)  # of the quantile and the two ends of its interval


def fraction(q: float) -> Fraction:
    """A quantile as an exact fraction; `InvalidInput` unless it is in (0, 1), and a whole number of ten-thousandths."""
    found = Fraction(positive_probability("a quantile", q)).limit_denominator(PARTS)
    if round(q * PARTS) / PARTS != q or not 0 < found < 1:
        raise InvalidInput(f"a quantile must be a whole number of ten-thousandths, such as 0.25, got {q}")
    return Fraction(round(q * PARTS), PARTS)


def losses(found: Numbers, q: Fraction, cells: Ints, offset: int = 0) -> Ints:
    """How far each of some values is from being a q-quantile, in 1/b of a rank, (k,); the module has the formula."""
    a, b = q.numerator, q.denominator
    less, more = found.below(cells), found.n - found.below(cells + 1)
    worst = np.maximum(b * less - a * found.n + offset, b * more - (b - a) * found.n - offset)
    return np.maximum(worst, 0)


def end_losses(found: Numbers, q: Fraction, cells: int, side: int, offset: int) -> Ints:
    """The losses for one end of an interval, (K + 1,): side -1, the lower one, has the candidate beyond the grid first.

    The other, 1, has it last. The module has the formulas.
    """
    a, b = q.numerator, q.denominator
    inside = losses(found, q, np.arange(cells), -side * offset)
    beyond = max((a if side < 0 else b - a) * found.n - offset, 0)
    return np.insert(inside, 0 if side < 0 else cells, beyond)


def loss_sensitivity(q: Fraction, neighbours: Neighbours) -> int:
    """How far one record moves any of the `losses`, or of the `end_losses`."""
    a, b = q.numerator, q.denominator
    return b if neighbours is Neighbours.REPLACE_ONE else max(a, b - a)


def group_sensitivity(q: Fraction, neighbours: Neighbours) -> int:
    """How far the losses of a group are taken to move: a replaced record may move those of two by half of it."""
    most = loss_sensitivity(q, Neighbours.ADD_REMOVE)
    return 2 * most if neighbours is Neighbours.REPLACE_ONE else most


def loss_bound(cells: int, sensitivity: int, cost: PureDP | ZCDP, beta: float) -> int:
    """What the loss of the chosen one of K values is at most, with probability 1 - β."""
    epsilon = selection_epsilon(cost, better_rule(cost))
    return math.floor(2 * sensitivity / float(epsilon) * (math.log(cells) - math.log(beta)) * (1 + 1e-9))


def check_scored_cells(grid: Grid, qs: Sequence[float] = ()) -> None:
    """Raise `TooLarge` for a grid of more values than are scored one by one.

    qs  the quantiles that were asked for, where a tree of counts would give them too
    """
    if grid.cells > MAX_CELLS:
        asked = f"tree-quantiles:{grid.name},qs={'/'.join(map(str, qs))}"
        tree = f"{asked} (in Python TreeQuantiles), or " if qs else ""
        raise TooLarge(
            f"column {grid.name!r} has {grid.cells:,} values, and at most {MAX_CELLS:,} are scored one by one:"
            f" take {tree}a coarser step in the schema"
        )


def choose_quantile(
    private: PrivateColumns, found: Numbers, grid: Grid, q: Fraction, cost: PureDP | ZCDP, offset: int
) -> int:
    """The code of a private q-quantile, of the rank qn - offset/b."""
    scores = -losses(found, q, np.arange(grid.cells), offset)
    return private.choose(f"quantile {float(q):g}", scores, loss_sensitivity(q, private.neighbours), cost)


@final
@dataclass(frozen=True)
class Quantile:
    """Quantiles of a column, or of groups, by the exponential mechanism (Smith 2011); permute-and-flip under pure ε.

    Parameters
    ----------
    column
        Numbers on a grid of at most 2^20 values. Missing ones do not count.
    q
        Which one, in (0, 1); a whole number of ten-thousandths. 0.5 is the median.
    interval
        Whether half of the cost buys an interval.
    by
        Columns: then it is one quantile in each combination of their cells, in their order, for the same cost. At most
        2^22 combinations of a group and a value.

    Notes
    -----
    The module's docstring has the proofs. The error is counted in ranks: how many records too many are below the
    value, or above it; of several groups it is the largest. In a group that is small beside that error the value may be
    any one, and the interval is mostly the whole grid. With `by` the value is a tuple, and `choices["groups"]` has the
    labels.

    Examples
    --------
    >>> from qrelease import Domain, Neighbours, PureDP
    >>> domain = Domain.coded({"age": 100})
    >>> Quantile("age", 0.5, interval=False).error_bound(domain, 1e6, PureDP(1.0), Neighbours.ADD_REMOVE, beta=0.05)
    7.5
    """

    column: str
    q: float = 0.5
    interval: bool = True
    by: tuple[str, ...] = ()
    name: ClassVar[str] = "quantile"

    def check(self, domain: Domain, cost: Cost, neighbours: Neighbours) -> None:
        """See `Statistic`."""
        fraction(self.q)
        check_scored_cells(Grid.of(domain, self.column), () if self.by else (self.q,))
        if not isinstance(self.interval, bool):
            raise InvalidInput(f"interval must be yes or no, True or False, got {self.interval!r}")
        groups, cells = self._groups(domain), Grid.of(domain, self.column).cells
        if groups * cells > MAX_GROUP_CELLS:
            raise TooLarge(
                f"{groups:,} groups with {cells:,} values each are {groups * cells:,} to score, and at most"
                f" {MAX_GROUP_CELLS:,} are: ask by fewer columns, or of a column with a coarser step"
            )
        for share in self._shares(cost):
            selection_epsilon(share, better_rule(share))

    def _shares(self, cost: Cost) -> tuple[PureDP | ZCDP, ...]:
        return split(currency(cost), _SHARES if self.interval else [1])

    def _groups(self, domain: Domain) -> int:
        """G."""
        return check_columns(domain, self.by) if self.by or not isinstance(self.by, tuple) else 1

    def _moved(self, neighbours: Neighbours) -> int:
        """How far the losses of a group are taken to move."""
        return (group_sensitivity if self.by else loss_sensitivity)(fraction(self.q), neighbours)

    def _numbers(self, private: PrivateColumns, cells: int) -> list[Numbers]:
        """The values of each group. Private."""
        if not self.by:
            return [private.numbers(self.column)]
        codes, groups = private.codes(self.column), np.zeros(private.count(), np.int64)
        for name in self.by:
            groups = groups * private.domain[name].size + private.cells(name)
        places = (groups * cells + codes)[codes >= 0]
        tables = np.bincount(places, minlength=self._groups(private.domain) * cells).reshape(-1, cells)
        return [Numbers.counted(table) for table in tables]

    def _choose(self, private: PrivateColumns, scores: list[Ints], cost: PureDP | ZCDP) -> list[int]:
        """One index for each group's scores."""
        if not self.by:
            return [private.choose(f"quantile {self.q:g}", scores[0], self._moved(private.neighbours), cost)]
        moved = [self._moved(private.neighbours)] * len(scores)
        return private.choose_apart(f"quantile {self.q:g} by {' * '.join(self.by)}", scores, moved, cost)

    def estimate(self, private: PrivateColumns, cost: Cost) -> EstimateResult:
        """See `Statistic`."""
        grid, q = Grid.of(private.domain, self.column), fraction(self.q)
        found, shares = self._numbers(private, grid.cells), self._shares(cost)
        scores = [-losses(numbers, q, np.arange(grid.cells)) for numbers in found]
        value = tuple(grid.value(pick) for pick in self._choose(private, scores, shares[0]))
        covers = f"a {self.q:g}-quantile of the values"
        rule, moved = better_rule(shares[0]), self._moved(private.neighbours)
        measured = [Measured(f"quantile {self.q:g}", self._shown(value), rule)]
        interval, method = None, "none was asked for"
        if self.interval:
            ends = []
            for side, share in zip((-1, 1), shares[1:], strict=True):
                offset = loss_bound(grid.cells + 1, moved, share, BETA / 2 / len(found))
                scores = [-end_losses(numbers, q, grid.cells, side, offset) for numbers in found]
                picks = self._choose(private, scores, share)
                codes = [max(pick - 1, 0) if side < 0 else min(pick, grid.cells - 1) for pick in picks]
                ends.append(tuple(map(grid.value, codes)))
                what = f"quantile {self.q:g}, {side * offset / q.denominator:+g} ranks"
                measured.append(Measured(what, self._shown(ends[-1]), rule))
            interval = self._shown(tuple((min(v), max(v)) for v in zip(value, *ends, strict=True)))
            method = f"quantiles at ranks shifted by their error, beta {BETA:g}"
        typical = loss_bound(grid.cells, moved, shares[0], 0.5) / q.denominator
        choices = {}
        if self.by:
            covers = f"{covers} in each cell of {' * '.join(self.by)}"
            choices = {"groups": tuple(cell_label(private.domain, self.by, group) for group in range(len(found)))}
        return EstimateResult(
            self._shown(value), interval, method, covers, tuple(measured), choices, typical, math.inf, "ranks"
        )

    def _shown(self, values: tuple[Any, ...]) -> Any:
        """What there is of each group; of everybody, that alone."""
        return values if self.by else values[0]

    def error_bound(self, domain: Domain, records: float, cost: Cost, neighbours: Neighbours, *, beta: float) -> float:
        """See `Statistic`; in ranks."""
        q, cells = fraction(self.q), Grid.of(domain, self.column).cells
        loss = loss_bound(cells, self._moved(neighbours), self._shares(cost)[0], beta / self._groups(domain))
        error = loss / q.denominator
        return error if error < records * max(q, 1 - q) else math.inf
