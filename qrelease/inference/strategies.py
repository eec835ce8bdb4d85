"""The queries by which others are measured best: the matrix mechanism's optimal strategy, with a certificate.

To answer queries W one measures A x with Gaussian noise and takes A's least squares. With columns of A of norm at most
1, and σ = 1, all answers together have the squared error tr(V X⁻¹), V = WᵀW, X = AᵀA, diag X <= 1 (Li, Miklau, Hay,
McGregor & Rastogi 2015, *The matrix mechanism*). For any positive diagonal Λ and any such X

    tr(V X⁻¹) tr(Λ X) >= (tr M)²,  M = (Λ^½ V Λ^½)^½,     so that    tr(V X⁻¹) >= (tr M)² / tr Λ,

by Cauchy's and Schwarz's inequality for the trace: the certificate. (At Λ = I it is the singular value bound of Li &
Miklau 2013.) It is met by X = Λ^-½ M Λ^-½ where diag X = 1, that is where λ = diag M: a fixed point. A
step goes half as far again as λ ← diag M, which where V is diagonal only halves the distance, in logarithms. The
columns of any iterate, made to norm 1, are a strategy, usually within a thousandth of the bound after a few steps.

Strategies for factors make one for their Kronecker product: errors, bounds and norms multiply.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

import numpy as np

from qrelease._util.typing import Floats
from qrelease.queries.families import Cells, Intervals, Queries
from qrelease.queries.products import Factor, IntegerRows, Product, query_rows

MAX_CELLS: Final = 1024
"""Of a factor: a step is an eigenvalue decomposition, some 0.2 s for so many."""

_GAP: Final = 1e-3
_STEPS: Final = 100
_STRETCH: Final = 1.5
_ROUNDING: Final = 1e-16
_FLOOR: Final = 1e-10
"""Of the mean square of a cell's queries, added to each: cells that no query tells apart are measured too, faintly."""


@dataclass(frozen=True, eq=False)
class Strategy:
    """What to measure, and how good it is, at σ = 1 under add-remove.

    rows     the integer matrix A
    error    tr(V X⁻¹), the sum of the squared errors of all queries, by A as it is, rounded, at its exact norm
    weights  λ, (cells,): the certificate
    bound    (tr M)² / tr Λ, what no unbiased mechanism of additive Gaussian noise can do better than
    """

    rows: IntegerRows
    error: float
    weights: Floats
    bound: float

    @classmethod
    def optimal(cls, gram: Floats, unit: float) -> Strategy:
        """The best strategy for queries W over up to `MAX_CELLS` cells; `gram`, WᵀW, is (cells, cells), not all zero.

        unit  a power of two to whose multiples entries are rounded; the columns' norms are 1
        """
        n = len(gram)
        full = gram + np.eye(n) * (_FLOOR * gram.trace() / n)
        weights = np.ones(n)
        for _ in range(_STEPS):
            matrix, diagonal, gap = _iterate(full, weights)
            if gap <= _GAP:
                break
            weights = np.asarray(weights * (diagonal / weights) ** _STRETCH, np.float64)
        rows = IntegerRows(np.rint(matrix / unit).astype(np.int64), unit)
        error = float((gram * covariance(rows)).sum()) * norm(rows)
        return cls(rows, error, weights, lower_bound(gram, weights))


def _iterate(gram: Floats, weights: Floats) -> tuple[Floats, Floats, float]:
    """The strategy M^½ Λ^-½ with columns of norm at most 1, diag M, and by how much it may miss the least error."""
    root = np.sqrt(weights)
    values, vectors = np.linalg.eigh(root[:, None] * gram * root)
    singular = np.sqrt(np.maximum(values, values[-1] * _ROUNDING))
    diagonal = (vectors**2) @ singular
    # Each column by its own norm; or all by the largest, which keeps the row space where that has few dimensions.
    own, common = np.sqrt(diagonal), root * np.sqrt((diagonal / weights).max())
    inverse = (vectors / singular) @ vectors.T  # of M
    errors = [float((gram * inverse * np.outer(n, n)).sum()) for n in (own, common)]
    scaled = own if errors[0] <= errors[1] else common
    gap = min(errors) * float(weights.sum() / singular.sum() ** 2) - 1
    return np.sqrt(singular)[:, None] * vectors.T / scaled, diagonal, gap


