"""How columns of a table go together: correlations, Cramér's V and regression coefficients. On codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from qrelease._util.typing import Axes, Floats, Ints
from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.evaluation.quality.marginals import record_cells

_NORMAL = 1.959963984540054  # the 97.5 % quantile
_LEAST_SPREAD = 1 / 200  # standard deviations that are a smaller share of the range of codes are no unit


def ordered(domain: Domain) -> list[int]:
    """Columns whose codes have an order, or only two cells, so that correlations of codes mean something."""
    return [i for i, a in enumerate(domain.attributes) if a.size > 1 and (a.ordered or a.size == 2)]


def correlations(table: Table, columns: Sequence[int]) -> Floats:
    """Pearson's correlations of the codes, (c, c); 0 where a column is constant."""
    if len(columns) == 0:
        return np.zeros((0, 0))
    values = np.column_stack([table.columns[a].astype(np.float64) for a in columns])
    values -= values.mean(axis=0)
    sizes = np.sqrt((values**2).sum(axis=0))
    scaled = values / np.where(sizes > 0, sizes, 1.0)
    found: Floats = scaled.T @ scaled
    return found


def pair_counts(table: Table, pair: Axes) -> Ints:
    """The contingency table of two columns, (cells of the first, cells of the second)."""
    shape = table.domain.shape[pair[0]], table.domain.shape[pair[1]]
    return np.bincount(record_cells(table, pair), minlength=shape[0] * shape[1]).reshape(shape)


def dependence(counts: Ints) -> Fraction:
    """How far two columns are from independent ones, exact: the total variation between the density of their
    contingency table and that of independent columns, from 0 to 1; 0 of no records.

    With n records and r(ij) = x(ij) - x(i)x(j)/n it is Σ|r(ij)|/2n. A further record in (i, j) adds
    n/(n + 1) (e(i) - x(·)/n)(e(j) - x(·)/n)ᵀ to r, so that n times it moves by less than 2.
    """
    n = int(counts.sum())
    if not n:
        return Fraction(0)
    counts = counts if n < 1 << 31 else counts.astype(object)  # of Python's numbers, as n² may be beyond 64 bits
    across = counts.sum(axis=0)
    rows = (np.abs(n * counts - counts.sum(axis=1, keepdims=True) * across).sum(axis=1)).tolist()
    return Fraction(sum(rows), 2 * n * n)


def covariance(counts: Ints) -> Fraction:
    """The covariance of two columns' codes by their contingency table, exact; 0 of no records.

    It is Σ i j r(ij)/n, see `dependence`, so that n times it moves by less than the product of the ranges of the codes.
    """
    n = int(counts.sum())
    if not n:
        return Fraction(0)
    first, second = (np.arange(size, dtype=np.int64) for size in counts.shape)
    product, one, other = (
        int(s) for s in (first @ counts @ second, first @ counts.sum(axis=1), counts.sum(axis=0) @ second)
    )
    return Fraction(n * product - one * other, n * n)


def deviations(table: Table) -> Floats:
    """The standard deviation of each column's codes."""
    return np.array([float(column.std()) for column in table.columns])


def spread_pairs(table: Table, pairs: Sequence[Axes]) -> list[tuple[Axes, Fraction]]:
    """The pairs of columns whose covariance means something and whose codes differ enough in the table, each with one
    over the product of its standard deviations."""
    spread, shape = deviations(table), table.domain.shape
    kept = {a for a in ordered(table.domain) if spread[a] >= _LEAST_SPREAD * (shape[a] - 1)}
    return [((a, b), Fraction(1 / float(spread[a] * spread[b]))) for a, b in pairs if {a, b} <= kept]


def dependence_gap(real: Table, other: Table, pairs: Sequence[Axes]) -> float:
    """The mean of |dependence in one table - dependence in the other| over pairs of columns; NaN of none."""
    gaps = [abs(dependence(pair_counts(real, p)) - dependence(pair_counts(other, p))) for p in pairs]
    return float(sum(gaps) / len(gaps)) if gaps else np.nan


def covariance_gap(real: Table, other: Table, pairs: Sequence[Axes]) -> float:
    """The mean difference of covariances in size, in units of the other table's standard deviations; NaN of no pairs.

    Of equal deviations in both tables it is that of the correlations.
    """
    gaps = [
        w * abs(covariance(pair_counts(real, p)) - covariance(pair_counts(other, p)))
        for p, w in spread_pairs(other, pairs)
    ]
    return float(sum(gaps) / len(gaps)) if gaps else np.nan


def cramers_v(table: Table, first: int, second: int) -> float:
    """Cramér's V of two columns, from 0 for independent ones to 1 (Cramér 1946, §21.9); not corrected for its bias."""
    counts = pair_counts(table, (first, second))
    counts = counts[counts.sum(axis=1) > 0][:, counts.sum(axis=0) > 0]
    if min(counts.shape) < 2:
        return 0.0
    n = counts.sum()
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / n
    squares = float(((counts - expected) ** 2 / expected).sum())
    return float(np.sqrt(squares / (n * (min(counts.shape) - 1))))


@dataclass(frozen=True)
class Coefficient:
    """A regression coefficient of the codes, and half the width of its 95 % interval."""

    name: str
    value: float
    width: float


def regression(table: Table, target: int, columns: Sequence[int]) -> list[Coefficient]:
    """Least squares of a column's codes on others', with intervals that do not take equal variances for granted.

    The standard errors are White's, HC1 (MacKinnon & White 1985). Columns that are constant here are left out.
    """
    y = table.columns[target].astype(np.float64)
    used = [a for a in columns if a != target and np.ptp(table.columns[a].astype(np.int64)) > 0]
    design = np.column_stack([np.ones(len(y)), *(table.columns[a].astype(np.float64) for a in used)])
    inverse = np.linalg.pinv(design.T @ design)
    solved = inverse @ (design.T @ y)
    residuals = y - design @ solved
    spread = len(y) / max(len(y) - design.shape[1], 1)
    meat = (design * residuals[:, None] ** 2).T @ design
    errors = np.sqrt(np.maximum(np.diag(inverse @ meat @ inverse) * spread, 0.0))
    return [
        Coefficient(table.domain.names[a], float(solved[i]), float(_NORMAL * errors[i])) for i, a in enumerate(used, 1)
    ]


def overlap(one: Coefficient, other: Coefficient) -> float:
    """How much two intervals overlap, as the mean of the shares of each; negative where they are apart.

    Karr, Kohnen, Oganian, Reiter & Sanil 2006.
    """
    low = max(one.value - one.width, other.value - other.width)
    high = min(one.value + one.width, other.value + other.width)
    if not one.width or not other.width:
        return float(one.value == other.value)
    return (high - low) / 2 * (1 / (2 * one.width) + 1 / (2 * other.width))
