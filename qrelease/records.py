"""Weighted records over a universe of any size, and tables over some of its columns that they are counted into."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import Any, final

import numpy as np
import numpy.typing as npt

from qrelease import memory, record_kernels
from qrelease.cores import cores, in_parallel
from qrelease.cover import Axes
from qrelease.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.measure import Measurement, half_widths
from qrelease.queries import Residuals
from qrelease.residuals import Estimates
from qrelease.sampling import systematic
from qrelease.workload import Group, Workload

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.uint16]

LARGEST_COLUMN = 1 << 16
"""Cells of a column."""

_EXACT = 2.0**52  # sums of whole weights up to here are exact, so that no order of summation changes them
_BATCH = 1 << 22  # cells of the marginals that are counted in one pass
_ALL = 1 << 40  # always worth a thread

_Layout = tuple[Ints, Ints, Ints, Ints]
"""Axes, steps, firsts and begins of tables, as `record_kernels` takes them."""


@final
class Tables:
    """Tables over some sets of columns of a universe, one after another in a flat vector, each in C order."""

    def __init__(self, shape: Sequence[int], sets: Sequence[Axes]) -> None:
        self.shape, self.sets = tuple(shape), tuple(sets)
        self.offsets = [*accumulate((prod(shape[a] for a in s) for s in sets), initial=0)]
        self._arguments = self._laid_out(self.sets, self.offsets[:-1])

    def _laid_out(self, orders: Sequence[Axes], begins: Sequence[int]) -> _Layout:
        """As the kernels take tables whose axes are in these orders."""
        steps = [[prod(self.shape[b] for b in s[i + 1 :]) for i in range(len(s))] for s in orders]
        return (
            np.array([a for s in orders for a in s], np.int64),
            np.array([step for row in steps for step in row], np.int64),
            np.array([*accumulate(map(len, orders), initial=0)], np.int64),
            np.array(begins, np.int64),
        )

    def marginals(self, codes: Codes, weights: Floats) -> Floats:
        """The sums of the weights (n,), of which all sum to 1 at most, of the records (d, n) in each cell: (cells,)."""
        whole = np.rint(weights * _EXACT)

        def work(_: int, cut: slice) -> Floats:
            found = np.zeros(self.offsets[-1])
            record_kernels.spread(codes[:, cut], whole[cut], *self._arguments, found)
            return found

        first, *others = in_parallel(work, len(weights), len(weights) * len(self.sets), cores())
        for other in others:
            first += other
        return first / _EXACT

    def sums(self, codes: Codes, tables: Floats) -> Floats:
        """Of each record (d, n) the sum of what the tables (cells,) say at its cells: (n,), the adjoint."""
        found = np.zeros(codes.shape[1])

        def work(_: int, cut: slice) -> None:
            record_kernels.gather(codes[:, cut], tables, *self._arguments, found[cut])

        in_parallel(work, len(found), len(found) * len(self.sets))
        return found

    def redraw(self, codes: Codes, tables: Floats, rng: np.random.Generator) -> None:
        """One sweep of Gibbs sampling: each column of the records anew, given the others, under e^(sum of the tables).

        The columns come in random order. Records that are distributed so stay so. A cell of -∞ is never drawn:
        where all of a column are so, a record keeps what it has.
        """
        for column in rng.permutation(len(self.shape)).tolist():
            arguments, last = self._conditional(column, tables)
            seed = np.uint64(rng.integers(1 << 63))

            def work(_: int, cut: slice, a: int = column, given: Any = (*arguments, last), s: np.uint64 = seed) -> None:
                record_kernels.redraw(codes, a, self.shape[a], *given, cut.start, cut.stop, s)

            in_parallel(work, codes.shape[1], _ALL)

    def _conditional(
        self, column: int, tables: Floats
    ) -> tuple[tuple[Ints, Ints, Ints, Ints], npt.NDArray[np.float32]]:
        """The tables over a column, with it as their last axis."""
        mine = [j for j, s in enumerate(self.sets) if column in s]
        begins = [*accumulate((self.offsets[j + 1] - self.offsets[j] for j in mine), initial=0)]
        last = np.empty(begins.pop(), np.float32)
        orders = []
        for j, begin in zip(mine, begins, strict=True):
            axes = self.sets[j]
            table = tables[self.offsets[j] : self.offsets[j + 1]].reshape([self.shape[a] for a in axes])
            last[begin : begin + table.size] = np.moveaxis(table, axes.index(column), -1).reshape(-1)
            orders.append((*(a for a in axes if a != column), column))
        axes_, steps, firsts, _ = self._laid_out(orders, begins)
        inner = np.ones(len(axes_), bool)
        inner[firsts[1:] - 1] = False  # the column itself has no step
        return (axes_[inner], steps[inner], firsts - np.arange(len(firsts)), np.array(begins, np.int64)), last


@final
@dataclass(frozen=True, eq=False)
class WeightedCodes:
    """A distribution on records of a universe of any size, times a number of records; and what it was fitted to.

    codes         (d, n), the records; one may come more than once
    weights       (n,) non-negative, with sum 1
    total         the number of records it stands for, a count
    measurements  those of residuals are what its error bars come from; they may be none
    """

    domain: Domain
    codes: Codes
    weights: Floats
    total: float
    measurements: tuple[Measurement, ...] = ()
    has_table = True

    def __post_init__(self) -> None:
        if self.codes.ndim != 2 or not self.codes.size or self.weights.shape != self.codes.shape[1:]:
            raise InvalidInput(f"records need one weight each, got {self.codes.shape} and {self.weights.shape}")
        if len(self.codes) != len(self.domain) or (self.codes.max(axis=1) >= np.array(self.domain.shape)).any():
            raise InvalidInput(f"records must have {len(self.domain)} codes, each below its column's size")
        if not (self.weights.min() >= 0 and abs(self.weights.sum() - 1) <= 1e-9):
            raise InvalidInput(f"weights must not be negative and sum to 1, got a sum of {self.weights.sum()}")

    def answer(self, workload: Workload) -> Floats:
        """(k,) counts. `InvalidInput` for a workload over another domain, `TooLarge` for marginals beyond memory."""
        if workload.domain != self.domain:
            raise InvalidInput("the workload is over another domain than these records")
        largest = max(self.domain.cells(s) for s in workload.sets)
        memory.check(32 * largest, f"a marginal of {largest:,} cells", "ask about fewer columns", ahead=False)
        return np.concatenate([part for groups in self._batches(workload) for part in self._answers(groups)])

    def _batches(self, workload: Workload) -> Iterator[list[Group]]:
        """Groups whose marginals fit one pass, in order."""
        batch: list[Group] = []
        cells = 0
        for group in workload.groups:
            size = group.queries.cells
            if batch and cells + size > _BATCH:
                yield batch
                batch, cells = [], 0
            batch.append(group)
            cells += size
        yield batch

    def _answers(self, groups: Sequence[Group]) -> list[Floats]:
        sets = [*dict.fromkeys(g.axes for g in groups)]
        tables = Tables(self.domain.shape, sets)
        marginals = self.total * tables.marginals(self.codes, self.weights)
        found = dict(zip(sets, np.split(marginals, tables.offsets[1:-1]), strict=True))
        return [g.queries.apply(found[g.axes]) * g.queries.unit for g in groups]

    def error_bars(self, workload: Workload) -> tuple[Floats, Floats]:
        """The unbiased answers (k,) of the measured residuals alone and half-widths (k,) of their 95 % error bars.

        NaN for queries on columns not all of whose residuals were measured.
        """
        residuals = [m for m in self.measurements if isinstance(m.group.queries, Residuals)]
        counted = any(not m.group.axes for m in residuals)
        estimates = Estimates.of(self.domain, residuals, None if counted else self.total)
        values, widths = np.full((2, len(workload)), np.nan)
        given = [i for i, g in enumerate(workload.groups) if estimates.gives(g.axes)]
        if given:
            places = np.concatenate([np.arange(workload.bounds[i], workload.bounds[i + 1]) for i in given])
            asked = Workload(self.domain, tuple(workload.groups[i] for i in given))
            values[places], variances = estimates.answer(asked)
            widths[places] = half_widths(variances)
        return values, widths

    def sample(self, rows: int, rng: np.random.Generator) -> list[Ints]:
        """Codes of so many synthetic records, one array (rows,) a column, in random order.

        Systematic sampling: each record comes its expected number of times, rounded up or down, and so does each run of
        records in lexicographic order: marginals scatter less than those of independent rows. Post-processing: `rng` is
        an ordinary generator and no privacy rests on it.
        """
        order = np.lexsort(self.codes[::-1])
        which = order[systematic(self.weights[order], rows, rng)]
        rng.shuffle(which)
        return [column[which].astype(np.int64) for column in self.codes]

    def to_json(self) -> dict[str, Any]:
        """The records as codes, their weights, and the total: measurements are listed by the manifest itself."""
        records = self.codes.T.tolist()
        return {"type": "weighted codes", "total": self.total, "records": records, "weights": self.weights.tolist()}

    @classmethod
    def from_json(
        cls, domain: Domain, content: Mapping[str, Any], measurements: Sequence[Measurement]
    ) -> WeightedCodes:
        """What `to_json` described, with the measurements that the manifest lists by themselves."""
        codes = np.array(content["records"], np.int64).reshape(-1, len(domain)).T
        if codes.min(initial=0) < 0 or codes.max(initial=0) >= LARGEST_COLUMN:
            raise InvalidInput("records must have codes that their columns have")
        weights = np.array(content["weights"], np.float64)
        kept = np.ascontiguousarray(codes, np.uint16)
        return cls(domain, kept, weights, float(content["total"]), tuple(measurements))
