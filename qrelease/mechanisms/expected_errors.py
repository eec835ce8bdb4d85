"""Expected errors of mechanisms in closed form: the noise, less what a fit removes, and the scatter of sampled records.

**A fit.** The residual of a set S of columns is measured with variance sₛ, and among n records of a log-linear model it
is expected to vary by itself, eₛ (`expected_variance`): so the best estimate is off by 1/(1/sₛ + 1/eₛ). Tables are
uneven, and most records are in few of the cells: m cells of a column count as 1 + (m - 1)^`UNEVEN`, which hold what
there is. Weighted records, R of them, scatter besides: n²/(2R·cells), half as much as if they were drawn alone, for
each of those cells; but only in what is not measured, which the last records are fitted to: of each marginal the
residual of all its columns, Π (1 - 1/m) of it. Those that are fitted to all marginals measured at once have none.

The other cells are taken to hold `THIN` of what they would in an even table. Where that is less than the noise, a fit
finds them nearly empty, and they add nothing; where it is x > 1 times its standard deviation, they are seen, and 1 -
1/x² of them have the error of the rest. The root mean square, which people read, counts these; the L1 distance, by
which mechanisms and plans are compared, does not: `benchmarks.auto` has the regret of the choice by it.

Of many columns the mean L1 distances that this law gives are .5 to 1.5 times those of releases; of few columns of many
cells at a large ε, where there is next to no noise, they are a third: `benchmarks.auto` prints both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import exp, inf, pi, prod, sqrt
from typing import Final, final

import numpy as np

from qrelease._util.typing import Axes
from qrelease.inference.interaction_prior import expected_variance, planned_variance, typical_variance
from qrelease.inference.measurement import noise_for
from qrelease.inference.residuals import ResidualPlan, cell_variance, query_variances, subsets
from qrelease.noise.calibration import calibrated
from qrelease.privacy.costs import Cost, Neighbours
from qrelease.queries.families import Cells
from qrelease.queries.workload import Group, Workload

UNEVEN: Final = 0.65
"""The exponent of a column's cells beyond the first that gives as many as hold most records."""

THIN: Final = 0.1
"""What a cell beyond those that hold most records holds, as a part of n over the number of cells. Answers about pairs
of 300, 8 and 4 cells, 3 000 000 records at (1, 1e-9), were off by 2.7 records; without thin cells 1.1 was predicted."""

PAIRS_AT_ONCE: Final = 2.0
"""How much stronger pairs of columns are than most, where all are measured at once: a few are much stronger, and they
stay drowned in large marginals, where selection would have found them. `benchmarks.auto --only br2000` has the case: of
five columns and 10 000 records at (0.1, 1e-9) the error of `maxent` is 1.28 times that of `records` (one seed)."""

_MEAN_DEVIATION: Final = sqrt(2 / pi)  # of the absolute value of a standard normal number
_MAX_MARGINALS: Final = 2000  # marginals that are looked at, evenly spread over all
_MAX_L1: Final = 2.0  # the L1 distance of two distributions


@final
@dataclass(frozen=True)
class Expected:
    """The error of one release.

    error  the root mean squared error of an answer, records
    l1     the mean L1 distance of the normalised marginals asked for; None where something else is asked too
    """

    error: float
    l1: float | None


def marginals_alone(workload: Workload) -> bool:
    """Whether nothing but whole marginals is asked for."""
    return all(isinstance(g.queries, Cells) for g in workload.groups)


def of_noise(workload: Workload, cost: Cost, neighbours: Neighbours, records: int) -> Expected:
    """The errors of independent noise on each answer, where marginals are made distributions."""
    noise = noise_for(workload, cost, neighbours)[0]
    error = sqrt(noise.variance)
    if not marginals_alone(workload):
        return Expected(error, None)
    mean = _MEAN_DEVIATION * error
    if noise.order == 1:
        q = exp(-noise.unit / noise.scale)
        mean = 2 * q / (1 - q**2) * noise.unit if q < 1 else mean
        if noise.scale < noise.unit:  # it is mostly 0, and what is below 0 in an empty cell is mended
            mean /= 2
    distances = [min(mean * g.queries.cells / records, _MAX_L1) for g in _some(workload.groups)]
    return Expected(error, float(np.mean(distances)))


def of_linear(workload: Workload, variances: Mapping[Axes, float], records: int) -> Expected:
    """The errors of unbiased answers from residuals that are known with these variances, counts squared."""
    shape = workload.domain.shape
    groups = _some(workload.groups)
    sums = [float(query_variances(shape, g, variances).sum()) for g in groups]
    error = sqrt(sum(sums) / sum(g.queries.count for g in groups))
    return Expected(error, _l1(workload, lambda group: cell_variance(shape, group.axes, variances), records))


