"""The matrix mechanism: queries on one marginal answered by least squares from the queries best measured for them.

For ranges, prefixes, conditions and vectors on columns of up to `MAX_CELLS` cells together, and for boxes on columns
of up to so many cells each. The release holds the certificate that no unbiased mechanism of additive Gaussian noise
has a much smaller error. (Li, Miklau, Hay, McGregor & Rastogi 2015; McKenna, Miklau, Hay & Machanavajjhala 2018.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, final

import numpy as np

from qrelease._util import memory
from qrelease._util.texts import readable
from qrelease._util.typing import Axes, Floats
from qrelease.errors import InvalidInput, TooLarge
from qrelease.inference.least_squares import LeastSquares
from qrelease.inference.measurement import noise_for
from qrelease.inference.strategies import MAX_CELLS, Strategy, gram
from qrelease.mechanisms.base import MechanismResult
from qrelease.mechanisms.private_data import Private
from qrelease.privacy.costs import Cost, Neighbours, check_cost, check_gaussian
from qrelease.queries.products import Product
from qrelease.queries.workload import Group, Workload

_UNIT, _FACTOR_UNIT = 2.0**-16, 2.0**-12
"""The grid of a strategy, and of a factor of one, whose grids multiply. It adds less than 0.1 % to an error."""


@dataclass(frozen=True)
class MatrixPlan:
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
def best_strategy(workload: Workload) -> MatrixPlan:
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
    return MatrixPlan(Workload(workload.domain, (group,)), error, bound, tuple(s.weights for s in strategies))


def _grams(workload: Workload) -> tuple[Axes, list[Floats]]:
    """WᵀW over the marginal that all queries are about, as Kronecker factors."""
    domain = workload.domain
    first = workload.groups[0]
    if len(workload.groups) == 1 and isinstance(first.queries, Product):
        for factor in first.queries.factors:
            _check_cells(factor.cells)
        return first.axes, [gram(f) for f in first.queries.factors]
    axes = _joint(workload)
    _check_cells(domain.cells(axes))
    shape = [domain.shape[a] for a in axes]
    total = np.zeros((math.prod(shape),) * 2)
    for group in workload.groups:
        # Cell c of the joint marginal lies in cell where[c] of the group's.
        codes = np.indices(shape).reshape(len(shape), len(total))  # of no columns there is one cell
        inside = [axes.index(a) for a in group.axes]
        where = (
            np.ravel_multi_index([*codes[inside]], [shape[i] for i in inside]) if inside else np.zeros(len(total), int)
        )
        total += gram(group.queries)[np.ix_(where, where)]
    return axes, [total]


def _joint(workload: Workload) -> Axes:
    """All columns that are asked about."""
    return tuple(sorted({a for g in workload.groups for a in g.axes}))


def _check_cells(cells: int) -> None:
    if cells > MAX_CELLS:
        raise TooLarge(
            f"it searches for the best queries to measure, over at most {MAX_CELLS:,} combinations of values, or, where"
            f" all queries are boxes, over columns of at most so many values: here there are {readable(cells)}"
        )


@final
@dataclass(frozen=True)
class Matrix:
    """Measures one marginal by the queries that give the workload's answers the least total squared error.

    For (ε, δ) the noise is the analytic Gaussian [Balle & Wang 2018], a real normal rounded to the strategy's grid; for
    ρ-zCDP the discrete Gaussian [Canonne, Kamath & Steinke 2020, Thm 14]. Strategies are optimal under add-remove, and
    measured under replace-one with the noise that that needs.

    References
    ----------
    Li, Miklau, Hay, McGregor & Rastogi 2015, *The matrix mechanism*.

    Examples
    --------
    All its noise is Gaussian, for which there has to be a δ or a ρ:

    >>> import qrelease as qr
    >>> pairs = qr.Workload.marginals(qr.Domain.coded({"sex": 2, "age": 10}), 2)
    >>> qr.Matrix().check(pairs, qr.PureDP(1), qr.Neighbours.ADD_REMOVE)
    Traceback (most recent call last):
    ...
    qrelease.errors.InvalidInput: Gaussian noise needs a delta above 0, got epsilon=1; give --delta, or use laplace
    """

    counts_parts: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """`matrix`."""
        return "matrix"

    def check(self, workload: Workload, cost: Cost, neighbours: Neighbours) -> None:
        """`InvalidInput` without a δ, or for a variance beyond the sampler's range; `TooLarge` for too many cells."""
        check_cost(cost)
        check_gaussian(cost, instead="laplace")
        memory.check(memory.ANSWER_BYTES * len(workload), f"{len(workload):,} answers", "ask fewer")
        noise_for(best_strategy(workload).measured, cost, neighbours)

    def counted(self, workload: Workload) -> list[Axes]:
        """The one marginal that is measured: of all columns that are asked about together."""
        return [_joint(workload)]

    def no_table(self, workload: Workload) -> str:
        """Why there is no synthetic table: this mechanism never makes one."""
        return "least squares give answers alone, whose cells may be negative"

    def release(self, private: Private, workload: Workload, cost: Cost) -> MechanismResult:
        """One draw for each row of the strategy."""
        chosen = best_strategy(workload)
        (measurement,) = private.measure(chosen.measured, cost)
        records = None if private.public_records is None else float(private.public_records)
        synopsis = LeastSquares.of(workload.domain, measurement, records)
        choices = {
            "error": chosen.error,
            "bound": chosen.bound,
            "gap": chosen.error / chosen.bound - 1,
            "certificate": [weights.tolist() for weights in chosen.certificate],
            "no_table": self.no_table(workload),
        }
        return MechanismResult(synopsis, (measurement,), choices)
