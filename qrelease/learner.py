"""`Learner`: one hypothesis over the universe, fitted to what a session bought, by steps that its journal has."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, final

import numpy as np
import numpy.typing as npt

from qrelease.canonical import Asked
from qrelease.cover import Axes
from qrelease.domain import Domain
from qrelease.histogram import Histogram
from qrelease.measure import Measurement
from qrelease.updates import MultiplicativeWeights
from qrelease.workload import Group, Workload

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Step = tuple[int, list[int]]
"""By its number, an answer that is learned from; and of each of its queries the exponent, in units of `STEP`."""

STEP: Final = 2.0**-20

_CAUTION: Final = 2.0
_REPLAYED: Final = 3  # old answers that are looked at again with each new one
_SHORT: Final = 64  # queries of a family, up to which it is: each time its steps are written down again
_FURTHEST: Final = 600.0  # of a logarithm by which cells are scaled at once
_SWEEPS: Final = 64
_SWEPT: Final = 1 << 26  # cells, in all sweeps of one fit: a second or so

_FACTORS: Final = 512  # marginals that answers are learned on: to begin afresh takes a pass for some of them
_ROOM: Final = 8  # cells of all of them together, as many times the universe

_LATE: Final = 64  # steps after which it is quicker to begin afresh
_KEPT: Final = 256  # queries, or families, that are ready to be stepped by,
_SMALL: Final = 1 << 12  # with entries up to this number


@final
class Learner:
    """Multiplicative weights with replay, weighted by precision.

    A new answer v of a query q, with noise of standard deviation σ, scales y by e^(sq) for

        s = (v - q(y)) / (q(y) (1 - q(y)/n) + caution · σ),  at most 1 in size,

    which far above the noise sets q(y) to v, to first order; and so do a few old answers, in turn (after Hardt, Ligett
    & McSherry 2012). A synopsis starts the hypothesis afresh, fitted to its marginals; older answers come in again when
    their turn does.

    Whoever draws an answer works out its steps (`lesson`) and writes them into the journal with it: so the hypothesis
    is a function of the journal, the same for whoever reads it, and nobody has to take the steps one after another to
    know it. Steps are whole numbers and their sums are exact, in any order. To begin afresh, in a new process, takes a
    pass over the universe, and a fit to the synopses, one sweep of it at a time: see `learn`.
    """

    def __init__(self, domain: Domain, total: float, deviation: float) -> None:
        """Uniform, with the given total; `deviation` is σ of all answers but a synopsis's."""
        self._domain, self._total, self._caution = domain, total, _CAUTION * deviation
        self._answers: dict[int, tuple[Asked | Group, Floats]] = {}
        self._numbers: list[int] = []
        self._turn = 0
        self._axes: dict[Axes, None] = {}  # the marginals that answers are learned on
        self._cells = 0
        self._sums: dict[int, Ints] = {}  # steps that are not in the tables yet
        self._tables: dict[tuple[Axes, float], Ints] = {}  # sums of steps by marginal, and by unit of the queries
        self._bought: list[Measurement] = []
        self._base = Histogram(domain, [(0,)], total)  # fitted to what was bought
        self._fit: Iterator[None] = iter(())
        self._current: Histogram | None = None  # the hypothesis, but for the steps that are late, and up to rounding
        self._late: list[tuple[Group, Ints]] = []
        self._kept = lru_cache(_KEPT)(self._made)

    # What the journal says

    def measured(self, number: int, queries: Asked | Group, values: Floats) -> None:
        """The noisy answers (k,) to a query or a family of queries, counts: the `number`-th purchase."""
        if queries.axes not in self._axes:
            cells = self._domain.cells(queries.axes)
            if len(self._axes) >= _FACTORS or self._cells + cells > _ROOM * self._domain.size:
                return
            self._axes[queries.axes] = None
            self._cells += cells
        self._answers[number] = queries, values
        if len(values) <= _SHORT:
            self._numbers.append(number)
        self._turn = (self._turn + _REPLAYED) % max(len(self._numbers), 1)

    def moved(self, steps: Iterable[Step]) -> None:
        """Steps that were taken."""
        for number, exponents in steps:
            if number in self._answers:
                old = self._sums.get(number)
                self._sums[number] = np.array(exponents, np.int64) if old is None else old + exponents

    def bought(self, tables: Sequence[Measurement]) -> None:
        """Noisy marginals."""
        self._bought += tables
        self._base = Histogram(self._domain, list(dict.fromkeys(m.group.axes for m in self._bought)), self._total)
        sweeps = max(min(_SWEEPS, _SWEPT // self._domain.size), 1)
        self._fit = MultiplicativeWeights(sweeps).fitting(self._base, self._bought)
        self._sums, self._tables = {}, {}
        self._forget()

    def settle(self) -> None:
        """Take note of all steps so far: at the end of what was read of the journal."""
        for number, exponents in self._sums.items():
            queries = self._answers[number][0]
            if isinstance(queries, Asked):
                unit, table = queries.unit, queries.entries(self._domain) * exponents[0]
            else:
                family = queries.queries
                unit, table = family.unit, np.rint(family.adjoint(exponents.astype(np.float64))).astype(np.int64)
            old = self._tables.get((queries.axes, unit))
            self._tables[queries.axes, unit] = table if old is None else old + table
        if self._current is not None:
            if len(self._late) + len(self._sums) > _LATE:
                self._forget()
            else:
                self._late += [(self._asked(n).groups[0], exponents) for n, exponents in self._sums.items()]
        self._sums = {}

    # What it knows

    @property
    def state(self) -> Histogram:
        """The hypothesis that has learned everything: public, and bit for bit the same for the same journal."""
        while self._swept():
            pass
        return self._product()

    def learn(self) -> bool:
        """Do a part of what was put off: a sweep of a fit, or late steps. Whether there was any."""
        if self._swept():
            return True
        behind = self._current is None or bool(self._late)
        self._now()
        return behind

    def guess(self, query: Group) -> float:
        """What the hypothesis answers to a group of one query, a count. In the midst of a fit, it is not the last."""
        self._swept()
        return float(self._now().answer(Workload(self._domain, (query,)))[0])

    def lesson(self, number: int, queries: Asked | Group, values: Floats) -> tuple[Floats, list[Step]]:
        """What the hypothesis says, (k,) counts, where new answers, which are to be `measured`, say these values; and
        the steps that they ask for, and the old answers whose turn it is.
        """
        self._swept()
        state, asked = self._now(), self._workload(queries)
        found = state.answer(asked)
        steps = [(number, self._steps(asked, values, found))]
        for turn in range(self._turn, self._turn + min(_REPLAYED, len(self._numbers))):
            old = self._numbers[turn % len(self._numbers)]
            asked = self._asked(old)
            steps.append((old, self._steps(asked, self._answers[old][1], state.answer(asked))))
        return found, steps

    def _steps(self, asked: Workload, values: Floats, answers: Floats) -> list[int]:
        overlap = 1.0
        if len(asked) > 1:
            (family,) = (g.queries for g in asked.groups)
            overlap = max(family.sensitivity(1, replace=False) * family.unit, 1)
        spread = np.maximum(answers * (1 - answers / self._total), 0.0)
        steps = np.minimum(np.maximum((values - answers) / (spread + self._caution), -1), 1)
        found: list[int] = np.rint(steps / (overlap * STEP)).astype(np.int64).tolist()
        return found

    def _swept(self) -> bool:
        """Whether there was another sweep of the fit to be done."""
        if next(self._fit, self) is self:
            return False
        self._forget()
        return True

    def _forget(self) -> None:
        self._current, self._late = None, []

    def _now(self) -> Histogram:
        if self._current is None:
            self._current = self._product()
        for group, exponents in self._late:
            self._current.update(group, exponents * STEP)
        self._late = []
        return self._current

    def _product(self) -> Histogram:
        """The base and the steps, in one pass."""
        sets = dict.fromkeys([*self._base.sets, *(axes for axes, _ in self._tables)])
        found = Histogram(self._domain, list(sets), self._total)
        logs = np.zeros_like(found.logs)
        whole = self._base.logs
        for axes in self._base.sets:
            logs[found.slice(axes)] += whole[self._base.slice(axes)]
        for (axes, unit), table in self._tables.items():
            part = table * (unit * STEP)
            logs[found.slice(axes)] += part - part.mean()
        # A cell's logarithms on all marginals add up, after many steps beyond what a number holds.
        times = math.ceil(sum(float(np.abs(logs[found.slice(axes)]).max()) for axes in sets) / _FURTHEST)
        for _ in range(times):
            found.multiply(logs / times)
        return found

    def _asked(self, number: int) -> Workload:
        return self._workload(self._answers[number][0])

    def _workload(self, queries: Asked | Group) -> Workload:
        count = 1 if isinstance(queries, Asked) else queries.queries.count
        small = count * self._domain.cells(queries.axes) <= _SMALL
        return self._kept(queries) if small else self._made(queries)

    def _made(self, queries: Asked | Group) -> Workload:
        return Workload(self._domain, (queries.group(self._domain) if isinstance(queries, Asked) else queries,))
