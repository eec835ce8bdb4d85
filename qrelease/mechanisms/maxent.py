"""Every residual once, at the best scales, and the histogram of maximum entropy that fits them.

There is nothing to select, so nothing is spent on selecting: the residuals of all subsets of the workload's marginals
are measured together by one draw of Gaussian noise, at scales in closed form (`residuals`), or by discrete Laplace
noise where there is no δ (`pure_plan`), and a log-linear model over the whole universe is fitted to them (`maxent`).
Where the universe is too large for a histogram the answers are the linear ones. Adaptive selection spends on choosing
what this measures anyway, and measures fewer marginals; on universes that fit in memory this is the more accurate
(`benchmarks.frontier`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from typing import Any, ClassVar, final

import numpy as np

from qrelease._util import memory
from qrelease._util.typing import Axes
from qrelease._util.validate import natural, positive
from qrelease.data import structural_zeros
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput, TooLarge
from qrelease.inference.gibbs import possible
from qrelease.inference.histogram import check_size, precision
from qrelease.inference.interaction_basis import needed
from qrelease.inference.interaction_prior import planned_variance
from qrelease.inference.maxent import DENSE, keeps_rules, solving_bytes, solving_seconds
from qrelease.inference.measurement import Measurement, count_noise, noise_for
from qrelease.inference.pure_plan import PurePlan
from qrelease.inference.residual_synopses import Linear, Modelled
from qrelease.inference.residuals import Estimates, Objective, ResidualPlan, fitting, subsets
from qrelease.mechanisms.base import MechanismResult
from qrelease.mechanisms.expected_errors import PAIRS_AT_ONCE, Expected, of_fit, of_linear
from qrelease.mechanisms.private_data import Private
from qrelease.noise.calibration import calibrated, counting_first
from qrelease.privacy.costs import ApproxDP, Cost, Neighbours, PureDP, check_cost, is_pure
from qrelease.queries.workload import Workload

COUNTING = 0.01
"""The share of the budget that buys a first number of records, by which the rest is divided, under add-remove."""

_CELL_BYTES, _SET_BYTES = 16, 4096
"""Bytes of what is measured where nothing is fitted: of a cell, exact and noisy, and of a set of columns, as Python's
objects and in the manifest. Answers are put together from it when they are asked for."""

_START_BYTES, _STEP_BYTES = 64 << 20, 600
"""Bytes of the code that a release loads; and of a coordinate in the steps of a fit, of which some are kept."""

_START_SECONDS, _LINEAR_SECONDS = 1.3, 2e-6
"""Seconds of a release before its fit, in a process that has done nothing before; and for each coordinate where nothing
is fitted."""

_LAPLACE_ADVANTAGE = 0.8
"""Laplace noise is taken at the same ε where its expected error is below this times that of Gaussian noise."""

_MORE_COORDINATES = 2
"""Times the coordinates of the workload's residuals that there may be with those of counts measured before."""

_MOST_BY_EPSILON = 4096
"""Sets of columns beyond which ε alone is not planned beside a δ: the L1 norm of so many outweighs any δ in use."""


