"""Interactions that change little from a cell of a column to the next, as those with age, hours or months do.

Interactions of two columns are taken to be normal with the covariance ω K₁ ⊗ K₂, and of another variance of each cell
by itself. K is the identity for a column whose cells say nothing of each other; for one whose cells are ordered,
K(i, j) = e^(-(i-j)²/2ℓ²): a Gaussian process (Rasmussen & Williams 2006), in which neighbours tell of each other and
noise is averaged over them. Which columns are so, the length ℓ of each, and both variances of each pair are those
under which the measurements are the most likely (empirical Bayes): an order that means nothing makes them less likely.
All this is post-processing of measurements.

Likelihoods are those of counts, as if a count were 1 + θ times what is expected of independent columns, and not e^θ
times that. Where interactions are so strong that this is far off, as along the diagonal of two columns that nearly
determine each other, nothing is taken to be smooth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import inf, sqrt
from typing import Final, final

import numpy as np

from qrelease._util.parallel import one_thread
from qrelease._util.typing import Axes, Floats, Mask

_LEAST_CELLS: Final = 6
_MOST_CELLS: Final = 512
"""Of a column: an eigenvalue problem of so many is solved for each length."""
_SHORTEST: Final = 1.5
"""The least length ℓ, in cells; others are twice, four times … that."""
_LONGEST: Final = 4
"""A column has so many times ℓ cells at least."""
_LIKE_NEIGHBOURS: Final = 3.0
"""Standard deviations that the products of neighbouring cells are above zero, of a column that is looked at further."""
_LEAST_EVIDENCE: Final = 5.0
"""By how much the logarithm of the likelihood must grow for a column to be taken as smooth: by a factor of 150."""
_VARIANCES: Final = (0.0, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
"""Of interactions: those that are tried for a pair. If the last one is the likeliest, they are too strong for this."""
_NEGLIGIBLE: Final = 1e-3
"""Eigenvalues of K over the largest, below which they are left out."""
_MOST_FACTORS: Final = 512
"""Dimensions of the smooth part of a pair with two smooth columns: with more, one of them is taken as not smooth."""
_MOST_NUMBERS: Final = 1 << 23
"""Of a pair: cells times dimensions, which are held at once."""


@final
@dataclass(frozen=True, eq=False)
class SmoothPair:
    """How the interactions of two columns are distributed.

    roots   for each column a matrix F (n, r) with F Fᵀ = K, or None where K is the identity; not None for both
    smooth  ω of the smooth part
    rough   the variance of each cell by itself besides
    """

    roots: tuple[Floats | None, Floats | None]
    smooth: float
    rough: float

    def told(
        self, target: Floats, expected: Floats, marginal: Floats, noise: Floats, theta: Floats, free: Mask
    ) -> Floats:
        """The smooth part (n₁, n₂) of interactions that is the most likely by this measurement and all others.

        One Newton step from where a fit is: θ changes by δ, the model's counts m by mδ. With v the measurement's noise
        and e what independent columns have, the residual over its noise r = (t - m - mδ)/v is where
        θ + δ = (1 + (rough + smooth K) e) r, and the smooth part is smooth·K e r.

        target, noise  t and v: counts, and counts squared
        expected       e, counts
        marginal       m of the model at θ, counts
        theta          θ, without what is told of it otherwise
        free           cells that are not known to be empty
        """
        rates = expected * free / (noise / marginal + 1 + self.rough * expected)
        pulls = rates * ((target - marginal) / marginal + theta)
        first, second = self.roots
        if first is not None and second is not None:
            root = np.kron(first, second)
            inner = np.eye(root.shape[1]) + self.smooth * (root.T * rates.reshape(-1)) @ root
            found = root @ np.linalg.solve(inner, root.T @ pulls.reshape(-1))
            return np.asarray(self.smooth * found.reshape(target.shape))
        # Where cells of the other column say nothing of each other, there is a system of equations for each of them.
        if first is not None:
            return np.asarray(self._apart(first, rates.T, pulls.T).T)
        assert second is not None
        return self._apart(second, rates, pulls)

    def _apart(self, root: Floats, rates: Floats, pulls: Floats) -> Floats:
        inner = np.eye(root.shape[1]) + self.smooth * np.matmul(root.T * rates[:, None, :], root)
        return np.asarray(self.smooth * np.linalg.solve(inner, (pulls @ root)[:, :, None])[:, :, 0] @ root.T)


@one_thread()
def smooth_pairs(
    residuals: Mapping[Axes, Floats], variances: Mapping[Axes, float], singles: Sequence[Floats], total: float
) -> dict[Axes, SmoothPair]:
    """The pairs of columns whose interactions are smooth, with their distributions.

    residuals  of pairs (n₁, n₂): what was measured beyond what is expected, counts
    variances  of their noise, counts squared
    singles    a distribution of each column, (n,)
    total      the number of records
    """
    plain = [_Basis(p, 0.0) for p in singles]
    measured = {s: _Measured(residual, variances[s], total) for s, residual in residuals.items()}
    apart = cache(lambda s: measured[s].likeliest(plain[s[0]], plain[s[1]]))
    smooth: dict[int, _Basis] = {}
    for axis, p in enumerate(singles):
        pairs = [s for s in residuals if axis in s]
        if not (_LEAST_CELLS <= len(p) <= _MOST_CELLS and _neighbours_alike(axis, pairs, measured)):
            continue
        gains: dict[_Basis, float] = {}
        for basis in (_Basis(p, length) for length in _lengths(len(p))):
            found = [measured[s].likeliest(*(basis if a == axis else plain[a] for a in s)) for s in pairs]
            gains[basis] = sum(f.logarithm - apart(s).logarithm for f, s in zip(found, pairs, strict=True))
        best = max(gains, key=lambda basis: gains[basis])
        if gains[best] > _LEAST_EVIDENCE:
            smooth[axis] = best
    chosen = {}
    for s, m in measured.items():
        options = [[plain[a], smooth[a]] if a in smooth else [plain[a]] for a in s]
        tried = [m.likeliest(one, other) for one, other in product(*options) if m.fits(one, other)]
        pair = max(tried, key=lambda found: found.logarithm).pair if len(tried) > 1 else None
        if pair is not None and pair.smooth > 0 and max(pair.smooth, pair.rough) < _VARIANCES[-1]:
            chosen[s] = pair
    return chosen


def _lengths(cells: int) -> list[float]:
    lengths = [_SHORTEST]
    while 2 * lengths[-1] * _LONGEST <= cells:
        lengths.append(2 * lengths[-1])
    return lengths


def _neighbours_alike(axis: int, pairs: Sequence[Axes], measured: Mapping[Axes, _Measured]) -> bool:
    """Whether residuals in neighbouring cells of a column have the same sign more often than by chance."""
    total = squares = 0.0
    for s in pairs:
        table = np.moveaxis(measured[s].residual, s.index(axis), 0) / sqrt(measured[s].noise)
        products = table[1:] * table[:-1]
        total, squares = total + float(products.sum()), squares + float((products**2).sum())
    return total > _LIKE_NEIGHBOURS * sqrt(squares)


@final
class _Basis:
    """The eigenvectors of the covariance that a column's cells have, scaled by how many records they have.

    root     (n, r) F with F Fᵀ = K; None where K is the identity
    factors  r, or 1
    vectors  (n, n) the eigenvectors, of the eigenvalues `smooth`; None where they are the cells
    rough    (n,) along each, the variance of cells that say nothing of each other
    sampled  (n,) along each, the variance that is due to the chance of which records there are
    """

    def __init__(self, distribution: Floats, length: float) -> None:
        self.root: Floats | None = None
        self.vectors: Floats | None = None
        self.factors = 1
        self.smooth, self.rough, self.sampled = distribution**2, distribution**2, distribution
        if length == 0:
            return
        places = np.arange(len(distribution))
        kernel = np.exp(-0.5 * (np.subtract.outer(places, places) / length) ** 2)
        values, vectors = np.linalg.eigh(kernel)
        kept = values > _NEGLIGIBLE * values[-1]
        self.root, self.factors = vectors[:, kept] * np.sqrt(values[kept]), int(kept.sum())
        values, vectors = np.linalg.eigh(distribution[:, None] * kernel * distribution)
        self.vectors = vectors
        self.smooth, self.rough = np.maximum(values, 0.0), distribution**2 @ vectors**2
        self.sampled = distribution @ vectors**2


@dataclass(frozen=True)
class _Likeliest:
    """The logarithm of the largest likelihood, up to a constant, and what it is reached with; None: nothing smooth."""

    logarithm: float
    pair: SmoothPair | None


@final
@dataclass(frozen=True, eq=False)
class _Measured:
    """What was measured of a pair of columns beyond what was expected (n₁, n₂), its noise's variance, and n."""

    residual: Floats
    noise: float
    total: float

    def fits(self, one: _Basis, other: _Basis) -> bool:
        """Whether what is smooth with these has few enough dimensions for memory."""
        factors = one.factors * other.factors
        return factors <= _MOST_FACTORS and factors * self.residual.size <= _MOST_NUMBERS

    def likeliest(self, one: _Basis, other: _Basis) -> _Likeliest:
        """The best variances, if columns have these covariances."""
        along = self.residual if one.vectors is None else one.vectors.T @ self.residual
        squares = (along if other.vectors is None else along @ other.vectors) ** 2
        rough = self.total**2 * np.multiply.outer(one.rough, other.rough)
        smooth = self.total**2 * np.multiply.outer(one.smooth, other.smooth)
        rest = self.noise + self.total * np.multiply.outer(one.sampled, other.sampled)
        plain = one.root is None and other.root is None
        best, found = -inf, (0.0, 0.0)
        for of_cells, of_smooth in product(_VARIANCES, _VARIANCES[:1] if plain else _VARIANCES):
            variance = rest + of_cells * rough + of_smooth * smooth
            logarithm = -0.5 * float((np.log(variance) + squares / variance).sum())
            if logarithm > best:
                best, found = logarithm, (of_cells, of_smooth)
        return _Likeliest(best, None if plain else SmoothPair((one.root, other.root), smooth=found[1], rough=found[0]))
