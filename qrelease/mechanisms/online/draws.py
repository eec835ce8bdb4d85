"""All draws of a session from the private table: noisy counts, noisy answers, and comparisons by sparse vector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, final

import numpy as np

from qrelease._util.typing import Floats
from qrelease.data.marginals.support import Support
from qrelease.errors import InvalidInput, LedgerError, OutOfMemory, QReleaseError
from qrelease.inference.measurement import Measurement
from qrelease.noise.entropy import is_insecure
from qrelease.noise.sparse_vector import SparseVector
from qrelease.privacy.costs import ZCDP, ApproxDP, Cost, PureDP
from qrelease.privacy.filters import Filter
from qrelease.queries.workload import Group, Workload

if TYPE_CHECKING:
    from qrelease.mechanisms.private_data import Estimating, Private
    from qrelease.statistics.base import Statistic
    from qrelease.statistics.estimate import Estimate


@final
class PrivateDraws:
    """Draws from the private counts; each is paid for before, by a purchase of the session.

    A sparse vector keeps noise that is secret: it belongs to this process, and ends with it.
    """

    def __init__(self, private: Private) -> None:
        self._private = private
        self._vector: SparseVector | None = None
        self._threshold = 0
        self._table: Floats | None = None

    @property
    def insecure(self) -> bool:
        """Whether the noise comes from anything but the system's entropy: then it protects nobody."""
        return is_insecure(self._private.entropy)

    def count(self, cost: PureDP) -> int:
        """A noisy number of records."""
        return round(self._paid_with(cost).count(cost)[0])

    def measure(self, workload: Workload, cost: PureDP | ApproxDP | ZCDP) -> Sequence[Measurement]:
        """Noisy answers to a workload, one measurement a group."""
        return self._paid_with(cost).measure(workload, cost)

    @property
    def estimator(self) -> Estimating:
        """What draws statistics; `InvalidInput` where a session was opened without."""
        if self._private.estimator is None:
            raise InvalidInput("this session gives no estimates: it was not opened by a curator")
        return self._private.estimator

    def estimate(self, statistic: Statistic, parameters: Mapping[str, Any], cost: Cost) -> Estimate:
        """A statistic, for a cost of the unit that is charged: no refusal follows it."""
        try:
            return self.estimator.draw(statistic, parameters, cost)
        except (LedgerError, OutOfMemory):
            raise
        except QReleaseError as error:  # not a refusal, after which a transaction would go on
            raise AssertionError(f"what was checked and charged was refused: {type(error).__name__}") from None

    def open_vector(self, cost: PureDP | ZCDP, positives: int, threshold: int) -> None:
        """Begin a sparse vector, which halts after so many answers above the threshold, a count."""
        self._vector = SparseVector(cost, positives, 1, self._private.entropy)
        self._threshold = threshold

    @property
    def listening(self) -> bool:
        """Whether a sparse vector is open: in a forked process it is not, since it stays with the other."""
        return self._vector is not None and not self._vector.halted

    def confirms(self, query: Group, guess: int) -> bool:
        """Whether the open sparse vector finds the answer to a group of one query within its threshold of a guess."""
        assert self._vector is not None
        gap = self._exact(query) - guess
        return self._vector.ask_many([gap, -gap], self._threshold) is None

    def _paid_with(self, cost: Cost) -> Private:
        """The door to the private counts, for one purchase."""
        return replace(self._private, filter=Filter(cost), spends=[])

    def _exact(self, query: Group) -> int:
        """The exact answer q(x). Private."""
        if self._table is None:
            (cells,) = self._private.exact(Workload.marginals(self._private.domain, [self._private.domain.names]))
            self._table = cells.astype(np.float64)  # exact: counts are below 2^53
        shape = self._private.domain.shape
        return int(Support.of(shape, query.axes, query.queries.adjoint(np.ones(1))).sum(self._table))
