"""The figures of a private score: for each the whole number that is drawn, how far a record moves it, and its error.

Let x be the private counts of a marginal, n their number, y the counts of the m public records, and c a public number
of records: n itself where neighbours have as many, else a noisy count, which is paid for first. What depends on the
public table alone (which sets of columns, cutpoints, a model trained on it) is fixed before any draw.

Distances. [Σ|m x - c y|/m], rounded, is moved by 1 for each record that is added or removed: it changes one cell by 1,
and a sum of rounded numbers that move by a whole number at most moves no further. Over c it is the L1 distance d of the
densities, but for |n/c - 1|, as |x/c - y/m| and |x/n - y/m| differ by |x/c - x/n|.

Gaps of pairs. n times the dependence, and n times the covariance, are moved by less than 2, and than the product of the
ranges of the codes (`associations.dependence`, where the proof stands). So is |n f(x) - c f(y)|, for the second part is
public. Over c it is |f(x) - f(y)|, but for |n/c - 1| |f(x)|.

Foretelling. A model of the public records puts each private record into one cell: whether it is right; or its label and
which of the steps of the model's score it is on. One record changes one count by 1. A score is a sum of leaves of trees
in one order, for a record by itself: it does not depend on which records come before, as a vectorised exponential may.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, Final, Protocol, final

import numpy as np

from qrelease._util.typing import Axes, Codes, Floats, Ints
from qrelease.data.table import Table
from qrelease.evaluation.quality.associations import pair_counts
from qrelease.evaluation.quality.marginals import (
    BEST,
    DENSE,
    cells_of,
    counted,
    record_cells,
    sampling_distance,
)
from qrelease.evaluation.quality.models import foreteller, one_thread_of_trees
from qrelease.noise.calibration import better_rule, calibrated, selection_epsilon, sensitivity_of_one
from qrelease.noise.distributions import Noise
from qrelease.privacy.costs import ZCDP, Cost, Neighbours, PureDP, split
from qrelease.statistics.base import Measured, spelled, within
from qrelease.statistics.private_columns import PrivateColumns, moves

_STEPS: Final = 12
"""Cutpoints of a model's score for each of the two labels, at equal shares of the public records that have it."""

_THETAS: Final = np.linspace(0, 1, 1001)
"""Areas between which it is looked for what may be the true one."""

_BLOCK: Final = 1 << 16
"""Records that a model is asked about at once."""

_MAX_SAMPLE: Final = 1 << 42
"""Records of a sample that is as good; a larger one is as good as all of them."""

Interval = tuple[float, float]


@final
@dataclass(frozen=True)
class Records:
    """A public number of records, and how far off it may be, with half of β."""

    near: int
    reach: float

    @property
    def off(self) -> float:
        """|n/c - 1|, at most."""
        return self.reach / self.near


@final
@dataclass(frozen=True)
class Drawn:
    """A figure: its value, its interval, what was measured for it, and what was chosen, if anything was."""

    value: float
    interval: Interval
    measured: tuple[Measured, ...]
    chosen: tuple[str, ...] | None = None
    typical: float = 0.0


class Figure(Protocol):
    """One figure of a score."""

    @property
    def name(self) -> str:
        """What it is called."""

    def check(self, neighbours: Neighbours, cost: PureDP | ZCDP) -> None:
        """Raise `InvalidInput` where a cost buys it under no noise that can be drawn."""

    def draw(self, private: PrivateColumns, cost: PureDP | ZCDP, records: Records, beta: float) -> Drawn:
        """Draw it for that cost; its error is beyond the interval with probability β, besides that of the records."""

    def half_width(self, neighbours: Neighbours, cost: PureDP | ZCDP, records: Records, beta: float) -> float:
        """About half the width of the interval of `draw`, before it is cut to what is possible: by public facts."""

    @property
    def most(self) -> float:
        """The largest value that it can have; the least is 0."""