@final
@dataclass(frozen=True)
class MaxEnt:
    """Measures the workload's marginals with optimal noise, and fits the maximum-entropy histogram to them.

    Costs are (ε, δ), ρ or pure ε. A universe too large for a histogram gives a release of linear answers without a
    table, at the scales that are best for these.

    Parameters
    ----------
    records
        About how many records there are, if that is public: the budget is divided between residuals of one, two and
        more columns by this number. By default a hundredth of the budget (`COUNTING`) buys a noisy count, unless the
        neighbouring relation makes the number public.
    weights
        Positive weights, one for each of the workload's sets of columns, of the squared error of a cell there.
    objective
        What the scales of noise minimise: the `total` of the squared errors expected after the fit, or the `largest`
        variance of an answer before it, for which no number of records is needed.

    Raises
    ------
    InvalidInput
        For parameters out of range.
    TooLarge
        For more answers than memory holds.

    Notes
    -----
    Nothing is selected. What is measured is the *residual* of each subset S of the workload's marginals: what the
    marginal on S says beyond those on fewer columns. For ρ all of them get discrete Gaussian noise at once, that on S
    of variance s_S σ² in each coordinate. A record moves it by the squared norm p_S = Π_{i∈S} (1 - 1/n_i), so
    that Σ p_S/s_S = 1 and σ² = 1/(2ρ). An (ε, δ) gives σ² by the analytic Gaussian mechanism. Of answers before the fit
    the total of the squared errors is least at s_S = √(T p_S/c_S) with T = (Σ √(c_S p_S))², where c_S is how much the
    residual of S adds to the squared errors asked about. Of answers after the fit, residuals of more columns get less:
    the fewer the records, the less there is to see of them. Without a δ the noise is discrete Laplace, at scales for L1
    norms.

    The histogram is p ∝ e^(Σ θ · features), with one interaction for each measured coordinate. It is the most likely
    one given the noise and a normal law of the interactions, whose variances are learned from the measurements.

    References
    ----------
    Xiao, He, Zhang & Kifer 2023, *ResidualPlanner*, for residuals; Li & Miklau 2013, *Optimal error of query sets under
    the differentially-private matrix mechanism*, for the bound that the scales reach; Balle & Wang 2018, *Improving the
    Gaussian mechanism*; Dudík, Phillips & Schapire 2007, *Maximum entropy density estimation with generalized
    regularization*, and MacKay 1992, *Bayesian interpolation*, for the fit.

    Examples
    --------
    >>> import numpy as np
    >>> import qrelease as qr
    >>> domain = qr.Domain.coded({"sex": 2, "age": 10})
    >>> table = qr.Table(domain, (np.arange(500) % 2, np.arange(500) % 10))
    >>> cost = qr.PureDP(1)
    >>> curator = qr.Curator(table, qr.Ledger.open(None, cost), qr.Entropy.insecure(1))  # no seed for real records
    >>> release = curator.release(qr.MaxEnt(), qr.Workload.marginals(domain, 2), cost)
    >>> 200 < release.answer("sex = 1").value < 300  # of 250
    True
    """

    records: int | None = None
    weights: tuple[float, ...] | None = None
    objective: Objective = "total"

    counts_parts: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """`maxent`."""
        return "maxent"

    def __post_init__(self) -> None:
        if self.weights is not None:
            if not isinstance(self.weights, Iterable):
                raise InvalidInput(f"weights must be numbers, one for each set of columns, got {self.weights!r}")
            object.__setattr__(self, "weights", tuple(positive("a weight", w) for w in self.weights))
        if self.records is not None:
            object.__setattr__(self, "records", natural("records", self.records))

    def check(self, workload: Workload, cost: Cost, neighbours: Neighbours) -> None:
        """Raise `InvalidInput` for noise beyond the samplers' range, `TooLarge` for too many cells."""
        check_cost(cost)
        cost = _spent(cost)
        if is_pure(cost) and self.objective == "largest":
            raise InvalidInput("the least largest variance is planned for Gaussian noise: give --delta")
        unfitted, advice = _unfitted(workload), "ask for fewer marginals"
        if unfitted is None:
            _check_fits(workload, ahead=True)
            impossible = structural_zeros.masks(workload.domain, workload.domain.impossible)
            if impossible:
                possible(workload.domain.shape, impossible)
            cells = sum(workload.domain.cells(s) for s in _marginals(workload))
            memory.check(8 * memory.ANSWER_BYTES * cells, f"{cells:,} cells of marginals", advice)
            shape = workload.domain.shape
            memory.check(needed(shape), f"a column of {max(shape):,} cells", "use coarser bins")
            coordinates = _coordinates(workload.domain, subsets(workload.domain, _marginals(workload)))
            memory.check(solving_bytes(workload.domain, coordinates), "the fit to what is measured", advice)
        divided = self._divides(unfitted)
        counting, rest = counting_first(cost, COUNTING, neighbours, self.records) if divided else (None, cost)
        if counting is not None:
            count_noise(workload.domain, counting)
        # By the number of records, which may be private, the privacy is divided.
        for records in [10.0**power for power in range(0, 13, 3)] if divided else [None]:
            plan = self.plan(workload, rest, neighbours, records)
            if plan is None:
                continue
            for part, price in plan.parts:
                noise_for(part, price, neighbours)
            if unfitted is not None:
                cells, sets = (sum(number(part) for part, _ in plan.parts) for number in (len, _groups))
                memory.check(_CELL_BYTES * cells + _SET_BYTES * sets, f"{cells:,} measured cells of residuals", advice)

    def no_table(self, workload: Workload) -> str | None:
        """Why no histogram is fitted, if none is."""
        unfitted = _unfitted(workload)
        return None if unfitted is None else str(unfitted)

    def _divides(self, unfitted: TooLarge | None) -> bool:
        """Whether the scales are those best for a fit, by the number of records; else they are for linear answers."""
        return unfitted is None and self.objective == "total"

    def plan(self, workload: Workload, cost: Cost, neighbours: Neighbours, records: float | None) -> _Planned | None:
        """The scales of noise that are best for the workload's answers.

        Parameters
        ----------
        workload : Workload
            The queries to answer.
        cost : Cost
            What the release may cost.
        neighbours : Neighbours
            Which tables the promise compares.
        records : float or None
            About how many private records n there are: then the plan counts on how much residuals of so many records
            vary in a log-linear model. None gives the scales that are best for linear answers.

        Returns
        -------
        _Planned or None
            None where every answer is the number of records, which is public.
        """
        return _planned(replace(self, records=None), workload, cost, neighbours, records)

    def expected(self, workload: Workload, cost: Cost, neighbours: Neighbours, records: int) -> Expected:
        """The errors to expect, of the fit, or of the linear answers where no histogram is fitted.

        Parameters
        ----------
        workload, cost, neighbours
            As in `plan`.
        records : int
            The number of private records n.

        Returns
        -------
        Expected
            Errors of the k answers, as counts.
        """
        unfitted, cost = _unfitted(workload), _spent(cost)
        plan = self.plan(workload, cost, neighbours, float(records) if self._divides(unfitted) else None)
        variances: Mapping[Axes, float] = {(): 0.0} if plan is None else plan.variances
        if unfitted is not None:
            return of_linear(workload, variances, records)
        return of_fit(workload, variances, records, pairs=PAIRS_AT_ONCE)

    def memory(self, workload: Workload) -> int:
        """See `Forecasting`."""
        domain, sets = workload.domain, subsets(workload.domain, _marginals(workload))
        coordinates = _coordinates(domain, sets)
        if _unfitted(workload) is not None:
            return _START_BYTES + _CELL_BYTES * coordinates + _SET_BYTES * len(sets)
        cells = _START_BYTES + np.dtype(precision(domain)).itemsize * domain.size + memory.ANSWER_BYTES * len(workload)
        return cells + _STEP_BYTES * coordinates + solving_bytes(domain, coordinates)

    def seconds(self, workload: Workload, cost: Cost, records: int) -> float:
        """See `Forecasting`: on one core or two, within a factor of 1.5, of a process that has done nothing before.

        Where columns depend on each other in other ways than those of the tables that this was measured on, the fit may
        take a few times as long, or a few times less.
        """
        domain, sets = workload.domain, subsets(workload.domain, _marginals(workload))
        coordinates = _coordinates(domain, sets)
        if not coordinates:
            return _START_SECONDS
        if _unfitted(workload) is not None:
            return _START_SECONDS + _LINEAR_SECONDS * coordinates
        plan = self.plan(workload, _spent(cost), Neighbours.ADD_REMOVE, max(float(records), 1.0))
        quietest = 1.0 if plan is None else min((v for s, v in plan.variances.items() if s), default=1.0)
        orders = len({len(s) for s in sets if s})
        asked = domain.cells({a for s in sets for a in s})  # the fit is on these columns
        return _START_SECONDS + solving_seconds(asked, coordinates, orders, records, quietest)

    def release(self, private: Private, workload: Workload, cost: Cost) -> MechanismResult:
        """Count the records, measure all residuals at once, and fit; where that cannot be, only measure."""
        unfitted, cost = _unfitted(workload), _spent(cost)
        public = None if private.public_records is None else float(private.public_records)
        counted: tuple[Measurement, ...] = ()
        records, rest = self.records if public is None else public, cost
        divided = self._divides(unfitted)
        if divided and records is None:
            counting, rest = counting_first(cost, COUNTING, private.neighbours, self.records)
            records, first = private.count(counting)
            counted = () if first is None else (first,)
        known = max(records, 1.0) if divided and records is not None else None
        plan = self.plan(workload, rest, private.neighbours, known)
        parts = () if plan is None else plan.parts
        drawn = [m for part, price in parts for m in private.measure(part, price)]
        measured = tuple(sorted(drawn, key=lambda m: (len(m.group.axes), m.group.axes)) if len(parts) > 1 else drawn)
        known_counts = () if unfitted is not None else _known(private.known, workload)
        measured = (*known_counts, *measured)
        # Where all are of residuals, those are told from what was counted first; else the last ones are.
        last = 0 if plan is None or (plan.bound is not None and not known_counts) else len(measured)
        estimates = Estimates.of(workload.domain, measured, public)
        choices: dict[str, Any] = {"records": float(estimates.residuals[()].values)}
        if plan is not None:
            choices |= {"error": plan.error} | ({} if plan.bound is None else {"bound": plan.bound})
        if unfitted is not None:
            return MechanismResult(Linear(estimates, last), measured, {**choices, "no_table": str(unfitted)})
        fitted = Modelled.of(estimates, workload, last)
        kept = keeps_rules(fitted.histogram)
        return MechanismResult(fitted, counted + measured, choices, constrained=kept)


