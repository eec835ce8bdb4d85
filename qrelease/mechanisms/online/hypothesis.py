"""The hypothesis of a session: one distribution over the universe, fitted to what was bought, by recorded steps."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, final

import numpy as np

from qrelease._util.typing import Axes, Floats, Ints
from qrelease.data.domain import Domain
from qrelease.inference.histogram import Histogram
from qrelease.inference.measurement import Measurement
from qrelease.inference.multiplicative_weights import MultiplicativeWeights
from qrelease.queries.canonical import CanonicalQuery
from qrelease.queries.workload import Group, Workload

Step = tuple[int, list[int]]
"""The number of a purchase whose answers are learned from, and for each of its queries the exponent in `STEP`s."""

STEP: Final = 2.0**-20
"""The unit of exponents. Journals hold multiples of it, so it cannot change."""

MAX_HYPOTHESIS_CELLS: Final = 1 << 22
"""Cells of a universe that a hypothesis is kept over."""


@final
@dataclass(frozen=True)
class LearningSettings:
    """How a hypothesis learns, and what it keeps ready."""

    caution: float = 2.0
    """The noise's standard deviation counts so many times in the denominator of a step: it keeps steps small where the
    gap may be noise."""

    replayed_answers: int = 3
    """Old answers that are learned from again with each new one."""

    max_replayed_queries: int = 64
    """Queries in a family up to which it is replayed: each time its steps are written into the journal again."""

    fit_sweeps: int = 64
    """Passes of a fit to the synopses over the universe."""

    max_fit_cells: int = 1 << 26
    """Cells that all passes of one fit may visit, about a second's work: larger universes get fewer passes."""

    max_marginals: int = 512
    """Marginals that answers are learned on: a hypothesis that is computed anew takes a pass for some of them."""

    max_marginal_cells: int = 8
    """The cells of all those marginals together, in multiples of the universe's cells."""

    max_pending_steps: int = 64
    """Steps that are taken one by one; with more it is quicker to compute the hypothesis anew."""

    max_log: float = 600.0
    """The largest logarithm by which a cell is scaled at once: e^600 is still a number."""

    cached_workloads: int = 256
    """Queries or families that are kept ready for the next step."""

    cached_entries: int = 1 << 12
    """Entries up to which a query or family is kept ready."""


LEARNING: Final = LearningSettings()
"""The settings of all hypotheses. The steps in a journal were worked out by them, but whoever reads it needs only
`max_replayed_queries`, `max_marginals`, `max_marginal_cells` and the settings of the fit."""


