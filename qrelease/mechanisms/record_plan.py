"""The public plan of `weighted_records`: which marginals are measured, at what scales, and the cost of each round.

All of it follows from public facts: the domain, the workload, the cost, and noisy numbers of records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import inf, prod, sqrt
from typing import Final

import numpy as np

from qrelease._util.typing import Axes, Floats, Ints
from qrelease.data.domain import Domain
from qrelease.inference.interaction_prior import expected_variance, planned_variance
from qrelease.inference.maxent import DENSE
from qrelease.inference.measurement import Measurement
from qrelease.inference.residuals import ResidualPlan, fitting
from qrelease.noise.calibration import calibrated
from qrelease.privacy.costs import ZCDP, Cost, Neighbours, split
from qrelease.queries.products import IntegerRows, Product
from qrelease.queries.workload import Group, Workload

MAX_CANDIDATE_CELLS: Final = 1 << 23
"""Cells of all marginals together among which is selected: the smallest ones."""

MAX_KNOWN_CELLS: Final = 1 << 20
"""Cells of all marginals together that were measured before and are fitted with those that are selected."""

COUNT_SHARE: Final = 0.01
"""The share of the budget that counts the records, where their number is private."""

SINGLES_SHARE: Final = 0.35
"""The share that measures each column by itself, where not all pairs are measured."""

COLUMNS_SHARE: Final = 0.05
"""The share of what measures all pairs that measures each column beforehand: the scales of pairs follow from it."""

PAIRED_SIGNS_SHARE: Final = 0.05
"""The share of what measures all pairs that measures beforehand how often the signs of two columns agree, where it
does: of the largest errors of a marginal most are in heavy cells, which that one number tells best."""

_LEAST_WEIGHT: Final = 0.5
"""The least weight of a pair, over the mean."""

SIGNS_SHARE: Final = 0.2
"""The share of what is left that then measures how often the signs of two columns agree, for all pairs."""

SELECTION_SHARE: Final = 0.1
"""The share of each round that selects."""


@dataclass(frozen=True)
class RoundSettings:
    """How the budget is divided into rounds; most were found in trials on the tables of `benchmarks.large`.

    Several of them are compared with the signal n√ρ: the number of records over the noise that a cost of ρ buys.
    """

    max_rounds: int = 400
    """The most rounds there are."""
    round_parts: int = 4
    """The parts that a round's budget is cut into, so that a later round can take half as much again."""
    heavy_share: float = 0.3
    """The share of the records from which on a cell has a sign of its own."""
    pairs_signal: float = 3_000.0
    """The signal from which on all pairs are measured: below it, only selected ones stand out of their noise. It is
    larger where pairs are: see `least_signal`."""
    min_pairs_share: float = 0.65
    """The smallest share of the budget that measures pairs, where they are measured."""
    max_pairs_share: float = 0.85
    """The largest share that measures pairs."""
    pairs_share_signal: float = 10_000.0
    """Between these two, the share that measures pairs is this number over the signal."""
    pairs_share_coordinates: float = 1_600.0
    """The coordinates of the residuals of all pairs from which on that number grows, as their root does: noise moves
    all pairs together by as many units of noise as that root."""
    worst_cell_signal: float = 1_000.0
    """The signal of a selection from which on the worst cell stands out of its noise."""
    marginals_per_fit: int = 3
    """The marginals that are then selected from one fit, all but the first by their worst cell."""
    tolerated_deviation: float = 0.8
    """How far off a cell must be to count, over the distance that noise is expected to make: a fit keeps off some of
    it."""
    unexpected_deviation: float = 1.2
    """How far off a measurement must show the records to be, over the distance that noise is expected to make: where it
    shows less, later measurements get half as much again."""


ROUNDS: Final = RoundSettings()


def sets_at_once(workload: Workload, order: int) -> list[Axes]:
    """All sets of columns whose residuals give what is asked about, and each column; none, if that is too much.

    Too much are a marginal of more columns than the order, and more than `DENSE` coordinates of residuals together.
    """
    shape = workload.domain.shape
    long = {tuple(a for a in s if shape[a] > 1) for s in workload.sets} | {(a,) for a, n in enumerate(shape) if n > 1}
    # Each has a coordinate of its own, and all of one together are its cells but one: else no subsets are listed.
    if len(long) > DENSE + 1 or any(len(s) > order or workload.domain.cells(s) > DENSE + 1 for s in long):
        return []
    parts = sorted({part for s in long for k in range(1, len(s) + 1) for part in combinations(s, k)})
    return parts if coordinates(shape, parts) <= DENSE else []


