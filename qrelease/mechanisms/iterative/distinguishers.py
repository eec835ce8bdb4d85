"""Private distinguishers: which queries does the hypothesis answer worst? (Dwork & Roth 2014, §5.2)

A distinguisher gets the workload, not a list of scores, so that a clever one need not enumerate it. It sees exact
private answers and may let nothing of them out but what `Private.select` drew.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal, Protocol, final, runtime_checkable

import numpy as np

from qrelease._util.typing import Ints
from qrelease._util.validate import check_part
from qrelease.errors import InvalidInput
from qrelease.inference.measurement import noise_for
from qrelease.inference.synopsis import Synopsis
from qrelease.mechanisms.private_data import Private
from qrelease.noise.calibration import Rule, selection_epsilon
from qrelease.privacy.costs import ZCDP, Neighbours, PureDP
from qrelease.queries.families import Cells, Vectors
from qrelease.queries.oracles import Oracle
from qrelease.queries.workload import Group, Workload, single

Selectable = Literal["group", "query"]

SCORE_BITS: Final = 8
"""Answers of the hypothesis are rounded to multiples of 2^-8 of a unit, so that scores are integers."""

LARGEST_COUNT: Final = 2.0**33
"""A hypothesis is clipped to ± this many records, and the score of a group to 2^60: cutting off at a public
number moves no score by more than before, and int64 holds what is left."""


@runtime_checkable
class Distinguisher(Protocol):
    """Finds queries that tell the private table from the hypothesis: those that the hypothesis answers worst.

    Whoever writes one lets nothing out but what `Private.select` or `Private.measure` drew: that alone is paid for.

    Examples
    --------
    >>> import qrelease as qr
    >>> isinstance(qr.Select("query"), qr.Distinguisher), qr.Select("query").confined
    (True, True)
    """

    def distinguish(
        self,
        private: Private,
        state: Synopsis,
        workload: Workload,
        cost: PureDP | ZCDP,
        measurement: PureDP | ZCDP,
    ) -> Workload:
        """The queries to measure next.

        Parameters
        ----------
        private
            The door to the table.
        state
            The hypothesis.
        workload
            What is asked of the mechanism.
        cost
            What this choice may cost.
        measurement
            What measuring the queries will cost.

        Returns
        -------
        Workload
            One group of queries over the same domain.
        """

    @property
    def confined(self) -> bool:
        """Whether the queries are always some of the workload."""

    def shortfall(self, workload: Workload, cost: PureDP | ZCDP, neighbours: Neighbours, beta: float) -> float:
        """F(ε): how much less than the worst query the one that is found may be off by.

        Parameters
        ----------
        workload : Workload
            What is asked of the mechanism.
        cost : PureDP or ZCDP
            What one choice may cost.
        neighbours : Neighbours
            Which tables the promise compares.
        beta : float
            The probability with which it may fall further short.

        Returns
        -------
        float
            A count; infinite where nothing is promised.

        Raises
        ------
        InvalidInput, TooLarge
            For a cost, or a workload, with which `distinguish` cannot work.
        """


@final
@dataclass(frozen=True)
class Select:
    """Draws one group of the workload, or one query, the likelier the further off the hypothesis is.

    Parameters
    ----------
    choice
        `group`: a whole marginal (or another family), by the L1 distance of all its answers, over how far one record
        can move it, less what noise alone would make of it (McKenna, Mullins, Sheldon & Miklau 2022); `query`: a
        single query, by its distance (Hardt, Ligett & McSherry 2012).
    rule
        `exponential` (Dwork & Roth 2014, §3.4) or `permute-and-flip` (McKenna & Sheldon 2020): never worse under pure
        ε, but without the exponential mechanism's credit under zCDP.

    Notes
    -----
    The score of a query is |q(x) - q(y)|, with x the records and y the hypothesis. That of a group is
    (Σ_q |q(x) - q(y)| - Σ_q E|Z|) / Δ₁: Z is the noise with which it would be measured, and Δ₁ the L1 sensitivity of
    the group. One record moves either by at most 1; that of a group lies on a grid of 2⁻¹⁶, whose step is added. The
    exponential mechanism takes i with probability ∝ e^(ε score_i / 2), with ε = √(8ρ) at a cost of ρ; permute-and-flip
    has √(2ρ) there. With probability 1 - β the query that is found falls short of the worst one by at most
    2 (ln|Q| + ln(1/β)) / ε; of groups nothing is promised.

    References
    ----------
    Dwork & Roth 2014, §3.4; Hardt, Ligett & McSherry 2012; McKenna & Sheldon 2020, *Permute-and-flip*; McKenna,
    Mullins, Sheldon & Miklau 2022, *AIM*.

    Examples
    --------
    >>> import qrelease as qr
    >>> qr.IterativeConstruction(qr.Perceptron(0.2), Select("query")).distinguisher.choice
    'query'
    """

    choice: Selectable = "group"
    rule: Rule = "exponential"
    confined = True

    def __post_init__(self) -> None:
        if self.choice not in ("group", "query"):
            raise InvalidInput(f"choice must be 'group' or 'query', got {self.choice!r}")
        if self.rule not in ("exponential", "permute-and-flip"):
            raise InvalidInput(f"rule must be 'exponential' or 'permute-and-flip', got {self.rule!r}")

    def distinguish(
        self,
        private: Private,
        state: Synopsis,
        workload: Workload,
        cost: PureDP | ZCDP,
        measurement: PureDP | ZCDP,
    ) -> Workload:
        """One draw: one group, or one query of one."""
        gaps = _gaps(private, state, workload)
        if self.choice == "query":
            units = [g.queries.unit for g in workload.groups]
            scores, sensitivity = _query_scores(gaps, units)
            return _single(workload, private.select(scores, sensitivity, cost, self.rule))
        scores, sensitivity = _group_scores(gaps, workload, private.neighbours, measurement)
        return Workload(workload.domain, (workload.groups[private.select(scores, sensitivity, cost, self.rule)],))

    def shortfall(self, workload: Workload, cost: PureDP | ZCDP, neighbours: Neighbours, beta: float) -> float:
        """F(ε) = 2 (ln|Q| + ln(1/β)) / ε for single queries (Dwork & Roth 2014, Corollary 3.12); none for groups.

        ε is `calibration.selection_epsilon`. Permute-and-flip is never worse (McKenna & Sheldon 2020). Rounding
        the hypothesis adds a step of its grid.
        """
        if self.choice == "group":
            return math.inf
        epsilon = selection_epsilon(cost, self.rule)
        return 2 * (math.log(len(workload)) - math.log(beta)) / float(epsilon) + 2.0**-SCORE_BITS


@final
@dataclass(frozen=True)
class PerturbedLeader:
    """Perturbs the table, and lets an optimiser find the query that is worst answered (Kalai & Vempala 2005).

    Noise is added to every cell of the workload's marginals; an oracle finds the query q on the cells of one of them
    that maximises |q(noisy x) - q(y)|. What the oracle sees was measured, so its choice is post-processing: *the whole
    cost is that of the measurement, whether the oracle is exact or not, and whatever it does*.

    Q, the class of the oracle, is never listed. But the noise of all the cells that a query counts adds up: F(ε) is of
    the order of √(cells · ln|Q|) / ε, against ln|Q| / ε for `Select`. So it pays where Q is too large to be listed (all
    predicates, all rectangles), not where `Select` can be used.

    Parameters
    ----------
    oracle
        What finds the query, for instance `oracles.ConjunctionOracle()`; the workload only says on which columns.

    References
    ----------
    Kalai & Vempala 2005, *Efficient algorithms for online decision problems*.
    """

    oracle: Oracle
    confined = False

    def __post_init__(self) -> None:
        check_part("oracle", self.oracle, Oracle, "ConjunctionOracle()")

    def distinguish(
        self,
        private: Private,
        state: Synopsis,
        workload: Workload,
        cost: PureDP | ZCDP,
        measurement: PureDP | ZCDP,
    ) -> Workload:
        """One query on one of the workload's marginals."""
        cells = all_cells(workload)
        noisy = np.concatenate([m.values for m in private.measure(cells, cost)])
        largest, found = -math.inf, cells.groups[0]
        for group, gaps in zip(cells.groups, np.split(noisy - state.answer(cells), cells.bounds[1:-1]), strict=True):
            marginal = workload.domain.project(group.axes)
            for weights in (gaps, -gaps):
                query = Vectors.rounded([self.oracle.best(marginal, weights)], marginal.size)
                value = float(query.apply(weights)[0]) * query.unit
                if value > largest:
                    largest, found = value, Group(group.axes, query)
        return Workload(workload.domain, (found,))

    def shortfall(self, workload: Workload, cost: PureDP | ZCDP, neighbours: Neighbours, beta: float) -> float:
        """F(ε) = 2 max_q |q(noise)|, for an exact oracle, by a union bound over Q.

        The noise of a query is that of at most all cells of its marginal: beyond `Noise.sum_bound` at ln(2|Q|/β) with
        probability at most β/|Q|, on either side.
        """
        noise, _ = noise_for(all_cells(workload), cost, neighbours)
        marginals = [workload.domain.project(s) for s in workload.sets]
        queries = np.logaddexp.reduce([self.oracle.log_count(m) for m in marginals])
        cells, tail = max(m.size for m in marginals), math.log(2 / beta) + float(queries)
        return 2 * noise.sum_bound(cells, tail)


