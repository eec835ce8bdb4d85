"""The matrix mechanism: queries on one marginal answered by least squares from the queries best measured for them.

For ranges, prefixes, conditions and vectors on columns of up to `MOST_CELLS` cells together, and for boxes on columns
of up to so many cells each. The release holds the certificate that no unbiased mechanism of additive Gaussian noise
has a much smaller error. (Li, Miklau, Hay, McGregor & Rastogi 2015; McKenna, Miklau, Hay & Machanavajjhala 2018.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NoReturn, final

import numpy as np
import numpy.typing as npt

from qrelease import memory
from qrelease.contracts import Draft
from qrelease.cover import Axes
from qrelease.domain import Domain
from qrelease.errors import InvalidInput, TooLarge
from qrelease.measure import Measurement, Private, half_widths, noise_for
from qrelease.privacy import ApproxDP, Cost, Neighbours, PureDP
from qrelease.privacy.costs import check_cost
from qrelease.products import Product, Rows
from qrelease.strategies import MOST_CELLS, Strategy, covariance, gram, variances
from qrelease.workload import Group, Workload

Floats = npt.NDArray[np.float64]

_UNIT, _FACTOR_UNIT = 2.0**-16, 2.0**-12
"""The grid of a strategy, and of a factor of one, whose grids multiply. It adds less than 0.1 % to an error."""


@dataclass(frozen=True)
class Plan:
    """What is measured for a workload, and how good that is.

    measured     one group: the strategy's rows, on the marginal that all queries are about
    error        the root mean squared error of all answers at σ = 1, in counts, under add-remove
    bound        the least error of any unbiased mechanism of additive Gaussian noise
    certificate  the weights λ of each factor that prove the bound, see `strategies`
    """

    measured: Workload
    error: float
    bound: float
    certificate: tuple[Floats, ...]


@lru_cache(maxsize=4)
def plan(workload: Workload) -> Plan:
    """The best for a workload. `TooLarge` for too many cells, `InvalidInput` for queries that are all zero."""
    axes, grams = _grams(workload)
    if not all(g.any() for g in grams):
        raise InvalidInput("the queries are all zero: there is nothing to measure")
    strategies = [Strategy.optimal(g, _UNIT if len(grams) == 1 else _FACTOR_UNIT) for g in grams]
    rows = tuple(s.rows for s in strategies)
    group = Group(axes, rows[0] if len(rows) == 1 else Product(rows))
    error, bound = (
        math.sqrt(math.prod(parts) / len(workload))
        for parts in ([s.error for s in strategies], [s.bound for s in strategies])
    )
    return Plan(Workload(workload.domain, (group,)), error, bound, tuple(s.weights for s in strategies))


def _grams(workload: Workload) -> tuple[Axes, list[Floats]]:
    """WᵀW over the marginal that all queries are about, as Kronecker factors."""
    domain = workload.domain
    first = workload.groups[0]
    if len(workload.groups) == 1 and isinstance(first.queries, Product):
        for factor in first.queries.factors:
            _check_cells(factor.cells)
        return first.axes, [gram(f) for f in first.queries.factors]
    axes = tuple(sorted({a for g in workload.groups for a in g.axes}))
    _check_cells(domain.cells(axes))
    shape = [domain.shape[a] for a in axes]
    total = np.zeros((math.prod(shape),) * 2)
    for group in workload.groups:
        # Cell c of the joint marginal lies in cell where[c] of the group's.
        codes = np.indices(shape).reshape(len(shape), -1)
        inside = [axes.index(a) for a in group.axes]
        where = (
            np.ravel_multi_index([*codes[inside]], [shape[i] for i in inside]) if inside else np.zeros(len(total), int)
        )
        total += gram(group.queries)[np.ix_(where, where)]
    return axes, [total]


def _check_cells(cells: int) -> None:
    if cells > MOST_CELLS:
        raise TooLarge(
            f"optimal strategies are for {MOST_CELLS:,} cells at most, or for boxes on columns of so many each, got"
            f" {cells:,}"
        )


@final
@dataclass(frozen=True)
class Matrix:
    """Optimal measurement of one marginal, for the least total squared error of the workload's answers.

    For (ε, δ) the noise is the analytic Gaussian [Balle & Wang 2018], a real normal rounded to the strategy's grid; for
    ρ-zCDP the discrete Gaussian [Canonne, Kamath & Steinke 2020, Thm 14]. Strategies are optimal under add-remove, and
    measured under replace-one with the noise that that needs.
    """

    @property
    def name(self) -> str:
        """`matrix`."""
        return "matrix"

    def check(self, workload: Workload, cost: Cost, neighbours: Neighbours) -> None:
        """`InvalidInput` without a δ, or for a variance beyond the sampler's range; `TooLarge` for too many cells."""
        check_cost(cost)
        if isinstance(cost, PureDP) or (isinstance(cost, ApproxDP) and cost.delta == 0):
            raise InvalidInput(f"Gaussian noise needs a delta above 0, got {cost}; give --delta, or use laplace")
        memory.check(memory.ANSWER * len(workload), f"{len(workload):,} answers", "ask fewer")
        noise_for(plan(workload).measured, cost, neighbours)

    def no_table(self, workload: Workload) -> str:
        """There never is one."""
        return "least squares give answers alone, whose cells may be negative"

    def release(self, private: Private, workload: Workload, cost: Cost) -> Draft:
        """One draw for each row of the strategy."""
        chosen = plan(workload)
        (measurement,) = private.measure(chosen.measured, cost)
        records = float(len(private.table)) if private.neighbours is Neighbours.REPLACE_ONE else None
        synopsis = LeastSquares.of(workload.domain, measurement, records)
        choices = {
            "error": chosen.error,
            "bound": chosen.bound,
            "gap": chosen.error / chosen.bound - 1,
            "certificate": [weights.tolist() for weights in chosen.certificate],
            "no_table": self.no_table(workload),
        }
        return Draft(synopsis, (measurement,), choices)