def known_counts(
    domain: Domain, known: Sequence[Measurement], order: int, at_once: Sequence[Axes]
) -> tuple[Measurement, ...]:
    """Those of the counts measured before that records are fitted to as well.

    Beside marginals that are all measured at once they are as few as these are; else on no more columns than the order.
    """
    if at_once:
        return fitting(domain, [(), *at_once], known, lambda sets: coordinates(domain.shape, sets) <= DENSE)
    columns = [(), *((a,) for a, n in enumerate(domain.shape) if n > 1)]

    def fits(sets: Sequence[Axes]) -> bool:
        return max(map(len, sets)) <= order and sum(map(domain.cells, sets)) <= MAX_KNOWN_CELLS

    return fitting(domain, columns, known, fits)


def times_asked(workload: Workload, sets: Sequence[Axes]) -> Ints:
    """How many of the marginals asked about contain each set of columns."""
    sizes = {len(s) for s in sets}
    within = Counter(part for axes in workload.sets for k in sizes for part in combinations(axes, k))
    return np.array([within[s] for s in sets], np.int64)


def coordinates(shape: Sequence[int], sets: Sequence[Axes]) -> int:
    """The number of coordinates that the residuals of some sets of columns have together."""
    return sum(prod(shape[a] - 1 for a in s) for s in sets)


def residuals_at_once(
    domain: Domain, sets: Sequence[Axes], cost: Cost, neighbours: Neighbours, records: float
) -> Workload:
    """The residuals of some sets and of all their subsets, at the scales best for a fit to so many records."""
    contained = {part for s in sets for part in combinations(s, len(s) - 1)}
    largest = [s for s in sets if s not in contained]
    return _planned(domain, largest, cost, neighbours, lambda axes: planned_variance(domain, axes, records))


def _planned(
    domain: Domain,
    sets: Sequence[Axes],
    cost: Cost,
    neighbours: Neighbours,
    expected: Callable[[Axes], float],
    weights: Sequence[float] | None = None,
) -> Workload:
    """The residuals of some sets, by how much they are expected to vary, counts squared, and the weights of sets."""
    deviation = calibrated(1, cost)[0].scale
    return ResidualPlan.choose(
        domain,
        sets,
        weights=weights,
        expected=lambda axes: expected(axes) / deviation**2,
        neighbours=neighbours,
        deviation=deviation,
    ).workload


def subsets_asked(workload: Workload, order: int) -> set[Axes]:
    """All subsets of two columns or more of the marginals asked about, up to the order."""
    shape = workload.domain.shape
    long = [tuple(a for a in s if shape[a] > 1) for s in workload.sets]
    return {part for s in long for k in range(2, order + 1) for part in combinations(s, k)}


def candidates(workload: Workload, order: int) -> list[Axes]:
    """The sets that are selected among: the smallest ones, up to `MAX_CANDIDATE_CELLS` cells together."""
    domain = workload.domain
    kept, cells = [], 0
    for s in sorted(subsets_asked(workload, order), key=lambda s: (domain.cells(s), s)):
        cells += domain.cells(s)
        if cells > MAX_CANDIDATE_CELLS:
            break
        kept.append(s)
    return kept


def columns(domain: Domain, cost: Cost, neighbours: Neighbours) -> Workload:
    """The residuals of each column by itself."""
    return _planned(domain, [(a,) for a in range(len(domain))], cost, neighbours, lambda _: inf)


def pairs_and_columns(
    domain: Domain,
    pairs: Sequence[Axes],
    distributions: Sequence[Floats],
    known: Mapping[Axes, float],
    cost: Cost,
    neighbours: Neighbours,
    records: float,
) -> Workload:
    """The residuals of some pairs, and of columns once more, at the scales best for a fit to about so many records.

    distributions  of each column (n,), from which follows where in a pair records are expected
    known          the variances with which residuals are known already, counts squared

    What pairs are expected to show decides what noise is worth paying for: of large pairs most is drowned anyway. A
    fit leaves a cell that is expected to have fewer records than noise about where its columns put it, so that noise
    of σ puts the K others off, each by about σ: the pair by Kσ in L1. The sum of that over pairs is least for a
    privacy where σ² goes with K^(-2/3). Plans of the least squared error give a pair of C cells and the weight w a σ²
    that goes with (wC)^(-1/2), so w = K^(4/3)/C. K is counted as if each pair had as much of the privacy. Columns have
    the mean weight, and no pair less than half of it: where few cells hold all records, these would be far off.
    """
    unit = calibrated(1, cost)[0].scale ** 2
    noise = sqrt(len(pairs) * unit)
    weights = []
    for a, b in pairs:
        expected = records * np.outer(distributions[a], distributions[b])
        standing_out = float(np.minimum(expected / noise, 1.0).sum())
        weights.append(standing_out ** (4 / 3) / expected.size)
    mean = sum(weights) / len(weights)

    def varies(axes: Axes) -> float:
        return known[axes] if axes in known else expected_variance(domain, axes, records)

    return _planned(
        domain,
        [*((a,) for a in range(len(domain))), *pairs],
        cost,
        neighbours,
        varies,
        [*[mean] * len(domain), *(max(w, _LEAST_WEIGHT * mean) for w in weights)],
    )


