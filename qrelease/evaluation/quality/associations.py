"""How columns of a table go together: correlations, Cramér's V and regression coefficients. On codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qrelease._util.typing import Floats
from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.evaluation.quality.marginals import record_cells

_NORMAL = 1.959963984540054  # the 97.5 % quantile


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


def cramers_v(table: Table, first: int, second: int) -> float:
    """Cramér's V of two columns, from 0 for independent ones to 1 (Cramér 1946, §21.9); not corrected for its bias."""
    shape = table.domain.shape[first], table.domain.shape[second]
    counts = np.bincount(record_cells(table, (first, second)), minlength=shape[0] * shape[1]).reshape(shape)
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