@dataclass(frozen=True, eq=False)
class _Planned:
    """What is measured at what cost; the variances sₛ, counts squared; and the error of the plan, with its bound.

    error, bound  under Gaussian noise in units of σ, else in counts
    unit          σ, or 1
    """

    parts: tuple[tuple[Workload, Cost], ...]
    variances: Mapping[Axes, float]
    error: float
    bound: float | None = None
    unit: float = 1.0


@lru_cache(maxsize=4)  # for checks and predictions, with a δ and without, and the release that comes next
def _planned(
    mechanism: MaxEnt, workload: Workload, cost: Cost, neighbours: Neighbours, records: float | None
) -> _Planned | None:
    """See `MaxEnt.plan`. Of an (ε, δ) ε alone is spent where that is expected to be better, as for few marginals."""
    domain = workload.domain
    if neighbours is Neighbours.REPLACE_ONE and not any(domain.shape[a] > 1 for s in workload.sets for a in s):
        return None  # every answer is the number of records, which is public
    found = [] if isinstance(cost, PureDP) else [_gaussian(mechanism, workload, cost, neighbours, records)]
    few = mechanism.objective == "total" and len(workload.sets) <= _MOST_BY_EPSILON
    if isinstance(cost, PureDP) or (isinstance(cost, ApproxDP) and few):
        found += _pure(mechanism, workload, PureDP(cost.epsilon), neighbours, records)

    def off(plan: _Planned) -> float:
        if records is None:
            return plan.error * plan.unit
        expected = of_fit(workload, plan.variances, max(round(records), 1))
        return expected.error if expected.l1 is None else expected.l1

    first, *others = found
    best = min(others, key=off, default=first)
    if isinstance(cost, PureDP):
        return min(found, key=off)
    return best if best is not first and off(best) < _LAPLACE_ADVANTAGE * off(first) else first


