"""The state of the median mechanism: the candidates that are left, read by the medians of their answers."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from qrelease._util.typing import Floats, Ints
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput, TooLarge
from qrelease.inference.nets import MAX_ANSWERS, Candidates, answers_of
from qrelease.queries.workload import Group, Workload


@final
class Medians:
    """A hypothesis that answers every query with the median of what the candidates that are left answer.

    Its answers need not be those of any one table, so it has none.

    Parameters
    ----------
    candidates
        The net that it started with.
    total
        The number of records, a count.
    kept : (c,)
        The numbers of the candidates that are left, ascending; by default all.

    References
    ----------
    Roth & Roughgarden 2010, *Interactive privacy via the median mechanism*.
    """

    has_table = False

    def __init__(self, candidates: Candidates, total: float, kept: Ints | None = None) -> None:
        self.total = float(total)
        self.kept = np.arange(len(candidates)) if kept is None else kept
        self._candidates = candidates

    @property
    def domain(self) -> Domain:
        """The universe."""
        return self._candidates.domain

    def answer(self, workload: Workload) -> Floats:
        """Answers to a workload over the same domain, (k,) counts.

        Raises `InvalidInput` for another domain, `TooLarge` where the candidates' answers do not fit in memory.
        """
        if workload.domain != self.domain:
            raise InvalidInput("the workload is over another domain than these candidates")
        if len(self.kept) * len(workload) > MAX_ANSWERS:
            raise TooLarge(
                f"{len(workload):,} answers of {len(self.kept):,} candidates are too many; at most {MAX_ANSWERS:,} fit"
            )
        medians: Floats = np.median(self._fractions(workload), axis=0)
        return medians * self.total

    def halved(self, query: Group, *, above: bool) -> Medians:
        """The candidates that answer one query with more than the median, or with less; all, if there are none such."""
        answers = self._fractions(Workload(self.domain, (query,)))[:, 0]
        median = np.median(answers)
        agree = answers > median if above else answers < median
        return Medians(self._candidates, self.total, self.kept[agree]) if agree.any() else self

    def _fractions(self, workload: Workload) -> Floats:
        """The answers of the candidates that are left, (c, k) fractions of the records."""
        parts, start = [], 0
        for block in answers_of(self._candidates, workload):
            low, high = np.searchsorted(self.kept, [start, start + len(block)])
            parts.append(block[self.kept[low:high] - start])
            start += len(block)
        return np.concatenate(parts)

    def sample(self, rows: int, rng: np.random.Generator) -> list[Ints]:
        """Always `InvalidInput`: medians are no table."""
        raise InvalidInput("medians of candidates have no synthetic table; use multiplicative weights")

    def to_json(self) -> dict[str, Any]:
        """The candidates that are left, and the total."""
        left = [self._candidates.synopsis(int(i), self.total).to_json() for i in self.kept]
        return {"type": "medians", "total": self.total, "candidates": left}