@final
@dataclass(frozen=True, eq=False)
class LeastSquares:
    """Estimates of every cell of one marginal, from noisy answers to integer rows over it: linear and unbiased.

    Cells may be negative, so there is no table. Any query on columns of the marginal has an answer and an error bar.

    measurement  of `Rows`, or of a `Product` of them
    total        the number of records: public, or the sum of the estimates
    """

    domain: Domain
    measurement: Measurement
    total: float
    has_table = False

    @classmethod
    def of(cls, domain: Domain, measurement: Measurement, records: float | None) -> LeastSquares:
        """`records`: n, where it is public."""
        found = cls(domain, measurement, 0.0)
        return cls(domain, measurement, float(found._table.sum()) if records is None else records)

    @property
    def _rows(self) -> Sequence[Rows]:
        queries = self.measurement.group.queries
        factors = queries.factors if isinstance(queries, Product) else (queries,)
        rows = [f for f in factors if isinstance(f, Rows)]
        if len(rows) < len(factors):
            raise InvalidInput("least squares are for measurements of integer rows")
        return rows

    @cached_property
    def _covariances(self) -> list[Floats]:
        return [covariance(rows) for rows in self._rows]

    @cached_property
    def _table(self) -> Floats:
        """The estimates, one axis a column of the marginal."""
        cube = self.measurement.values.reshape([r.count for r in self._rows])
        for axis, (rows, inverse) in enumerate(zip(self._rows, self._covariances, strict=True)):
            solution = inverse @ (rows.rows.T * rows.unit)
            cube = np.moveaxis(np.tensordot(solution, cube, (1, axis)), 0, axis)
        return cube.reshape([self.domain.shape[a] for a in self.measurement.group.axes])

    def answer(self, workload: Workload) -> Floats:
        """(k,) counts. `InvalidInput` for another domain, and for columns that the marginal does not have."""
        if workload.domain != self.domain:
            raise InvalidInput("the workload is over another domain than this release")
        return np.concatenate([self._group(g) for g in workload.groups])

    def _group(self, asked: Group) -> Floats:
        axes = self.measurement.group.axes
        if not set(asked.axes) <= set(axes):
            names = ", ".join(self.domain.names[a] for a in asked.axes)
            raise InvalidInput(f"no released marginal contains the columns {names}; this release has no table")
        away = tuple(i for i, a in enumerate(axes) if a not in asked.axes)
        return asked.queries.apply(self._table.sum(axis=away).reshape(-1)) * asked.queries.unit

    def error_bars(self, workload: Workload) -> tuple[Floats, Floats]:
        """The answers (k,) and half-widths (k,) of their 95 % error bars; NaN for columns that the marginal lacks."""
        held = set(self.measurement.group.axes)
        values, widths = [], []
        for group in workload.groups:
            inside = set(group.axes) <= held
            missing = np.full(group.queries.count, np.nan)
            values.append(self._group(group) if inside else missing)
            widths.append(half_widths(self._variances(group)) if inside else missing)
        return np.concatenate(values), np.concatenate(widths)

    def _variances(self, asked: Group) -> Floats:
        axes = self.measurement.group.axes
        blocks = [[i] for i in range(len(axes))] if len(self._covariances) > 1 else [list(range(len(axes)))]
        kept, factor = [], self.measurement.variance
        for block, full in zip(blocks, self._covariances, strict=True):
            shape = [self.domain.shape[axes[i]] for i in block]
            away = [place for place, i in enumerate(block) if axes[i] not in asked.axes]
            cube = full.reshape(shape * 2).sum(axis=(*away, *(len(shape) + place for place in away)))
            if len(away) == len(block):
                factor *= float(cube)
            else:
                kept.append(cube.reshape(math.isqrt(cube.size), -1))
        return factor * variances(asked.queries, kept)

    def sample(self, rows: int, rng: np.random.Generator) -> NoReturn:
        """There are none."""
        raise InvalidInput("this release has answers but no table")

    def to_json(self) -> dict[str, Any]:
        """The total: the rest is in the measurement."""
        return {"type": "least squares", "total": self.total}

    @classmethod
    def from_json(cls, domain: Domain, content: Mapping[str, Any], measurements: Sequence[Measurement]) -> LeastSquares:
        """What `to_json` described, with the measurement that the manifest lists by itself, last."""
        *_, measurement = measurements  # before it there may be the number of records
        made = cls(domain, measurement, float(content["total"]))
        if not all(np.isfinite(inverse).all() for inverse in made._covariances):
            raise InvalidInput("the measured rows do not determine the cells")
        return made