def _l1(workload: Workload, variance: Callable[[Group], float], records: int) -> float | None:
    if not marginals_alone(workload):
        return None
    found = [_MEAN_DEVIATION * g.queries.cells * sqrt(variance(g)) / records for g in _some(workload.groups)]
    return float(np.mean(found))


def of_fit(
    workload: Workload,
    variances: Mapping[Axes, float],
    records: int,
    weighted: int | None = None,
    *,
    pairs: float = 1.0,
) -> Expected:
    """The errors of a log-linear model fitted to residuals of these variances, counts squared; other sets are unknown.

    weighted  how many weighted records it is, if it is no histogram
    pairs     how much stronger interactions of two columns are than most
    """
    scatter = 0.0 if weighted is None else records**2 / (2 * weighted)
    if marginals_alone(workload):
        return _of_marginals(workload, variances, records, scatter, pairs)
    domain = workload.domain
    sets = subsets(domain, workload.sets)
    left = {s: _both(variances.get(s, inf), expected_variance(domain, s, records)) for s in sets}
    sums = [float(query_variances(domain.shape, g, left).sum()) for g in workload.groups]
    return Expected(sqrt(sum(sums) / len(workload) + scatter / 4), None)


def _of_marginals(
    workload: Workload, variances: Mapping[Axes, float], records: int, scatter: float, pairs: float
) -> Expected:
    shape = workload.domain.shape
    heavy = [1 + (m - 1) ** UNEVEN for m in shape]
    squares, cells, distances = 0.0, 0, []
    for group in _some(workload.groups):
        axes = [a for a in group.axes if shape[a] > 1]
        holding = prod(heavy[a] for a in axes)
        variance = scatter / holding * _share(heavy, axes, tuple(axes))
        for order in range(len(axes) + 1):
            for s in combinations(axes, order):
                noise = variances.get(s, inf) * _share(shape, axes, s)
                variance += _both(noise, _share(heavy, axes, s) * _varying(heavy, s, records, pairs))
        squares += _seen(holding, group.queries.cells, variance, records) * variance
        cells += group.queries.cells
        distances.append(min(_MEAN_DEVIATION * holding * sqrt(variance) / records, _MAX_L1))
    return Expected(sqrt(squares / cells), float(np.mean(distances)))


def _seen(holding: float, cells: int, variance: float, records: int) -> float:
    """How many of the cells of a marginal have an error: those that hold most records, and thin ones above it."""
    noises = THIN * records / cells / sqrt(variance) if variance > 0 else inf
    return holding + (cells - holding) * (1 - noises**-2.0) if noises > 1 else holding


def _varying(shape: Sequence[float], axes: Axes, records: int, pairs: float) -> float:
    """The variance to expect of a residual (`interaction_prior.typical_variance`); infinite for n itself."""
    strength = pairs if len(axes) == 2 else 1.0
    return typical_variance(prod(shape[a] for a in axes), len(axes), records, strength) if axes else inf


def _share(shape: Sequence[float], axes: Sequence[int], part: Axes) -> float:
    """v(A, S), as in `residuals`."""
    return prod((shape[a] - 1) / shape[a] if a in part else shape[a] ** -2.0 for a in axes)


def _both(first: float, second: float) -> float:
    """The variance of the best estimate from two."""
    if first == inf or second == inf:
        return min(first, second)
    return first * second / (first + second) if first + second else 0.0


def _some(groups: Sequence[Group]) -> Sequence[Group]:
    return groups[:: -(-len(groups) // _MAX_MARGINALS)]


def selected_variances(
    workload: Workload, order: int, cost: Cost, neighbours: Neighbours, records: int, *, at_once: bool = False
) -> Mapping[Axes, float]:
    """The variances of residuals of up to so many columns, as if all were measured at once at their best scales.

    at_once  whether they are, by the plan of `record_plan.residuals_at_once`

    Selecting some of them, one by one, does about as well: where it is better it is because the others hardly matter.
    """
    domain = workload.domain
    if neighbours is Neighbours.REPLACE_ONE and not any(domain.shape[a] > 1 for s in workload.sets for a in s):
        return {(): 0.0}  # every answer is the number of records, which is public
    kept = {s for axes in workload.sets for s in (combinations(axes, order) if len(axes) > order else [axes])}
    noise = calibrated(1, cost)[0].variance
    found = ResidualPlan.choose(
        domain,
        sorted(kept - {t for s in kept for k in range(len(s)) for t in combinations(s, k)}),
        expected=lambda axes: (planned_variance if at_once else expected_variance)(domain, axes, records) / noise,
        neighbours=neighbours,
    )
    return {s: noise * variance for s, variance in found.variances.items()}
