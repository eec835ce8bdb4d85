"""Many quantiles of a column at once: by halving the records, and by walking down a tree of noisy counts.

**Halving** (Kaplan, Schnapp & Stemmer 2022). The middle one of the m quantiles is chosen as `quantile` does; then the
ones below it among the records below it, and the ones above it among the rest. All choices of one depth see disjoint
records, so they cost what one does, and the ⌊log₂ m⌋ + 1 depths share the whole cost. Within records that are the
fraction f of all, the q-quantile is the q/f-quantile. A record that is replaced may leave one part for another: then
both move by at most Δ = max(a, b - a), and each is chosen for 2Δ.

*Ties.* Many equal values would make the parts below and above a quantile anything but q and 1 - q. So each value is a
row of S places, on which the records that have it are spread: the t-th of them goes to the place whose number is t
written backwards in binary (van der Corput 1935). One record more is one more in one place, so neighbours stay
neighbours, and no place holds more than its share by more than 1.

**The tree.** The values are the leaves of a tree in which every node has at most 16 children. Every node's noisy number
of records below the root costs the same part of the budget for each level, as one record is in one node of a level. A
quantile goes down: at each node to the first child at which the noisy records so far reach the target, which then
falls by those of the children before it. Only counts on the way are drawn; the grid may have any number of values.

*Error.* Let E be the sum over the levels of the largest |noise| of a prefix of the children looked at, and N that of
n. Then the chosen value v has #{x < v} <= qn + E + N and #{x <= v} >= qn - E - N. For the records before v are those
before the path at each level, whose noisy number the target exceeds, as what is left of it is positive; and at the last
node that was not taken for want of a further child, the noisy records up to it reach the target, after which the path
keeps to the right edge.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Final, final

import numpy as np

from qrelease._util.typing import Ints
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.noise.calibration import better_rule, calibrated, currency, selection_epsilon
from qrelease.noise.distributions import Noise
from qrelease.privacy.costs import ZCDP, Cost, Neighbours, PureDP, split
from qrelease.statistics.base import BETA, EstimateResult, Measured, spelled
from qrelease.statistics.grid import Grid, Numbers
from qrelease.statistics.private_columns import PrivateColumns, moves
from qrelease.statistics.quantile import check_scored_cells, fraction, loss_bound, loss_sensitivity, losses

_CHILDREN: Final = 16
_MAX_PLACES: Final = 1 << 10
_SPREAD_CELLS: Final = 1 << 18
"""Places of all values together, where each has more than one."""
_RANKS: Final = "of rank, as a fraction of the records"


def _ascending(qs: object) -> tuple[Fraction, ...]:
    if not isinstance(qs, tuple) or not qs:
        raise InvalidInput(f"quantiles must be a tuple of at least one, got {qs!r}")
    found = tuple(fraction(q) for q in qs)
    if list(found) != sorted(set(found)):
        raise InvalidInput(f"quantiles must ascend, got {qs!r}")
    return found


def spread(found: Numbers, places: int) -> Numbers:
    """Each value as so many places, a power of 2, and its records spread on them; the module has the rule."""
    digits = places.bit_length() - 1
    order = [int(f"{t:b}".zfill(digits)[::-1], 2) for t in range(places)]
    turn = np.empty(places, np.int64)
    turn[order] = np.arange(places)
    counts = found.counts[:, None] // places + (turn < found.counts[:, None] % places)
    values = found.values[:, None] * places + np.arange(places)
    held = counts > 0
    return Numbers(values[held], counts[held], found.cells * places)


@final
@dataclass(frozen=True)
class RecursiveQuantiles:
    """Several quantiles by halving the records (Kaplan, Schnapp & Stemmer 2022); the module's docstring has the proof.

    Parameters
    ----------
    column
        Numbers on a grid of at most 2^20 values. Missing ones do not count.
    qs
        Which ones, ascending, each in (0, 1) and a whole number of ten-thousandths.

    Notes
    -----
    Errors are counted in ranks, as a fraction of n. Each of the D depths adds the error of one choice, at β/m, and what
    one place may hold, 1/S + 1/n.

    Examples
    --------
    >>> from qrelease import Domain, Neighbours, PureDP
    >>> domain = Domain.coded({"age": 100})
    >>> statistic = RecursiveQuantiles("age", (0.25, 0.5, 0.75))
    >>> statistic.error_bound(domain, 1e5, PureDP(1.0), Neighbours.ADD_REMOVE, beta=0.05) < 0.01
    True
    """

    column: str
    qs: tuple[float, ...]
    name: ClassVar[str] = "recursive-quantiles"

    def check(self, domain: Domain, cost: Cost, neighbours: Neighbours) -> None:
        """See `Statistic`."""
        _ascending(self.qs)
        check_scored_cells(Grid.of(domain, self.column), self.qs)
        for share in self._shares(cost):
            selection_epsilon(share, better_rule(share))

    def _shares(self, cost: Cost) -> tuple[PureDP | ZCDP, ...]:
        """A share of the cost for each depth."""
        return split(currency(cost), [1] * len(self.qs).bit_length())

    def estimate(self, private: PrivateColumns, cost: Cost) -> EstimateResult:
        """See `Statistic`."""
        grid, qs = Grid.of(private.domain, self.column), _ascending(self.qs)
        places = _places(grid)
        found = spread(private.numbers(self.column), places)
        chosen: dict[int, int] = {}
        parts = [_Part(0, len(qs), 0, found.cells, Fraction(0), Fraction(1))]
        for depth, share in enumerate(self._shares(cost)):
            held = [_between(found, part.low, part.high) for part in parts]
            scaled = [part.scaled(qs[part.middle]) for part in parts]
            scores = [
                -losses(numbers, q, np.arange(part.low, part.high))
                for part, numbers, q in zip(parts, held, scaled, strict=True)
            ]
            moved = [loss_sensitivity(q, Neighbours.ADD_REMOVE) * private.moves for q in scaled]
            picks = private.choose_apart(f"quantiles of depth {depth + 1}", scores, moved, share)
            below: list[_Part] = []
            for part, pick in zip(parts, picks, strict=True):
                chosen[part.middle] = part.low + pick
                below += part.halves(part.low + pick, qs[part.middle])
            parts = below
        values = tuple(grid.value(chosen[i] // places) for i in range(len(qs)))
        rule = better_rule(self._shares(cost)[0])
        return EstimateResult(
            values,
            None,
            "none: the theorem bounds ranks",
            "the quantiles of the values",
            tuple(Measured(f"quantile {q:g}", v, rule) for q, v in zip(self.qs, values, strict=True)),
            unit=_RANKS,
        )

    def error_bound(self, domain: Domain, records: float, cost: Cost, neighbours: Neighbours, *, beta: float) -> float:
        """See `Statistic`; in ranks, a fraction of n."""
        grid, qs = Grid.of(domain, self.column), _ascending(self.qs)
        places = _places(grid)
        if records <= 0:
            return math.inf
        error = 0.0
        for share in self._shares(cost):
            # The loss over b, at Δ = max(a, b - a) <= b: a choice is off by at most so many ranks.
            choice = loss_bound(grid.cells * places, moves(neighbours), share, beta / len(qs))
            error += choice / records + 1 / places + 1 / records
        return error if error < 1 else math.inf


def _places(grid: Grid) -> int:
    """The number of places that each value is spread over, a power of 2."""
    return 1 << min(max(_SPREAD_CELLS // grid.cells, 1), _MAX_PLACES).bit_length() - 1


def _between(found: Numbers, low: int, high: int) -> Numbers:
    a, b = np.searchsorted(found.values, [low, high])
    return Numbers(found.values[a:b], found.counts[a:b], found.cells)


@dataclass(frozen=True)
class _Part:
    """The quantiles first..last - 1, among the records in places low..high - 1, which lie between these quantiles."""

    first: int
    last: int
    low: int
    high: int
    floor: Fraction
    ceiling: Fraction

    @property
    def middle(self) -> int:
        return (self.first + self.last) // 2

    def scaled(self, q: Fraction) -> Fraction:
        """A quantile of all records, of these."""
        return (q - self.floor) / (self.ceiling - self.floor)

    def halves(self, place: int, q: Fraction) -> list[_Part]:
        """The parts on both sides of a place that was chosen for the middle; each has a place to choose."""
        both = [
            _Part(self.first, self.middle, self.low, max(place, self.low + 1), self.floor, q),
            _Part(self.middle + 1, self.last, max(place, self.low + 1), self.high, q, self.ceiling),
        ]
        both[1] = both[1] if both[1].low < both[1].high else both[1].at_the_end()
        return [part for part in both if part.first < part.last]

    def at_the_end(self) -> _Part:
        """The part in the last place alone: a choice among one place tells nothing of the records that it shares."""
        return _Part(self.first, self.last, self.high - 1, self.high, self.floor, self.ceiling)


@final
@dataclass(frozen=True)
class TreeQuantiles:
    """Several quantiles by a tree of noisy counts; the module's docstring has the rule and the proof.

    Parameters
    ----------
    column
        Numbers on a grid of any number of values. Missing ones do not count.
    qs
        Which ones, ascending, each in (0, 1) and a whole number of ten-thousandths.

    Notes
    -----
    Errors are counted in ranks, as a fraction of n. The noise of a level is for the cost over the number of levels:
    under zCDP it grows with the root of that, which makes this the better form there for many quantiles.

    References
    ----------
    Hay, Rastogi, Miklau & Suciu 2010 for trees of counts; the bound is proved in the module's docstring.

    Examples
    --------
    >>> from qrelease import Domain, Neighbours, ZCDP
    >>> domain = Domain.coded({"seconds": 1 << 28})
    >>> statistic = TreeQuantiles("seconds", (0.1, 0.5, 0.9))
    >>> statistic.error_bound(domain, 1e5, ZCDP(0.1), Neighbours.ADD_REMOVE, beta=0.05) < 0.05
    True
    """

    column: str
    qs: tuple[float, ...]
    name: ClassVar[str] = "tree-quantiles"

    def check(self, domain: Domain, cost: Cost, neighbours: Neighbours) -> None:
        """See `Statistic`."""
        _ascending(self.qs)
        self._law(Grid.of(domain, self.column), cost, neighbours)

    def _shares(self, grid: Grid, cost: Cost) -> tuple[PureDP | ZCDP, ...]:
        """A share of the cost for each level."""
        return split(currency(cost), [1] * _levels(grid.cells))

    def _law(self, grid: Grid, cost: Cost, neighbours: Neighbours) -> Noise:
        """The noise of a count: one record is in one node of a level, so a replaced one moves two counts by 1."""
        return calibrated(moves(neighbours), self._shares(grid, cost)[0])[0]

    def estimate(self, private: PrivateColumns, cost: Cost) -> EstimateResult:
        """See `Statistic`."""
        grid, qs = Grid.of(private.domain, self.column), _ascending(self.qs)
        found, shares = private.numbers(self.column), self._shares(grid, cost)
        law = self._law(grid, cost, private.neighbours)
        width = _CHILDREN ** len(shares)
        nodes, targets = [0] * len(qs), [0.0] * len(qs)
        total = 0
        for level, share in enumerate(shares):
            width //= _CHILDREN
            parents = sorted(set(nodes))
            starts = (np.array(parents)[:, None] + np.arange(_CHILDREN) * width).reshape(-1)
            exact = found.below(np.minimum(starts + width, grid.cells)) - found.below(np.minimum(starts, grid.cells))
            noisy, _ = private.measure(f"counts of level {level + 1}", exact, private.moves, share)
            noisy[starts >= grid.cells] = 0  # no value is there
            rows = dict(zip(parents, noisy.reshape(-1, _CHILDREN), strict=True))
            if level == 0:
                total = int(noisy.sum())
                targets = [max(float(q) * total, 0.5) for q in qs]
            for i, node in enumerate(nodes):
                nodes[i], targets[i] = _step(rows[node], node, targets[i], width, grid.cells)
        values = tuple(grid.value(node) for node in nodes)
        return EstimateResult(
            values,
            None,
            "none: the theorem bounds ranks",
            "the quantiles of the values",
            (
                Measured("number of records", total, spelled(law)),
                *(Measured(f"quantile {q:g}", v, "walk down") for q, v in zip(self.qs, values, strict=True)),
            ),
            records=total - _sum_of(law, _CHILDREN, 1, BETA / 2),
            unit=_RANKS,
        )

    def error_bound(self, domain: Domain, records: float, cost: Cost, neighbours: Neighbours, *, beta: float) -> float:
        """See `Statistic`; in ranks, a fraction of n: (E + N)/n of the module's docstring, with every sum bounded."""
        grid = Grid.of(domain, self.column)
        law, levels = self._law(grid, cost, neighbours), _levels(grid.cells)
        sums = levels * len(_ascending(self.qs)) * _CHILDREN + 1
        ranks = (levels + 1) * _sum_of(law, _CHILDREN, sums, beta) + 1
        return ranks / records if ranks < records else math.inf


def _levels(cells: int) -> int:
    levels = 1
    while _CHILDREN**levels < cells:
        levels += 1
    return levels


def _sum_of(law: Noise, terms: int, sums: int, beta: float) -> float:
    """t such that of so many sums of at most so many draws none is beyond ±t, but with probability β."""
    return law.sum_bound(terms, math.log(2 * sums / beta))


def _step(counts: Ints, node: int, target: float, width: int, cells: int) -> tuple[int, float]:
    """The first child at which the counts reach the target, or the last that has values; and what is left of it."""
    last = min(_CHILDREN, -(-(cells - node) // width)) - 1
    so_far = 0.0
    child = 0
    while child < last and so_far + counts[child] < target:
        so_far += float(counts[child])
        child += 1
    return node + child * width, target - so_far