@final
class Hypothesis:
    """Multiplicative weights with replay, weighted by precision, from the steps that a journal holds.

    A new answer v to a query q, with noise of standard deviation σ, scales y by e^(sq) for

        s = (v - q(y)) / (q(y) (1 - q(y)/n) + caution · σ),  at most 1 in size,

    which far above the noise sets q(y) to v, to first order; and so do a few old answers, in turn (after Hardt, Ligett
    & McSherry 2012). A synopsis starts the hypothesis afresh, fitted to its marginals; older answers come in again when
    their turn does.

    Whoever draws an answer works out its steps (`lesson`) and writes them into the journal with it: so the hypothesis
    is a function of the journal, the same for whoever reads it, and nobody has to take the steps one after another to
    know it. Steps are whole numbers and their sums are exact, in any order. To begin afresh, in a new process, takes a
    pass over the universe, and a fit to the synopses, one sweep of it at a time: see `learn`.

    Parameters
    ----------
    domain
        The universe.
    total
        The sum of the hypothesis, a count; it starts uniform.
    deviation
        σ, the standard deviation of the noise on every answer that is measured by itself, a count.
    """

    def __init__(self, domain: Domain, total: float, deviation: float) -> None:
        self._domain, self._total, self._margin = domain, total, LEARNING.caution * deviation
        self._answers: dict[int, tuple[CanonicalQuery | Group, Floats]] = {}
        self._replayed: list[int] = []  # the numbers of answers that are replayed in turn
        self._turn = 0
        self._axes: dict[Axes, None] = {}  # the marginals that answers are learned on
        self._cells = 0  # of those marginals
        self._sums: dict[int, Ints] = {}  # steps that are not in the tables yet
        self._tables: dict[tuple[Axes, float], Ints] = {}  # sums of steps by marginal, and by unit of the queries
        self._marginals: list[Measurement] = []  # of all synopses
        self._base = Histogram(domain, [(0,)], total)  # fitted to these
        self._fit: Iterator[None] = iter(())
        self._current: Histogram | None = None  # the hypothesis, but for the pending steps, and up to rounding
        self._pending: list[tuple[Group, Ints]] = []
        self._cached_workload = lru_cache(LEARNING.cached_workloads)(self._make_workload)

    # What the journal says

    def add_answers(self, number: int, queries: CanonicalQuery | Group, values: Floats) -> None:
        """Remember the noisy answers, (k,) counts, to a query or a family: those of the `number`-th purchase.

        They are not learned from where there is no room for another marginal.
        """
        if queries.axes not in self._axes:
            cells = self._domain.cells(queries.axes)
            most = LEARNING.max_marginal_cells * self._domain.size
            if len(self._axes) >= LEARNING.max_marginals or self._cells + cells > most:
                return
            self._axes[queries.axes] = None
            self._cells += cells
        self._answers[number] = queries, values
        if len(values) <= LEARNING.max_replayed_queries:
            self._replayed.append(number)
        self._turn = (self._turn + LEARNING.replayed_answers) % max(len(self._replayed), 1)

    def add_steps(self, steps: Iterable[Step]) -> None:
        """Take steps, which count from the next `settle` on."""
        for number, exponents in steps:
            if number in self._answers:
                old = self._sums.get(number)
                self._sums[number] = np.array(exponents, np.int64) if old is None else old + exponents

    def add_marginals(self, marginals: Sequence[Measurement]) -> None:
        """Start afresh, from a fit to these noisy marginals and to all that were added before."""
        self._marginals += marginals
        self._base = Histogram(self._domain, list(dict.fromkeys(m.group.axes for m in self._marginals)), self._total)
        sweeps = max(min(LEARNING.fit_sweeps, LEARNING.max_fit_cells // self._domain.size), 1)
        self._fit = MultiplicativeWeights(sweeps).fitting(self._base, self._marginals)
        self._sums, self._tables = {}, {}
        self._forget()

    def settle(self) -> None:
        """Let the steps so far count: to be called at the end of what was read of the journal."""
        for number, exponents in self._sums.items():
            queries = self._answers[number][0]
            if isinstance(queries, CanonicalQuery):
                unit, table = queries.unit, queries.entries(self._domain) * exponents[0]
            else:
                family = queries.queries
                unit, table = family.unit, np.rint(family.adjoint(exponents.astype(np.float64))).astype(np.int64)
            old = self._tables.get((queries.axes, unit))
            self._tables[queries.axes, unit] = table if old is None else old + table
        if self._current is not None:
            if len(self._pending) + len(self._sums) > LEARNING.max_pending_steps:
                self._forget()
            else:
                self._pending += [(self._learned(n).groups[0], exponents) for n, exponents in self._sums.items()]
        self._sums = {}

    # What it knows

    @property
    def histogram(self) -> Histogram:
        """The hypothesis that has learned everything: public, and bit for bit the same for the same journal."""
        while self._swept():
            pass
        return self._product()

    def learn(self) -> bool:
        """Do a part of what was put off, a sweep of the fit or the pending steps; whether there was any."""
        if self._swept():
            return True
        behind = self._current is None or bool(self._pending)
        self._up_to_date()
        return behind

    def guess(self, query: Group) -> float:
        """What the hypothesis answers to a group of one query, a count; before a fit has ended, what it says so far."""
        self._swept()
        return float(self._up_to_date().answer(Workload(self._domain, (query,)))[0])

    def lesson(self, number: int, queries: CanonicalQuery | Group, values: Floats) -> tuple[Floats, list[Step]]:
        """What to learn from new answers, which `add_answers` does not know yet.

        Returns
        -------
        answers : (k,) counts
            What the hypothesis answers to the queries.
        steps : list of Step
            What the new answers ask for, and the old answers whose turn it is.
        """
        self._swept()
        current, workload = self._up_to_date(), self._workload(queries)
        answers = current.answer(workload)
        steps = [(number, self._steps(workload, values, answers))]
        for turn in range(self._turn, self._turn + min(LEARNING.replayed_answers, len(self._replayed))):
            old = self._replayed[turn % len(self._replayed)]
            workload = self._learned(old)
            steps.append((old, self._steps(workload, self._answers[old][1], current.answer(workload))))
        return answers, steps

    def _steps(self, workload: Workload, values: Floats, answers: Floats) -> list[int]:
        """The exponents, in `STEP`s, that noisy values ask for where the hypothesis gives these answers."""
        overlap = 1.0
        if len(workload) > 1:
            (family,) = (g.queries for g in workload.groups)
            overlap = max(family.sensitivity(1, replace=False) * family.unit, 1)
        spread = np.maximum(answers * (1 - answers / self._total), 0.0)
        steps = np.minimum(np.maximum((values - answers) / (spread + self._margin), -1), 1)
        found: list[int] = np.rint(steps / (overlap * STEP)).astype(np.int64).tolist()
        return found

    def _swept(self) -> bool:
        """Do one more sweep of the fit; whether there was one to be done."""
        if next(self._fit, self) is self:
            return False
        self._forget()
        return True

    def _forget(self) -> None:
        self._current, self._pending = None, []

    def _up_to_date(self) -> Histogram:
        if self._current is None:
            self._current = self._product()
        for group, exponents in self._pending:
            self._current.update(group, exponents * STEP)
        self._pending = []
        return self._current

    def _product(self) -> Histogram:
        """The fit to the synopses and all steps since, in one pass."""
        sets = dict.fromkeys([*self._base.sets, *(axes for axes, _ in self._tables)])
        found = Histogram(self._domain, list(sets), self._total)
        logs = np.zeros_like(found.logs)
        base = self._base.logs
        for axes in self._base.sets:
            logs[found.slice(axes)] += base[self._base.slice(axes)]
        for (axes, unit), table in self._tables.items():
            part = table * (unit * STEP)
            logs[found.slice(axes)] += part - part.mean()
        # A cell's logarithms on all marginals add up, after many steps beyond what a number holds.
        times = math.ceil(sum(float(np.abs(logs[found.slice(axes)]).max()) for axes in sets) / LEARNING.max_log)
        for _ in range(times):
            found.multiply(logs / times)
        return found

    def _learned(self, number: int) -> Workload:
        """The queries of a purchase that is learned from."""
        return self._workload(self._answers[number][0])

    def _workload(self, queries: CanonicalQuery | Group) -> Workload:
        count = 1 if isinstance(queries, CanonicalQuery) else queries.queries.count
        is_small = count * self._domain.cells(queries.axes) <= LEARNING.cached_entries
        return self._cached_workload(queries) if is_small else self._make_workload(queries)

    def _make_workload(self, queries: CanonicalQuery | Group) -> Workload:
        group = queries.group(self._domain) if isinstance(queries, CanonicalQuery) else queries
        return Workload(self._domain, (group,))