def lower_bound(gram: Floats, weights: Floats) -> float:
    """(tr M)² / tr Λ for any λ >= 0, (cells,)."""
    root = np.sqrt(weights)
    values = np.linalg.eigvalsh(root[:, None] * gram * root)
    return float(np.sqrt(np.maximum(values, 0)).sum() ** 2 / weights.sum())


def covariance(rows: IntegerRows) -> Floats:
    """(AᵀA)⁻¹, (cells, cells): of the least squares estimates of all cells under unit noise on each row, in counts."""
    inverse = np.linalg.inv(rows.products * rows.unit**2)
    symmetric: Floats = np.asarray((inverse + inverse.T) / 2, np.float64)
    return symmetric


def norm(rows: IntegerRows) -> float:
    """The largest squared norm of a column, in counts squared."""
    return rows.sensitivity(2, replace=False) * rows.unit**2


def gram(queries: Queries) -> Floats:
    """V = WᵀW of a family, (cells, cells), in counts squared."""
    n = queries.cells
    if isinstance(queries, Intervals):
        m, codes = queries.values, np.arange(queries.values)
        later, earlier = np.maximum.outer(codes, codes), np.minimum.outer(codes, codes)
        found = np.zeros((n, n))
        found[:m, :m] = (m - later) * (1 if queries.prefixes else earlier + 1)
        return found
    if isinstance(queries, Product):
        whole: Any = np.ones((1, 1))  # numpy's stubs lose the type of the entries
        for factor in queries.factors:
            whole = np.kron(whole, gram(factor))
        kron: Floats = whole
        return kron
    unit = np.eye(n)
    return np.stack([queries.adjoint(queries.apply(row)) for row in unit]) * queries.unit**2


def variances(queries: Queries, covariances: Sequence[Floats]) -> Floats:
    """The variances of a family's answers over one marginal, (k,), counts squared: w (C₁ ⊗ C₂ ⊗ …) w for each query w.

    covariances  C of blocks of adjacent cells: their numbers of cells multiply to the marginal's
    """
    if isinstance(queries, Cells):
        return reduce(np.multiply.outer, map(np.diag, covariances), np.ones(1)).reshape(-1)
    if isinstance(queries, Product):
        return _of_product(queries.factors, covariances)
    if isinstance(queries, Intervals) and len(covariances) == 1:
        running = np.zeros((queries.cells + 1,) * 2)
        running[1:, 1:] = covariances[0].cumsum(axis=0).cumsum(axis=1)
        low, after = queries.ends[0], queries.ends[1] + 1
        found: Floats = running[after, after] - 2 * running[low, after] + running[low, low]
        return found
    parts = []
    for rows in query_rows(queries):
        cube = rows.reshape(-1, *(len(c) for c in covariances))
        spread = cube
        for axis, c in enumerate(covariances, start=1):
            spread = np.moveaxis(np.tensordot(spread, c, (axis, 0)), -1, axis)
        parts.append((cube * spread).reshape(len(rows), -1).sum(axis=1))
    return np.concatenate(parts) * queries.unit**2


def _of_product(factors: Sequence[Factor], covariances: Sequence[Floats]) -> Floats:
    first, *rest = factors
    if len(covariances) == len(factors):
        parts = [variances(f, [c]) for f, c in zip(factors, covariances, strict=True)]
        return reduce(np.multiply.outer, parts).reshape(-1)
    (full,) = covariances
    cube = full.reshape((first.cells, len(full) // first.cells) * 2)
    within = [np.tensordot(row, np.tensordot(cube, row, (2, 0)), (0, 0)) for rows in query_rows(first) for row in rows]
    return np.concatenate([_of_product(rest, [c]) for c in within]) * first.unit**2
