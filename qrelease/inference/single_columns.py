"""What noisy measurements say of each column by itself, where the noise is about as loud as the counts.

**Quiet columns** are taken as they were measured, cells of hardly a record lifted to the noise.

**Loud columns.** A measurement y = N(p - 1/n) + noise of a column of n cells is then far from any distribution: half of
the cells are negative, and what is kept of the others is mostly noise. So p is the mean of its posterior. A priori
p ∝ e^θ, with θ normal of variance ω, and ω log-uniform on `_VARIANCES`: from nearly uniform to nearly all records in
one cell. Cells are independent, or, where there are `_LEAST_SMOOTH` of them, as likely change little from one to the
next (the covariance of `smooth_interactions`, of some length, and a tenth of the variance to each cell by itself). The
lengths and ω belong to the posterior: an order of cells that means nothing makes the measurement less likely.

The mean is of particles that go from the prior to the posterior by small steps: annealed, resampled, and moved by
elliptical slice sampling (Del Moral, Doucet & Jasra 2006, *Sequential Monte Carlo samplers*; Murray, Adams & MacKay
2010). It is post-processing, and the same for the same measurements.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from math import log, pi, sqrt
from typing import Final, final

import numpy as np

from qrelease._util.parallel import one_thread
from qrelease._util.typing import Floats, Mask
from qrelease.inference.residuals import Estimates, Residual

_LEAST_SHARE: Final = 1e-4
"""Of the records: a cell of a column is not taken to have fewer."""
_LOUD: Final = 0.25
"""The deviation of the noise, over the mean count of a cell, from which on a column is loud."""
_MOST_CELLS: Final = 4096
"""Of a loud column: beyond it particles take long."""
_PARTICLES: Final = 256
_MOVES: Final = 4
"""Of each particle at each temperature."""
_LAST_MOVES: Final = 12
_VARIANCES: Final = (0.5, 25.0)
_STEP: Final = 0.7
"""The deviation of what is added to log ω in a move."""
_LEAST_SMOOTH: Final = 6
_MOST_SMOOTH: Final = 512
_SHORTEST: Final = 1.5
"""The least length, in cells; others are twice, four times … that, up to a quarter of the cells."""
_ROUGH: Final = 0.1
"""The share of ω of a smooth column that each cell has by itself."""


def singles(estimates: Estimates) -> list[Floats]:
    """A distribution of each column of the universe, (n,), all positive; uniform where nothing was measured of it."""
    return [_single(estimates, axis) for axis in range(len(estimates.domain))]


def with_likely_columns(estimates: Estimates) -> Estimates:
    """The estimates that a fit shall follow: a loud column by itself is as its posterior says.

    Its variance is the mean one of the cells: error bars are not to rest on it.
    """
    total, found = _total(estimates), dict(estimates.residuals)
    for (axis,), measured in ((s, r) for s, r in estimates.residuals.items() if len(s) == 1):
        if _is_loud(measured, total):
            p, variance = _posterior_of(measured, total)
            found[axis,] = Residual((axis,), total * (p - 1 / len(p)), total**2 * variance)
    return replace(estimates, residuals=found)


def _total(estimates: Estimates) -> float:
    return max(float(estimates.residuals[()].values), 1.0)


def _is_loud(measured: Residual, total: float) -> bool:
    cells = measured.values.size
    return sqrt(measured.variance) * cells > _LOUD * total and 2 <= cells <= _MOST_CELLS


def _single(estimates: Estimates, axis: int) -> Floats:
    size, total = estimates.domain.shape[axis], _total(estimates)
    measured = estimates.residuals.get((axis,))
    if measured is None:
        return np.full(size, 1 / size)
    if _is_loud(measured, total):
        return _posterior_of(measured, total)[0]
    counts = np.maximum(measured.values + total / size, max(sqrt(measured.variance), _LEAST_SHARE * total))
    found: Floats = counts / counts.sum()
    return found


def _posterior_of(measured: Residual, total: float) -> tuple[Floats, float]:
    shares = np.ascontiguousarray(measured.values / total, np.float64)
    return _posterior(shares.tobytes(), measured.variance / total**2)


@lru_cache(maxsize=256)  # plans, selections and fits ask for the same ones
def _posterior(shares: bytes, variance: float) -> tuple[Floats, float]:
    """Of p (n,), measured as p - 1/n with noise of this variance: its mean, and the mean variance of a cell.

    shares  the bytes of what was measured
    """
    with one_thread():
        particles = _Particles(np.frombuffer(shares), variance).settled()
    mean = particles.mean(axis=0)
    mean.flags.writeable = False
    return mean, float(particles.var(axis=0).sum()) / (len(mean) - 1)


@final
class _Particles:
    """Samples of θ (particles, n), each with its own ω and covariance.

    fits     (particles,) the logarithm of each one's likelihood
    chances  (particles, n) e^θ, as shares
    """

    def __init__(self, measured: Floats, variance: float) -> None:
        self._measured, self._variance = measured, variance
        self._rng = np.random.default_rng(0)  # the mean is a function of the measurement
        self._roots = _roots(len(measured))
        smooth = len(self._roots) - 1
        numbers = np.arange(_PARTICLES)
        self._roots_of = np.where((numbers % 2 == 0) | (smooth == 0), 0, 1 + numbers // 2 % max(smooth, 1))
        self._omega = np.exp(self._rng.uniform(*map(log, _VARIANCES), _PARTICLES))
        self._theta = self._prior()
        self._fits, self._chances = self._likelihoods(self._theta)

    def settled(self) -> Floats:
        """Samples of p from its posterior, (particles, n)."""
        heat = 0.0
        while heat < 1:
            step = self._step(1 - heat)
            weights = np.exp(step * (self._fits - self._fits.max()))
            heat = 1.0 if step >= 1 - heat else heat + step
            self._resample(weights / weights.sum())
            for _ in range(_MOVES if heat < 1 else _LAST_MOVES):
                self._slice(heat)
                self._scale(heat)
        return self._chances

    def _prior(self) -> Floats:
        """Fresh θ of each particle's prior."""
        found = self._rng.normal(size=(_PARTICLES, len(self._measured)))
        for number, root in enumerate(self._roots[1:], start=1):
            those = self._roots_of == number
            smooth = self._rng.normal(size=(int(those.sum()), len(root))) @ root.T
            found[those] = sqrt(1 - _ROUGH) * smooth + sqrt(_ROUGH) * found[those]
        found *= np.sqrt(self._omega)[:, None]
        return found

    def _likelihoods(self, theta: Floats) -> tuple[Floats, Floats]:
        chances = np.exp(theta - theta.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        off = self._measured + 1 / len(self._measured) - chances
        return -0.5 * np.einsum("ij,ij->i", off, off) / self._variance, chances

    def _step(self, left: float) -> float:
        """The largest step of the temperature at which the weights are those of half of the particles."""

        def effective(step: float) -> float:
            weights = np.exp(step * (self._fits - self._fits.max()))
            return float(weights.sum() ** 2 / (weights**2).sum())

        return left if effective(left) >= _PARTICLES / 2 else _root(effective, _PARTICLES / 2, left)

    def _resample(self, weights: Floats) -> None:
        """Systematic resampling: each particle as often as its weight says, rounded."""
        ends = np.cumsum(weights)
        kept = np.searchsorted(ends / ends[-1], (self._rng.random() + np.arange(_PARTICLES)) / _PARTICLES)
        self._take(np.ones(_PARTICLES, np.bool_), self._theta[kept], self._fits[kept], self._chances[kept])
        self._omega, self._roots_of = self._omega[kept], self._roots_of[kept]

    def _take(self, those: Mask, theta: Floats, fits: Floats, chances: Floats) -> None:
        self._theta[those], self._fits[those], self._chances[those] = theta, fits, chances

    def _slice(self, heat: float) -> None:
        """Elliptical slice sampling, of all particles side by side."""
        old, other = self._theta.copy(), self._prior()
        least = heat * self._fits + np.log(1 - self._rng.random(_PARTICLES))
        angle = self._rng.uniform(0, 2 * pi, _PARTICLES)
        low, high = angle - 2 * pi, angle.copy()
        left = np.arange(_PARTICLES)
        while len(left):
            turned = angle[left, None]
            theta = old[left] * np.cos(turned) + other[left] * np.sin(turned)
            fits, chances = self._likelihoods(theta)
            taken = heat * fits >= least[left]
            self._theta[left[taken]], self._fits[left[taken]] = theta[taken], fits[taken]
            self._chances[left[taken]] = chances[taken]
            left = left[~taken]
            below = angle[left] < 0
            low[left[below]], high[left[~below]] = angle[left[below]], angle[left[~below]]
            angle[left] = self._rng.uniform(low[left], high[left])

    def _scale(self, heat: float) -> None:
        """A step of Metropolis for ω, with θ over its root as it is."""
        least, most = map(log, _VARIANCES)
        before = np.log(self._omega)
        after = before + _STEP * self._rng.normal(size=_PARTICLES)
        theta = self._theta * np.exp((after - before) / 2)[:, None]
        fits, chances = self._likelihoods(theta)
        chance = np.log(1 - self._rng.random(_PARTICLES))
        taken = (least < after) & (after < most) & (chance < heat * (fits - self._fits))
        self._take(taken, theta[taken], fits[taken], chances[taken])
        self._omega[taken] = np.exp(after[taken])


def _roots(cells: int) -> list[Floats]:
    """For each covariance a matrix (n, n) whose product with its transpose it is; the first, the identity, is empty."""
    found = [np.zeros((0, 0))]
    if not _LEAST_SMOOTH <= cells <= _MOST_SMOOTH:
        return found
    length, places = _SHORTEST, np.arange(cells)
    while length == _SHORTEST or 4 * length <= cells:
        kernel = np.exp(-0.5 * (np.subtract.outer(places, places) / length) ** 2)
        found.append(np.linalg.cholesky(kernel + 1e-6 * np.eye(cells)))  # long ones are singular but for rounding
        length *= 2
    return found


def _root(function: Callable[[float], float], value: float, end: float) -> float:
    """Where a function that falls from 0 to `end` has a value, by bisection."""
    low, high = 0.0, end
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) >= value else (low, middle)
    return max(low, end * 1e-9)