def _gaussian(
    mechanism: MaxEnt, workload: Workload, cost: Cost, neighbours: Neighbours, records: float | None
) -> _Planned:
    domain, noise = workload.domain, calibrated(1, cost)[0]
    plan = ResidualPlan.choose(
        domain,
        _sets(mechanism, workload),
        weights=mechanism.weights,
        objective=mechanism.objective,
        expected=None if records is None else lambda axes: planned_variance(domain, axes, records) / noise.scale**2,
        neighbours=neighbours,
        deviation=noise.scale,
    )
    variances = {s: noise.variance * v for s, v in plan.variances.items()}
    return _Planned(((plan.workload, cost),), variances, plan.error, plan.bound, noise.scale)


@lru_cache(maxsize=2)  # that of ε alone, and of ε beside a δ, is the same
def _pure(
    mechanism: MaxEnt, workload: Workload, cost: PureDP, neighbours: Neighbours, records: float | None
) -> list[_Planned]:
    domain, sets = workload.domain, _sets(mechanism, workload)
    if mechanism.weights is not None:
        ResidualPlan.choose(domain, sets, weights=mechanism.weights)  # which refuses what are no weights
    plans = PurePlan.choose(
        domain,
        sets,
        cost,
        neighbours,
        weights=mechanism.weights,
        expected=None if records is None else lambda axes: planned_variance(domain, axes, records, strong=2),
    )
    return [_Planned(p.parts, p.variances, p.error) for p in plans]


