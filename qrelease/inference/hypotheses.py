"""The states of the textbook's update rules: synopses that are updated by one query at a time, on any columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, final

import numpy as np
import numpy.typing as npt

from qrelease._util import memory
from qrelease._util.typing import Floats, Ints
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.inference.histogram import check_size, copy_fits
from qrelease.inference.sampling import systematic
from qrelease.queries.workload import Group, Workload

Map = Literal["entropic", "euclidean"]

CELL_BYTES: Final = 16
"""Bytes for a cell of the universe: of the dual vector and of the hypothesis."""


@final
class Dual:
    """A hypothesis over the whole universe, kept by its dual vector z = Σ_t c_t q_t (mirror descent).

    The hypothesis y, (|X|,) counts, is a function of z: `entropic` is y = total · e^z / Σ e^z, a distribution, as
    multiplicative weights has it; `euclidean` is y = total · (1/|X| + z - mean z), which is signed and has the same
    sum. Either starts uniform. The queries and their coefficients say everything, and are what a release stores.

    Parameters
    ----------
    total
        The sum of y, a count.
    has_table
        Whether y is a distribution, so that records can be drawn from it.
    """

    def __init__(self, domain: Domain, total: float, kind: Map) -> None:
        """Uniform, with the given total; `TooLarge` if it does not fit."""
        check_size(domain)
        memory.check(
            CELL_BYTES * domain.size, f"the universe has {domain.size:,} cells", "use fewer columns or coarser bins"
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

    def box(self, codes: Sequence[npt.NDArray[np.integer[Any]]]) -> Floats:
        """y on all combinations of some codes of each column, (n_1, …, n_d) counts."""
        cells: Floats = self._primal.reshape(self.domain.shape)[np.ix_(*codes)]
        return cells * self.total

    def answer(self, workload: Workload) -> Floats:
        """Answers to any workload over the same domain, (k,) counts. Raises `InvalidInput` for another domain."""
        if workload.domain != self.domain:
            raise InvalidInput("the workload is over another domain than this hypothesis")
        return workload.answers(workload.marginal_plan.marginals(self._primal) * self.total)

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
