"""What answers cost: one by one, all queries of a class at once, or by sparse vector; each within one error.

Everything here is public arithmetic. An answer is to be within E, a count, with probability 1 - β. β has parts:

    3/4  an answer that is measured by itself, whatever was seen before
    1/4  the i-th synopsis or sparse vector that is bought, i = 1, 2, …, has 6/(π²i²) of it: in all β/4

Where a class was declared, half of β is its synopsis's, which is bought once, and these are parts of the other half.

A synopsis keeps within E on *every* query of the class it was bought for, but for its part of β (`tails`). So whoever
chooses a query, and however much they know of the noise, the probability that its answer is off by more than E is at
most the sum of the parts, β.

**Measured.** Discrete Laplace noise exceeds t steps with probability 2q^(t+1)/(1 + q) <= q^(t+1/2), q = e^(-1/b), so
b = (t + 1/2)/ln(1/β). Discrete Gaussian noise does with at most 2(1 - Φ(t/σ)) (Canonne, Kamath & Steinke 2020,
Proposition 25).

**Synopses.** Under pure ε a noisy table of some columns; or, for a class of conjunctions on few columns at a time,
noisy tables of all the largest sets of columns and of some of their subsets, all with noise of one scale: a query's
answer is the best linear one from all that were measured (`residuals.Estimates`), so a wide query leans on small
tables, and a narrow one on a large one. Where mᵢ of nᵢ values are admitted, the noise on a cell of a table comes into
the answer with the weight Σᵣ aᵣ Πᵢ∈ᵣ(xᵢ - mᵢ/nᵢ) Πᵢ∉ᵣ mᵢ/nᵢ, for the table's shares aᵣ in the residuals R of the query,
with xᵢ = 1 where the cell is admitted and 0 where not. The largest of these and the variance bound the tail
(`tail_bounds.laplace_averages`). Under ρ the residuals of all marginals of an order
(`residuals`), with the privacy shared between the orders so that the worst conjunction has the least variance. Their
noise is discrete Gaussian on a fine grid, which has at each point at most e^(1/8σ²) times the probability of a normal
number, rounded (the mean of e^(-yu/σ²) over |u| <= 1/2 is at least 1): `FINE_GRID` is more than the factor for all
coordinates together, and one count is kept aside for the rounding, which moves the answer to a conjunction on k columns
by at most 2^k/2 scale for each of 2^k residuals. Plans too coarse for that are not offered. In (ε, δ) they get normal
noise, rounded: the same without the factor.

**Sparse vector.** A query is asked whether q(x) and the hypothesis q(y) are apart. With one-sided noise an answer below
the threshold T can be wrong, |q(x) - q(y)| > E, only if the threshold's own noise is above E - T - o, so its part of β
pays for all answers of the instance together. T is as far below E as that takes, and the price is such that the
comparisons of a perfect hypothesis come out above with probability 1/64.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache, reduce
from itertools import compress, islice, product
from typing import Final, cast, final

import numpy as np
from scipy import optimize, special

from qrelease._util.parallel import one_thread
from qrelease._util.texts import readable
from qrelease._util.typing import Axes, Floats
from qrelease.data.attribute import Attribute
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput, TooLarge
from qrelease.inference.measurement import noise_for
from qrelease.inference.residuals import ResidualPlan, on_grid
from qrelease.noise import tail_bounds
from qrelease.noise.calibration import analytic_gaussian_sigma
from qrelease.noise.sparse_vector import SparseVector
from qrelease.privacy.costs import ZCDP, ApproxDP, Neighbours, PureDP, round_up
from qrelease.queries.canonical import CanonicalQuery
from qrelease.queries.classes import MAX_KINDS, Conjunctions, Everything, QueryClass, maximal_sets
from qrelease.queries.families import Cells, Queries, Residuals
from qrelease.queries.workload import Group, Workload

ALONE: Final = 0.75
"""The part of β for an answer that is measured by itself."""

FALSE_ALARMS: Final = 1 / 64
"""The probability with which a sparse vector says that a perfect hypothesis is wrong."""

FINE_GRID: Final = 1.001
"""By how much a probability may be larger because the noise of residuals is on a grid: see the module's docstring."""

