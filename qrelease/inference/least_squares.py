"""`LeastSquares`: the answers that the measured queries of the matrix mechanism give by least squares."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn, final

import numpy as np

from qrelease._util.typing import Floats
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.inference.measurement import Measurement
from qrelease.inference.strategies import covariance, variances
from qrelease.noise.distributions import half_widths
from qrelease.queries.products import IntegerRows, Product
from qrelease.queries.workload import Group, Workload


@final
@dataclass(frozen=True, eq=False)
class LeastSquares:
    """Estimates of every cell of one marginal, from noisy answers to integer rows over it: linear and unbiased.

    Cells may be negative, so there is no table. Any query on columns of the marginal has an answer and an error bar.

    measurement  of `IntegerRows`, or of a `Product` of them
    total        the number of records: public, or the sum of the estimates
    """

    domain: Domain
    measurement: Measurement
    total: float
    has_table = False

    @classmethod
    def of(cls, domain: Domain, measurement: Measurement, records: float | None) -> LeastSquares:
        """`records`: n, where it is public."""
        found = cls(domain, measurement, 0.0)
        return cls(domain, measurement, float(found._table.sum()) if records is None else records)

    @property
    def _rows(self) -> Sequence[IntegerRows]:
        queries = self.measurement.group.queries
        factors = queries.factors if isinstance(queries, Product) else (queries,)
        rows = [f for f in factors if isinstance(f, IntegerRows)]
        if len(rows) < len(factors):
            raise InvalidInput("least squares are for measurements of integer rows")
        return rows

    @cached_property
    def _covariances(self) -> list[Floats]:
        return [covariance(rows) for rows in self._rows]

    @cached_property
    def _table(self) -> Floats:
        """The estimates, one axis a column of the marginal."""
        cube = self.measurement.values.reshape([r.count for r in self._rows])
        for axis, (rows, inverse) in enumerate(zip(self._rows, self._covariances, strict=True)):
            solution = inverse @ (rows.rows.T * rows.unit)
            cube = np.moveaxis(np.tensordot(solution, cube, (1, axis)), 0, axis)
        return cube.reshape([self.domain.shape[a] for a in self.measurement.group.axes])

    def answer(self, workload: Workload) -> Floats:
        """(k,) counts. `InvalidInput` for another domain, and for columns that the marginal does not have."""
        if workload.domain != self.domain:
            raise InvalidInput("the workload is over another domain than this release")
        return np.concatenate([self._group(g) for g in workload.groups])

    def _group(self, asked: Group) -> Floats:
        axes = self.measurement.group.axes
        if not set(asked.axes) <= set(axes):
            names = ", ".join(self.domain.names[a] for a in asked.axes)
            raise InvalidInput(f"no released marginal contains the columns {names}; this release has no table")
        away = tuple(i for i, a in enumerate(axes) if a not in asked.axes)
        return asked.queries.apply(self._table.sum(axis=away).reshape(-1)) * asked.queries.unit

    def error_bars(self, workload: Workload) -> tuple[Floats, Floats]:
        """The answers (k,) and half-widths (k,) of their 95 % error bars; NaN for columns that the marginal lacks."""
        held = set(self.measurement.group.axes)
        values, widths = [], []
        for group in workload.groups:
            inside = set(group.axes) <= held
            missing = np.full(group.queries.count, np.nan)
            values.append(self._group(group) if inside else missing)
            widths.append(half_widths(self._variances(group), self.measurement.noise.order) if inside else missing)
        return np.concatenate(values), np.concatenate(widths)

    def _variances(self, asked: Group) -> Floats:
        axes = self.measurement.group.axes
        blocks = [[i] for i in range(len(axes))] if len(self._covariances) > 1 else [list(range(len(axes)))]
        kept, factor = [], self.measurement.variance
        for block, full in zip(blocks, self._covariances, strict=True):
            shape = [self.domain.shape[axes[i]] for i in block]
            away = [place for place, i in enumerate(block) if axes[i] not in asked.axes]
            cube = full.reshape(shape * 2).sum(axis=(*away, *(len(shape) + place for place in away)))
            if len(away) == len(block):
                factor *= float(cube)
            else:
                kept.append(cube.reshape(math.isqrt(cube.size), -1))
        return factor * variances(asked.queries, kept)

    def sample(self, rows: int, rng: np.random.Generator) -> NoReturn:
        """There are none."""
        raise InvalidInput("this release has answers but no table")

    def to_json(self) -> dict[str, Any]:
        """The total: the rest is in the measurement."""
        return {"type": "least squares", "total": self.total}

    @classmethod
    def from_json(cls, domain: Domain, content: Mapping[str, Any], measurements: Sequence[Measurement]) -> LeastSquares:
        """What `to_json` described, with the measurement that the manifest lists by itself, last."""
        *_, measurement = measurements  # before it there may be the number of records
        made = cls(domain, measurement, float(content["total"]))
        if not all(np.isfinite(inverse).all() for inverse in made._covariances):
            raise InvalidInput("the measured rows do not determine the cells")
        return made