def distances(private: PrivateColumns, public: Table, records: int, sets: Sequence[Axes]) -> Ints:
    """`records` times the L1 distance of each marginal, rounded, (sets,). Private."""
    names, m, found = private.domain.names, len(public), []
    for axes in sets:
        shape = [private.domain.shape[a] for a in axes]
        if math.prod(shape) <= DENSE:
            x, (y,) = private.counts(tuple(names[a] for a in axes)), public.counts([axes])
        else:
            ours = cells_of([private.cells(names[a]) for a in axes], shape)
            x, y = counted([ours, record_cells(public, axes)], math.prod(shape))
        found.append((int(np.abs(m * x - records * y).sum()) + m // 2) // m)
    return np.array(found, np.int64)


def _one(private: PrivateColumns, what: str, exact: int, moved: int, cost: Cost) -> tuple[int, Noise, Measured]:
    """A whole number that a neighbour moves by so much, with noise."""
    noisy, law = private.measure(what, [exact], sensitivity_of_one(moved, cost), cost)
    return int(noisy[0]), law, Measured(what, int(noisy[0]), spelled(law))


def _cut(value: float, most: float) -> float:
    """The nearest value that is possible."""
    return min(max(value, 0.0), most)


@final
@dataclass(frozen=True)
class Score:
    """The k-marginal score over some sets of k columns, from 0 to 1000."""

    public: Table = field(repr=False)
    sets: tuple[Axes, ...] = field(repr=False)

    @property
    def name(self) -> str:
        """See `Figure`."""
        return f"{len(self.sets[0])}-marginal"

    def law(self, neighbours: Neighbours, cost: Cost) -> Noise:
        """The noise of the sum of the distances."""
        return calibrated(sensitivity_of_one(self._moved(neighbours), cost), cost)[0]

    def _moved(self, neighbours: Neighbours) -> int:
        return len(self.sets) * moves(neighbours)

    def check(self, neighbours: Neighbours, cost: PureDP | ZCDP) -> None:
        """See `Figure`."""
        self.law(neighbours, cost)
        for axes in self.sets:  # the private records are numbered by the same cells, after the charge
            cells_of([np.zeros(0, np.int64)] * len(axes), [self.public.domain.shape[a] for a in axes])

    def error(self, law: Noise, records: float, off: float, beta: float) -> float:
        """In points, of so many records, whose number is off by at most a share."""
        return ((law.reach(beta) / len(self.sets) + 0.5) / records + off) * BEST / 2

    def half_width(self, neighbours: Neighbours, cost: PureDP | ZCDP, records: Records, beta: float) -> float:
        """See `Figure`."""
        return self.error(self.law(neighbours, cost), records.near, records.off, beta)

    most = BEST

    def draw(self, private: PrivateColumns, cost: PureDP | ZCDP, records: Records, beta: float) -> Drawn:
        """See `Figure`."""
        exact = int(distances(private, self.public, records.near, self.sets).sum())
        noisy, law, measured = _one(
            private, f"distances of {self.name}s, summed", exact, self._moved(private.neighbours), cost
        )
        unit = records.near * len(self.sets)
        score, error = (2.0 - noisy / unit) * BEST / 2, self.error(law, records.near, records.off, beta)
        typical = math.sqrt(law.variance) / unit * BEST / 2
        interval = within((score - error, score + error), 0.0, BEST)
        return Drawn(_cut(score, BEST), interval, (measured,), typical=typical)


@final
@dataclass(frozen=True)
class Worst:
    """The largest L1 distance of the marginals on some sets of columns, from 0 to 2, and which one may have it.

    Half of the cost chooses one of the largest, which is within some `slack` of it with probability 1 - β/2 (McSherry &
    Talwar 2007; McKenna & Sheldon 2020); the other half measures its distance.
    """

    name: str
    public: Table = field(repr=False)
    sets: tuple[Axes, ...] = field(repr=False)

    def check(self, neighbours: Neighbours, cost: PureDP | ZCDP) -> None:
        """See `Figure`."""
        choosing, measuring = split(cost, [0.5, 0.5])
        selection_epsilon(choosing, better_rule(choosing))
        calibrated(sensitivity_of_one(moves(neighbours), measuring), measuring)

    def _slack(self, moved: int, choosing: PureDP | ZCDP, beta: float) -> float:
        """How far the chosen distance, times the records, is below the largest, at most."""
        epsilon = float(selection_epsilon(choosing, better_rule(choosing)))
        return 2 * moved * math.log(2 * len(self.sets) / beta) / epsilon

    def _error(self, law: Noise, records: Records, beta: float) -> float:
        return (law.reach(beta / 2) + 0.5) / records.near + records.off

    def half_width(self, neighbours: Neighbours, cost: PureDP | ZCDP, records: Records, beta: float) -> float:
        """See `Figure`."""
        choosing, measuring = split(cost, [0.5, 0.5])
        law, moved = calibrated(sensitivity_of_one(moves(neighbours), measuring), measuring)[0], moves(neighbours)
        slack = (self._slack(moved, choosing, beta) + 0.5) / records.near
        return self._error(law, records, beta) + slack / 2

    most = 2.0

    def draw(self, private: PrivateColumns, cost: PureDP | ZCDP, records: Records, beta: float) -> Drawn:
        """See `Figure`."""
        choosing, measuring = split(cost, [0.5, 0.5])
        found, moved = distances(private, self.public, records.near, self.sets), moves(private.neighbours)
        at = private.choose(f"the {self.name}", found, moved, choosing)
        rule, slack = better_rule(choosing), self._slack(moved, choosing, beta)
        chosen = tuple(private.domain.names[a] for a in self.sets[at])
        what = f"distance of the {self.name}"
        noisy, law, measured = _one(private, what, int(found[at]), moved, measuring)
        value, error = noisy / records.near, self._error(law, records, beta)
        interval = within((value - error, value + error + (slack + 0.5) / records.near), 0.0, 2.0)
        made = Measured(f"the {self.name}", " * ".join(chosen), rule)
        return Drawn(_cut(value, 2.0), interval, (made, measured), chosen)


@final
@dataclass(frozen=True)
class Gap:
    """The mean over pairs of columns of how far a figure of their contingency tables differs, times a pair's weight.

    pairs   each with its weight
    figure  of a contingency table; one record moves n times it by less than `moved` says for a pair
    """

    name: str
    public: Table = field(repr=False)
    pairs: tuple[tuple[Axes, Fraction], ...] = field(repr=False)
    figure: Callable[[Ints], Fraction]
    moved: Callable[[Axes], int]

    def _moved(self, neighbours: Neighbours) -> int:
        return math.ceil(moves(neighbours) * self._most * len(self.pairs))

    @property
    def _most(self) -> Fraction:
        """How far one record moves n times the figure, in the mean; no further from 0 is the figure itself."""
        return sum((weight * self.moved(pair) for pair, weight in self.pairs), Fraction(0)) / len(self.pairs)

    @cached_property
    def _of_public(self) -> list[Fraction]:
        return [self.figure(pair_counts(self.public, pair)) for pair, _ in self.pairs]

    def check(self, neighbours: Neighbours, cost: PureDP | ZCDP) -> None:
        """See `Figure`."""
        calibrated(sensitivity_of_one(self._moved(neighbours), cost), cost)

    def exact(self, private: PrivateColumns, records: int) -> int:
        """`records` times the sum of the gaps, rounded. Private."""
        names, shape, total = private.domain.names, private.domain.shape, Fraction(0)
        for ((a, b), weight), other in zip(self.pairs, self._of_public, strict=True):
            x = private.counts((names[a], names[b])).reshape(shape[a], shape[b])
            total += weight * abs(int(x.sum()) * self.figure(x) - records * other)
        return math.floor(total + Fraction(1, 2))

    @property
    def _size(self) -> float:
        """The mean figure of the public records."""
        sizes = [weight * abs(other) for (_, weight), other in zip(self.pairs, self._of_public, strict=True)]
        return float(sum(sizes) / len(sizes))

    @property
    def most(self) -> float:
        """See `Figure`."""
        return self._size + float(self._most)

    def _error(self, law: Noise, records: Records, beta: float) -> float:
        return (law.reach(beta) + 0.5) / (records.near * len(self.pairs))

    def half_width(self, neighbours: Neighbours, cost: PureDP | ZCDP, records: Records, beta: float) -> float:
        """See `Figure`; where the figures of the private records are those of the public ones."""
        law = calibrated(sensitivity_of_one(self._moved(neighbours), cost), cost)[0]
        return self._error(law, records, beta) + records.off * self._size

    def draw(self, private: PrivateColumns, cost: PureDP | ZCDP, records: Records, beta: float) -> Drawn:
        """See `Figure`."""
        moved = self._moved(private.neighbours)
        noisy, law, measured = _one(private, f"the {self.name}, summed", self.exact(private, records.near), moved, cost)
        unit = records.near * len(self.pairs)
        value, error, off = noisy / unit, self._error(law, records, beta), records.off
        size, most = self._size, self.most
        # |f(x)| <= the gap + |f(y)|: so much of it is |n/c - 1| off
        high = (value + error + off * size) / (1 - off) if off < 1 else most
        low = (value - error - off * size) / (1 + off)
        shown = _cut(value, most)
        low, high = within((low, high), 0.0, most)
        return Drawn(shown, (min(low, shown), max(high, shown)), (measured,))


@final
@dataclass(frozen=True, eq=False)
class Foretelling:
    """Boosted trees that are trained on the public records alone, and foretell a column of the private ones."""

    public: Table = field(repr=False)
    target: int

    @cached_property
    def _model(self) -> Any:
        return foreteller(self.public, self.target)

    def train(self) -> None:
        """Train the model, which is kept: before anything is charged."""
        _ = self.cutpoints if self.of_two else self._model

    @property
    def column(self) -> str:
        """The column that is foretold."""
        return self.public.domain.names[self.target]

    @property
    def of_two(self) -> bool:
        """Whether the column has two cells, so that there is one area under one ROC curve."""
        return self.public.domain.shape[self.target] == 2

    def _scores(self, columns: Sequence[Codes] | Sequence[Ints]) -> Floats:
        """The model's score of each record, (n,) for two classes, else (n, classes)."""
        others = [column for a, column in enumerate(columns) if a != self.target]
        with one_thread_of_trees():
            found: Floats = self._model.decision_function(np.column_stack(others).astype(np.float64))
        return found

    @cached_property
    def cutpoints(self) -> Floats:
        """Where the score of a column of two cells is cut: ascending. Public."""
        scores = self._scores(self.public.columns)
        labels, at = self.public.columns[self.target], np.arange(1, _STEPS) / _STEPS
        return np.unique(np.concatenate([np.quantile(scores[labels == c], at) for c in (0, 1)]))

    def _counted(self, private: PrivateColumns, size: int, cells: Callable[[Sequence[Ints]], Ints]) -> Ints:
        found = np.zeros(size, np.int64)
        for block in private.blocks(_BLOCK):
            found += np.bincount(cells(block), minlength=size)
        return found

    def right(self, private: PrivateColumns) -> int:
        """How many records' cells are foretold. Private."""

        def hit(columns: Sequence[Ints]) -> Ints:
            scores = self._scores(columns)
            at = (scores > 0).astype(np.int64) if scores.ndim == 1 else scores.argmax(axis=1)
            found: Ints = (self._model.classes_[at] == columns[self.target]).astype(np.int64)
            return found

        return int(self._counted(private, 2, hit)[1])

    def _steps(self, columns: Sequence[Codes] | Sequence[Ints]) -> Ints:
        """The label of each record and the step of its score, as one cell of (2, steps)."""
        at = np.searchsorted(self.cutpoints, self._scores(columns), side="right")
        found: Ints = columns[self.target].astype(np.int64) * (len(self.cutpoints) + 1) + at
        return found

    def histogram(self, private: PrivateColumns) -> Ints:
        """How many records of each label are on each step of the score, (2, steps). Private."""
        return self._counted(private, 2 * (len(self.cutpoints) + 1), self._steps).reshape(2, -1)

    @cached_property
    def public_histogram(self) -> Ints:
        """The same of the public records that the model is trained on."""
        size = 2 * (len(self.cutpoints) + 1)
        return np.bincount(self._steps(self.public.columns), minlength=size).reshape(2, -1)


@final
@dataclass(frozen=True)
class Accuracy:
    """The share of the private records whose cell a model of the public ones foretells."""

    model: Foretelling

    @property
    def name(self) -> str:
        """See `Figure`."""
        return f"accuracy for {self.model.column}"

    def check(self, neighbours: Neighbours, cost: PureDP | ZCDP) -> None:
        """See `Figure`."""
        calibrated(1, cost)

    def _error(self, law: Noise, records: Records, beta: float) -> float:
        return law.reach(beta) / records.near + records.off

    def half_width(self, neighbours: Neighbours, cost: PureDP | ZCDP, records: Records, beta: float) -> float:
        """See `Figure`."""
        return self._error(calibrated(1, cost)[0], records, beta)

    most = 1.0

    def draw(self, private: PrivateColumns, cost: PureDP | ZCDP, records: Records, beta: float) -> Drawn:
        """See `Figure`; a record that takes another's place moves the number by 1, too."""
        what = f"records whose {self.model.column} is foretold"
        noisy, law, measured = _one(private, what, self.model.right(private), 1, cost)
        value, error = noisy / records.near, self._error(law, records, beta)
        return Drawn(_cut(value, 1.0), within((value - error, value + error), 0.0, 1.0), (measured,))


@final
@dataclass(frozen=True)
class Area:
    """The area under the ROC curve of a model of the public records on the private ones, of its score in steps."""

    model: Foretelling

    @property
    def name(self) -> str:
        """See `Figure`."""
        return f"AUC for {self.model.column}"

    def check(self, neighbours: Neighbours, cost: PureDP | ZCDP) -> None:
        """See `Figure`."""
        calibrated(moves(neighbours), cost)

    def half_width(self, neighbours: Neighbours, cost: PureDP | ZCDP, records: Records, beta: float) -> float:
        """See `Figure`; where the private records are on the steps as the public ones that the model is trained on."""
        public = self.model.public_histogram
        below, above = np.rint(public * (records.near / public.sum())).astype(np.int64)
        _, (low, high) = area(below, above, calibrated(moves(neighbours), cost)[0], beta)
        return (high - low) / 2

    most = 1.0

    def draw(self, private: PrivateColumns, cost: PureDP | ZCDP, records: Records, beta: float) -> Drawn:
        """See `Figure`; one count moves by 1 for each record that is added or removed."""
        exact = self.model.histogram(private)
        what = f"records by {self.model.column} and step of the score"
        noisy, law = private.measure(what, exact.reshape(-1), moves(private.neighbours), cost)
        below, above = noisy.reshape(exact.shape)
        value, interval = area(below, above, law, beta)
        return Drawn(value, interval, (Measured(what, tuple(noisy.tolist()), spelled(law)),))


def area(below: Ints, above: Ints, law: Noise, beta: float) -> tuple[float, Interval]:
    """The area under the ROC curve of noisy counts on ascending steps of a score, and where the true one is.

    With a and b the true counts of the labels above and below, of A and B records, the area θ solves aᵀ(M - θ)b = 0,
    where M is 1 where a's step is higher and 1/2 where it is the same. With the noise u of a and v of b, that of the
    noisy counts a' and b' is

        a'ᵀ(M - θ)b' = uᵀ(M - θ)b' + a'ᵀ(M - θ)v - uᵀ(M - θ)v.

    As u and v are independent, the first is a weighted sum of u whose weights are known when v is, and the second one
    of v: `Noise.weighted_sum_bound` bounds each with probability 1 - β/4, given the other. Of the third, the weights
    (M - θ)v are each bounded likewise, all of them with probability 1 - β/4, and so is it then. What is left are the θ
    at which the left side is no further from 0 than the three.

    Parameters
    ----------
    below, above : ndarray of int, shape (steps,)
        Noisy counts of the records of each label.
    law : Noise
        The noise of each count.
    beta : float
        The probability with which the true area, of the true counts on the same steps, may lie elsewhere.

    Returns
    -------
    float, (float, float)
        The area, and the interval.

    Examples
    --------
    >>> area(np.array([900, 100]), np.array([100, 900]), Noise("discrete Laplace", 1e-6), 0.05)[0]
    0.9
    """
    a, b, steps = above.astype(np.float64), below.astype(np.float64), len(above)
    higher = np.tri(steps, steps, -1) + 0.5 * np.eye(steps)
    pairs, product = float(a.sum() * b.sum()), float(a @ higher @ b)
    value = min(max(product / pairs, 0.0), 1.0) if min(a.sum(), b.sum()) > 0 else 0.5
    weight = law.weighted_sum_bound(steps, 1.0, beta / (4 * steps))
    third = law.weighted_sum_bound(steps * weight**2, weight, beta / 4)
    limits = _reaches(law, higher @ b, float(b.sum()), beta / 4) + _reaches(law, a @ higher, float(a.sum()), beta / 4)
    left = product - _THETAS * pairs
    # Between two θ the left side is a line, and the squared weights and the largest one are convex: largest at an end.
    crosses = left[:-1] * left[1:] <= 0
    least = np.where(crosses, 0.0, np.minimum(np.abs(left[:-1]), np.abs(left[1:])))
    kept = np.flatnonzero(least <= np.maximum(limits[:-1], limits[1:]) + third)
    low, high = (float(_THETAS[kept[0]]), float(_THETAS[kept[-1] + 1])) if len(kept) else (value, value)
    return value, (min(low, value), max(high, value))


def _reaches(law: Noise, ranks: Floats, records: float, beta: float) -> Floats:
    """For each of `_THETAS`, what a sum of noise with the weights `ranks` - θ `records` exceeds with probability β."""
    weights = ranks - _THETAS[:, None] * records
    squares, largest = (weights**2).sum(axis=1), np.abs(weights).max(axis=1)
    return np.array([law.weighted_sum_bound(s, m, beta) if m else 0.0 for s, m in zip(squares, largest, strict=True)])


def equivalent_subsample(public: Table, sets: Sequence[Axes], score: Drawn, records: Records) -> tuple[float, Interval]:
    """The share of the private records whose sample would be as far off as the public ones are, by a k-marginal score.

    It costs nothing: a sample's expected distance is taken from the densities of the public records, which stand for
    those that nobody may see. The interval is that of the score and of the number of records alone. A sample of k of n
    records without replacement is about as far off as one of k/(1 - k/n) with it.
    """
    counts = [c[c > 0] for c in (counted([record_cells(public, axes)], public.domain.cells(axes))[0] for axes in sets)]
    values, cells = np.unique(np.concatenate(counts), return_counts=True)
    shares, times = values / len(public), cells / len(sets)

    def as_far(points: float, of: float) -> float:
        """The share that a sample is of so many records, if such a score is expected of it."""
        wanted, low, high = 2.0 - points / (BEST / 2), 0, _MAX_SAMPLE
        if wanted <= 0:
            return 1.0
        while high - low > 1:  # samples of `low` records are further off, of `high` no further
            middle = (low + high) // 2
            low, high = (low, middle) if sampling_distance(shares, times, middle) <= wanted else (middle, high)
        return low / (low + of)

    least, most = max(records.near - records.reach, 1.0), records.near + records.reach
    low, high = score.interval
    return as_far(score.value, records.near), (as_far(low, most), as_far(high, least))
