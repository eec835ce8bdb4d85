"""Weighted records over a universe of any size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
import numpy.typing as npt

from qrelease._util import memory
from qrelease._util.typing import Axes, Floats, Ints
from qrelease.data import structural_zeros
from qrelease.data.domain import Domain
from qrelease.data.marginals import record_kernels
from qrelease.data.marginals.record_tables import LARGEST_COLUMN, Codes16, Tables
from qrelease.errors import InvalidInput
from qrelease.inference import controlled_rounding
from qrelease.inference.corrections import Corrections
from qrelease.inference.measurement import Measurement
from qrelease.inference.residuals import Estimates
from qrelease.inference.sampling import systematic
from qrelease.noise.distributions import half_widths
from qrelease.queries.families import Cells, Residuals
from qrelease.queries.workload import Group, Workload

_BATCH_CELLS = 1 << 22  # cells of the marginals that are counted in one pass

_OFFER_DISTANCE = 20  # places in the order of records, from which a row is offered another one
_LIGHT = 1e-3  # of the mean weight: a record of less is not offered
_OFFERS = 4  # of near records to each row, after one of any record


def exchanged(shape: Sequence[int], codes: Codes16, weights: Floats, rows: Ints, rng: np.random.Generator) -> Ints:
    """Rows (r,), indices of sorted records, after exchanges that bring all marginals on up to three columns nearer.

    Controlled rounding to marginals, as `rounding` does it for a histogram: a row becomes another record where the sum
    of squared errors gets smaller by it. Rows are records still, so that none is in a cell that is ruled out. Of larger
    tables fewer columns are settled.
    """
    tables = Tables(shape, controlled_rounding.marginals(tuple(shape), len(rows)))
    expected = tables.marginals(codes, weights)
    kept = np.ascontiguousarray(codes[:, rows])
    errors = len(rows) * (tables.marginals(kept, np.full(len(rows), 1 / len(rows))) - expected)
    offered = rng.permutation(systematic(weights, len(rows), rng))
    record_kernels.exchange(codes, rows, offered, *tables.layout, errors)
    light = _LIGHT / len(weights)
    for _ in range(_OFFERS):
        offered = np.clip(rows + rng.integers(-_OFFER_DISTANCE, _OFFER_DISTANCE + 1, len(rows)), 0, len(weights) - 1)
        # No row becomes a record that is as good as ruled out by what was measured: several would in a long table.
        offered = np.where(weights[offered] > light, offered, rows)
        record_kernels.exchange(codes, rows, offered, *tables.layout, errors)
    return rows


def _is_marginal(measured: Measurement) -> bool:
    """Whether it is of residuals, or of all cells of a marginal; a number of records bought by itself is neither."""
    queries = measured.group.queries
    return isinstance(queries, Residuals) or (isinstance(queries, Cells) and bool(measured.group.axes))


@final
@dataclass(frozen=True, eq=False)
class WeightedCodes:
    """A distribution on records of a universe of any size, times a number of records; and what it was fitted to.

    codes         (d, n), the records; one may come more than once
    weights       (n,) non-negative, with sum 1
    total         the number of records it stands for, a count
    measurements  those of residuals and marginals are what its error bars come from; they may be none
    """

    domain: Domain
    codes: Codes16
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

    @property
    def measured_sets(self) -> list[Axes]:
        """The sets of columns whose residuals were measured."""
        return [] if self._estimates is None else [*self._estimates.residuals]

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
            if batch and cells + size > _BATCH_CELLS:
                yield batch
                batch, cells = [], 0
            batch.append(group)
            cells += size
        yield batch

    def _answers(self, groups: Sequence[Group]) -> list[Floats]:
        sets = [*dict.fromkeys(g.axes for g in groups)]
        found = {s: self._corrected(s, table) for s, table in zip(sets, self._said(sets), strict=True)}
        return [g.queries.apply(found[g.axes]) * g.queries.unit for g in groups]

    def _said(self, sets: Sequence[Axes]) -> list[Floats]:
        """What the records alone say of some marginals, (cells,) counts each."""
        tables = Tables(self.domain.shape, sets)
        return np.split(self.total * tables.marginals(self.codes, self.weights), tables.offsets[1:-1])

    def _corrected(self, axes: Axes, table: Floats) -> Floats:
        """A marginal that follows the measurements where the records miss them, and is zero where a rule says so."""
        found = self.corrections.apply(axes, table)
        if found is not table:
            for columns, mask in self._forbidden.items():
                if set(columns) <= set(axes):
                    ruled = mask.reshape([self.domain.shape[a] if a in columns else 1 for a in axes])
                    found = np.where(ruled, 0.0, found.reshape([self.domain.shape[a] for a in axes])).reshape(-1)
        return found

    @cached_property
    def corrections(self) -> Corrections:
        """The corrections of what the records say of measured residuals."""
        estimates = self._estimates
        if estimates is None:
            return Corrections(self.domain.shape, {}, 0.0)
        return Corrections.of(estimates, self._said)

    @cached_property
    def _forbidden(self) -> dict[Axes, npt.NDArray[np.bool_]]:
        return structural_zeros.masks(self.domain, self.domain.impossible)

    @property
    def misfit(self) -> float:
        """How far the records are from what was measured, in units of its noise: a root mean square."""
        return self.corrections.misfit

    @cached_property
    def _estimates(self) -> Estimates | None:
        """The estimates from all measured residuals and marginals, if there are any."""
        residuals = [m for m in self.measurements if _is_marginal(m)]
        counted = any(not m.group.axes or isinstance(m.group.queries, Cells) for m in residuals)
        return Estimates.of(self.domain, residuals, None if counted else self.total) if residuals else None

    def error_bars(self, workload: Workload) -> tuple[Floats, Floats]:
        """The unbiased answers (k,) of the measured residuals alone and half-widths (k,) of their 95 % error bars.

        NaN for queries on columns not all of whose residuals were measured.
        """
        estimates = self._estimates
        values, widths = np.full((2, len(workload)), np.nan)
        given = [] if estimates is None else [i for i, g in enumerate(workload.groups) if estimates.gives(g.axes)]
        if given and estimates is not None:
            places = np.concatenate([np.arange(workload.bounds[i], workload.bounds[i + 1]) for i in given])
            asked = Workload(self.domain, tuple(workload.groups[i] for i in given))
            values[places], variances = estimates.answer(asked)
            widths[places] = half_widths(variances, estimates.order)
        return values, widths

    def sample(self, rows: int, rng: np.random.Generator) -> list[Ints]:
        """Codes of so many synthetic records, one array (rows,) a column, in random order.

        Each record comes its expected number of times, rounded up or down (systematic sampling), and then rows are
        exchanged for other records where that brings marginals nearer: see `exchanged`. Post-processing: `rng` is an
        ordinary generator and no privacy rests on it.
        """
        order = np.lexsort(self.codes[::-1])
        sorted_codes, weights = np.ascontiguousarray(self.codes[:, order]), self.weights[order]
        which = exchanged(self.domain.shape, sorted_codes, weights, systematic(weights, rows, rng), rng)
        rng.shuffle(which)
        return [column[which].astype(np.int64) for column in sorted_codes]

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


@final
@dataclass(frozen=True, eq=False)
class WeightedRecords:
    """A distribution on a few cells of the universe, times a number of records.

    A small database of m records is this with m weights of 1/m.

    Parameters
    ----------
    domain : Domain
        The universe.
    cells : ndarray of int, shape (r,)
        Cells of the universe, in C order; one may come more than once.
    weights : ndarray, shape (r,)
        Non-negative, with sum 1.
    total : float
        The number of records it stands for, a count.

    Raises
    ------
    InvalidInput
        For other cells or weights.

    Examples
    --------
    >>> import numpy as np
    >>> import qrelease as qr
    >>> domain = qr.Domain.coded({"sex": 2})
    >>> records = qr.WeightedRecords(domain, np.array([0, 1]), np.array([0.25, 0.75]), 100.0)
    >>> records.answer(qr.Workload.marginals(domain, 1)).tolist()
    [25.0, 75.0]
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
        """A small database: records of the same weight.

        Parameters
        ----------
        domain : Domain
            The universe.
        cells : ndarray of int, shape (r,)
            The records, as cells of the universe.
        total : float
            The number of records that it stands for, a count.

        Returns
        -------
        WeightedRecords
            With weights of 1/r.
        """
        return cls(domain, cells, np.full(len(cells), 1 / len(cells)), total)

    @property
    def codes(self) -> tuple[npt.NDArray[np.intp], ...]:
        """The records, one array (r,) a column."""
        return np.unravel_index(self.cells, self.domain.shape)

    def answer(self, workload: Workload) -> Floats:
        """The answers to a workload.

        Parameters
        ----------
        workload : Workload
            k queries.

        Returns
        -------
        ndarray of float, shape (k,)
            Counts.

        Raises
        ------
        InvalidInput
            For a workload over another domain.
        """
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

        Parameters
        ----------
        rows : int
            How many.
        rng : numpy.random.Generator
            Where the order comes from.

        Returns
        -------
        list of ndarray of int, each of shape (rows,)
            Codes, one array a column.
        """
        marks = (np.arange(rows) + rng.random()) * (self.weights.sum() / rows)
        which = np.minimum(np.searchsorted(np.cumsum(self.weights), marks, side="right"), len(self.cells) - 1)
        rng.shuffle(which)
        return [column[which].astype(np.int64) for column in self.codes]

    def to_json(self) -> dict[str, Any]:
        """A plain description.

        Returns
        -------
        dict
            The records as codes, their weights, and the total.
        """
        records = np.stack(self.codes, axis=1).tolist()
        return {"type": "weighted records", "total": self.total, "records": records, "weights": self.weights.tolist()}

    @classmethod
    def from_json(cls, domain: Domain, content: Mapping[str, Any]) -> WeightedRecords:
        """What `to_json` described.

        Parameters
        ----------
        domain : Domain
            The universe.
        content : mapping
            The description.

        Returns
        -------
        WeightedRecords
            The same records, weights and total.
        """
        codes = np.array(content["records"], np.int64).reshape(-1, len(domain)).T
        cells = np.asarray(np.ravel_multi_index(tuple(codes), domain.shape), np.int64)
        return cls(domain, cells, np.array(content["weights"], np.float64), float(content["total"]))
