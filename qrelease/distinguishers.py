"""Private distinguishers: which queries does the hypothesis answer worst? (Dwork & Roth 2014, §5.2)

A distinguisher gets the workload, not a list of scores, so that a clever one need not enumerate it. It sees exact
private answers and may let nothing of them out but what `Private.select` drew.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, Protocol, final

import numpy as np
import numpy.typing as npt

from qrelease.errors import InvalidInput
from qrelease.measure import Private, Rule, noise_for
from qrelease.privacy import ZCDP, Neighbours, PureDP
from qrelease.queries import Vectors
from qrelease.release import Synopsis
from qrelease.workload import Group, Workload

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Choice = Literal["group", "query"]

_PLACES = 8
"""Answers of the hypothesis are rounded to multiples of 2^-8 of a unit, so that scores are integers."""

_LARGEST = 2.0**33
"""A hypothesis is clipped to ± this many records, and the score of a group to 2^60: cutting off at a public
number moves no score by more than before, and int64 holds what is left."""


class Distinguisher(Protocol):
    """Finds queries that tell the private table from the hypothesis."""

    def distinguish(
        self,
        private: Private,
        state: Synopsis,
        workload: Workload,
        cost: PureDP | ZCDP,
        measurement: PureDP | ZCDP,
    ) -> Workload:
        """The queries of `workload` to measure next, one group; `measurement` is what measuring them may cost."""


@final
@dataclass(frozen=True)
class Select:
    """Draws one group of the workload, or one query, by how far the hypothesis is off; see `rule`.

    choice  `group`: a whole marginal (or another family), by the L1 distance of all its answers, over how far one
            record can move it, less what noise alone would make of it (McKenna, Miklau & Sheldon 2022);
            `query`: a single query, by its distance (Hardt, Ligett & McSherry 2012).
    rule    `exponential` (Dwork & Roth 2014, §3.4) or `permute-and-flip` (McKenna & Sheldon 2020): never worse
            under pure ε, but without the exponential mechanism's credit under zCDP.
    """

    choice: Choice = "group"
    rule: Rule = "exponential"

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


def _gaps(private: Private, state: Synopsis, workload: Workload) -> list[Ints]:
    """|q(x) - q(y)| for each group, exact integers in 2^-8 of the group's unit; y is public, rounded to that grid."""
    hypothesis = np.split(state.answer(workload), workload.bounds[1:-1])
    gaps = []
    for group, exact, y in zip(workload.groups, private.exact(workload), hypothesis, strict=True):
        kept = np.clip(np.nan_to_num(y), -_LARGEST, _LARGEST)
        rounded = np.rint(kept * (2.0**_PLACES / group.queries.unit)).astype(np.int64)
        gaps.append(np.abs((exact << _PLACES) - rounded))
    return gaps


def _query_scores(gaps: list[Ints], units: list[float]) -> tuple[Ints, int]:
    """Scores on one grid; entries lie in [0, 1], so one record moves each by at most 1, replaced or not."""
    finest = min(units)
    scores = np.concatenate([g * int(u / finest) for g, u in zip(gaps, units, strict=True)])
    return scores, int(1 / finest) << _PLACES


def _group_scores(
    gaps: list[Ints], workload: Workload, neighbours: Neighbours, measurement: PureDP | ZCDP
) -> tuple[Ints, int]:
    """L1 distances over L1 sensitivities, less the expected noise, rounded down; one record moves each by 1.

    Rounding down a private number can widen a change by one step of the grid, which the sensitivity counts in.
    """
    grid, most = 1 << 2 * _PLACES, int(_LARGEST) ** 2 >> 6
    scores = np.empty(len(gaps), np.int64)
    for i, (group, gap) in enumerate(zip(workload.groups, gaps, strict=True)):
        queries = group.queries
        moved = max(queries.sensitivity(1, replace=neighbours is Neighbours.REPLACE_ONE), 1)
        # In two halves, because the sum over many queries in fine units may pass int64.
        total = (int((gap >> 32).sum()) << 32) + int((gap & 0xFFFFFFFF).sum())
        distance = Fraction(total, moved << _PLACES)
        noise, _ = noise_for(Workload(workload.domain, (group,)), measurement, neighbours)
        expected = noise.magnitude * queries.count / (moved * queries.unit)
        score = math.floor(distance * grid) - round(expected * grid)
        scores[i] = min(max(score, -most), most)
    return scores, grid + 1


def _single(workload: Workload, index: int) -> Workload:
    """The one query of that number, as a workload."""
    i = int(np.searchsorted(workload.bounds, index, side="right")) - 1
    group = workload.groups[i]
    if group.queries.count == 1:
        return Workload(workload.domain, (group,))
    row = np.zeros(group.queries.count)
    row[index - workload.bounds[i]] = 1
    vector = Vectors(np.rint(group.queries.adjoint(row)).astype(np.int64)[None, :], group.queries.unit)
    return Workload(workload.domain, (Group(group.axes, vector),))