def _gaps(private: Private, state: Synopsis, workload: Workload) -> list[Ints]:
    """|q(x) - q(y)| for each group, exact integers in 2^-8 of the group's unit; y is public, rounded to that grid."""
    hypothesis = np.split(state.answer(workload), workload.bounds[1:-1])
    gaps = []
    for group, exact, y in zip(workload.groups, private.exact(workload), hypothesis, strict=True):
        kept = np.clip(np.nan_to_num(y), -LARGEST_COUNT, LARGEST_COUNT)
        rounded = np.rint(kept * (2.0**SCORE_BITS / group.queries.unit)).astype(np.int64)
        gaps.append(np.abs((exact << SCORE_BITS) - rounded))
    return gaps


def _query_scores(gaps: list[Ints], units: list[float]) -> tuple[Ints, int]:
    """Scores on one grid; entries lie in [0, 1], so one record moves each by at most 1, replaced or not."""
    finest = min(units)
    scores = np.concatenate([g * int(u / finest) for g, u in zip(gaps, units, strict=True)])
    return scores, int(1 / finest) << SCORE_BITS


def _group_scores(
    gaps: list[Ints], workload: Workload, neighbours: Neighbours, measurement: PureDP | ZCDP
) -> tuple[Ints, int]:
    """L1 distances over L1 sensitivities, less the expected noise, rounded down; one record moves each by 1.

    Rounding down a private number can widen a change by one step of the grid, which the sensitivity counts in.
    """
    grid, most = 1 << 2 * SCORE_BITS, int(LARGEST_COUNT) ** 2 >> 6
    scores = np.empty(len(gaps), np.int64)
    for i, (group, gap) in enumerate(zip(workload.groups, gaps, strict=True)):
        queries = group.queries
        moved = max(queries.sensitivity(1, replace=neighbours is Neighbours.REPLACE_ONE), 1)
        # In two halves, because the sum over many queries in fine units may pass int64.
        total = (int((gap >> 32).sum()) << 32) + int((gap & 0xFFFFFFFF).sum())
        distance = Fraction(total, moved << SCORE_BITS)
        noise, _ = noise_for(Workload(workload.domain, (group,)), measurement, neighbours)
        expected = noise.magnitude * queries.count / (moved * queries.unit)
        score = math.floor(distance * grid) - round(expected * grid)
        scores[i] = min(max(score, -most), most)
    return scores, grid + 1


def _single(workload: Workload, index: int) -> Workload:
    """The one query of that number, as a workload."""
    i = int(np.searchsorted(workload.bounds, index, side="right")) - 1
    return Workload(workload.domain, (single(workload.groups[i], index - int(workload.bounds[i])),))


def all_cells(workload: Workload) -> Workload:
    """All cells of the workload's marginals."""
    domain = workload.domain
    return Workload(domain, tuple(Group(s, Cells(domain.cells(s))) for s in workload.sets))