def agreements(domain: Domain, pairs: Sequence[Axes], distributions: Sequence[Floats]) -> Workload:
    """How many records more there are of which two columns have the same sign than of which not, for each pair."""
    signs = [_signs(p) for p in distributions]
    return Workload(domain, tuple(Group((a, b), Product((signs[a], signs[b]))) for a, b in pairs))


def _signs(distribution: Floats) -> IntegerRows:
    """+1 and -1 for the cells of a column; both are there, unless it has one cell."""
    if distribution.max() > ROUNDS.heavy_share:
        positive = np.arange(len(distribution)) == distribution.argmax()
    else:
        positive = np.arange(len(distribution)) <= np.abs(np.cumsum(distribution) - 0.5).argmin()
    return IntegerRows(np.where(positive, 1, -1)[None, :], 1.0)


def number_of_records(domain: Domain) -> Workload:
    """The query for the number of records alone."""
    return ResidualPlan.choose(domain, [()]).workload


def refinement(domain: Domain, axes: Axes, known: Mapping[Axes, float], cost: ZCDP, neighbours: Neighbours) -> Workload:
    """The residuals of all subsets of a set of columns, at the scales best for its cells.

    known  the variances with which some of them are known already

    `ResidualPlan` takes these in units of the noise of one unit's sensitivity, 1/2ρ.
    """
    expected = {s: 2 * cost.rho * variance for s, variance in known.items()}
    return ResidualPlan.choose(
        domain,
        [axes],
        expected=lambda s: expected.get(s, inf),
        neighbours=neighbours,
        deviation=sqrt(1 / (2 * cost.rho)),
    ).workload


def least_signal(number: int, pairs: int) -> float:
    """The signal n√ρ from which on so many pairs, whose residuals have so many coordinates, are all measured.

    If all of ρ measures P pairs of C coordinates on average, a cell has noise of σ = √(P / 2ρ), and holds n/C records
    on average: σ, where the signal is C√(P/2). Below that most cells of large pairs are drowned, and a pair that is
    much stronger than the others is seen better where it is selected. In trials of both on flights by aircraft, Adult
    and rwm5yr by patient, at several ε each, selecting was better where a mean cell holds .8 σ, and measuring all pairs
    where it holds 1.2 σ and more.
    """
    return max(ROUNDS.pairs_signal, number / sqrt(2 * max(pairs, 1)))


def share_of_pairs(total: float, cost: ZCDP, number: int, pairs: int) -> float:
    """The share that measures all of so many pairs at once, whose residuals have so many coordinates together.

    It is 0 below `least_signal`, and else was found in trials.

    It follows from the signal n√ρ that the cost buys, over the root of the coordinates: with large columns pairs stay
    worth most of the budget. At (10, 1e-9) the L1 of Adult, with 31 475 coordinates, is .0439 for a share of .85 and
    .0452 for .65; that of br2000, with 3 516, .0176 and .0169.
    """
    signal = total * sqrt(cost.rho)
    if signal < least_signal(number, pairs):
        return 0.0
    wanted = ROUNDS.pairs_share_signal * sqrt(max(number / ROUNDS.pairs_share_coordinates, 1.0)) / signal
    return max(ROUNDS.min_pairs_share, min(ROUNDS.max_pairs_share, wanted))


def signs_beside_pairs(total: float, cost: ZCDP) -> bool:
    """Whether it is measured how often signs agree although all pairs are; found in trials.

    Up to a signal n√ρ of 10 000: beyond that the noise of heavy cells is small beside what no pair tells, and nothing
    was gained on Adult and br2000 at (10, 1e-9).
    """
    return total * sqrt(cost.rho) <= ROUNDS.pairs_share_signal


def rounds_of(total: float, cost: ZCDP, *, paired: bool) -> int:
    """How many measurements a cost is cut into, once all pairs are known or not; found in trials."""
    signal = max(total * sqrt(cost.rho), 0.0)
    rounds = 3.5 * signal**0.2 if paired else 1.5 * signal**0.4
    return int(min(max(round(rounds), 1), ROUNDS.max_rounds))


def worst_cell_stands_out(total: float, rho: float) -> bool:
    """Whether a worst cell stands out of the noise of a selection."""
    return total * sqrt(rho) > ROUNDS.worst_cell_signal


def costs_of_round(cost: ZCDP, units: int, parts: int) -> tuple[ZCDP, ZCDP]:
    """The costs of measuring and of selecting in a round that takes so many `units` of the `parts` of a cost."""
    taken = [units * (1 - SELECTION_SHARE), units * SELECTION_SHARE]
    if units < parts:
        measuring, selecting, _ = split(cost, [*taken, parts - units])
    else:
        measuring, selecting = split(cost, taken)
    return measuring, selecting
