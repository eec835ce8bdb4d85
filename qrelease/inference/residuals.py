"""Marginals measured optimally: the residual of each set of columns, at scales chosen in closed form.

The residual of a set S of columns is what the marginal on S says beyond the marginals on its subsets. Residuals of
different sets are orthogonal, and every marginal is the sum of the residuals of its subsets, spread evenly. So a
workload of marginals is answered by measuring the residuals of all subsets, each once (`queries.Residuals`), and what
remains to be chosen is how much of the privacy each gets. Let pₛ = Π (1 - 1/nᵢ) be the squared norm of a column of the
projection on the residuals of S, and sₛ the variance with which they are measured, per σ²: the answers move by no more
than one unit of σ where Σ pₛ/sₛ <= 1. A cell of the marginal on A then has variance σ² Σ_{S⊆A} sₛ v(A, S),

    v(A, S) = Π_{i∈S} (nᵢ-1)/nᵢ · Π_{i∈A∖S} 1/nᵢ².

*The least total.* For weights w_A on the cells of each marginal, let cₛ = Σ_{A⊇S} w_A·cells_A·v(A, S). By Cauchy's and
Schwarz's inequality Σ cₛ sₛ · Σ pₛ/sₛ >= T = (Σ √(cₛ pₛ))², with equality at sₛ = √(T pₛ/cₛ). T is also the bound
(Σ singular values)²/cells that no unbiased mechanism of additive Gaussian noise beats (Li & Miklau 2013, *Optimal error
of query sets under the differentially-private matrix mechanism*), since √(cₛ pₛ) sums the singular values of S. So the
answers are the best there are. (Residual bases: Xiao, He, Zhang & Kifer 2023, *ResidualPlanner*.)

*The least largest variance.* For any weights λ on the marginals that sum to 1, max_A w_A var_A is at least
Σ λ_A w_A var_A, hence at least T(λ), the total above for the weights λ_A w_A/cells_A. T is concave in λ and its
gradient is the weighted variances at λ's scales: multiplying each λ_A by its share of them climbs to where the bound
meets the largest variance, and the gap says how far it is (Silvey, Titterington & Torsney 1978).

*On the integer grid.* The rows are integers, `scale`·F, so their norms are exact and one draw of exact noise with one
variance pays for all sets together. A scale is the nearest integer to its optimum, usually above 4 096, so a variance
is off by at most one part in so many, and the least total, which is stationary, by far less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations, product
from math import prod, sqrt
from operator import itemgetter
from typing import Literal, get_args

import numpy as np

from qrelease._util.typing import Axes, Floats, Ints
from qrelease._util.validate import real
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput, TooLarge
from qrelease.inference.contrasts import of_contrasts
from qrelease.inference.measurement import Measurement
from qrelease.noise.distributions import MAX_VARIANCE
from qrelease.privacy.costs import Neighbours
from qrelease.queries.distinct_records import share
from qrelease.queries.families import MAX_RESIDUAL_SCALE, Cells, Intervals, Queries, Residuals
from qrelease.queries.products import Product, query_rows
from qrelease.queries.workload import Group, Workload

Objective = Literal["total", "largest"]

_FINEST = 4096  # the least scale, where the largest allows it: a variance is then off by one part in 4096 at most
_MAX_PAIRS = 1 << 24  # of a marginal and a subset of its columns: some 600 MB
_GAP = 1e-3  # between the largest variance and its lower bound
_STEPS = 10_000
_TINY = 1e-300
_SPREAD = 1e30  # of weights: beyond it the lesser marginals would get nothing at all
_DRY = 0.05  # of its part, that a set keeps whose residuals are not expected to show
_BISECTIONS = 80  # of a range of 2^±997: more than double precision
_CHUNK = 1 << 16  # cells that are put together at once: they stay in the cache


@dataclass(frozen=True, eq=False)
class ResidualPlan:
    """How the residuals below some marginals are measured: `workload` says which, and at what integer scales.

    domain      the universe; it may be far too large for memory
    workload    one group of `Residuals` a set of columns, for `Private.measure` under one cost
    variances   sₛ of each set at σ = 1: its residuals are estimated with covariance sₛ Pₛ, counts squared
    error       the objective at σ = 1, in counts: the root of the weighted mean of all cells' variances, or of the
                largest weighted variance
    bound       the least `error` of any unbiased mechanism of additive Gaussian noise under add-remove

    At a cost all errors are those at σ = 1 times 1/μ of its Gaussian differential privacy: `analytic_gaussian_sigma(1,
    ε, δ)`, or 1/√2ρ.
    """

    domain: Domain
    workload: Workload
    variances: Mapping[Axes, float]
    error: float
    bound: float

    @classmethod
    def choose(
        cls,
        domain: Domain,
        sets: Sequence[Axes],
        *,
        weights: Sequence[float] | None = None,
        objective: Objective = "total",
        expected: Callable[[Axes], float] | None = None,
        neighbours: Neighbours = Neighbours.ADD_REMOVE,
        deviation: float = 1.0,
    ) -> ResidualPlan:
        """The best plan for the marginals on distinct, sorted sets of columns.

        weights    one a marginal, on the variance of each of its cells, 1 by default; a weight of 0 leaves it out
        objective  what is least: the weighted sum of all cells' variances, or the largest weighted variance
        expected   the variance, in units of σ², that a coordinate of the residuals of a set is expected to have; then
                   what is least is the expected squared error of the best estimates, given that (only of the total)
        neighbours under replace-one the number of records is public, and not measured
        deviation  the σ of the cost, for which `on_grid` keeps the noise on its integers within the sampler's range

        Raises `InvalidInput` for sets that are not of the domain's columns, weights that are negative, not finite, all
        zero or too far apart, and for an expectation where the largest variance is asked for; `TooLarge` for too many
        subsets.
        """
        if objective not in get_args(Objective):
            raise InvalidInput(f"the objective must be 'total' or 'largest', got {objective!r}")
        kept, weight, largest_weight = _weighted(domain, sets, weights)
        below = _Below.of(domain, kept)
        largest = objective == "largest"
        loads = _hardest(below, weight) if largest else weight * below.cells
        part = np.sqrt(below.loads(loads) * below.norms)
        bound = np.sqrt(below.loads(loads) * below.norms / below.shares).sum() ** 2
        bound /= 1 if not domain.distinct or domain.at_most is None else domain.at_most**2  # she may have one record
        if expected is not None:
            if largest:
                raise InvalidInput("expected residuals are for the least total, not for the largest variance")
            part = _filled(part, below, np.array([expected(s) for s in below.sets]))
        replaced = neighbours is Neighbours.REPLACE_ONE
        parts = dict(zip(below.sets, part.tolist(), strict=True))
        if replaced:
            del parts[()]
        workload, variances = on_grid(domain, parts, neighbours, deviation)
        cell = weight * below.variances(np.array([variances[s] for s in below.sets]))
        error, mass = (cell.max(), 1 / largest_weight) if largest else (cell @ below.cells, weight @ below.cells)
        return cls(domain, workload, variances, sqrt(error) / sqrt(mass), sqrt(bound) / sqrt(mass))


def _weighted(
    domain: Domain, sets: Sequence[Axes], weights: Sequence[float] | None
) -> tuple[list[Axes], Floats, float]:
    """The sets that have a weight, their weights as shares of the largest one, and that."""
    for s in sets:
        if list(s) != sorted(set(s)) or not set(s) <= set(range(len(domain))):
            raise InvalidInput(f"a marginal needs distinct columns in the domain's order, got {s}")
    if len(set(sets)) < len(sets):
        raise InvalidInput("a marginal is named twice; give it one weight")
    if weights is None:
        weights = [1.0] * len(sets)
    if len(weights) != len(sets):
        raise InvalidInput(f"{len(sets)} marginals need as many weights, got {len(weights)}")
    found = np.array([real("a weight", w) for w in weights])
    if not len(found) or found.min() < 0 or not found.any():
        raise InvalidInput("weights must not be negative, and one must be positive")
    least, most = found[found > 0].min(), found.max()
    if most / _SPREAD > least:  # not their quotient, which may be out of range
        raise InvalidInput(f"weights must be within a factor of {_SPREAD:g} of each other, got {least:g} and {most:g}")
    return [s for s, w in zip(sets, found, strict=True) if w], found[found > 0] / most, float(most)


@dataclass(frozen=True, eq=False)
class _Below:
    """The subsets of some marginals' columns, without columns of one cell, which have no residual; () is the first.

    Pairs of a marginal and one of its subsets: `upper` and `lower` are their indices, `v` is v(A, S). `norms` are those
    that are paid for, pₛ times the shares of them where records of a person differ in some columns.
    """

    sets: list[Axes]
    orders: Ints
    norms: Floats
    shares: Floats
    cells: Floats
    upper: Ints
    lower: Ints
    v: Floats

    @classmethod
    def of(cls, domain: Domain, marginals: Sequence[Axes]) -> _Below:
        shape = domain.shape
        longer = [tuple(a for a in s if shape[a] > 1) for s in marginals]
        if sum(1 << min(len(s), 32) for s in longer) > _MAX_PAIRS:
            raise TooLarge(f"the marginals have too many subsets of columns; at most {_MAX_PAIRS:,} fit")
        found: dict[int, list[tuple[Ints, Ints, Floats]]] = {}
        for order in {len(s) for s in longer}:
            which = np.array([i for i, s in enumerate(longer) if len(s) == order])
            axes = np.array([longer[i] for i in which], np.int64).reshape(len(which), order)
            n = np.array(shape, np.float64)[axes]
            for pattern in product([False, True], repeat=order):
                inside = np.array(pattern, bool)
                factor = ((n - 1) / n)[:, inside].prod(axis=1) / (n[:, ~inside] ** 2).prod(axis=1)
                found.setdefault(sum(pattern), []).append((which, axes[:, inside], factor))
        sets: list[Axes] = []
        upper: list[Ints] = []
        lower: list[Ints] = []
        v: list[Floats] = []
        for order in sorted(found):
            whiches, subsets, factors = zip(*found[order], strict=True)
            distinct, places = _distinct(np.concatenate(subsets))
            upper += whiches
            lower.append(places + len(sets))
            v += factors
            sets += distinct
        shares = _shares(domain, sets)
        norms = np.array([prod(1 - 1 / shape[a] for a in s) for s in sets])
        return cls(
            sets,
            np.array([len(s) for s in sets]),
            shares * norms,
            shares,
            np.array([float(prod(shape[a] for a in s)) for s in marginals]),
            np.concatenate(upper),
            np.concatenate(lower),
            np.concatenate(v),
        )

    def loads(self, weights: Floats) -> Floats:
        """cₛ of each set, (sets,), for weights w_A·cells_A (marginals,)."""
        return np.bincount(self.lower, weights[self.upper] * self.v, len(self.sets)).astype(np.float64, copy=False)

    def variances(self, measured: Floats) -> Floats:
        """The variance of a cell of each marginal, (marginals,), where the residuals have these sₛ, (sets,)."""
        return np.bincount(self.upper, measured[self.lower] * self.v, len(self.cells)).astype(np.float64, copy=False)


def _shares(domain: Domain, sets: Sequence[Axes]) -> Floats:
    """What `distinct_records.share` says of the residuals of each set."""
    if not domain.distinct:
        return np.ones(len(sets))
    return np.array([float(share(domain, s, Residuals(tuple(domain.shape[a] for a in s)))) for s in sets])


def subsets(domain: Domain, marginals: Sequence[Axes]) -> list[Axes]:
    """All sets of columns of more than one cell that marginals contain; () first. `TooLarge` for too many."""
    return _Below.of(domain, marginals).sets


def fitting(
    domain: Domain, sets: Iterable[Axes], known: Sequence[Measurement], fits: Callable[[Sequence[Axes]], bool]
) -> tuple[Measurement, ...]:
    """Known measurements that a fit to the residuals of some sets takes in: whole tables and few columns come first.

    Of residuals on S all on fewer of its columns have to be there too, or nothing estimates the marginal on S.

    fits  whether the residuals of these sets together are no more than can be fitted
    """
    there, kept = set(sets), []

    def later(m: Measurement) -> tuple[bool, int, int]:
        return isinstance(m.group.queries, Residuals), len(m.group.axes), domain.cells(m.group.axes)

    for measured in sorted(known, key=later):
        below = set(_subsets(domain.shape, measured.group.axes))
        more = below if isinstance(measured.group.queries, Cells) else {measured.group.axes}
        if below - more <= there and fits(sorted((there | more) - {()})):
            there |= more
            kept.append(measured)
    return tuple(m for m in known if any(m is one for one in kept))


def _distinct(rows: Ints) -> tuple[list[Axes], Ints]:
    """The distinct rows, sorted, and where each row is among them."""
    if not rows.shape[1]:
        return [()], np.zeros(len(rows), np.int64)
    found, places = np.unique(rows, axis=0, return_inverse=True)
    return [tuple(row) for row in found.tolist()], places.reshape(-1)


def _hardest(below: _Below, weight: Floats) -> Floats:
    """λ_A w_A for the λ whose least total is, within one part in a thousand, the least largest weighted variance."""
    chance = np.full(len(weight), 1 / len(weight))
    for _ in range(_STEPS):
        loads = np.maximum(below.loads(chance * weight), _TINY)
        roots = np.sqrt(below.norms / loads)
        # The variances at the best scales for these weights, over their total: chance's share of them sums to one.
        ratio = weight * below.variances(roots) / (roots @ loads)
        if ratio.max() <= 1 + _GAP:
            break
        chance *= ratio
    return chance * weight


def _filled(part: Floats, below: _Below, expected: Floats) -> Floats:
    """The parts of the privacy for residuals that are known beforehand up to a variance.

    The error of the best estimate is Σ cₛ / (1/sₛ + 1/expected), least where sₛ⁻¹ = (√(cₛ/pₛ) κ - 1/expected)⁺: water
    fills the sets to one level κ. A set that would stay dry keeps a small part of its own, so that everything has an
    unbiased answer, and what nobody expected is seen. The best estimates of cells are shares of what is estimated for
    fewer columns, on uneven marginals, and not even ones as in the linear estimates: errors of single columns count
    twice for that, and of the number of records four times.
    """
    part = part * np.sqrt(np.select([below.orders == 0, below.orders == 1], [4.0, 2.0], 1.0))
    rates, known = part / part.sum() / below.norms, 1 / np.maximum(expected, _TINY)
    low, high = _TINY, 1 / _TINY
    for _ in range(_BISECTIONS):
        level = sqrt(low) * sqrt(high)
        filled = np.maximum(_DRY * rates, level * rates - known)
        low, high = (low, level) if filled @ below.norms > 1 else (level, high)
    found: Floats = filled * below.norms
    return found


def on_grid(
    domain: Domain, parts: Mapping[Axes, float], neighbours: Neighbours, deviation: float = 1.0
) -> tuple[Workload, dict[Axes, float]]:
    """The residuals of some sets, at the integer scales nearest to giving each its part of privacy; and sₛ at σ = 1.

    Under replace-one () is no set of them, and has a variance of 0. The scales are so fine that their rounding hardly
    counts, unless noise of this `deviation`, for what one record moves them, would be beyond the sampler's range: what
    is fine in counts is large in their units. Then they are as coarse as that takes.
    """
    if not parts:
        raise InvalidInput("under replace-one the number of records is public: there is nothing to measure")
    size = domain.shape
    shapes = [tuple(size[a] for a in s) for s in parts]
    cells = np.array([prod(shape) for shape in shapes], np.float64)
    norms = np.array([prod(n * (n - 1) for n in shape) for shape in shapes], np.float64)
    norms *= _shares(domain, list(parts))
    exact = np.sqrt(np.fromiter(parts.values(), np.float64) / norms)

    def scaled(factor: float) -> tuple[Workload, float]:
        scales = np.maximum(np.rint(exact * factor), 1).astype(np.int64).tolist()
        groups = (Group(s, Residuals(shape, m)) for s, shape, m in zip(parts, shapes, scales, strict=True))
        made = Workload(domain, tuple(groups))
        return made, float(made.moved(2, replace=neighbours is Neighbours.REPLACE_ONE))

    finest = min(_FINEST / exact.min(), MAX_RESIDUAL_SCALE / (exact * cells).max() / 2)
    workload, step = scaled(finest)
    beyond = step * (2**domain.weight_bits * deviation) ** 2 / MAX_VARIANCE
    if beyond > 1:
        workload, step = scaled(finest / (2 * sqrt(beyond)))
    return workload, {(): 0.0} | {g.axes: step / _frame(g.queries).multiple ** 2 for g in workload.groups}


def _frame(queries: Queries) -> Residuals:
    if not isinstance(queries, Residuals):
        got = queries.to_json()["type"]
        raise InvalidInput(f"residuals or whole marginals are needed, got queries of type {got!r}")
    return queries


@dataclass(frozen=True, eq=False)
class Residual:
    """An unbiased estimate of the residual of a set of columns of more than one cell each.

    table     (n_i for i in axes) `multiple` times counts, whose residual it is: as it was measured, and not copied
    variance  s: the covariance of `values` is s P, P the projection on tables whose sums along each axis are zero
    """

    axes: Axes
    table: Floats
    variance: float
    multiple: float = 1.0

    @property
    def values(self) -> Floats:
        """(n_i for i in axes) counts, whose sums along each axis are zero."""
        return centred(self.table / self.multiple, self.table.ndim)


@dataclass(frozen=True, eq=False)
class Estimates:
    """Best linear unbiased estimates of every marginal all of whose residuals were measured, with their variances.

    The residual of S adds itself, spread evenly over the columns of A∖S, to the marginal on A. Residuals are measured
    independently and their noise is orthogonal, so the sum is what generalised least squares gives.

    order  `Noise.order` of what was measured: 1 where some of it has Laplace noise
    """

    domain: Domain
    residuals: Mapping[Axes, Residual]
    order: Literal[1, 2] = 2

    @classmethod
    def of(cls, domain: Domain, measurements: Iterable[Measurement], records: float | None = None) -> Estimates:
        """From measurements of `Residuals` and of whole marginals: those of one set are averaged by their precisions.

        A marginal on A that is measured with independent normal noise of variance v on each cell measures the residuals
        of all S ⊆ A, independently, with sₛ = v·Π_{i∈A∖S} nᵢ; nothing is lost. *Proof.* Let Qₛ be the product of the
        projection on tables with sums of zero along the axes of S, and of that on tables that are even along those of
        A∖S. The Qₛ are orthogonal projections, of images orthogonal to each other, and sum to the identity; so the
        Qₛ(noise) are independent of each other, of covariances v Qₛ, and determine the noise. Qₛ(table) is the residual
        of S, spread evenly: summed over A∖S it is the residual, with the covariance v·Π_{i∈A∖S} nᵢ · Pₛ. For noise of
        another law read "uncorrelated", and the estimates are best among the linear ones.

        records  n, where it is public: then it is not estimated from what was measured

        `InvalidInput` for a measurement of other queries.
        """
        found: dict[Axes, Residual] = {}
        measurements = tuple(measurements)
        if records is not None:
            found[()] = Residual((), np.array(float(records)), 0.0)
        for new in (r for m in measurements for r in _residuals(m, domain)):
            old = found.get(new.axes)
            if old is not None:
                rate = new.variance / (old.variance + new.variance)
                values = rate * old.values + (1 - rate) * new.values
                new = Residual(new.axes, values, rate * old.variance)
            found[new.axes] = new
        return cls(domain, found, min((m.noise.order for m in measurements), default=2))

    @property
    def variances(self) -> dict[Axes, float]:
        """sₛ of each set, counts squared."""
        return {s: r.variance for s, r in self.residuals.items()}

    def gives(self, axes: Axes) -> bool:
        """Whether all residuals of a marginal were measured."""
        return all(s in self.residuals for s in _subsets(self.domain.shape, axes))

    def marginal(self, axes: Axes) -> tuple[Floats, float]:
        """The table (n_i for i in axes), counts, and the variance of each cell. `InvalidInput` if it is not given."""
        self._check(axes)
        tables, variances = self._tables([axes])
        return tables[0], float(variances[0])

    def answer(self, workload: Workload) -> tuple[Floats, Floats]:
        """The estimate of each query, (k,) counts, and its variance, (k,). `InvalidInput` for one that is not given."""
        if workload.domain != self.domain:
            raise InvalidInput("the workload is over another domain than these estimates")
        values, variances = np.empty(len(workload)), np.empty(len(workload))
        shape, bounds = self.domain.shape, workload.bounds.tolist()
        for which in self._batches(workload):
            tables, of_cells = self._tables([workload.groups[i].axes for i in which])
            for i, table, variance in zip(which, tables, of_cells.tolist(), strict=True):
                group, place = workload.groups[i], slice(bounds[i], bounds[i + 1])
                if isinstance(group.queries, Cells):
                    values[place], variances[place] = table.reshape(-1), variance
                else:
                    values[place] = group.queries.apply(table.reshape(-1)) * group.queries.unit
                    variances[place] = query_variances(shape, group, self._below(group.axes))
        return values, variances

    def _batches(self, workload: Workload) -> Iterator[list[int]]:
        """Groups on marginals of one shape, so many as fit."""
        alike: dict[tuple[int, ...], list[int]] = {}
        shape = self.domain.shape
        for i, group in enumerate(workload.groups):
            self._check(group.axes)
            alike.setdefault(tuple([shape[a] for a in group.axes]), []).append(i)
        for sizes, found in alike.items():
            step = max(_CHUNK // prod(sizes), 1)
            yield from (found[i : i + step] for i in range(0, len(found), step))

    def _check(self, axes: Axes) -> None:
        if not self.gives(axes):
            names = ", ".join(self.domain.names[a] for a in axes)
            raise InvalidInput(f"no released marginal contains the columns {names}")

    def _below(self, axes: Axes) -> dict[Axes, float]:
        return {s: self.residuals[s].variance for s in _subsets(self.domain.shape, axes)}

    def _tables(self, sets: Sequence[Axes]) -> tuple[Floats, Floats]:
        """The marginals on sets of one shape, (len(sets), n_1, …), and the variance of each one's cells, (len(sets),).

        That is Σ sₛ v(A, S), as `cell_variance` has it.
        """
        shape = [self.domain.shape[a] for a in sets[0]]
        tables, variances = np.zeros((len(sets), *shape)), np.zeros(len(sets))
        for order in range(len(shape) + 1):
            for inside in combinations(range(len(shape)), order):
                if any(shape[i] == 1 for i in inside):
                    continue
                found = [self.residuals[s] for s in _picked(sets, inside)]
                part = np.stack([r.table for r in found])
                part /= np.array([r.multiple for r in found]).reshape(-1, *(1 for _ in inside))
                spread = [n if i in inside else 1 for i, n in enumerate(shape)]
                outside = prod(n for i, n in enumerate(shape) if i not in inside)
                part = centred(part, order).reshape(len(sets), *spread)
                tables += part / outside if outside > 1 else part
                v = prod((shape[i] - 1) / shape[i] for i in inside) / outside**2
                variances += v * np.array([r.variance for r in found])
        return tables, variances


def _picked(sets: Sequence[Axes], inside: Sequence[int]) -> list[Axes]:
    """The columns of each set that stand at the given places."""
    match len(inside):
        case 0:
            return [()] * len(sets)
        case 1:
            return [(s[inside[0]],) for s in sets]
    return list(map(itemgetter(*inside), sets))


def _residuals(m: Measurement, domain: Domain) -> Iterator[Residual]:
    """What a measurement says, set by set, independently."""
    axes = m.group.axes
    if isinstance(m.group.queries, Product):
        yield from (Residual(s, table, variance) for s, table, variance in of_contrasts(m, domain))
        return
    if not isinstance(m.group.queries, Cells):
        frame = _frame(m.group.queries)
        yield Residual(axes, m.values.reshape(frame.shape), m.variance / frame.multiple**2, frame.multiple)
        return
    table = m.values.reshape([domain.shape[a] for a in axes])
    for s in _subsets(domain.shape, axes):
        others = tuple(i for i, a in enumerate(axes) if a not in s)
        yield Residual(s, table.sum(axis=others), m.variance * (table.size / domain.cells(s)))


def centred(table: Floats, axes: int) -> Floats:
    """Less its means along each of the last axes."""
    for axis in range(table.ndim - axes, table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return table


def _subsets(shape: Sequence[int], axes: Axes) -> Iterator[Axes]:
    """The sets whose residuals make up a marginal."""
    longer = [a for a in axes if shape[a] > 1]
    for order in range(len(longer) + 1):
        yield from combinations(longer, order)


def cell_variance(shape: Sequence[int], axes: Axes, variances: Mapping[Axes, float]) -> float:
    """The variance of each cell of a marginal of a universe (n_1, …), counts squared: Σ sₛ v(A, S) over its subsets."""
    total = sum(variances[s] * prod(shape[a] * (shape[a] - 1) for a in s) for s in _subsets(shape, axes))
    return float(total / prod(shape[a] for a in axes) ** 2)


def query_variances(shape: Sequence[int], group: Group, variances: Mapping[Axes, float]) -> Floats:
    """The variance of each query of a group, (k,), counts squared."""
    queries, axes = group.queries, group.axes
    if isinstance(queries, Cells):
        return np.full(queries.count, cell_variance(shape, axes, variances))
    if isinstance(queries, Intervals | Product):
        return _of_product(shape, axes, queries, variances)
    cube = [shape[a] for a in axes]
    parts = [vector_variances(shape, axes, rows.reshape(-1, *cube), variances) for rows in query_rows(queries)]
    return np.concatenate(parts) * queries.unit**2


def _of_product(
    shape: Sequence[int], axes: Axes, queries: Intervals | Product, variances: Mapping[Axes, float]
) -> Floats:
    """‖Pₛ w̄ₛ‖² of a product of vectors is one: of ‖w‖² - n·mean² along the columns of S, of mean² along the others."""
    factors = queries.factors if isinstance(queries, Product) else (queries,)
    even = [(f.apply(np.ones(f.cells)) * f.unit / f.cells) ** 2 for f in factors]
    uneven = [f.squares() - f.cells * e for f, e in zip(factors, even, strict=True)]
    total = np.zeros(queries.count)
    for s in _subsets(shape, axes):
        parts = [uneven[i] if a in s else even[i] for i, a in enumerate(axes)]
        total += variances[s] * reduce(np.multiply.outer, parts).reshape(-1)
    return total


def vector_variances(shape: Sequence[int], axes: Axes, rows: Floats, variances: Mapping[Axes, float]) -> Floats:
    """The variance of Σ w·table for each vector w of (k, n_1, …): (k,), counts squared, from the sₛ of its subsets."""
    total = np.zeros(len(rows))
    for s in _subsets(shape, axes):
        part = rows
        for place, a in enumerate(axes, start=1):
            mean = part.mean(axis=place, keepdims=True)
            part = part - mean if a in s else mean
        total += variances[s] * (part.reshape(len(rows), -1) ** 2).sum(axis=1)
    return total