MAX_TABLE_CELLS: Final = 1 << 20
"""Cells of a noisy table, or of several together."""

MAX_SMALLER_TABLES: Final = 12
"""Subsets of the largest sets of columns that are measured beside these."""

MAX_TABLE_SETS: Final = 128
"""Sets of columns that the queries of a class may be about, where it is answered from several tables."""


@final
@dataclass(frozen=True)
class Offer:
    """A synopsis that could be bought: what would be measured, at which cost, for which class of queries.

    Parameters
    ----------
    cost
        What it costs.
    workload
        What is measured for it.
    axes
        The columns that its queries are on.
    queries
        The class of queries that it answers, all of them within the session's error at once.
    """

    cost: PureDP | ApproxDP | ZCDP
    workload: Workload
    axes: Axes
    queries: QueryClass

    def answers(self, query: CanonicalQuery) -> bool:
        """Whether a query is of the class that it answers within the session's error."""
        return set(query.axes) <= set(self.axes) and self.queries.contains(self.workload.domain, query)


@final
@dataclass(frozen=True)
class Prices:
    """The prices of a session: in ε, or, where noise is Gaussian, in ρ.

    Parameters
    ----------
    domain, neighbours
        Those of the table.
    error
        E, how far off an answer may be, a count.
    beta
        β, the probability with which it may be off by more; but half of it, where a class was declared.
    gaussian
        Whether noise is Gaussian and prices are in ρ.
    """

    domain: Domain
    neighbours: Neighbours
    error: float
    beta: float
    gaussian: bool

    def cost(self, price: float) -> PureDP | ZCDP:
        """A price in ε or ρ as a cost, rounded up."""
        return ZCDP(price) if self.gaussian else PureDP(price)

    def price(self, queries: Queries) -> float:
        """The price of the answers to a family of queries, measured at once: ε or ρ."""
        order, t = 2 if self.gaussian else 1, math.floor(self.error / queries.unit)
        moved = max(queries.sensitivity(order, replace=self.neighbours is Neighbours.REPLACE_ONE), 1)
        if self.gaussian:
            z = -float(special.ndtri(ALONE * self.beta / 2))
            return round_up(moved * (Fraction(z) / t) ** 2 / 2)
        return round_up(moved * Fraction(-math.log(ALONE * self.beta)) / (t + Fraction(1, 2)))

    @cached_property
    def alone(self) -> float:
        """The price of one counting query, measured by itself: ε or ρ."""
        return self.price(Cells(1))

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise on every answer that is measured by itself, a count."""
        return 1 / math.sqrt(2 * self.alone) if self.gaussian else math.sqrt(2) / self.alone

    def share(self, number: int | None) -> float:
        """The part of β of the synopsis or sparse vector that is the `number`-th to be bought, from 0.

        None is that of a declared class, which has as much as everything else.
        """
        if number is None:
            return self.beta
        return (1 - ALONE) * self.beta * 6 / (math.pi * (number + 1)) ** 2

    def sparse(self, number: int, positives: int) -> tuple[float, int]:
        """The price of a sparse vector with c `positives`, in ε or ρ; and its threshold T, in counts."""
        unit = SparseVector.calibrate(self.cost(1.0), positives, 1)
        wrong, above = math.log(1 / self.share(number)), -math.log(FALSE_ALARMS)
        scale = self.error / (float(unit.threshold) * wrong + float(unit.query) * above)
        price = round_up(1 / Fraction(scale) ** (2 if self.gaussian else 1))
        found = SparseVector.calibrate(self.cost(price), positives, 1)
        # Below T the gap is at most T + o + ρ, and P(ρ > s) <= e^(-s/b).
        return price, math.floor(self.error) - found.offset - math.ceil(float(found.threshold) * wrong)

    def table(self, number: int | None, axes: Axes, queries: QueryClass) -> Offer:
        """A noisy table of these columns, for a class of queries. `TooLarge` where it would be."""
        cells = self.domain.cells(axes)
        if cells > MAX_TABLE_CELLS:
            raise TooLarge(
                f"a noisy table of {readable(cells)} cells is too large; at most {MAX_TABLE_CELLS:,} are measured"
            )
        far = table_reach(self.domain, axes, queries, self.share(number))
        moved = max(Cells(cells).sensitivity(1, replace=self.neighbours is Neighbours.REPLACE_ONE), 1)
        cost = PureDP(round_up(moved * Fraction(far) / Fraction(self.error)))
        group = Group(axes, Cells(cells))
        return self._offered(Offer(cost, Workload(self.domain, (group,)), axes, queries))

    def tables(self, number: int | None, axes: Axes, conjunctions: Conjunctions) -> Offer:
        """Noisy tables of several sets of these columns, for a class of conjunctions. `TooLarge` if they would be."""
        replace = self.neighbours is Neighbours.REPLACE_ONE
        sets, far = tables_reach(self.domain, axes, conjunctions, replace, self.share(number))
        workload = Workload(self.domain, tuple(Group(s, Cells(self.domain.cells(s))) for s in sets))
        # `far` is for noise of scale 1, by which as many tables as there are move in one cell each.
        moved = max(Fraction(workload.moved(1, replace=replace)), Fraction(len(sets)))
        return self._offered(
            Offer(PureDP(round_up(moved * Fraction(far) / Fraction(self.error))), workload, axes, conjunctions)
        )

    def least_of_tables(self, number: int | None, axes: Axes, conjunctions: Conjunctions) -> float:
        """A lower bound on the price of `tables`, found in no time. `TooLarge` if they would be, by their sizes."""
        _, largest = _table_sets(self.domain, axes, conjunctions)
        replace = self.neighbours is Neighbours.REPLACE_ONE
        widest = max(largest, key=self.domain.cells)
        least = min(self.domain.shape[a] for s in largest for a in s)
        far = _least_reach(self.domain, widest, len(largest), least, conjunctions, replace, self.share(number))
        moved = max(Cells(self.domain.cells(s)).sensitivity(1, replace=replace) for s in largest)
        return float(moved) * far / self.error

    def residuals(self, number: int | None, axes: Axes, conjunctions: Conjunctions) -> Offer:
        """The residuals that answer conjunctions on these columns.

        `TooLarge` for too many kinds of them, and for an error that the rounding alone may reach.
        """
        workload, far = self._measured(number, axes, conjunctions)
        cost = ZCDP(round_up((Fraction(far) / Fraction(self.error - 1)) ** 2 / 2))
        moved = workload.moved(2, replace=self.neighbours is Neighbours.REPLACE_ONE)
        if len(workload) * cost.rho / (4 * moved) > math.log(FINE_GRID):
            raise TooLarge("the grid of the residuals would be too coarse")
        return self._offered(Offer(cost, workload, axes, conjunctions))

    def approximate(self, number: int | None, axes: Axes, conjunctions: Conjunctions, delta: float) -> Offer:
        """The offer of `residuals` at the least ε for this δ: with normal noise, rounded (Balle & Wang 2018)."""
        workload, far = self._measured(number, axes, conjunctions)
        sigma = (self.error - 1) / far
        try:
            found = optimize.brentq(lambda e: analytic_gaussian_sigma(1, e, delta) - sigma, 1e-9, 1e3, rtol=1e-9)
        except ValueError:  # no sign change: it would cost more than anybody has, or nothing
            raise TooLarge(f"an error of {self.error:g} counts has no price in epsilon at delta={delta:g}") from None
        return self._offered(Offer(ApproxDP(float(found) * (1 + 1e-6), delta), workload, axes, conjunctions))

    def _offered(self, offer: Offer) -> Offer:
        """An offer whose noise can be drawn, as it is charged for before; else `TooLarge`."""
        try:
            noise_for(offer.workload, offer.cost, self.neighbours)
        except InvalidInput as error:
            raise TooLarge(f"a synopsis of {len(offer.workload):,} numbers cannot be drawn: {error}") from None
        return offer

    def _measured(self, number: int | None, axes: Axes, conjunctions: Conjunctions) -> tuple[Workload, float]:
        """The residuals, and how far off a conjunction may be, in units of σ."""
        if self.error <= 1:
            raise TooLarge(f"an error of {self.error:g} counts leaves no room for the rounding of residuals")
        workload, _, far = residual_reach(
            self.domain, axes, conjunctions, self.neighbours, self.share(number) / FINE_GRID
        )
        if 4**conjunctions.order > 2 * min(cast(Residuals, g.queries).scale for g in workload.groups):
            raise TooLarge("the grid of the residuals would be too coarse")
        return workload, far


@lru_cache(256)
def table_reach(domain: Domain, axes: Axes, queries: QueryClass, beta: float) -> float:
    """How far off, in units of b, a query on a table may be with probability β."""
    if isinstance(queries, Everything):
        return tail_bounds.laplace_norm(domain.cells(axes), beta)
    return tail_bounds.laplace_sums(queries.cells(domain, axes), beta)


def tables_reach(
    domain: Domain, axes: Axes, conjunctions: Conjunctions, replace: bool, beta: float
) -> tuple[list[Axes], float]:
    """Which tables to measure; and how far off, with noise of scale 1 on each cell, a conjunction may be.

    The largest sets of columns are measured, and of their subsets, one after another, that which most lessens what the
    worst query costs, as long as there is one. Nothing but the sizes of columns, and which are ordered, matters.
    """
    sizes = {a: (domain.shape[a], domain.attributes[a].ordered) for a in axes if domain.shape[a] > 1}
    if not sizes:  # a column of one value tells nothing
        raise TooLarge("there is no column to make a table of")
    columns = sorted(sizes, key=lambda a: sizes[a])
    place = {a: i for i, a in enumerate(columns)}
    among = {tuple(sorted(place[a] for a in s if a in place)) for s in conjunctions.among}
    placed = dataclasses.replace(conjunctions, among=tuple(sorted(among)))
    sets, far = _reach_by_sizes(tuple(sizes[a] for a in columns), placed, replace, beta)
    return [tuple(sorted(columns[i] for i in s)) for s in sets], far


@lru_cache(1024)
def _reach_by_sizes(
    sizes: tuple[tuple[int, bool], ...], conjunctions: Conjunctions, replace: bool, beta: float
) -> tuple[list[Axes], float]:
    """`tables_reach` for columns of these sizes, each with whether it is ordered."""
    sets, kinds = _tables_by_sizes(sizes, conjunctions, replace)
    return sets, tail_bounds.laplace_averages(*kinds, beta)


@lru_cache(256)
@one_thread()
def _tables_by_sizes(
    sizes: tuple[tuple[int, bool], ...], conjunctions: Conjunctions, replace: bool
) -> tuple[list[Axes], tuple[Floats, Floats, Floats]]:
    """The tables for columns of such sizes, and the noise of kinds of conjunctions, whatever the probability.

    The latter for `tail_bounds.laplace_averages`: sums of squared weights, largest weights, and how many there are.
    """
    columns = (Attribute(str(i), "coded", codes=n, ordered=ordered) for i, (n, ordered) in enumerate(sizes))
    domain = Domain(tuple(columns))
    sets, chosen = _table_sets(domain, tuple(range(len(sizes))), conjunctions)
    kinds, counts = _table_kinds(domain, conjunctions, sets)
    precisions = _precisions(domain, sets)
    known = sum(precisions[sets.index(s)] for s in chosen)  # the precision of the residuals of each set
    left = [i for i, s in enumerate(sets) if s and s not in chosen]

    def squares(known: Floats, kinds: Floats) -> Floats:
        """The sum of squared weights that each kind gives to the noise, one row for each row of precisions."""
        each = 1 / known
        if replace:
            each[..., 0] = 0.0  # that of the empty set is the number of records, which is known
        return np.asarray(each @ kinds.T)

    noise = squares(known, kinds)
    best = len(chosen) ** 2 * float(noise.max())
    for _ in range(MAX_SMALLER_TABLES):
        # The kind that is the worst now rules out most of those left, so that few are tried with all kinds.
        factor = (len(chosen) + 1) ** 2
        still = factor * squares(known + precisions[left], kinds[noise.argmax()]) if left else np.zeros(0)
        hopeful = [i for i, at_least in zip(left, still, strict=True) if at_least < best]
        tried = factor * squares(known + precisions[hopeful], kinds).max(axis=1)
        if not hopeful or tried.min() >= best:
            break
        best, added = float(tried.min()), hopeful[int(tried.argmin())]
        known = known + precisions[added]
        noise = squares(known, kinds)
        left.remove(added)
        chosen.append(sets[added])
    weights = precisions[[sets.index(s) for s in chosen]] / known
    if replace:
        weights[:, 0] = 0.0
    largest = _largest_weights(domain, conjunctions, sets, weights)
    order = np.lexsort((largest, noise))
    order = order[noise[order] > 0]
    noise, largest = noise[order], largest[order]
    begins = np.flatnonzero((np.diff(noise, prepend=0.0) != 0) | (np.diff(largest, prepend=0.0) != 0))
    return chosen, (noise[begins], largest[begins], np.add.reduceat(counts[order], begins))


def _table_sets(domain: Domain, axes: Axes, conjunctions: Conjunctions) -> tuple[list[Axes], list[Axes]]:
    """All sets of columns that a class of conjunctions is about, and those in no other. `TooLarge` for many."""
    axes = tuple(a for a in axes if domain.shape[a] > 1)  # a column of one value tells nothing
    if not axes:
        raise TooLarge("there is no column to make a table of")
    sets = list(islice(conjunctions.subsets(axes), MAX_TABLE_SETS + 1))
    if len(sets) > MAX_TABLE_SETS:
        raise TooLarge(f"conjunctions on {len(axes)} columns are of more than {MAX_TABLE_SETS} sets")
    largest = maximal_sets(sets)
    if sum(map(domain.cells, largest)) > MAX_TABLE_CELLS:
        raise TooLarge(f"noisy tables of more than {MAX_TABLE_CELLS:,} cells together are not measured")
    kinds = {a: sum(map(bool, conjunctions.ways(domain.attributes[a]))) for a in axes}
    if sum(math.prod(kinds[a] for a in s) for s in sets) > MAX_KINDS // 8:
        raise TooLarge(f"conjunctions on {len(sets)} sets of columns are of more than {MAX_KINDS // 8:,} kinds")
    return sets, largest


def _precisions(domain: Domain, sets: list[Axes]) -> Floats:
    """The precision, (tables, sets), with which a table of each set tells the residuals of each: 0 where it does not.

    That of noise of unit variance on each cell: see `residuals.Estimates.of`.
    """
    columns = sorted({a for s in sets for a in s})
    within = np.array([[a in s for a in columns] for s in sets], np.float64)
    cells = np.array([domain.cells(s) for s in sets], np.float64)
    missing = (1 - within) @ within.T  # how many columns of the second are not in the first
    return np.where(missing == 0, cells / cells[:, None], 0.0)


def _least_reach(
    domain: Domain, axes: Axes, tables: int, m: int, conjunctions: Conjunctions, replace: bool, beta: float
) -> float:
    """A lower bound on how far off conjunctions are, times the number of tables, which are these columns' and others.

    It is that of the conjunctions on all these columns that each admit about half of a column's values, of which any
    error of so many tables, or more, has a least sum of squares; and a tail that is no lighter than the normal one.
    A table of variance 1 tells the residual of the columns r to the precision cells(r)/cells(table), which is 1 for
    the table of just r, and at most 1/m for any other, where m is the least number of values of a column in any table.
    """
    admitted, count = [], 1
    for a in axes:
        ways = conjunctions.ways(domain.attributes[a])
        admitted.append(max((k for k, number in enumerate(ways, 1) if number), key=lambda k: k * (domain.shape[a] - k)))
        count *= ways[admitted[-1] - 1]
    shares = [k / domain.shape[a] for k, a in zip(admitted, axes, strict=True)]
    factors = [np.array([p * p, p * (1 - p) * domain.shape[a]]) for p, a in zip(shares, axes, strict=True)]
    parts = _kronecker(factors, np.ones(1))[1 if replace else 0 :]  # of each residual; the last is that of all columns
    smaller = -np.sort(-parts[:-1])
    least = math.inf
    if tables == 1:
        least = math.prod(admitted) - (math.prod(shares) ** 2 * domain.cells(axes) if replace else 0)
    for k in range(max(tables, 2), tables + MAX_SMALLER_TABLES + 1):
        others = k - tables  # each of which may be of just the columns of one residual
        precise, rest = smaller[:others].sum() / (1 + (k - 1) / m), smaller[others:].sum() * m / k
        least = min(least, k * k * float(parts[-1] + precise + rest))
    return 2 * math.sqrt(least * math.log(2 * count / beta))


def _largest_weights(domain: Domain, conjunctions: Conjunctions, sets: list[Axes], weights: Floats) -> Floats:
    """The largest weight in size that each kind of conjunction gives to the noise on a cell.

    weights  (tables, sets) those of each table in the residuals of each set
    """
    place, shares = {s: i for i, s in enumerate(sets)}, _shares(domain, conjunctions, sets)
    # As a column goes, two axes come: whether the cell is admitted, and the kind.
    moves = {a: np.array([[p, p], [-p, 1 - p]]).reshape(2, -1) for a, p in shares.items()}
    found = []
    for s in sets:
        part = weights[:, [place[r] for r in _residuals(s)]]
        for a in s:
            part = part.reshape(len(weights), 2, -1).swapaxes(1, 2) @ moves[a]
        parts = np.abs(part).reshape(len(weights), *(n for a in s for n in (2, len(shares[a]))))
        found.append(parts.max(axis=(0, *range(1, parts.ndim, 2))).reshape(-1))
    return np.concatenate(found)


def _residuals(axes: Axes) -> list[Axes]:
    """All subsets of some columns, in the order of a grid with an axis for each: without it, with it."""
    patterns = product((False, True), repeat=len(axes))
    return [tuple(compress(axes, pattern)) for pattern in patterns]


def _kronecker(factors: list[Floats], start: Floats) -> Floats:
    """The Kronecker product of matrices or vectors; `numpy.kron` takes ten times as long for small ones."""
    for factor in factors:
        outer = np.multiply.outer(start, factor)
        if start.ndim == 2:
            outer = outer.swapaxes(1, 2)
        start = outer.reshape([n * m for n, m in zip(start.shape, factor.shape, strict=True)])
    return start


def _shares(domain: Domain, conjunctions: Conjunctions, sets: list[Axes]) -> dict[int, Floats]:
    """Of each column of these sets, the parts m/n of its values that some condition of the class admits."""
    ways = {a: np.array(conjunctions.ways(domain.attributes[a])) for s in sets for a in s}
    return {a: (np.flatnonzero(number) + 1) / domain.shape[a] for a, number in ways.items()}


def _table_kinds(domain: Domain, conjunctions: Conjunctions, sets: list[Axes]) -> tuple[Floats, Floats]:
    """Of each kind of conjunction: the squares it has in the residuals of each set, and how many there are."""
    place, shares = {s: i for i, s in enumerate(sets)}, _shares(domain, conjunctions, sets)
    factors = {a: np.stack([p * p, p * (1 - p) * domain.shape[a]], axis=1) for a, p in shares.items()}
    ways = {a: np.array([n for n in conjunctions.ways(domain.attributes[a]) if n], np.float64) for a in shares}
    squares = [_kronecker([factors[a] for a in s], np.ones((1, 1))) for s in sets]  # by kind, by columns of a residual
    found = np.zeros((sum(map(len, squares)), len(sets)))
    first = 0
    for s, rows in zip(sets, squares, strict=True):
        found[first : first + len(rows), [place[r] for r in _residuals(s)]] = rows
        first += len(rows)
    return found, np.concatenate([_kronecker([ways[a] for a in s], np.ones(1)) for s in sets])


@lru_cache(256)
def residual_reach(
    domain: Domain, axes: Axes, conjunctions: Conjunctions, neighbours: Neighbours, beta: float
) -> tuple[Workload, dict[Axes, float], float]:
    """What to measure, with which variances at σ = 1; and how far off a conjunction then may be with probability β."""
    axes = tuple(a for a in axes if domain.shape[a] > 1)  # a column of one value tells nothing
    whole = [s for s in conjunctions.subsets(axes) if len(s) == min(conjunctions.order, len(axes))]
    plan = ResidualPlan.choose(domain, whole, neighbours=neighbours)
    norms = {s: math.prod(1 - 1 / domain.shape[a] for a in s) for s in plan.variances}
    parts, _ = _variances(domain, axes, conjunctions, plan.variances)
    sizes = np.zeros(parts.shape[1])
    for s, variance in plan.variances.items():
        sizes[len(s)] += norms[s] / variance if variance else 0.0

    def worst(logs: Floats) -> float:
        factors = np.exp(logs)
        return math.log(float((parts @ (1 / factors)).max() * (sizes @ factors)))

    best = np.zeros(len(sizes))
    for _ in range(3):  # the simplex may get stuck where two conjunctions are equally bad
        best = optimize.minimize(worst, best, method="Nelder-Mead", options={"xatol": 1e-4, "fatol": 1e-6}).x
    factors = np.exp(best)
    privacy = {g.axes: factors[len(g.axes)] * norms[g.axes] / plan.variances[g.axes] for g in plan.workload.groups}
    workload, variances = on_grid(domain, privacy, neighbours)
    parts, counts = _variances(domain, axes, conjunctions, variances)
    return workload, variances, tail_bounds.gaussian_union(np.sqrt(parts.sum(axis=1)), counts, beta)


def _variances(
    domain: Domain, axes: Axes, conjunctions: Conjunctions, measured: Mapping[Axes, float]
) -> tuple[Floats, Floats]:
    """The variance of each kind of conjunction from residuals of each order, (kinds, orders); how many, (kinds,).

    Where m of n values are admitted, a residual of that column sees m(n - m)/n, and one of other columns (m/n)².
    """
    sets = list(conjunctions.subsets(axes))
    kinds = sum(math.prod(domain.shape[a] - 1 for a in s) for s in sets)
    if kinds > MAX_KINDS:
        raise TooLarge(f"conjunctions on {len(axes)} columns are of more than {MAX_KINDS:,} kinds")
    found, counts = [], []
    for s in sets:
        admitted = [np.arange(1, domain.shape[a]) for a in s]
        inside = [m * (domain.shape[a] - m) / domain.shape[a] for a, m in zip(s, admitted, strict=True)]
        outside = [(m / domain.shape[a]) ** 2 for a, m in zip(s, admitted, strict=True)]
        rows = np.zeros((math.prod(map(len, admitted)), min(conjunctions.order, len(axes)) + 1))
        for pattern in range(1 << len(s)):
            seen = [bool(pattern >> i & 1) for i in range(len(s))]
            factors = [inside[i] if yes else outside[i] for i, yes in enumerate(seen)]
            weight = reduce(np.multiply.outer, factors, np.ones(1))
            below = tuple(a for a, yes in zip(s, seen, strict=True) if yes)
            rows[:, len(below)] += measured[below] * weight.reshape(-1)
        found.append(rows)
        ways = [np.array(conjunctions.ways(domain.attributes[a]), np.float64) for a in s]
        counts.append(reduce(np.multiply.outer, ways, np.ones(1)).reshape(-1))
    return np.concatenate(found), np.concatenate(counts)
