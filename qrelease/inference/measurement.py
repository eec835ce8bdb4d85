"""`Measurement`: noisy answers to the queries of one group, with the law of their noise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from qrelease._util.typing import Floats
from qrelease.errors import InvalidInput
from qrelease.noise.calibration import calibrated
from qrelease.noise.distributions import Noise
from qrelease.privacy.costs import Cost, Neighbours, PureDP
from qrelease.queries.families import Cells
from qrelease.queries.workload import Group, Workload

RECORDS = Group((), Cells(1))
"""How many records there are: the only query on the marginal of no columns."""


@dataclass(frozen=True, eq=False)
class Measurement:
    """Noisy answers to the queries of one group: unbiased, independent, the mean of `repeats` draws of `noise`.

    values  (k,) counts
    """

    group: Group
    values: Floats
    noise: Noise
    repeats: int = 1

    @property
    def variance(self) -> float:
        """Of each value."""
        return self.noise.variance / self.repeats

    def averaged(self, other: Measurement) -> Measurement:
        """Both as one, for the same group under the same noise."""
        if (self.group, self.noise) != (other.group, other.noise):
            raise InvalidInput("only measurements of one group under one law can be averaged")
        both = self.repeats + other.repeats
        values = (self.repeats * self.values + other.repeats * other.values) / both
        return replace(self, values=values, repeats=both)


def noise_for(workload: Workload, cost: Cost, neighbours: Neighbours) -> tuple[Noise, Fraction]:
    """The noise that answers a whole workload once at a cost, and its exact scale b or variance σ², in units.

    Laplace of scale Δ₁/ε for pure ε [Dwork & Roth 2014, Thm 3.6], Gaussian of variance Δ₂²/2ρ for zCDP [Canonne, Kamath
    & Steinke 2020, Thm 14], both discrete; for (ε, δ) the analytic Gaussian [Balle & Wang 2018], rounded. All on the
    finest grid among the groups.
    """
    unit = min(g.queries.unit for g in workload.groups)
    order = 1 if isinstance(cost, PureDP) else 2
    moved = workload.moved(order, replace=neighbours is Neighbours.REPLACE_ONE)
    # Queries that no record moves could be answered exactly; they get noise too.
    return calibrated(max(moved, 1), cost, unit)
