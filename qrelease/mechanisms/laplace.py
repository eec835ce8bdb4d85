"""The Laplace baseline: independent noise on every answer (Dwork & Roth 2014, Thm 3.6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from qrelease.errors import InvalidInput
from qrelease.mechanisms.additive_noise import check_answers, measure_all, noise_bound, promised_error, unfitted
from qrelease.mechanisms.base import MechanismResult
from qrelease.mechanisms.private_data import Private
from qrelease.privacy.costs import ZCDP, Cost, Neighbours, PureDP, check_cost
from qrelease.queries.workload import Workload


@final
@dataclass(frozen=True)
class Laplace:
    """Discrete Laplace noise of scale Δ₁/ε on all answers, Δ₁ the L1 sensitivity of the whole workload: pure ε-DP.

    Of an (ε, δ) it spends ε and leaves δ.

    References
    ----------
    Dwork & Roth 2014, *The algorithmic foundations of differential privacy*, Theorem 3.6.

    Examples
    --------
    What it promises of the worst of 20 answers about 1,000 records, as a fraction of these:

    >>> import qrelease as qr
    >>> pairs = qr.Workload.marginals(qr.Domain.coded({"sex": 2, "age": 10}), 2)
    >>> round(qr.Laplace().error(pairs, 1_000, qr.PureDP(1), qr.Neighbours.ADD_REMOVE, beta=0.05), 3)
    0.036
    """

    counts_parts: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """`laplace`."""
        return "laplace"

    def check(self, workload: Workload, cost: Cost, neighbours: Neighbours) -> None:
        """Raise `InvalidInput` for a cost in zCDP, or a scale beyond the sampler's range."""
        check_answers(workload, _pure(cost), neighbours)

    def no_table(self, workload: Workload) -> str | None:
        """Why no histogram can be fitted to the answers, if none can."""
        return unfitted(workload)

    def release(self, private: Private, workload: Workload, cost: Cost) -> MechanismResult:
        """One draw for each answer."""
        return measure_all(private, workload, _pure(cost))

    def error(self, workload: Workload, records: int, cost: Cost, neighbours: Neighbours, *, beta: float) -> float:
        """See `Promising`; by `additive_noise.promised_error`."""
        self.check(workload, cost, neighbours)
        return promised_error(workload, records, _pure(cost), neighbours, beta)

    def noisy_error(self, workload: Workload, cost: Cost, neighbours: Neighbours, *, beta: float) -> float:
        """How far off the noisy answers are, before they are made consistent, with probability 1 - β all of them.

        Parameters
        ----------
        workload
            The queries.
        cost
            What is spent on them.
        neighbours
            The relation under which it holds.
        beta
            The probability that one of them is further off.

        Returns
        -------
        float
            A count.
        """
        return noise_bound(workload, _pure(cost), neighbours, beta)


def _pure(cost: Cost) -> PureDP:
    check_cost(cost)
    if isinstance(cost, ZCDP):
        raise InvalidInput(f"the Laplace baseline spends epsilon, got {cost}; use the Gaussian")
    return PureDP(cost.epsilon)
