"""Synopses that the mechanisms of a finite range release: weighted records, and a synopsis made to another scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt

from qrelease.contracts import Synopsis
from qrelease.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.workload import Group, Workload

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@final
@dataclass(frozen=True, eq=False)
class WeightedRecords:
    """A distribution on a few cells of the universe, times a number of records.

    A small database of m records is this with m weights of 1/m.

    cells    (r,) cells of the universe, in C order; one may come more than once
    weights  (r,) non-negative, with sum 1
    total    the number of records it stands for, a count
    """

    domain: Domain
    cells: Ints
    weights: Floats
    total: float
    has_table = True

    def __post_init__(self) -> None:
        if self.cells.ndim != 1 or not self.cells.size or self.weights.shape != self.cells.shape:
            raise InvalidInput(f"records need one weight each, got {self.cells.shape} and {self.weights.shape}")
        if self.cells.min() < 0 or self.cells.max() >= self.domain.size:
            raise InvalidInput(f"records must be cells 0..{self.domain.size - 1}")
        if not (self.weights.min() >= 0 and abs(self.weights.sum() - 1) <= 1e-9):
            raise InvalidInput(f"weights must not be negative and sum to 1, got a sum of {self.weights.sum()}")

    @classmethod
    def equal(cls, domain: Domain, cells: Ints, total: float) -> WeightedRecords:
        """A small database: records of the same weight."""
        return cls(domain, cells, np.full(len(cells), 1 / len(cells)), total)

    @property
    def codes(self) -> tuple[npt.NDArray[np.intp], ...]:
        """The records, one array (r,) a column."""
        return np.unravel_index(self.cells, self.domain.shape)

    def answer(self, workload: Workload) -> Floats:
        """(k,) counts. `InvalidInput` for a workload over another domain."""
        if workload.domain != self.domain:
            raise InvalidInput("the workload is over another domain than these records")
        return np.concatenate([self._group(g) for g in workload.groups])

    def _group(self, group: Group) -> Floats:
        shape = [self.domain.shape[a] for a in group.axes]
        codes = self.codes
        where = np.ravel_multi_index([codes[a] for a in group.axes], shape) if shape else np.zeros(len(self.cells), int)
        marginal = np.bincount(where, self.weights * self.total, self.domain.cells(group.axes))
        counts: Floats = group.queries.apply(marginal.astype(np.float64, copy=False)) * group.queries.unit
        return counts

    def sample(self, rows: int, rng: np.random.Generator) -> list[Ints]:
        """Codes of so many synthetic records, one array (rows,) a column, in random order.

        Systematic sampling: each record comes its expected number of times, rounded up or down. Post-processing: `rng`
        is an ordinary generator and no privacy rests on it.
        """
        marks = (np.arange(rows) + rng.random()) * (self.weights.sum() / rows)
        which = np.minimum(np.searchsorted(np.cumsum(self.weights), marks, side="right"), len(self.cells) - 1)
        rng.shuffle(which)
        return [column[which].astype(np.int64) for column in self.codes]

    def to_json(self) -> dict[str, Any]:
        """The records as codes, their weights, and the total."""
        records = np.stack(self.codes, axis=1).tolist()
        return {"type": "weighted records", "total": self.total, "records": records, "weights": self.weights.tolist()}

    @classmethod
    def from_json(cls, domain: Domain, content: Mapping[str, Any]) -> WeightedRecords:
        """What `to_json` described."""
        codes = np.array(content["records"], np.int64).reshape(-1, len(domain)).T
        cells = np.asarray(np.ravel_multi_index(tuple(codes), domain.shape), np.int64)
        return cls(domain, cells, np.array(content["weights"], np.float64), float(content["total"]))


@final
@dataclass(frozen=True)
class Scaled:
    """Another synopsis, all its answers scaled so that it stands for `total` records."""

    synopsis: Synopsis
    total: float

    @property
    def domain(self) -> Domain:
        """The universe."""
        return self.synopsis.domain

    @property
    def has_table(self) -> bool:
        """As the other."""
        return self.synopsis.has_table

    def answer(self, workload: Workload) -> Floats:
        """(k,) counts. Raises what the other does."""
        return self.synopsis.answer(workload) * (self.total / self.synopsis.total)

    def sample(self, rows: int, rng: np.random.Generator) -> Sequence[npt.NDArray[np.integer[Any]]]:
        """Synthetic records of the other."""
        return self.synopsis.sample(rows, rng)

    def to_json(self) -> dict[str, Any]:
        """The total, and the other."""
        return {"type": "scaled", "total": self.total, "synopsis": self.synopsis.to_json()}
