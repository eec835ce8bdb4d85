"""`Bought`: a synopsis that answers every query of the class it was bought for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, final

import numpy as np
import numpy.typing as npt

from qrelease.canonical import Asked
from qrelease.cover import Axes
from qrelease.domain import Domain
from qrelease.measure import Measurement, Noise
from qrelease.pricing import Offer
from qrelease.queries import Cells
from qrelease.residuals import Estimates
from qrelease.workload import Group

Floats = npt.NDArray[np.float64]

_KEPT: Final = 1024  # marginals


@final
class Bought:
    """What came of an `Offer`: a noisy table of some columns, or residuals.

    records  n, where it is public
    """

    def __init__(
        self, domain: Domain, offer: Offer, measurements: Sequence[Measurement], records: float | None
    ) -> None:
        self._domain, self._offer = domain, offer
        self._table = self._estimates = None
        if isinstance(offer.workload.groups[0].queries, Cells):
            (self._table,) = measurements
        else:
            self._estimates = Estimates.of(domain, measurements, records)
        self._marginal = lru_cache(_KEPT)(self._read)

    def answers(self, asked: Asked) -> bool:
        """Whether a query is of the class that it keeps its promise to."""
        return self._offer.answers(asked)

    def answer(self, asked: Asked) -> float:
        """A count."""
        return float(asked.entries(self._domain) @ self._marginal(asked.axes)) * asked.unit

    def _read(self, axes: Axes) -> Floats:
        """A marginal, flat."""
        if self._estimates is not None:
            return self._estimates.marginal(axes)[0].reshape(-1)
        assert self._table is not None
        shape = [self._domain.shape[a] for a in self._offer.axes]
        away = tuple(i for i, a in enumerate(self._offer.axes) if a not in axes)
        return np.asarray(self._table.values.reshape(shape).sum(axis=away)).reshape(-1)

    def tables(self) -> list[Measurement]:
        """Its largest marginals, for a hypothesis to be fitted to."""
        if self._estimates is None:
            return [self._table] if self._table else []
        largest = max(len(s) for s in self._estimates.residuals)
        sets = [s for s in self._estimates.residuals if len(s) == largest]
        parts = [(s, *self._estimates.marginal(s)) for s in sets]
        return [
            Measurement(Group(s, Cells(v.size)), v.reshape(-1), Noise("discrete Gaussian", math.sqrt(variance)))
            for s, v, variance in parts
        ]
