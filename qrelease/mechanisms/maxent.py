"""Every residual once, at the best scales, and the histogram of maximum entropy that fits them.

There is nothing to select, so nothing is spent on selecting: the residuals of all subsets of the workload's marginals
are measured together by one draw of Gaussian noise, at scales in closed form (`residuals`), and a log-linear model over
the whole universe is fitted to them (`maxent`). Where the universe is too large for a histogram the answers are the
linear ones. Adaptive selection spends on choosing what this measures anyway, and measures fewer marginals; on universes
that fit in memory this is the more accurate (`benchmarks.frontier`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any, NoReturn, final

import numpy as np
import numpy.typing as npt

from qrelease import memory
from qrelease.contracts import Draft
from qrelease.cover import Axes
from qrelease.domain import Domain
from qrelease.errors import InvalidInput, TooLarge
from qrelease.histogram import Histogram, check_size
from qrelease.interactions import needed
from qrelease.maxent import expected_variance, fit
from qrelease.measure import Measurement, Private, calibrated, counting_first, half_widths, noise_for
from qrelease.privacy import ApproxDP, Cost, Neighbours, PureDP
from qrelease.privacy.costs import check_cost, count, positive
from qrelease.queries import Residuals
from qrelease.residuals import Estimates, Objective, Plan, query_variances, subsets
from qrelease.workload import Workload

Floats = npt.NDArray[np.float64]

COUNTING = 0.01
"""The share of the budget that buys a first number of records, by which the rest is divided, under add-remove."""

_CELL, _SET = 16, 4096
"""Bytes of what is measured where nothing is fitted: of a cell, exact and noisy, and of a set of columns, as Python's
objects and in the manifest. Answers are put together from it when they are asked for."""

_BARS = 2.4
"""Standard deviations of the model's 95 % error bars: 1.96 would do if J and ω were known. They cover 96 to 99 % of the
cells of nltcs, Adult and br2000 at ε = 0.1, 1, 10, and of small tables of 100 records 98 %."""


@final
@dataclass(frozen=True)
class MaxEnt:
    """Optimal linear measurement of the workload's marginals, and the maximum-entropy fit to it.

    records    about how many there are, if that is public: by it the privacy is divided between the orders of
               residuals. By default `COUNTING` of the budget finds out, unless the neighbours make it public
    weights    above 0, one for each of the workload's sets of columns: of the squared error of a cell of its marginal
    objective  of the scales: the least `total` of squared errors, expected after the fit; or the `largest` variance of
               an answer before it, which takes no number of records

    Costs are (ε, δ) or ρ. `TooLarge` for more answers than memory holds; a universe too large for a histogram gives a
    release of linear answers without a table, at the scales that are best for these.
    """

    records: int | None = None
    weights: tuple[float, ...] | None = None
    objective: Objective = "total"

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
            object.__setattr__(self, "records", count("records", self.records))

    def check(self, workload: Workload, cost: Cost, neighbours: Neighbours) -> None:
        """`InvalidInput` for pure ε or noise beyond the samplers' range, `TooLarge` for too many cells."""
        check_cost(cost)
        if isinstance(cost, PureDP) or (isinstance(cost, ApproxDP) and cost.delta == 0):
            raise InvalidInput(f"Gaussian noise needs a delta above 0, got {cost}; give --delta, or use mwem")
        unfitted, advice = _unfitted(workload), "ask for fewer marginals"
        if unfitted is None:
            _check_fits(workload, ahead=True)
            cells = sum(workload.domain.cells(s) for s in _marginals(workload))
            memory.check(8 * memory.ANSWER * cells, f"{cells:,} cells of marginals", advice)
            shape = workload.domain.shape
            memory.check(needed(shape), f"a column of {max(shape):,} cells", "use coarser bins")
        divided = self._divides(unfitted)
        rest = counting_first(cost, COUNTING, neighbours, self.records)[1] if divided else cost
        # By the number of records, which may be private, the privacy is divided.
        for records in [10.0**power for power in range(13)] if divided else [None]:
            plan = self._plan(workload, rest, neighbours, records)
            if plan is None:
                continue
            noise_for(plan.workload, rest, neighbours)
            if unfitted is not None:
                cells, sets = len(plan.workload), len(plan.workload.groups)
                memory.check(_CELL * cells + _SET * sets, f"{cells:,} measured cells of residuals", advice)

    def no_table(self, workload: Workload) -> str | None:
        """Why no histogram is fitted, if none is."""
        unfitted = _unfitted(workload)
        return None if unfitted is None else unfitted.public

    def _divides(self, unfitted: TooLarge | None) -> bool:
        """Whether the scales are those best for a fit, by the number of records; else they are for linear answers."""
        return unfitted is None and self.objective == "total"

    def _plan(self, workload: Workload, cost: Cost, neighbours: Neighbours, records: float | None) -> Plan | None:
        """The best scales, given how much residuals of so many records in a log-linear model are expected to vary.

        Without a number of records, those that are best for the linear answers.
        """
        return _planned(self, workload, cost, neighbours, records)

    def expected_error(self, workload: Workload, cost: Cost, neighbours: Neighbours, records: float) -> float:
        """The root mean squared error of an answer that is planned for, after the fit to so many records; a count.

        Of the linear answers, where no histogram is fitted.
        """
        divided = self._divides(_unfitted(workload))
        plan = self._plan(workload, cost, neighbours, records if divided else None)
        if plan is None:
            return 0.0
        unit, domain = calibrated(1, cost)[0].variance, workload.domain
        left = {s: unit * v for s, v in plan.variances.items()}
        if divided:
            left = {s: v / (1 + v / expected_variance(domain, s, records)) for s, v in left.items()}
        sums = [float(query_variances(domain.shape, g, left).sum()) for g in workload.groups]
        return math.sqrt(sum(sums) / len(workload))

    def release(self, private: Private, workload: Workload, cost: Cost) -> Draft:
        """Count the records, measure all residuals at once, and fit; where that cannot be, only measure."""
        unfitted = _unfitted(workload)
        public = float(len(private.table)) if private.neighbours is Neighbours.REPLACE_ONE else None
        counted: tuple[Measurement, ...] = ()
        records, rest = self.records if public is None else public, cost
        divided = self._divides(unfitted)
        if divided and records is None:
            counting, rest = counting_first(cost, COUNTING, private.neighbours, self.records)
            records, first = private.count(counting)
            counted = () if first is None else (first,)
        known = max(records, 1.0) if divided and records is not None else None
        plan = self._plan(workload, rest, private.neighbours, known)
        measured = () if plan is None else tuple(private.measure(plan.workload, rest))
        estimates = Estimates.of(workload.domain, measured, public)
        choices: dict[str, Any] = {"records": float(estimates.residuals[()].values)}
        if plan is not None:
            choices |= {"error": plan.error, "bound": plan.bound}
        if unfitted is not None:
            return Draft(Linear(estimates), measured, {**choices, "no_table": unfitted.public})
        return Draft(Modelled.of(estimates, workload), counted + measured, choices)


