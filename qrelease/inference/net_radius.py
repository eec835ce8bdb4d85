"""The radius α of a net for a workload: the largest distance of a table from its nearest synopsis.

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

**Products.** Where each query is about the columns of one net of a product, the radius is the largest of theirs: the
nearest synopsis is made of those nearest in each part, and a table of independent parts may be far from all of them in
each. Nets that a query is asked across are one part together. Their radii alone do not bound that of their product, as
a table is no product: {(0, 0), (1, 1)}, half of each, is 1/4 off the product of its columns on "both are 1". But let q
be a product of p counting queries q_i, each about a net of radius at most r for them. A table with q_i(x) = a_i has

    max(Σ a_i - p + 1, 0)  <=  q(x)  <=  min a_i    (Fréchet 1935),

and some synopsis answers with Π b_i, |a_i - b_i| <= r. It is too low by at most m - max(m - r, 0)^p for m = min a_i,
which is largest at m = r + t, t = p^(-1/(p - 1)), or at m = 1. With s = Σ a_i it is too high by at most
(s/p + r)^p - max(s - p + 1, 0), as no product exceeds that power of the mean. This grows up to s = p - 1 and is convex
beyond, until it is 1 - (s - p + 1) = pr, which is at most (1 - 1/p + r)^p: its tangent at r = 1/p. So if r <= 1/p, the
product is within

    max(r + t - t^p, (1 - 1/p + r)^p),

which grows with p, and is (1/2 + r)² for two nets.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from itertools import count
from typing import Final, NamedTuple, final

import numpy as np

from qrelease._util.typing import Floats, Ints
from qrelease._util.validate import positive, positive_probability, whole
from qrelease.errors import InvalidInput, QReleaseError, TooLarge
from qrelease.inference.nets import Candidates, ProductNet, answers_of
from qrelease.queries.dense import dense
from qrelease.queries.workload import Group, Workload

MAX_DISTANCES: Final = 1 << 25
"""Synopses times queries times cells: the distances of all synopses from the corners of a simplex, at a time."""

CUT_POINTS: Final = np.array(sorted(range(1, 24), key=lambda i: abs(i - 12))) / 24
"""Where an edge may be cut, the middle first."""

ADDED_ROWS: Final = 32
"""Rows of a game that are taken into its linear program at a time."""

ROW_TOLERANCE: Final = 1e-9
"""A row of a game that is no further below the others changes nothing."""

ROUNDING_ERROR: Final = 2.0**-50
"""Eight units of the last place: for each term of the sums that a bound is made of, of numbers up to 1."""


@final
@dataclass(frozen=True, eq=False)
class Radius:
    """What is known of the α of a net: lower <= α <= upper, as fractions.

    Parameters
    ----------
    witness
        A distribution (|X|,) that is at least `lower` away from every synopsis, on some query.
    programs
        How many linear programs were solved.
    """

    lower: float
    upper: float
    witness: Floats
    programs: int

    def certifies(self, alpha: float) -> bool:
        """Whether the list is proved to be an α-net."""
        return self.upper <= alpha

    def refutes(self, alpha: float) -> bool:
        """Whether it is proved to be none: then look at the witness."""
        return self.lower > alpha

    def __str__(self) -> str:
        return f"alpha is between {self.lower:.6g} and {self.upper:.6g}, after {self.programs:,} linear programs"


def radius(
    net: Candidates, workload: Workload, *, alpha: float | None = None, gap: float = 1e-3, programs: int = 10_000
) -> Radius:
    """Bounds on the α of a net for a workload.

    It may stop before they are close, so look at them: they hold, but beyond six or so cells that the queries tell
    apart they can be wide. An α that is attained exactly takes an `alpha` a little above it to be certified.

    Parameters
    ----------
    net
        The net.
    workload
        The queries.
    alpha
        Bound only as closely as it takes to decide whether it is an α-net for this α, a fraction of the records.
    gap
        How close the bounds are to be, a fraction of the records.
    programs
        Linear programs after which it stops with what it knows, for each net and each part of a product; each takes
        about a millisecond.

    Raises
    ------
    InvalidInput
        For a net over another domain, queries with entries outside [0, 1], or arguments out of range.
    TooLarge
        For a net whose distances do not fit.

    References
    ----------
    Horst & Tuy 1990, *Global optimization*: branch and bound on simplices.
    """
    if net.domain != workload.domain:
        raise InvalidInput("the net is over another domain than the workload")
    workload.check_bounded()
    goal = None if alpha is None else positive_probability("alpha", alpha)
    limits = _Limits(goal, positive("gap", gap), whole("programs", programs, least=1))
    if not isinstance(net, ProductNet):
        return _searched(net, workload, limits)
    parts = _parts(net, workload)
    found = [_searched(part, asked, limits) for part, asked in parts]
    witness = np.full(workload.domain.shape, 1 / workload.domain.size)
    for (part, _), its in zip(parts, found, strict=True):
        axes = {workload.domain.axis(name) for name in part.domain.names}
        shape = [size if axis in axes else 1 for axis, size in enumerate(workload.domain.shape)]
        witness = witness * (its.witness * part.domain.size).reshape(shape)
    bounds = max(its.lower for its in found), max(its.upper for its in found)
    return Radius(*bounds, witness.reshape(-1), sum(its.programs for its in found))


class _Limits(NamedTuple):
    """When to stop, as in `radius`."""

    goal: float | None
    gap: float
    programs: int


def _searched(net: Candidates, workload: Workload, limits: _Limits) -> Radius:
    """`radius` by branch and bound."""
    distances = len(net) * len(workload) * workload.domain.size
    if distances > MAX_DISTANCES:
        raise TooLarge(f"a net with {distances:,} distances is too large to be checked; at most {MAX_DISTANCES:,} fit")
    most, solved = across_nets(net, workload, limits.programs) if isinstance(net, ProductNet) else (math.inf, 0)
    search = _Search(net, workload, most)
    while search.upper - search.lower > limits.gap and search.programs < limits.programs:
        if limits.goal is not None and not search.lower <= limits.goal < search.upper:
            break
        search.branch()
    return Radius(search.lower, search.upper, search.witness, solved + search.programs)


def _parts(net: ProductNet, workload: Workload) -> list[tuple[ProductNet, Workload]]:
    """The nets that no query is asked across, or products of those that one is, and the queries on their columns."""
    domain = workload.domain
    parts = [{domain.axis(name) for name in factor.domain.names} for factor in net.nets]
    for group in workload.groups:
        linked = [part for part in parts if part & set(group.axes)]
        parts = [part for part in parts if part not in linked] + ([set().union(*linked)] if linked else [])
    found = []
    for part in map(sorted, parts):
        groups = [Group(tuple(map(part.index, g.axes)), g.queries) for g in workload.groups if set(g.axes) <= set(part)]
        if groups:
            own = domain.project(part)
            factors = [factor for factor in net.nets if set(factor.domain.names) <= set(own.names)]
            found.append((ProductNet(own, tuple(factors)), Workload(own, tuple(groups))))
    return found


def across_nets(net: ProductNet, workload: Workload, programs: int) -> tuple[float, int]:
    """A bound on the α of a product from those of its nets, infinite where there is none, and the programs it took."""
    if len(net.nets) == 1:
        return math.inf, 0
    rows, _ = dense(workload)
    order = [1 + workload.domain.axis(name) for factor in net.nets for name in factor.domain.names]
    cube = (rows > 0).reshape(-1, *workload.domain.shape).transpose(0, *order)
    asked = cube.reshape(-1, *(factor.domain.size for factor in net.nets))
    axes = range(1, asked.ndim)
    sides = [asked.any(axis=tuple(j for j in axes if j != i), keepdims=True) for i in axes]
    if (rows[rows > 0] != np.repeat(rows.max(axis=1), (rows > 0).sum(axis=1))).any():
        return math.inf, 0
    if (asked != np.logical_and.reduce(np.broadcast_arrays(*sides))).any():
        return math.inf, 0
    r, solved, factors = 0.0, 0, np.zeros(len(rows), np.int64)
    for factor, side in zip(net.nets, sides, strict=True):
        told = side.reshape(len(rows), -1)
        some = told.any(axis=1) & ~told.all(axis=1)
        factors += some
        if some.any():
            own = Workload.vectors(factor.domain, np.unique(told[some], axis=0).astype(np.float64))
            found = radius(factor, own, programs=programs)
            r, solved = max(r, found.upper), solved + found.programs
    return farthest_of_products(r, int(factors.max())), solved


def farthest_of_products(r: float, p: int) -> float:
    """The module's bound for products of at most p queries, each about a net of radius at most r."""
    if p <= 1:
        return r
    if r > 1 / p:
        return math.inf
    t = min(math.pow(p, -1 / (p - 1)), 1 - r)
    return max(r + t - t**p, (1 - 1 / p + r) ** p) + p * ROUNDING_ERROR


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
    """Simplices that together hold every distribution that may be further away than `lower`; none is beyond `most`."""

    def __init__(self, net: Candidates, workload: Workload, most: float) -> None:
        rows, unit = dense(workload)
        _, self._first = np.unique(rows, axis=1, return_index=True)  # cells that no query tells apart are as one
        self._columns = rows[:, self._first].T * unit
        self._answers = np.unique(np.concatenate(list(answers_of(net, workload))), axis=0)
        self._cells = rows.shape[1]
        terms = len(self._answers) + len(self._first)
        self._rounding = ROUNDING_ERROR * terms * (1 + float(np.abs(self._answers).max()))
        self._ages = count()
        self._open: list[_Node] = []
        self._best = np.full(len(self._first), 1 / len(self._first))
        self.lower, self.programs = 0.0, 0
        self._add(np.eye(len(self._first)), most)

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
        points = node.corners[a] + (node.corners[b] - node.corners[a]) * CUT_POINTS[:, None]
        loose = at_corners[a] + (at_corners[b] - at_corners[a]) * CUT_POINTS - weighted(points)
        return a, b, points[np.flatnonzero(loose >= loose.max() - self._rounding)[0]]


def _game(payoffs: Floats) -> tuple[Floats, Ints, Floats]:
    """The solution of a matrix game (N, s): a mixture of the columns (s,), which maximise, and some rows' weights (r,).

    Returns the numbers of those rows too. They come in as they are needed: few of them matter.
    """
    rows = np.unique(payoffs.argmin(axis=0))
    while True:
        mixture, weights = _solved(payoffs[rows])
        worst = np.argsort(payoffs @ mixture, kind="stable")[:ADDED_ROWS]
        new = np.setdiff1d(worst, rows)
        if payoffs[worst[0]] @ mixture >= (payoffs[rows] @ mixture).min() - ROW_TOLERANCE or not new.size:
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
