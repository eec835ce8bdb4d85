"""The Gaussian baseline: independent noise on every answer (Balle & Wang 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from qrelease.mechanisms.additive_noise import check_answers, measure_all, noise_bound, promised_error, unfitted
from qrelease.mechanisms.base import MechanismResult
from qrelease.mechanisms.private_data import Private
from qrelease.privacy.costs import Cost, Neighbours, check_cost, check_gaussian
from qrelease.queries.workload import Workload


@final
@dataclass(frozen=True)
class Gaussian:
    """Gaussian noise on all answers, for the L2 sensitivity Δ₂ of the whole workload.

    For (ε, δ) the analytic Gaussian [Balle & Wang 2018], a real normal rounded to integers; for ρ-zCDP the discrete
    Gaussian of variance Δ₂²/2ρ [Canonne, Kamath & Steinke 2020, Thm 14].

    Examples
    --------
    >>> import qrelease as qr
    >>> pairs = qr.Workload.marginals(qr.Domain.coded({"sex": 2, "age": 10}), 2)
    >>> round(qr.Gaussian().error(pairs, 1_000, qr.ApproxDP(1, 1e-6), qr.Neighbours.ADD_REMOVE, beta=0.05), 3)
    0.091
    """

    counts_parts: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """`gaussian`."""
        return "gaussian"

    def check(self, workload: Workload, cost: Cost, neighbours: Neighbours) -> None:
        """Raise `InvalidInput` without a δ, or for a variance beyond the sampler's range."""
        check_cost(cost)
        check_gaussian(cost, instead="laplace")
        check_answers(workload, cost, neighbours)

    def no_table(self, workload: Workload) -> str | None:
        """Why no histogram can be fitted to the answers, if none can."""
        return unfitted(workload)

    def release(self, private: Private, workload: Workload, cost: Cost) -> MechanismResult:
        """One draw for each answer."""
        return measure_all(private, workload, cost)

    def error(self, workload: Workload, records: int, cost: Cost, neighbours: Neighbours, *, beta: float) -> float:
        """See `Promising`; by `additive_noise.promised_error`."""
        self.check(workload, cost, neighbours)
        return promised_error(workload, records, cost, neighbours, beta)

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
        return noise_bound(workload, cost, neighbours, beta)