@lru_cache(maxsize=1)  # for a check, or two, and the release that comes next
def _planned(
    mechanism: MaxEnt, workload: Workload, cost: Cost, neighbours: Neighbours, records: float | None
) -> Plan | None:
    """See `MaxEnt._plan`."""
    marginals, shape = _marginals(workload), workload.domain.shape
    if neighbours is Neighbours.REPLACE_ONE and not any(shape[a] > 1 for s in marginals for a in s):
        return None  # every answer is the number of records, which is public
    unit = calibrated(1, cost)[0].scale ** 2
    given = None if records is None else lambda axes: expected_variance(workload.domain, axes, records) / unit
    return Plan.choose(
        workload.domain,
        marginals if mechanism.weights is None else workload.sets,
        weights=mechanism.weights,
        objective=mechanism.objective,
        expected=given,
        neighbours=neighbours,
    )


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


@final
@dataclass(frozen=True, eq=False)
class Modelled:
    """A histogram that was fitted to residuals, which it keeps: what it says, and what was measured.

    estimates  the linear, unbiased answers, with their own error bars
    workload   whose answers have error bars under the model too
    widths     half-widths of those, (k,) counts; NaN where the model has none
    """

    histogram: Histogram
    estimates: Estimates
    workload: Workload
    widths: Floats
    has_table = True

    @classmethod
    def of(cls, estimates: Estimates, workload: Workload) -> Modelled:
        """The fit; it takes seconds, or minutes for the largest universes.

        The same estimates give the same histogram, to the last bit where BLAS is the same and has as many threads; else
        it adds in another order, and histograms differ by about one part in 10^9.
        """
        histogram, posterior = fit(estimates)
        widths = _BARS * np.sqrt(posterior.variances(workload))
        if not posterior.solved:  # the linear answer is within its own bar, and this one as far from it as it is
            linear, variances = estimates.answer(workload)
            widths = np.abs(histogram.answer(workload) - linear) + half_widths(variances)
        return cls(histogram, estimates, workload, widths)

    @property
    def domain(self) -> Domain:
        """The universe."""
        return self.histogram.domain

    @property
    def total(self) -> float:
        """The number of records."""
        return self.histogram.total

    def answer(self, workload: Workload) -> Floats:
        """What the model says, (k,) counts. `InvalidInput` for another domain."""
        return self.histogram.answer(workload)

    def error_bars(self, workload: Workload) -> tuple[Floats, Floats]:
        """The linear answers (k,) and half-widths (k,) of their 95 % error bars; NaN for what was not measured."""
        return _linear(self.estimates, workload)

    def model_bars(self, workload: Workload) -> Floats:
        """Half-widths (k,) of 95 % error bars around what the model says, counts; NaN but for its own workload."""
        held = dict(zip(self.workload.groups, np.split(self.widths, self.workload.bounds[1:-1]), strict=True))
        return np.concatenate([held.get(g, np.full(g.queries.count, np.nan)) for g in workload.groups])

    def sample(self, rows: int, rng: np.random.Generator) -> Sequence[npt.NDArray[np.integer[Any]]]:
        """Records of the histogram."""
        return self.histogram.sample(rows, rng)

    def to_json(self) -> dict[str, Any]:
        """The histogram, and the widths; the residuals are in the measurements."""
        widths = [None if np.isnan(w) else float(f"{w:.4g}") for w in self.widths]
        return {"type": "maximum entropy", "histogram": self.histogram.to_json(), "widths": widths}

    @classmethod
    def from_json(cls, workload: Workload, content: Mapping[str, Any], measurements: Sequence[Measurement]) -> Modelled:
        """What `to_json` described."""
        histogram = Histogram.from_json(workload.domain, content["histogram"])
        widths = np.array([np.nan if w is None else w for w in content["widths"]], np.float64)
        return cls(histogram, _estimates(workload.domain, measurements, histogram.total), workload, widths)


