"""`Measurement`: noisy answers to the queries of one group, with the law of their noise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from qrelease._util.typing import Floats
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.noise.calibration import calibrated, sensitivity_of_one
from qrelease.noise.distributions import Noise
from qrelease.privacy.costs import Cost, Neighbours, PureDP
from qrelease.queries.families import Cells
from qrelease.queries.workload import Group, Workload

RECORDS = Group((), Cells(1))
"""How many records there are: the only query on the marginal of no columns."""


@dataclass(frozen=True, eq=False)
class Measurement:
    """Noisy answers to the queries of one group: unbiased and independent.

    Parameters
    ----------
    group
        The k queries.
    values
        (k,) counts.
    noise
        The distribution of the noise in each of them.
    repeats
        The number of independent draws of the noise whose mean the values have.

    Examples
    --------
    >>> import numpy as np
    >>> import qrelease as qr
    >>> from qrelease.noise.distributions import Noise
    >>> (sexes,) = qr.Workload.marginals(qr.Domain.coded({"sex": 2}), 1).groups
    >>> once = Measurement(sexes, np.array([251.0, 246.0]), Noise("discrete Gaussian", 3.0))
    >>> twice = once.averaged(Measurement(sexes, np.array([247.0, 252.0]), Noise("discrete Gaussian", 3.0)))
    >>> twice.values.tolist(), twice.variance
    ([249.0, 249.0], 4.5)
    """

    group: Group
    values: Floats
    noise: Noise
    repeats: int = 1

    @property
    def variance(self) -> float:
        """The variance of each value."""
        return self.noise.variance / self.repeats

    def averaged(self, other: Measurement) -> Measurement:
        """Two measurements of the same group under the same noise as one.

        Parameters
        ----------
        other : Measurement
            The second one.

        Returns
        -------
        Measurement
            The mean, weighted by how often each was repeated.

        Raises
        ------
        InvalidInput
            For another group, or another noise.
        """
        if (self.group, self.noise) != (other.group, other.noise):
            raise InvalidInput("only measurements of one group under one law can be averaged")
        both = self.repeats + other.repeats
        values = (self.repeats * self.values + other.repeats * other.values) / both
        return replace(self, values=values, repeats=both)


def noise_for(workload: Workload, cost: Cost, neighbours: Neighbours) -> tuple[Noise, Fraction]:
    """The noise that answers a whole workload once at a cost, and its exact scale b or variance σ², in units.

    Laplace of scale Δ₁/ε for pure ε [Dwork & Roth 2014, Thm 3.6], Gaussian of variance Δ₂²/2ρ for zCDP [Canonne, Kamath
    & Steinke 2020, Thm 14], both discrete; for (ε, δ) the analytic Gaussian [Balle & Wang 2018], rounded. All on the
    finest grid among the groups. Where a person counts once that grid is finer still (`Domain.weight_bits`), and she
    moves answers as one record does (`privacy.unit`): the noise is as large in counts.
    """
    bits = workload.domain.weight_bits
    unit = min(g.queries.unit for g in workload.groups)
    order = 1 if isinstance(cost, PureDP) else 2
    # Queries that no record moves could be answered exactly; they get noise too.
    far = workload.moved(order, replace=neighbours is Neighbours.REPLACE_ONE) or 1
    return calibrated(far * sensitivity_of_one(1 << bits, cost), cost, unit * 2.0**-bits)


def count_noise(domain: Domain, cost: Cost) -> tuple[Noise, Fraction]:
    """The noise that counts the records at a cost, or the persons where these count once; and its b or σ², in units."""
    bits = domain.weight_bits
    return calibrated(sensitivity_of_one(1 << bits, cost), cost, 2.0**-bits)


def as_stored(widths: Floats) -> Floats:
    """Half-widths to the four digits that a release stores: what is made of these is the same when it is loaded."""
    return np.array([float(f"{w:.4g}") for w in widths.tolist()])