def _sets(mechanism: MaxEnt, workload: Workload) -> tuple[Axes, ...]:
    return _marginals(workload) if mechanism.weights is None else workload.sets


def _spent(cost: Cost) -> Cost:
    """An (ε, δ) without a δ is pure ε."""
    return PureDP(cost.epsilon) if isinstance(cost, ApproxDP) and cost.delta == 0 else cost


def _known(known: Sequence[Measurement], workload: Workload) -> tuple[Measurement, ...]:
    """Those of the counts measured before that are fitted with the workload's: no finer fit becomes a coarser one."""
    domain, sets = workload.domain, subsets(workload.domain, _marginals(workload))
    own = _coordinates(domain, sets)

    def fits(together: Sequence[Axes]) -> bool:
        try:
            with memory.unused():
                check_size(domain, together, len(workload), ahead=False)
        except TooLarge:
            return False
        return _coordinates(domain, together) <= (DENSE if own <= DENSE else _MORE_COORDINATES * own)

    return fitting(domain, sets, known, fits)


def _coordinates(domain: Domain, sets: Iterable[Axes]) -> int:
    """Of the residuals of some sets of columns, without that of no column, which is the number of records."""
    return sum(math.prod(domain.shape[a] - 1 for a in s) for s in sets if s)


def _groups(workload: Workload) -> int:
    return len(workload.groups)


def _marginals(workload: Workload) -> tuple[Axes, ...]:
    """The marginals that give all answers, without those that others contain."""
    sizes = {len(s) for s in workload.sets}
    contained = {t for s in workload.sets for k in sizes if k < len(s) for t in combinations(s, k)}
    return tuple(s for s in workload.sets if s not in contained)


def _unfitted(workload: Workload) -> TooLarge | None:
    """Why no histogram is fitted, if none is: it says what is in a release, so it goes by public facts alone."""
    try:
        with memory.unused():
            _check_fits(workload, ahead=False)
    except TooLarge as reason:
        return reason
    return None


def _check_fits(workload: Workload, *, ahead: bool) -> None:
    """`TooLarge` unless a histogram fits in memory, with the marginals that it is fitted to; `ahead` as for memory."""
    check_size(workload.domain, (), len(workload), ahead=ahead)  # before many subsets are listed for nothing
    sets = subsets(workload.domain, _marginals(workload))[1:]
    check_size(workload.domain, sorted(sets), len(workload), ahead=ahead)
