"""States of the textbook's update rules: synopses that learn from one query at a time, whatever its columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, final

import numpy as np
import numpy.typing as npt

from qrelease import memory
from qrelease.domain import Domain
from qrelease.errors import InvalidInput, TooLarge
from qrelease.histogram import check_size, copy_fits
from qrelease.nets import MAX_ANSWERS, Candidates, answers_of
from qrelease.queries import Vectors
from qrelease.sampling import systematic
from qrelease.workload import Group, Workload

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Map = Literal["entropic", "euclidean"]

_CELL = 16  # bytes: of the dual vector and of the hypothesis


@final
class Dual:
    """A hypothesis over the whole universe, kept by its dual vector z = Σ_t c_t q_t (mirror descent).

    The hypothesis y, (|X|,) counts, is a function of z: `entropic` is y = total · e^z / Σ e^z, a distribution, as
    multiplicative weights has it; `euclidean` is y = total · (1/|X| + z - mean z), which is signed and has the same
    sum. Either starts uniform. The queries and their coefficients say everything, and are what a release stores.

    total      the sum of y, a count
    has_table  whether y is a distribution, so that records can be drawn from it
    """

    def __init__(self, domain: Domain, total: float, kind: Map) -> None:
        """Uniform, with the given total; `TooLarge` if it does not fit."""
        check_size(domain)
        memory.check(
            _CELL * domain.size, f"the universe has {domain.size:,} cells", "use fewer columns or coarser bins"
        )
        if kind not in ("entropic", "euclidean"):
            raise InvalidInput(f"kind must be 'entropic' or 'euclidean', got {kind!r}")
        self.domain = domain
        self.total = float(total)
        self.kind = kind
        self.has_table = kind == "entropic"
        self._coefficients: dict[Group, float] = {}
        self._dual = np.zeros(domain.size)
        self._primal = np.full(domain.size, 1 / domain.size)

    def move(self, query: Group, step: float) -> None:
        """z + step · q, for a group of one query q on any columns: one pass over the universe."""
        if query.queries.count != 1:
            raise InvalidInput(f"a hypothesis moves by one query at a time, got {query.queries.count}")
        self._coefficients[query] = self._coefficients.get(query, 0.0) + step
        self._add(query, step)
        self._reflect()

    def _add(self, query: Group, step: float) -> None:
        row = query.queries.adjoint(np.ones(1)) * query.queries.unit
        shape = [n if a in query.axes else 1 for a, n in enumerate(self.domain.shape)]
        cube = self._dual.reshape(self.domain.shape)
        cube += step * row.reshape(shape)

    def _reflect(self) -> None:
        if self.kind == "entropic":
            np.subtract(self._dual, self._dual.max(), out=self._primal)
            np.exp(self._primal, out=self._primal)
            self._primal /= self._primal.sum()
        else:
            np.add(self._dual, 1 / self.domain.size - self._dual.mean(), out=self._primal)

    @property
    def values(self) -> Floats:
        """y itself, (|X|,) counts: a copy as large as the universe. `TooLarge` if it does not fit."""
        copy_fits(self._primal)
        return self._primal * self.total

    def answer(self, workload: Workload) -> Floats:
        """Answers to any workload over the same domain, (k,) counts. Raises `InvalidInput` for another domain."""
        if workload.domain != self.domain:
            raise InvalidInput("the workload is over another domain than this hypothesis")
        return workload.answers(workload.cover.marginals(self._primal) * self.total)

    def sample(self, rows: int, rng: np.random.Generator) -> list[Ints]:
        """Codes of synthetic records, one array (rows,) a column, in random order, as `Histogram.sample`.

        `InvalidInput` for a signed hypothesis.
        """
        if not self.has_table:
            raise InvalidInput("a signed hypothesis has no synthetic table; use multiplicative weights")
        cells = systematic(self._primal, rows, rng)
        rng.shuffle(cells)
        return [np.asarray(c) for c in np.unravel_index(cells, self.domain.shape)]

    def to_json(self) -> dict[str, Any]:
        """The queries, their coefficients, and the total."""
        queries = Workload(self.domain, tuple(self._coefficients)).to_json() if self._coefficients else []
        return {
            "type": "dual",
            "kind": self.kind,
            "total": self.total,
            "queries": queries,
            "coefficients": list(self._coefficients.values()),
        }

    @classmethod
    def from_json(cls, domain: Domain, content: Mapping[str, Any]) -> Dual:
        """What `to_json` described, equal up to rounding."""
        state = cls(domain, content["total"], content["kind"])
        if content["queries"]:
            groups = Workload.from_json(domain, content["queries"]).groups
            for query, step in zip(groups, content["coefficients"], strict=True):
                state._coefficients[query] = float(step)
                state._add(query, float(step))
            state._reflect()
        return state


@final
class Medians:
    """Answers every query with the median of what the candidates that are left answer.

    Its answers need not be those of any one table, so it has none.

    total  the number of records, a count
    kept   (c,) the numbers of the candidates that are left, ascending
    """

    has_table = False

    def __init__(self, candidates: Candidates, total: float, kept: Ints | None = None) -> None:
        """All candidates are left, unless it is said which."""
        self.total = float(total)
        self.kept = np.arange(len(candidates)) if kept is None else kept
        self._candidates = candidates

    @property
    def domain(self) -> Domain:
        """The universe."""
        return self._candidates.domain

    def answer(self, workload: Workload) -> Floats:
        """(k,) counts. `InvalidInput` for another domain, `TooLarge` where the candidates' answers do not fit."""
        if workload.domain != self.domain:
            raise InvalidInput("the workload is over another domain than these candidates")
        if len(self.kept) * len(workload) > MAX_ANSWERS:
            raise TooLarge(
                f"{len(workload):,} answers of {len(self.kept):,} candidates are too many; at most {MAX_ANSWERS:,} fit"
            )
        medians: Floats = np.median(self._fractions(workload), axis=0)
        return medians * self.total

    def halved(self, query: Group, *, above: bool) -> Medians:
        """Those that answer one query with more than the median, or with less; all of them, if there are none."""
        answers = self._fractions(Workload(self.domain, (query,)))[:, 0]
        median = np.median(answers)
        agree = answers > median if above else answers < median
        return Medians(self._candidates, self.total, self.kept[agree]) if agree.any() else self

    def _fractions(self, workload: Workload) -> Floats:
        """What the candidates that are left answer, (c, k) fractions."""
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


def single(group: Group, index: int) -> Group:
    """One query of a group, as a group."""
    queries = group.queries
    if queries.count == 1:
        return group
    row = np.zeros(queries.count)
    row[index] = 1
    # Entries are below 2^53: exact as floats.
    return Group(group.axes, Vectors(np.rint(queries.adjoint(row)).astype(np.int64)[None, :], queries.unit))
