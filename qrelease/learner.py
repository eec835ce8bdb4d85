"""`Learner`: one hypothesis over the universe, fitted to everything that a session bought."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

import numpy as np
import numpy.typing as npt

from qrelease.canonical import Asked
from qrelease.domain import Domain
from qrelease.histogram import Histogram
from qrelease.measure import Measurement
from qrelease.updates import MultiplicativeWeights
from qrelease.workload import Group, Workload

Floats = npt.NDArray[np.float64]

_CAUTION: Final = 2.0
_REPLAYED: Final = 3  # old answers that are looked at again with each new one
_SWEEPS: Final = 64


@final
class Learner:
    """Multiplicative weights with replay, weighted by precision; it learns when there is time, or it is asked.

    A new answer v of a query q, with noise of standard deviation σ, scales y by e^(sq) for

        s = (v - q(y)) / (q(y) (1 - q(y)/n) + caution · σ),  at most 1 in size,

    which far above the noise sets q(y) to v, to first order; and so do a few old answers, in turn (after Hardt, Ligett
    & McSherry 2012). A synopsis starts the hypothesis afresh, fitted to its marginals, and older answers are replayed.
    """

    def __init__(self, domain: Domain, total: float, deviation: float) -> None:
        """Uniform, with the given total; `deviation` is σ of all answers but a synopsis's."""
        self._domain, self._total, self._caution = domain, total, _CAUTION * deviation
        self._state = Histogram(domain, [(0,)], total)
        self._answers: list[tuple[Asked | Group, Floats]] = []
        self._learned = self._turn = 0
        self._tables: list[Measurement] = []
        self._stale = False

    def measured(self, queries: Asked | Group, values: Floats) -> None:
        """Noisy answers (k,) to a query or a family of queries, counts."""
        self._answers.append((queries, values))

    def bought(self, tables: Sequence[Measurement]) -> None:
        """Noisy marginals."""
        self._tables += tables
        self._stale = True

    @property
    def state(self) -> Histogram:
        """The hypothesis that has learned everything: public."""
        while self.learn():
            pass
        return self._state

    def learn(self) -> bool:
        """Learn one thing; whether there was any."""
        if self._stale:
            sets = list(dict.fromkeys(m.group.axes for m in self._tables))
            rule = MultiplicativeWeights(_SWEEPS)
            self._state = rule.update(Histogram(self._domain, sets, self._total), self._tables)
            self._learned = self._turn = 0
            self._stale = False
        elif self._learned < len(self._answers):
            self._step(self._learned)
            self._learned += 1
            for _ in range(min(_REPLAYED, self._learned - 1)):
                self._turn = (self._turn + 1) % self._learned
                self._step(self._turn)
        else:
            return False
        return True

    def guess(self, query: Group) -> float:
        """What the hypothesis answers to a group of one query, a count."""
        return float(self.state.answer(Workload(self._domain, (query,)))[0])

    def _step(self, number: int) -> None:
        queries, values = self._answers[number]
        group = queries.group(self._domain) if isinstance(queries, Asked) else queries
        answers = self._state.answer(Workload(self._domain, (group,)))
        spread = np.maximum(answers * (1 - answers / self._total), 0.0)
        steps = np.clip((values - answers) / (spread + self._caution), -1, 1)
        self._state.update(group, steps / max(group.queries.sensitivity(1, replace=False) * group.queries.unit, 1))
