"""The α of a net for a workload: how far from all of its synopses can a table be?

For fractions y_1..y_N (N, k) and queries W (k, s) the *radius* of the net is

    max over distributions x on s cells of  min_i g_i(x),    g_i(x) = max_q |(Wx)_q - y_iq|,

so that a net is an α-net iff its radius is at most α. The distances g_i are convex, so on a simplex with corners v they
lie below the linear function with the same values at the corners, and min_i g_i below

    max over mixtures μ of the corners of  min_i Σ_v μ_v g_i(v):

the value of a matrix game, a linear program. Branch and bound starts from the simplex of all distributions and cuts
the simplex of the largest bound on an edge (Horst & Tuy 1990); the distances are piecewise linear, so bounds become
tight once the pieces are told apart. The mixture that solves a program is a table, and min_i g_i there a lower bound.

**Certificates.** No bound rests on the solver. A lower bound is the distance of a table, the *witness*, computed from
it. And whatever weights λ of sum 1 the solver gives for the synopses, min_i g_i(x) <= Σ_i λ_i g_i(x), which is convex
and so at most its largest value at a corner. Both are rounded outwards.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import count
from typing import Final, NamedTuple, final

import numpy as np
import numpy.typing as npt

from qrelease.dense import dense
from qrelease.errors import InvalidInput, QReleaseError, TooLarge
from qrelease.exact import whole
from qrelease.nets import Candidates
from qrelease.privacy.costs import positive, positive_probability
from qrelease.workload import Workload

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

MAX_DISTANCES: Final = 1 << 25
"""Synopses times queries times cells: the distances of all synopses from the corners of a simplex, at a time."""

_POINTS: Final = np.array(sorted(range(1, 24), key=lambda i: abs(i - 12))) / 24
"""Where an edge may be cut, the middle first."""

_ROWS: Final = 32  # of a game, that come in at a time
_CLOSE: Final = 1e-9  # a row that is no further below the others changes nothing

_ROUNDING: Final = 2.0**-50
"""Eight units of the last place: for each term of the sums that a bound is made of, of numbers up to 1."""


@final
@dataclass(frozen=True, eq=False)
class Radius:
    """What is known of the α of a net: lower <= α <= upper, as fractions.

    witness   (|X|,) a distribution that is at least `lower` away from every synopsis, on some query
    programs  linear programs solved
    """

    lower: float
    upper: float
    witness: Floats
    programs: int

    def certifies(self, alpha: float) -> bool:
        """It is an α-net."""
        return self.upper <= alpha

    def refutes(self, alpha: float) -> bool:
        """It is none: look at the witness."""
        return self.lower > alpha

    def __str__(self) -> str:
        return f"alpha is between {self.lower:.6g} and {self.upper:.6g}, after {self.programs:,} linear programs"


def radius(
    net: Candidates, workload: Workload, *, alpha: float | None = None, gap: float = 1e-3, programs: int = 10_000
) -> Radius:
    """Bounds on the α of a net for a workload, `gap` apart; with an `alpha`, only as close as it takes to decide on it.

    After so many linear programs (about a millisecond each) it stops with what it knows, so look at the bounds: they
    hold, but beyond six or so cells that the queries tell apart they can be wide. An α that is attained exactly takes
    an `alpha` a little above it to be certified. Raises `InvalidInput` for a net over another
    domain or arguments out of range, `TooLarge` for one whose distances do not fit.
    """
    if net.domain != workload.domain:
        raise InvalidInput("the net is over another domain than the workload")
    distances = len(net) * len(workload) * workload.domain.size
    if distances > MAX_DISTANCES:
        raise TooLarge(f"a net with {distances:,} distances is too large to be checked; at most {MAX_DISTANCES:,} fit")
    goal = None if alpha is None else positive_probability("alpha", alpha)
    close, most = positive("gap", gap), whole("programs", programs, least=1)
    search = _Search(net, workload)
    while search.upper - search.lower > close and search.programs < most:
        if goal is not None and not search.lower <= goal < search.upper:
            break
        search.branch()
    return Radius(search.lower, search.upper, search.witness, search.programs)


class _Node(NamedTuple):
    """A simplex; nodes are ordered by their bounds, the largest first, then by age.

    corners   (s, s) distributions, one a row
    mixture   (s,) of the corners, and `weights` (r,) of the synopses `active` (r,): the solution of the game
    """

    bound: float
    age: int
    corners: Floats
    mixture: Floats
    active: Ints
    weights: Floats


class _Search:
    """Simplices that together hold every distribution that may be further away than `lower`."""

    def __init__(self, net: Candidates, workload: Workload) -> None:
        rows, unit = dense(workload)
        _, self._first = np.unique(rows, axis=1, return_index=True)  # cells that no query tells apart are as one
        self._columns = rows[:, self._first].T * unit
        self._answers = np.unique(np.concatenate(list(net.fractions(workload))), axis=0)
        self._cells = rows.shape[1]
        terms = len(self._answers) + len(self._first)
        self._rounding = _ROUNDING * terms * (1 + float(np.abs(self._answers).max()))
        self._ages = count()
        self._open: list[_Node] = []
        self._best = np.full(len(self._first), 1 / len(self._first))
        self.lower, self.programs = 0.0, 0
        self._add(np.eye(len(self._first)), np.inf)

    @property
    def upper(self) -> float:
        """No distribution is further away."""
        return max(self.lower, -self._open[0].bound if self._open else 0.0)

    @property
    def witness(self) -> Floats:
        """The distribution of the lower bound, over the whole universe."""
        x = np.zeros(self._cells)
        x[self._first] = self._best
        return x

    def branch(self) -> None:
        """Cut the simplex of the largest bound in two."""
        node = heapq.heappop(self._open)
        a, b, point = self._cut(node)
        for corner in (a, b):
            corners = node.corners.copy()
            corners[corner] = point
            self._add(corners, -node.bound)

    def _add(self, corners: Floats, most: float) -> None:
        """Bound a simplex, whose parent's bound is `most`, and keep it if it may hold a better distribution."""
        distances = self._distances(corners, self._answers)
        if distances.max(axis=1).min() + self._rounding <= self.lower:
            return  # one synopsis is near to all of it
        mixture, active, weights = _game(distances)
        self.programs += 1
        x = mixture @ corners
        found = float(self._distances(x[None, :], self._answers).min()) - self._rounding
        if found > self.lower:
            self.lower, self._best = found, x
        bound = min(most, float((weights @ distances[active]).max()) + self._rounding)
        if bound > self.lower:
            heapq.heappush(self._open, _Node(-bound, next(self._ages), corners, mixture, active, weights))

    def _distances(self, points: Floats, answers: Floats) -> Floats:
        """g of each distribution (p, s) and each synopsis by its answers (r, k), (r, p)."""
        return np.stack([np.abs(answers - a).max(axis=1) for a in points @ self._columns], axis=1)

    def _cut(self, node: _Node) -> tuple[int, int, Floats]:
        """Two corners and the point between them where the bound is loosest.

        Of the edges, that on whose middle it is loosest, times its part in the mixture; the longest if it is tight on
        all of them. Of its points, that at which the bound is loosest: about where one of the distances has its kink.
        """

        def weighted(points: Floats) -> Floats:
            found: Floats = node.weights @ self._distances(points, self._answers[node.active])
            return found

        first, second = np.triu_indices(len(node.corners), 1)
        at_corners = weighted(node.corners)
        middles = (node.corners[first] + node.corners[second]) / 2
        loose = (at_corners[first] + at_corners[second]) / 2 - weighted(middles)
        loose *= np.minimum(node.mixture[first], node.mixture[second])
        if loose.max() <= self._rounding:
            loose = np.abs(node.corners[first] - node.corners[second]).max(axis=1)
        a, b = int(first[loose.argmax()]), int(second[loose.argmax()])
        points = node.corners[a] + (node.corners[b] - node.corners[a]) * _POINTS[:, None]
        loose = at_corners[a] + (at_corners[b] - at_corners[a]) * _POINTS - weighted(points)
        return a, b, points[np.flatnonzero(loose >= loose.max() - self._rounding)[0]]


