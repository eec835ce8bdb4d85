"""The Gaussian baseline: independent noise on every answer (Balle & Wang 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from qrelease.errors import InvalidInput
from qrelease.measure import Private
from qrelease.mechanisms.direct import check_answers, measure_all
from qrelease.privacy import ApproxDP, Cost, Neighbours, PureDP
from qrelease.privacy.costs import check_cost
from qrelease.release import Draft
from qrelease.workload import Workload


@final
@dataclass(frozen=True)
class Gaussian:
    """Gaussian noise on all answers, for the L2 sensitivity Δ₂ of the whole workload.

    For (ε, δ) the analytic Gaussian [Balle & Wang 2018], a real normal rounded to integers; for ρ-zCDP the discrete
    Gaussian of variance Δ₂²/2ρ [Canonne, Kamath & Steinke 2020, Thm 14]. It knows no synthetic table.
    """

    @property
    def name(self) -> str:
        """`gaussian`."""
        return "gaussian"

    def check(self, workload: Workload, cost: Cost, neighbours: Neighbours) -> None:
        """`InvalidInput` without a δ, or for a variance beyond the sampler's range."""
        check_cost(cost)
        if isinstance(cost, PureDP) or (isinstance(cost, ApproxDP) and cost.delta == 0):
            raise InvalidInput(f"Gaussian noise needs a delta above 0, got {cost}; give --delta, or use laplace")
        check_answers(workload, cost, neighbours)

    def release(self, private: Private, workload: Workload, cost: Cost) -> Draft:
        """One draw for each answer."""
        return measure_all(private, workload, cost)
