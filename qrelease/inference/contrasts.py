"""Measuring marginals under pure ε: each set of columns gets its own ε, and two-cell columns are measured as contrasts.

**What is measured of a set S of columns** is Cₛ = ⊗ᵢ Cᵢ of its marginal: Cᵢ = (1, -1) where column i has two cells,
else all its cells. Every column of every Cᵢ has L1 norm 1, so that of Cₛ has the product of them, 1: one record that is
added or removed moves the answers by 1 together, one that is replaced by 2 at most. Independent Laplace noise of scale
1/εₛ, or 2/εₛ, is εₛ-DP (Dwork & Roth 2014, Theorem 3.6), and all sets together Σ εₛ (Theorem 3.16). For columns of two
cells these are the Fourier coefficients of Barak, Chaudhuri, Dwork, Kale, McSherry & Talwar 2007. The tight frames of
`Residuals`, best for Gaussian noise, are not for this one: measured once with columns of L1 norm 1, their k columns of
two cells each take 2ᵏ draws of one number, and the noise of its mean has 2ᵏ times the variance.

**What it says.** With noise of variance v on each answer the residual of S has covariance sₛ Pₛ (`residuals`), sₛ =
v·2⁻ᵏ for k columns of two cells. *Proof.* (1, -1) measures x₁ - x₂, and (1, -1)/2 times that is the residual of x, of
covariance (v/4)·((1, -1), (-1, 1)) = (v/2)·P; the residual of all cells has vP; and the factors of a product multiply.
Summed over the columns U of more than two cells the answers also measure the residual of S∖U, with Π_{i∈U} nᵢ times v;
those of different sets are uncorrelated, as their images under orthogonal projections are (`Estimates.of`). ∎
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from qrelease._util.typing import Axes, Floats
from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.queries.families import Cells
from qrelease.queries.products import IntegerRows, Product
from qrelease.queries.workload import Group

if TYPE_CHECKING:
    from qrelease.inference.measurement import Measurement

_CONTRAST = IntegerRows(np.array([[1, -1]], np.int64), 1.0)


def contrasts(domain: Domain, axes: Axes) -> Group:
    """What is measured of a set of columns."""
    sizes = [domain.shape[a] for a in axes]
    if 2 not in sizes:
        return Group(axes, Cells(prod(sizes)))
    return Group(axes, Product(tuple(_CONTRAST if n == 2 else Cells(n) for n in sizes)))


def of_contrasts(measurement: Measurement, domain: Domain) -> Iterator[tuple[Axes, Floats, float]]:
    """What a measurement of contrasts says: sets, the table whose residual it is, counts, and its s. See the module.

    `InvalidInput` for a product of other factors.
    """
    group = measurement.group
    sizes = [domain.shape[a] for a in group.axes]
    if group != contrasts(domain, group.axes):
        raise InvalidInput("residuals, contrasts or whole marginals are needed, got another product")
    table = measurement.values.reshape([1 if n == 2 else n for n in sizes])
    for place, n in enumerate(sizes):
        if n == 2:
            table = np.concatenate([table, -table], axis=place) / 2
    wide = [place for place, n in enumerate(sizes) if n > 2]
    for order in range(len(wide) + 1):
        for summed in combinations(wide, order):
            kept = tuple(a for place, a in enumerate(group.axes) if place not in summed)
            spread = prod(sizes[place] for place in summed)
            yield kept, table.sum(axis=summed), measurement.variance * spread / 2.0 ** sizes.count(2)
