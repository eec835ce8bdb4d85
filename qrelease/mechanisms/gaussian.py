"""The Gaussian baseline: independent noise on every answer, under zCDP (Bun & Steinke 2016)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from qrelease.errors import InvalidInput
from qrelease.measure import Private, currency
from qrelease.mechanisms.direct import check_answers, measure_all
from qrelease.privacy import ApproxDP, Cost, Neighbours, PureDP
from qrelease.release import Draft
from qrelease.workload import Workload


@final
@dataclass(frozen=True)
class Gaussian:
    """Discrete Gaussian noise of variance Δ₂²/2ρ on all answers, Δ₂ the L2 sensitivity of the whole workload.

    ρ-zCDP [Canonne, Kamath & Steinke 2020, Thm 14]; an (ε, δ) is spent as the largest ρ that converts to it. It knows
    no synthetic table.
    """

    @property
    def name(self) -> str:
        """`gaussian`."""
        return "gaussian"

    def check(self, workload: Workload, cost: Cost, neighbours: Neighbours) -> None:
        """`InvalidInput` without a δ, or for a variance beyond the sampler's range."""
        if isinstance(cost, PureDP) or (isinstance(cost, ApproxDP) and cost.delta == 0):
            raise InvalidInput(f"Gaussian noise needs a delta above 0, got {cost}; give --delta, or use laplace")
        check_answers(workload, currency(cost), neighbours)

    def release(self, private: Private, workload: Workload, cost: Cost) -> Draft:
        """One draw for each answer."""
        return measure_all(private, workload, currency(cost))