@final
@dataclass(frozen=True, eq=False)
class Linear:
    """Linear, unbiased answers to queries on marginals whose residuals were measured; cells may be negative."""

    estimates: Estimates
    has_table = False

    @property
    def domain(self) -> Domain:
        """The universe."""
        return self.estimates.domain

    @property
    def total(self) -> float:
        """The number of records."""
        return float(self.estimates.residuals[()].values)

    def answer(self, workload: Workload) -> Floats:
        """(k,) counts. `InvalidInput` for another domain, and for what was not measured."""
        return self.estimates.answer(workload)[0]

    def error_bars(self, workload: Workload) -> tuple[Floats, Floats]:
        """The answers (k,) and half-widths (k,) of their 95 % error bars; NaN for what was not measured."""
        return _linear(self.estimates, workload)

    def sample(self, rows: int, rng: np.random.Generator) -> NoReturn:
        """There are none."""
        raise InvalidInput("this release has answers but no table: its universe is too large for a histogram")

    def to_json(self) -> dict[str, Any]:
        """The number of records: the rest is in the measurements."""
        return {"type": "residuals", "total": self.total}

    @classmethod
    def from_json(cls, domain: Domain, content: Mapping[str, Any], measurements: Sequence[Measurement]) -> Linear:
        """What `to_json` described, with the measurements that the manifest lists by themselves."""
        made = cls(_estimates(domain, measurements, float(content["total"])))
        if not math.isclose(made.total, content["total"], rel_tol=1e-9, abs_tol=1e-9):
            raise InvalidInput(f"total: {content['total']} is not that of the measurements, {made.total}")
        return made


def _estimates(domain: Domain, measurements: Sequence[Measurement], total: float) -> Estimates:
    """From all residuals that were measured, and the number of records, if that was not."""
    residuals = [m for m in measurements if isinstance(m.group.queries, Residuals)]
    return Estimates.of(domain, residuals, None if any(m.group.axes == () for m in residuals) else total)


def _linear(estimates: Estimates, workload: Workload) -> tuple[Floats, Floats]:
    given = [estimates.gives(g.axes) for g in workload.groups]
    if all(given):  # of very many answers there is no copy
        values, variances = estimates.answer(workload)
        return values, half_widths(variances)
    values, widths = (np.full(len(workload), np.nan) for _ in range(2))
    kept = tuple(g for g, there in zip(workload.groups, given, strict=True) if there)
    if kept:
        where = np.repeat(given, [g.queries.count for g in workload.groups])
        values[where], variances = estimates.answer(Workload(workload.domain, kept))
        widths[where] = half_widths(variances)
    return values, widths
