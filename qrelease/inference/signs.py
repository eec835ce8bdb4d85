"""What the signs of two columns tell of their marginal.

Each column is cut in two, its positive and its negative cells, so that a pair has four classes of cells: both positive,
the second negative, the first, both. Measured is how many records more there are of which the signs agree than of which
they do not.
"""

from __future__ import annotations

import numpy as np

from qrelease._util.typing import Floats, Ints
from qrelease.data.marginals import record_kernels
from qrelease.inference.interaction_prior import prior_variance
from qrelease.inference.measurement import Measurement
from qrelease.queries.products import Product

_LEAST_RATIO = 0.01  # of the records in a class, over those that independent columns would have: 0 has no logarithm
_PASSES = 20  # of raking four numbers to the sums of the columns


def signs(measured: Measurement) -> tuple[Floats, Floats]:
    """+1 or -1 for the cells of either column, (n,) each."""
    factors = measured.group.queries
    assert isinstance(factors, Product)
    first, second = (factor.adjoint(np.ones(1)) for factor in factors.factors)
    return first, second


def classes(measured: Measurement) -> Ints:
    """Which of the four classes each cell (cells,) of the marginal is in."""
    first, second = ((row < 0).astype(np.int64) for row in signs(measured))
    return np.add.outer(2 * first, second).reshape(-1)


def with_signs(table: Floats, noise: float, measured: Measurement) -> tuple[Floats, float]:
    """The best estimate of a marginal whose residual was measured too, and how much its agreement still varies.

    What the table says of each column, which is known much better, is left as it is.

    Parameters
    ----------
    table
        Estimated counts, of the shape of both columns.
    noise
        The variance of each cell of its residual.
    measured
        How often the signs of its columns agree.
    """
    first, second = signs(measured)
    beyond = np.outer(first - first.mean(), second - second.mean())
    varies, agreeing = noise * float((beyond**2).sum()), float(first @ table @ second)
    rate = noise / (varies + measured.variance)
    found = table + rate * (float(measured.values[0]) - agreeing) * beyond
    return found, varies * measured.variance / (varies + measured.variance)


def strength(records: Floats, expected: Floats, noise: float) -> float:
    """ω of the interaction of signs, from the records in classes; see `log_linear`."""
    found, _ = record_kernels.strength(records, expected, noise, prior_variance(2), False, np.zeros(len(records)), -1.0)
    return float(found)


def ratios(records: Floats, expected: Floats, noise: float, omega: float) -> Floats:
    """Of the four classes, the most likely number of records over that which independent columns would have, (4,).

    By (1) of `log_linear` to the first order in θ, and with the same records in each half of a column.

    Parameters
    ----------
    records, expected
        In each class: as measured, and of independent columns, (4,) counts.
    noise
        The variance of the measured ones.
    omega
        That of their interaction.
    """
    told = expected + (records - expected) * expected / (expected + noise / (1 + omega * expected))
    found, even = np.maximum(told, _LEAST_RATIO * expected).reshape(2, 2), expected.reshape(2, 2)
    for _ in range(_PASSES):
        for axis in (0, 1):
            found = found * even.sum(axis=axis, keepdims=True) / found.sum(axis=axis, keepdims=True)
    over: Floats = (found / even).reshape(-1)
    return over


def told(records: Floats, expected: Floats, noise: float, measured: Measurement) -> Floats:
    """What signs tell of each cell (cells,): its records over those that independent columns would have.

    Parameters
    ----------
    records, expected
        In each cell of the marginal: as measured, and of independent columns, (cells,) counts.
    noise
        The variance of how often the signs agree.
    measured
        The signs.
    """
    where = classes(measured)
    in_classes, even = (np.bincount(where, cells, 4).astype(np.float64) for cells in (records, expected))
    return ratios(in_classes, even, noise / 4, strength(in_classes, even, noise / 4))[where]