def _game(payoffs: Floats) -> tuple[Floats, Ints, Floats]:
    """The solution of a matrix game (N, s): a mixture of the columns (s,), which maximise, and some rows' weights (r,).

    Returns the numbers of those rows too. They come in as they are needed: few of them matter.
    """
    rows = np.unique(payoffs.argmin(axis=0))
    while True:
        mixture, weights = _solved(payoffs[rows])
        worst = np.argsort(payoffs @ mixture, kind="stable")[:_ROWS]
        new = np.setdiff1d(worst, rows)
        if payoffs[worst[0]] @ mixture >= (payoffs[rows] @ mixture).min() - _CLOSE or not new.size:
            return mixture, rows, weights
        rows = np.concatenate([rows, new])


def _solved(payoffs: Floats) -> tuple[Floats, Floats]:
    """Optimal mixtures of the columns (s,) and of the rows (r,) of a small matrix game."""
    from scipy.optimize import linprog

    r, s = payoffs.shape
    found = linprog(
        np.append(np.zeros(s), -1.0),
        A_ub=np.hstack([-payoffs, np.ones((r, 1))]),
        b_ub=np.zeros(r),
        A_eq=np.append(np.ones(s), 0.0)[None, :],
        b_eq=[1.0],
        bounds=[(0, None)] * s + [(None, None)],
        method="highs",
    )
    if found.status != 0:
        raise QReleaseError(f"a linear program of the net was not solved: {found.message}")
    mixture = np.maximum(np.asarray(found.x, np.float64)[:s], 0.0)
    weights = np.maximum(-np.asarray(found.ineqlin.marginals, np.float64), 0.0)
    return mixture / mixture.sum(), weights / weights.sum()
