"""A synopsis that a session bought: it answers every query of the class that it was bought for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final, final

import numpy as np

from qrelease._util.typing import Axes, Floats
from qrelease.data.domain import Domain
from qrelease.inference.measurement import Measurement
from qrelease.inference.residuals import Estimates
from qrelease.noise.distributions import Noise
from qrelease.queries.canonical import CanonicalQuery
from qrelease.queries.families import Cells
from qrelease.queries.workload import Group

if TYPE_CHECKING:
    from qrelease.mechanisms.online.prices import Offer

MAX_REMEMBERED_MARGINALS: Final = 1024
"""Marginals of a synopsis that are looked up instead of being worked out."""


@final
class PurchasedSynopsis:
    """What was drawn for an `Offer`: a noisy table of some columns, or several, or the residuals of some marginals.

    Parameters
    ----------
    domain
        That of the table.
    offer
        What was bought.
    measurements
        What was drawn for it, one measurement a group of its workload, in order.
    records
        n, where it is public; else None.
    """

    def __init__(
        self, domain: Domain, offer: Offer, measurements: Sequence[Measurement], records: float | None
    ) -> None:
        self._domain, self._offer = domain, offer
        self._table = self._estimates = None
        if len(measurements) == 1 and isinstance(offer.workload.groups[0].queries, Cells):
            (self._table,) = measurements
        else:
            self._estimates = Estimates.of(domain, measurements, records)
        self._marginal = lru_cache(MAX_REMEMBERED_MARGINALS)(self.marginal)

    def answers(self, query: CanonicalQuery) -> bool:
        """Whether a query is of the class that was bought, so that the answer is within the session's error."""
        return self._offer.answers(query)

    def answer(self, query: CanonicalQuery) -> float:
        """The answer to such a query, a count."""
        return float(query.entries(self._domain) @ self._marginal(query.axes)) * query.unit

    def marginal(self, axes: Axes) -> Floats:
        """The noisy marginal of some of its columns, (cells,) counts in C order."""
        if self._estimates is not None:
            return self._estimates.marginal(axes)[0].reshape(-1)
        assert self._table is not None
        shape = [self._domain.shape[a] for a in self._offer.axes]
        away = tuple(i for i, a in enumerate(self._offer.axes) if a not in axes)
        return np.asarray(self._table.values.reshape(shape).sum(axis=away)).reshape(-1)

    def marginals(self) -> list[Measurement]:
        """Its largest marginals, for a hypothesis to be fitted to."""
        if self._estimates is None:
            return [self._table] if self._table else []
        known = [set(s) for s in self._estimates.residuals]
        sets = [s for s in self._estimates.residuals if not any(set(s) < other for other in known)]
        parts = [(s, *self._estimates.marginal(s)) for s in sets]
        return [
            Measurement(Group(s, Cells(v.size)), v.reshape(-1), Noise("discrete Gaussian", math.sqrt(variance)))
            for s, v, variance in parts
        ]
