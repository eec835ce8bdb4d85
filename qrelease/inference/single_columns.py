"""What noisy measurements say of each column by itself, where the noise is about as loud as the counts.

**Quiet columns** are taken as they were measured, cells of hardly a record lifted to the noise: few categories are
empty. Of bins of numbers the far ones often are, and records that nobody has, far from all others, move means: so these
are the nearest distribution to what was measured, lifted to a tenth of the noise.

**Loud columns.** A measurement y = N(p - 1/n) + noise of a column of n cells is then far from any distribution: half of
the cells are negative, and what is kept of the others is mostly noise. So p is the mean of its posterior. A priori
p ∝ e^θ, with θ normal of variance ω, and ω log-uniform on `VARIANCES`: from nearly uniform to nearly all records in
one cell. Cells are independent, or, where there are `_LEAST_SMOOTH` of them, as likely change little from one to the
next (the covariance of `smooth_interactions`, of some length, and a tenth of the variance to each cell by itself). The
lengths and ω belong to the posterior: an order of cells that means nothing makes the measurement less likely.

Of two cells θ₁ - θ₂ is all that matters, so that the mean is an integral over one number. Of more it is of particles
that go from the prior to the posterior by small steps: annealed, resampled, and moved, all
cells at once by elliptical slice sampling and each by itself by Metropolis' rule (Del Moral, Doucet & Jasra 2006,
*Sequential Monte Carlo samplers*; Murray, Adams & MacKay 2010). It is post-processing, and the same for the same
measurements.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from math import log, log2, pi, sqrt
from typing import Final, final

import numpy as np
from numba import njit

from qrelease._util.parallel import one_thread
from qrelease._util.simplex import nearest_distribution
from qrelease._util.typing import Floats, Ints
from qrelease.inference.residuals import Estimates, Residual

_LEAST_SHARE: Final = 1e-4
"""Of the records: a cell of a column is not taken to have fewer."""
_LOUD: Final = 0.25
"""The deviation of the noise, over the mean count of a cell, from which on a column is loud."""
_LOUD_NUMBERS: Final = 0.35
"""The same of bins of numbers. Where they were learned about as many records are in most, and the prior takes those in
which hardly any are for such as well."""
_LIFTED_NUMBERS: Final = 0.1
"""To what part of the noise bins of numbers are lifted. With this and the bound above, the Wasserstein distance of
`benchmarks.learning --table flights --persons 20 --epsilon 1 --schema learned --seeds 4` is .14; with both as for
categories it was .20."""
_MOST_CELLS: Final = 256
"""Of a loud column: beyond it particles take long."""
_PARTICLES: Final = (128, 512)
"""The least and the largest number, and `_PARTICLE_CELLS` cells of them in all in between."""
_PARTICLE_CELLS: Final = 1 << 13
_MOVES: Final = 2
"""Of each particle at each temperature."""
_LAST_MOVES: Final = 8
VARIANCES: Final = (0.5, 25.0)
"""Of θ, the least and the largest ω: columns of real tables are rarely near uniform."""
_STEP: Final = 0.7
"""The deviation of what is added to log ω in a move."""
_CELL_STEPS: Final = (-3.0, 0.5)
"""Logarithms between which the deviations of steps of single cells are, over that of their prior."""
_LARGEST_EXPONENT: Final = 600.0
_DIFFERENCES: Final = 4_000
"""An even number, so that 0 is not among them."""
_DIFFERENCE_DEVIATIONS: Final = 6.0
_LEAST_SMOOTH: Final = 6
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
        if _is_loud(measured, total, numbers=_are_numbers(estimates, axis)):
            p, variance = _posterior_of(measured, total)
            found[axis,] = Residual((axis,), total * (p - 1 / len(p)), total**2 * variance)
    return replace(estimates, residuals=found)


def _total(estimates: Estimates) -> float:
    return max(float(estimates.residuals[()].values), 1.0)


def _are_numbers(estimates: Estimates, axis: int) -> bool:
    """Whether the cells of a column are bins of numbers."""
    return len(estimates.domain.attributes[axis].edges) > 0


def _is_loud(measured: Residual, total: float, *, numbers: bool) -> bool:
    cells, least = measured.values.size, _LOUD_NUMBERS if numbers else _LOUD
    return sqrt(measured.variance) * cells > least * total and 2 <= cells <= _MOST_CELLS


def _single(estimates: Estimates, axis: int) -> Floats:
    size, total = estimates.domain.shape[axis], _total(estimates)
    measured = estimates.residuals.get((axis,))
    if measured is None:
        return np.full(size, 1 / size)
    numbers = _are_numbers(estimates, axis)
    if _is_loud(measured, total, numbers=numbers):
        return _posterior_of(measured, total)[0]
    shares, noise = measured.values / total + 1 / size, sqrt(measured.variance) / total
    if numbers:
        shares, noise = nearest_distribution(shares), _LIFTED_NUMBERS * noise
    lifted = np.maximum(shares, max(noise, _LEAST_SHARE))
    found: Floats = lifted / lifted.sum()
    return found


def _posterior_of(measured: Residual, total: float) -> tuple[Floats, float]:
    """A total is rounded to a sixteenth of an octave: as more is measured it hardly changes, and few posteriors do."""
    total = 2 ** (round(16 * log2(total)) / 16)
    shares = np.ascontiguousarray(measured.values / total, np.float64)
    return _posterior(shares.tobytes(), measured.variance / total**2)


@lru_cache(maxsize=256)  # plans, selections and fits ask for the same ones
def _posterior(shares: bytes, variance: float) -> tuple[Floats, float]:
    """Of p (n,), measured as p - 1/n with noise of this variance: its mean, and the mean variance of a cell.

    shares  the bytes of what was measured
    """
    if len(shares) == 2 * np.float64().itemsize:
        return _posterior_of_two(np.frombuffer(shares), variance)
    with one_thread():
        particles = _Particles(np.frombuffer(shares), variance).settled()
    mean = particles.mean(axis=0)
    mean.flags.writeable = False
    return mean, float(particles.var(axis=0).sum()) / (len(mean) - 1)


def _posterior_of_two(measured: Floats, variance: float) -> tuple[Floats, float]:
    """The same of two cells, by a sum over a grid of θ₁ - θ₂."""
    chance, prior = _of_differences()
    off = (measured[0] + 1 / 2 - chance) ** 2 + (measured[1] + 1 / 2 - (1 - chance)) ** 2
    weights = prior * np.exp(-0.5 * (off - off.min()) / variance)
    weights /= weights.sum()
    first = float(weights @ chance)
    mean = np.array([first, 1 - first])
    mean.flags.writeable = False
    return mean, 2 * float(weights @ (chance - first) ** 2)


@lru_cache(maxsize=1)
def _of_differences() -> tuple[Floats, Floats]:
    """The first cell's share at each difference d = θ₁ - θ₂ of a grid, and how likely that is a priori, (grid,) each.

    d is normal of variance 2ω, with ω log-uniform from a to b: ∫ e^(-d²/4ω) ω^(-3/2) dω is, by s = 1/√ω,
    2√π (erf(|d|/2√a) - erf(|d|/2√b))/|d|.
    """
    from scipy.special import erfc

    reach = _DIFFERENCE_DEVIATIONS * sqrt(2 * VARIANCES[1])
    differences = np.linspace(-reach, reach, _DIFFERENCES)
    size = np.abs(differences)
    narrow, wide = (erfc(size / (2 * sqrt(omega))) for omega in VARIANCES)
    return 1 / (1 + np.exp(-differences)), (wide - narrow) / size


@final
class _Particles:
    """Samples of θ = smooth + rough, (particles, n) each, with an ω and a covariance of their own.

    fits     (particles,) the logarithm of each one's likelihood
    chances  (particles, n) e^θ, as shares
    """

    def __init__(self, measured: Floats, variance: float) -> None:
        self._measured, self._variance = measured + 1 / len(measured), variance
        self._number = number = min(max(_PARTICLE_CELLS // len(measured), _PARTICLES[0]), _PARTICLES[1])
        self._rng = np.random.default_rng(0)  # the mean is a function of the measurement
        self._roots = _roots(len(measured))
        lengths = len(self._roots)
        self._root_of = np.arange(number) // 2 % lengths * (np.arange(number) % 2)  # 0: no length, for half
        self._omega = np.exp(self._rng.uniform(log(VARIANCES[0]), log(VARIANCES[1]), number))
        self._smooth, self._rough = self._prior()
        self._fits, self._chances = self._likelihoods(self._smooth + self._rough)

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
                self._step_cells(heat)
        return self._chances

    def _prior(self) -> tuple[Floats, Floats]:
        """Fresh smooth and rough parts of each particle's prior."""
        rough = self._rng.normal(size=(self._number, len(self._measured))) * self._deviations[:, None]
        smooth = np.zeros_like(rough)
        for number, root in enumerate(self._roots[1:], start=1):
            those = self._root_of == number
            smooth[those] = self._rng.normal(size=(int(those.sum()), len(root))) @ root.T
        smooth *= np.sqrt((1 - _ROUGH) * self._omega)[:, None]
        return smooth, rough

    @property
    def _deviations(self) -> Floats:
        """Of each particle's rough part, (particles,)."""
        found: Floats = np.sqrt(self._omega * np.where(self._root_of == 0, 1.0, _ROUGH))
        return found

    def _likelihoods(self, theta: Floats) -> tuple[Floats, Floats]:
        chances = np.exp(theta - theta.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        off = self._measured - chances
        return -0.5 * np.einsum("ij,ij->i", off, off) / self._variance, chances

    def _step(self, left: float) -> float:
        """The largest step of the temperature at which the weights are those of half of the particles."""

        def effective(step: float) -> float:
            weights = np.exp(step * (self._fits - self._fits.max()))
            return float(weights.sum() ** 2 / (weights**2).sum())

        return left if effective(left) >= self._number / 2 else _root(effective, self._number / 2, left)

    def _resample(self, weights: Floats) -> None:
        """Systematic resampling: each particle as often as its weight says, rounded."""
        ends = np.cumsum(weights)
        kept = np.searchsorted(ends / ends[-1], (self._rng.random() + np.arange(self._number)) / self._number)
        self._smooth, self._rough, self._omega = self._smooth[kept], self._rough[kept], self._omega[kept]
        self._fits, self._chances, self._root_of = self._fits[kept], self._chances[kept], self._root_of[kept]

    def _take(self, those: Ints, smooth: Floats, rough: Floats, fits: Floats, chances: Floats) -> None:
        self._smooth[those], self._rough[those], self._fits[those], self._chances[those] = smooth, rough, fits, chances

    def _slice(self, heat: float) -> None:
        """Elliptical slice sampling, of all particles side by side."""
        before, other = (self._smooth.copy(), self._rough.copy()), self._prior()
        least = heat * self._fits + np.log(1 - self._rng.random(self._number))
        angle = self._rng.uniform(0, 2 * pi, self._number)
        low, high = angle - 2 * pi, angle.copy()
        left = np.arange(self._number)
        while len(left):
            cosine, sine = np.cos(angle[left, None]), np.sin(angle[left, None])
            smooth, rough = (a[left] * cosine + b[left] * sine for a, b in zip(before, other, strict=True))
            fits, chances = self._likelihoods(smooth + rough)
            taken = heat * fits >= least[left]
            self._take(left[taken], smooth[taken], rough[taken], fits[taken], chances[taken])
            left = left[~taken]
            below = angle[left] < 0
            low[left[below]], high[left[~below]] = angle[left[below]], angle[left[~below]]
            angle[left] = self._rng.uniform(low[left], high[left])

    def _scale(self, heat: float) -> None:
        """A step of Metropolis for ω, with θ over its root as it is."""
        least, most = map(log, VARIANCES)
        before = np.log(self._omega)
        after = before + _STEP * self._rng.normal(size=self._number)
        growth = np.exp((after - before) / 2)[:, None]
        smooth, rough = growth * self._smooth, growth * self._rough
        fits, chances = self._likelihoods(smooth + rough)
        chance = np.log(1 - self._rng.random(self._number))
        taken = np.flatnonzero((least < after) & (after < most) & (chance < heat * (fits - self._fits)))
        self._take(taken, smooth[taken], rough[taken], fits[taken], chances[taken])
        self._omega[taken] = np.exp(after[taken])

    def _step_cells(self, heat: float) -> None:
        """A step of Metropolis for the rough part of each cell, one after another: many cells need steps of each."""
        shape = self._rough.shape
        steps = self._rng.normal(size=shape) * np.exp(self._rng.uniform(*_CELL_STEPS, shape))
        chances = np.log(1 - self._rng.random(shape))
        _move_cells(self._measured, heat / self._variance, self._smooth, self._rough, self._deviations, steps, chances)
        self._fits, self._chances = self._likelihoods(self._smooth + self._rough)


@njit(cache=True, nogil=True)
def _move_cells(
    measured: Floats, rate: float, smooth: Floats, rough: Floats, deviations: Floats, steps: Floats, chances: Floats
) -> None:
    """A step for each cell of each particle, if the chance (particles, n) is below its logarithmic ratio; in place.

    Of the squared error Σ (y - e^θ/Z)² the sums of e^θ, y e^θ and e^2θ are kept.
    """
    particles, cells = rough.shape
    grown = np.empty(cells)
    for k in range(particles):
        total = weighted = squares = 0.0
        top = -np.inf
        for i in range(cells):
            top = max(top, smooth[k, i] + rough[k, i])
        for i in range(cells):
            grown[i] = math.exp(smooth[k, i] + rough[k, i] - top)
            total += grown[i]
            weighted += measured[i] * grown[i]
            squares += grown[i] * grown[i]
        error = (squares / total - 2 * weighted) / total
        for i in range(cells):
            old, new = rough[k, i], rough[k, i] + deviations[k] * steps[k, i]
            if smooth[k, i] + new - top > _LARGEST_EXPONENT:
                continue
            own = math.exp(smooth[k, i] + new - top)
            more = own - grown[i]
            total_of, weighted_of = total + more, weighted + measured[i] * more
            squares_of = squares + own * own - grown[i] * grown[i]
            error_of = (squares_of / total_of - 2 * weighted_of) / total_of
            prior = (old * old - new * new) / (2 * deviations[k] * deviations[k])
            if chances[k, i] < 0.5 * rate * (error - error_of) + prior:
                rough[k, i], grown[i] = new, own
                total, weighted, squares, error = total_of, weighted_of, squares_of, error_of


def _roots(cells: int) -> list[Floats]:
    """For each covariance a matrix (n, n) whose product with its transpose it is; the first, the identity, is empty."""
    found: list[Floats] = [np.zeros((0, 0))]
    if cells < _LEAST_SMOOTH:
        return found
    length, places = _SHORTEST, np.arange(cells)
    while length == _SHORTEST or 4 * length <= cells:
        kernel = np.exp(-0.5 * (np.subtract.outer(places, places) / length) ** 2)
        # Of long ones the kernel is singular but for rounding.
        root: Floats = np.linalg.cholesky(kernel + 1e-6 * np.eye(cells)).astype(np.float64, copy=False)
        found.append(root)
        length *= 2
    return found


def _root(function: Callable[[float], float], value: float, end: float) -> float:
    """Where a function that falls from 0 to `end` has a value, by bisection."""
    low, high = 0.0, end
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) >= value else (low, middle)
    return max(low, end * 1e-9)
