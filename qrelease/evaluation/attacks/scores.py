"""Scores by which a record is told to be in a published table or not: the higher, the likelier it is in."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, final

import numpy as np

from qrelease._util.typing import Floats, Ints
from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.errors import InvalidInput
from qrelease.inference.synopsis import Synopsis
from qrelease.queries.workload import Group, Workload

_ADDED_RECORDS = 0.5
"""Records that are added to a reference cell, so that what nobody there has is not impossible."""


@final
@dataclass(frozen=True, eq=False)
class Published:
    """What an attack sees: answers (k,), counts, to a workload; and the synopsis, if there is one.

    The answers are unbiased where there are such, and NaN where nothing was answered. `sums` are noisy numbers, (s,),
    that were measured beside them for questions about the values of columns.
    """

    workload: Workload
    answers: Floats = field(repr=False)
    synopsis: Synopsis | None = None
    sums: Floats = field(default_factory=lambda: np.empty(0), repr=False)

    @property
    def numbers(self) -> Floats:
        """All that was published, (k + s,), with 0 where nothing was answered."""
        return np.nan_to_num(np.append(self.answers, self.sums))


@final
@dataclass(frozen=True, eq=False)
class Observation:
    """One run of the game: what was published, about whom, and whether they were in."""

    published: Published
    target: Ints = field(repr=False)
    member: bool = field(repr=False)


RecordScore = Callable[[Observation], float]
"""The higher, the likelier the target is in; it does not look at `member`. `InvalidInput` where it cannot tell."""


class Attack(Protocol):
    """A way to tell whether a target is in the table, from what was published."""

    @property
    def name(self) -> str:
        """The name that a table of results shows."""

    def learn(self, runs: Sequence[Observation]) -> RecordScore:
        """What it makes of runs that it knows the truth of."""


@final
@dataclass(frozen=True, eq=False)
class Tracing:
    """How much more of the target is in the published marginals than in the population's.

    The sum, over marginals, of (p - q)/q at the target's cell: p published, q of the population (Homer et al. 2008;
    Dwork, Smith, Steinke, Ullman & Vadhan 2015). Where all other records are `known`, only noise is in the way, which
    is alike in all cells: then it is the sum of p.
    """

    population: Table = field(repr=False)
    known: bool = False
    name: str = "tracing"

    def learn(self, runs: Sequence[Observation]) -> RecordScore:
        """A score by a formula: nothing is learned from the runs."""
        workload = runs[0].published.workload
        shares = _shares(self.population, workload)

        def score(run: Observation) -> float:
            here = _places(workload, run.target)
            rarity = 1.0 if self.known else 1 / shares[here]
            return float(np.nansum(run.published.answers[here] * rarity))

        return score


@final
@dataclass(frozen=True, eq=False)
class ModelLikelihood:
    """How much likelier the target's record is under the released model than in the population."""

    population: Table = field(repr=False)
    name: str = "likelihood"

    def learn(self, runs: Sequence[Observation]) -> RecordScore:
        """A score by a formula: nothing is learned from the runs."""
        domain = self.population.domain
        whole_record = Workload.marginals(domain, [list(domain.names)])
        shares = _shares(self.population, whole_record)

        def score(run: Observation) -> float:
            if run.published.synopsis is None:
                raise InvalidInput("there is no model")
            here = np.ravel_multi_index(tuple(run.target), domain.shape)
            modelled = run.published.synopsis.answer(whole_record)
            return math.log(max(float(modelled[here]), 1e-9)) - math.log(shares[here])

        return score


@final
@dataclass(frozen=True, eq=False)
class NearestNeighbour:
    """How near the nearest of so many synthetic records comes to the target, in columns that differ; then how many do.

    By default as many records are drawn as the release says that there are.
    """

    rng: np.random.Generator = field(repr=False)
    rows: int | None = None
    name: str = "nearest"

    def learn(self, runs: Sequence[Observation]) -> RecordScore:
        """A score by a distance: nothing is learned from the runs."""

        def score(run: Observation) -> float:
            synopsis = run.published.synopsis
            if synopsis is None or not synopsis.has_table:
                raise InvalidInput("there are no synthetic records")
            rows = max(1, round(synopsis.total)) if self.rows is None else self.rows
            codes = synopsis.sample(rows, self.rng)
            apart = sum((c != t).astype(np.int64) for c, t in zip(codes, run.target, strict=True))
            nearest = int(np.min(apart))
            return float(np.mean(apart == nearest)) - nearest

        return score


@final
@dataclass(frozen=True)
class Shadow:
    """A linear classifier that has seen releases of tables with and without the target (Stadler et al. 2022).

    Fisher's discriminant on all published answers, with the covariance drawn towards its diagonal. It learns about one
    target: in a world where the target changes from run to run it is of no use.
    """

    shrinkage: float = 0.1
    name: str = "shadow models"

    def learn(self, runs: Sequence[Observation]) -> RecordScore:
        """The direction in which the two kinds of runs are farthest apart, by their spread."""
        answers = np.array([r.published.numbers for r in runs])
        member = np.array([r.member for r in runs])
        means = [answers[member == side].mean(axis=0) for side in (True, False)]
        centred = answers - np.where(member[:, None], *means)
        spread = centred.T @ centred / len(runs)
        diagonal = np.diag(np.diag(spread) + 1e-9)
        mixed = (1 - self.shrinkage) * spread + self.shrinkage * diagonal
        direction = np.linalg.solve(mixed, means[0] - means[1])
        return lambda run: float(run.published.numbers @ direction)


def _shares(population: Table, workload: Workload) -> Floats:
    """What fraction of a population is in each cell of a workload's marginals, (k,)."""
    counts = np.concatenate(population.counts([g.axes for g in workload.groups])) + _ADDED_RECORDS
    return np.asarray(counts / len(population))


def _places(workload: Workload, target: Ints) -> Ints:
    """Where a record's cells are among the answers to a workload of marginals, one a marginal."""
    starts = workload.bounds[:-1].tolist()
    return np.array([b + _cell(workload.domain, g, target) for b, g in zip(starts, workload.groups, strict=True)])


def _cell(domain: Domain, group: Group, target: Ints) -> int:
    if not group.axes:
        return 0
    return int(np.ravel_multi_index(tuple(target[list(group.axes)]), tuple(domain.shape[a] for a in group.axes)))
