"""Means, totals and counts of groups, shrunk to what they have in common: the model of Fay & Herriot, and mixtures.

A noisy sum S of a group of (noisy) size C has S = mC + noise, and the groups' means are m = xβ + u, with x a constant
and which cell of each column the group is in, and u normal of variance D = τ² + σ²/C: groups differ by what they are,
and small ones besides by who happens to be in them. What a cell of a column adds is random too, of variance κ²: a cell
that few records are in is not taken at its noisy word, and columns that say nothing get a κ near 0 and do no harm. What
cells in order add, such as ages, is besides a walk of independent steps about its mean: what is close is alike.
Given κ and D the best linear predictor of m is

    xβ̂ + DC/(DC² + V)·(S - C·xβ̂),     V = var S + (xβ̂)² var C,

with β̂ by generalised least squares, penalised by β²/κ². No sum is divided by C: a group that nobody is in gets xβ̂. The
unknown κ, τ and σ are averaged over by their likelihood, with β integrated out (REML) and flat priors, of σ for its
square, so that bars are honest where few groups say how much groups differ. Bars are about the model: over all groups
they cover about 95 %, in one group that differs more from the others than most groups do, less. The unbiased answer
stands beside it.

*Noise that cells share.* Tables are measured by residuals, so the noise of their cells is not independent: its
covariance is the sum of λ times a projector, on the sum of all cells, on contrasts between cells of each column, and
so on (`TableNoise`). Where another question needs the total too, it is known much better than a sum of cells of
independent noise, and so is what all groups have in common. With λ the rest's mean, the covariance of S - mC is λ on
the diagonal, and Z diag(v) Zᵀ besides, of few columns Z: these are further coefficients, beside β, of variances v,
and their part of the noise is taken off what is measured of a group. Where a λ is below the rest's, its v is negative:
the formulas are identities in v, wherever the covariance is positive. Of many cells Z has the sum alone.

*Totals* T = aC + bmC, for values a + bm, have two answers: what is measured of them, aC + bS, which has the whole noise
of both; and the noisy count times the model's mean, (a + b·xβ̂)C, which has that of one. Their mean with weights r and
1 - r is off by

    (a + (1 - r)b·xβ̂)·δC + rb·δS - (1 - r)bC·u,     δ the noise,

the three independent of each other, and r is the one of least variance: near 1 for groups of many records, whose means
may be anywhere near xβ̂; and less where values are mostly far from the middle a, for then noise in C is the worst of it.

*Counts* of groups are numbers from 0 on, most of them small in a table of many cells. Under an exponential prior of
scale s and normal noise the count is a normal number of mean y - σ²/s, cut off below 0. The prior is taken to be a
mixture of exponentials of many scales and of empty groups, and, where groups are by several columns, of one whose scale
is what a group would have were the columns independent; its weights are those that make the noisy counts likeliest (an
empirical Bayes estimate: Robbins 1956; Kiefer & Wolfowitz 1956). It has no bar of its own, as a mixture of
exponentials knows nothing of counts that leave a gap between 0 and some standard deviations. The bar of the noisy count
holds the truth in every group 19 times out of 20, whatever the others are.

References
----------
Fay & Herriot 1979, *Estimates of income for small places*. Datta & Ghosh 1991, *Bayesian prediction in linear models*.
Henderson 1975, *Best linear unbiased estimation and prediction under a selection model*, for the penalised β̂. Strang
1999, *The discrete cosine transform*.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Final, final

import numpy as np
from scipy import special

from qrelease._util.typing import Floats

_TAUS: Final = np.concatenate([[0.0], np.geomspace(1e-3, 1.5, 20)])
"""Standard deviations of groups' means that are considered, at means from -1 to 1."""

_SIGMAS: Final = np.geomspace(0.02, 1.0, 10)
"""Standard deviations of values within groups, likewise; values from -1 to 1 have no larger one. Their variance is flat
beforehand, not their logarithm: where noise hides them, groups that are all alike would get bars too narrow."""

_SPREADS: Final = np.array(
    [
        (tau, sigma, step * part)
        for (tau, step), (sigma, part) in product(
            zip(_TAUS, np.gradient(_TAUS), strict=True), zip(_SIGMAS, _SIGMAS * np.gradient(_SIGMAS), strict=True)
        )
    ]
)
"""Each τ with each σ, and the weight of the two, (210, 3)."""

_KAPPAS: Final = ((0.0, 1.0), (0.03, 0.5), (0.1, 0.5), (0.3, 0.5))
"""Standard deviations of what a cell of one column adds, each with its weight: it may be any."""

_FEWEST_STEPS: Final = 3
"""Cells in order, below which none is between two others."""

_MOST_WAVES: Final = 12
"""Of a walk; faster ones are hardly there."""

_FLAT: Final = 1e-9
"""One over the variance of the grand mean, of which nothing is known beforehand."""

_MAX_WORK: Final = 1 << 22
"""Groups times squared cells of their columns; beyond it groups have their grand mean in common alone."""

_MAX_SHARED: Final = 1 << 16
"""Groups times the squared cells of their columns; beyond it of the noise only the sum over all groups is taken to be
shared."""

_MAX_BLOCK: Final = 1 << 18
"""Numbers in the designs that are worked on together."""

_PASSES: Final = 2

_LEAST_NOISE: Final = 1e-9
"""A variance for groups that a condition leaves nobody in, whose counts have no noise."""

_NEGLIGIBLE: Final = 1e-6
"""Of a cell's noise: parts in common that are smaller are left out."""

_QUANTILE: Final = 1.96

_FEWEST: Final = 10
"""Groups, below which their noisy counts say too little about each other."""

_MOST_COUNTS: Final = 1 << 14
"""Groups, beyond which it would take seconds to say what they have in common."""

_SCALES: Final = np.geomspace(0.5, 4096.0, 14)
"""Of the exponential priors of counts, in standard deviations of the noise."""

_LEAST_SCALE: Final = 0.05
"""Of the prior by independent columns, likewise: next to an empty group."""

_ROUNDS: Final = 200
_PRIOR_WEIGHT: Final = 0.1
"""Groups that each part of the mixture has beforehand, so that none is ruled out."""


@final
@dataclass(frozen=True)
class TableNoise:
    """What is known of the noise in the cells of a table.

    variance  of every cell
    parts     the variances of what cells have in common, as of independent cells: of their sum over the root of their
              number, and of the contrasts between the cells of each column; none, where cells are independent
    """

    variance: float
    parts: tuple[float, ...] = ()

    def divided(self, shape: tuple[int, ...], *, by_column: bool) -> tuple[float, Floats]:
        """The variance that is each cell's own, and of each of the parts what it has besides, which may be negative.

        by_column  whether each column has parts of its own, or the sum of all cells alone
        """
        cells, sizes = int(np.prod(shape, dtype=np.int64)), [1, *(n - 1 for n in shape)]
        if not self.parts or cells == 1:
            return self.variance, np.zeros(len(sizes))
        several = by_column and sum(n > 1 for n in shape) > 1  # of one column, all but the sum is its contrasts
        known = [(n, v) for n, v in zip(sizes, self.parts, strict=True)][: None if several else 1]
        own = (cells * self.variance - sum(n * v for n, v in known)) / (cells - sum(n for n, _ in known))
        besides = np.zeros(len(sizes))
        besides[: len(known)] = [v - own for _, v in known]
        return own, besides


def shrunk_counts(counts: Floats, variance: float, shape: tuple[int, ...]) -> Floats:
    """The model's count of each group, (k,); of few groups and of very many the noisy counts themselves.

    counts    noisy, (k,)
    variance  of their noise
    shape     of the groups, whose product is k
    """
    sigma = float(np.sqrt(variance))
    if not sigma or not _FEWEST <= len(counts) <= _MOST_COUNTS:
        return counts
    y = counts / sigma
    scales = np.broadcast_to(_SCALES, (len(y), len(_SCALES)))
    if len(shape) > 1:
        scales = np.concatenate([scales, np.maximum(_independent(y, shape), _LEAST_SCALE)[:, None]], axis=1)
    # Of each part the density of y, and the normal that is cut off at 0.
    middle = y[:, None] - 1 / scales
    logs = 0.5 / scales**2 - y[:, None] / scales - np.log(scales) + special.log_ndtr(middle)
    empty = -0.5 * y**2 - 0.5 * np.log(2 * np.pi)
    logs = np.concatenate([empty[:, None], logs], axis=1)
    likely = np.exp(logs - logs.max(axis=1, keepdims=True))
    weights = np.full(logs.shape[1], 1 / logs.shape[1])
    for _ in range(_ROUNDS):
        part = likely * weights
        part /= part.sum(axis=1, keepdims=True)
        weights = part.sum(axis=0) + _PRIOR_WEIGHT
        weights /= weights.sum()
    part = likely * weights
    part /= part.sum(axis=1, keepdims=True)
    hazard = np.exp(-0.5 * middle**2 - 0.5 * np.log(2 * np.pi) - special.log_ndtr(middle))
    found: Floats = sigma * (part[:, 1:] * (middle + hazard)).sum(axis=1)
    return found


def _independent(counts: Floats, shape: tuple[int, ...]) -> Floats:
    """What each group would have were its columns independent, (k,), from noisy counts of standard deviation 1."""
    table = counts.reshape(shape)
    total = max(float(table.sum()), 1.0)
    found = np.full(shape, total)
    for axis in range(len(shape)):
        others = tuple(i for i in range(len(shape)) if i != axis)
        found = found * np.maximum(table.sum(axis=others, keepdims=True), 1.0) / total
    return found.reshape(-1)


def shrunk_means(
    sums: Floats,
    counts: Floats,
    noise: tuple[TableNoise, TableNoise],
    shape: tuple[int, ...],
    ordered: tuple[int, ...] = (),
) -> tuple[Floats, Floats]:
    """The model's mean of each group, (k,) from -1 to 1, and half-widths (k,) of 95 % bars.

    sums, counts  noisy, (k,)
    noise         theirs
    shape         of the groups, whose product is k
    ordered       of each column, how many of its cells, the first ones, are in order; by default none are
    """
    return _bars(*_shrunk(sums, counts, of_tables(*noise, shape), _effects(shape, ordered)))


def shrunk_totals(
    sums: Floats,
    counts: Floats,
    noise: tuple[TableNoise, TableNoise],
    line: tuple[float, float],
    shape: tuple[int, ...],
    ordered: tuple[int, ...] = (),
) -> tuple[Floats, Floats]:
    """The model's total of each group, (k,), and half-widths (k,) of 95 % bars.

    sums, counts  noisy, (k,)
    noise         theirs
    line          a and b, of values a + bm for m from -1 to 1
    shape         of the groups, whose product is k
    ordered       as of `shrunk_means`
    """
    middle, half = line
    of_sums, of_counts = (table.variance for table in noise)
    measured, size = middle * counts + half * sums, np.maximum(counts, 0.0)
    if len(sums) == 1:  # there is nothing to have in common
        return measured, np.full(1, _QUANTILE * np.sqrt(middle**2 * of_counts + half**2 * of_sums))

    def moments(known: _Fitted) -> tuple[Floats, Floats]:
        common, differ = middle + half * known.common, known.spread * size**2
        rate = differ + common / half * known.common * of_counts
        rate = np.clip(rate / (differ + of_sums + known.common**2 * of_counts), 0, 1)
        unlike = known.spread * (size**2 + of_counts) + known.off * size**2  # C² is at most about that of both
        variance = (common - rate * half * known.common) ** 2 * of_counts
        variance += half**2 * (rate**2 * of_sums + (1 - rate) ** 2 * unlike)
        return (1 - rate) * size * common + rate * measured, variance

    found, variance = _shrunk(sums, counts, of_tables(*noise, shape), _effects(shape, ordered), moments)
    return found, _QUANTILE * np.sqrt(variance)


def shrunk_shares(
    parts: Floats,
    counts: Floats,
    noise: tuple[Floats, Floats, Floats],
    shape: tuple[int, ...],
    ordered: tuple[int, ...] = (),
) -> tuple[Floats, Floats]:
    """The model's share of each group that is part of it, (k,) from 0 to 1, and half-widths (k,) of 95 % bars.

    parts, counts  noisy, (k,): how many records are in the part, and in the group
    noise          their variances, and their covariance, of one shape that broadcasts to (k,)
    shape          of the groups, whose product is k
    ordered        as of `shrunk_means`
    """
    var_part, var_count, covariance = noise

    def of_mean(mean: Floats) -> _Noise:
        """Of 2(part - p·count), p being the share: as m = 2p - 1 is the mean of signs, of its sum less
        m times the count."""
        p = (1 + mean) / 2
        own = 4 * np.maximum(var_part - 2 * p * covariance + p**2 * var_count, _LEAST_NOISE)
        return _Noise(np.broadcast_to(own, mean.shape), np.zeros((len(mean), 0)), np.zeros(0))

    mean, half = _bars(*_shrunk(2 * parts - counts, counts, of_mean, _effects(shape, ordered)))
    return (1 + mean) / 2, half / 2


def _bars(mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Means from -1 to 1, and half-widths."""
    return np.clip(mean, -1, 1), np.minimum(_QUANTILE * np.sqrt(variance), 2.0)


@final
@dataclass(frozen=True, eq=False)
class _Noise:
    """The noise of S - mC at some means.

    own      the variance of what each group has of its own, (k,)
    shared   what groups have of parts in common, (k, q)
    inverse  one over the variance of each part, (q,): negative, where groups have more of their own than in truth
    """

    own: Floats
    shared: Floats
    inverse: Floats


def of_tables(sums: TableNoise, counts: TableNoise, shape: tuple[int, ...]) -> Callable[[Floats], _Noise]:
    """Of a table of sums and one of counts, whose noise is independent of each other's."""
    codes, cells = np.indices(shape).reshape(len(shape), -1), int(np.prod(shape, dtype=np.int64))
    by_column = cells * sum(shape) ** 2 <= _MAX_SHARED
    (own_sums, of_sums), (own_counts, of_counts) = (t.divided(shape, by_column=by_column) for t in (sums, counts))
    bases = [np.full((cells, 1), 1 / np.sqrt(cells))]
    if by_column:
        bases += [_contrasts(n)[code] * np.sqrt(n / cells) for n, code in zip(shape, codes, strict=True)]
    least = _NEGLIGIBLE * min(own_sums, own_counts or own_sums)

    def parts(variances: Floats) -> tuple[Floats, Floats]:
        kept = [(basis, v) for basis, v in zip(bases, variances, strict=False) if abs(v) > least]
        inverse = [np.full(basis.shape[1], 1 / v) for basis, v in kept]
        return np.concatenate([np.zeros((cells, 0)), *(b for b, _ in kept)], axis=1), np.concatenate([[], *inverse])

    (first, of_first), (second, of_second) = parts(of_sums), parts(of_counts)

    def noise(mean: Floats) -> _Noise:
        shared = np.concatenate([first, second * mean[:, None]], axis=1)
        return _Noise(own_sums + mean**2 * own_counts, shared, np.concatenate([of_first, of_second]))

    return noise


def _contrasts(cells: int) -> Floats:
    """An orthonormal basis of what cells differ by, (cells, cells - 1): cosines."""
    place = (np.arange(cells) + 0.5)[:, None] / cells
    found: Floats = np.sqrt(2 / cells) * np.cos(np.pi * place * np.arange(1, cells))
    return found


@final
@dataclass(frozen=True, eq=False)
class _Fitted:
    """What is known of groups' means under each of several κ, τ and σ, (h, k).

    common    xβ̂, what groups have in common
    off       its variance
    spread    D, the variance of u
    shared    of the noise, what is shared, as it is estimated
    unsure    its variance
    together  the covariance of the two
    """

    common: Floats
    off: Floats
    spread: Floats
    shared: Floats
    unsure: Floats
    together: Floats


_Moments = Callable[[_Fitted], tuple[Floats, Floats]]
"""The mean and variance of what is asked of each group, (h, k)."""


def _shrunk(
    sums: Floats,
    counts: Floats,
    noise: Callable[[Floats], _Noise],
    effects: Floats,
    moments: _Moments | None = None,
) -> tuple[Floats, Floats]:
    """The mean and variance of each group's mean, or of other `moments`.

    noise  of S - mC at some means, on which it depends weakly
    """
    size = np.maximum(counts, 0.0)
    mean = np.full(len(sums), float(np.clip(sums.sum() / max(size.sum(), 1.0), -1, 1)))
    for _ in range(_PASSES - 1):
        mean = np.clip(_averaged(sums, size, noise(mean), effects, of_means(sums, size, noise(mean)))[0], -1, 1)
    return _averaged(sums, size, noise(mean), effects, moments or of_means(sums, size, noise(mean)))


def of_means(sums: Floats, size: Floats, noise: _Noise) -> _Moments:
    """The means of the groups themselves, given what is known of them under each D."""

    def moments(known: _Fitted) -> tuple[Floats, Floats]:
        total = known.spread * size**2 + noise.own
        rate = known.spread * size / total
        found = known.common + rate * (sums - size * known.common - known.shared)
        rest = 1 - rate * size
        variance = rest**2 * known.off - 2 * rest * rate * known.together + rate**2 * known.unsure
        return found, np.maximum(known.spread * noise.own / total + variance, 0.0)

    return moments


def _averaged(sums: Floats, size: Floats, noise: _Noise, effects: Floats, moments: _Moments) -> tuple[Floats, Floats]:
    """The mean and variance of what is asked of each group, over what is known of κ, τ and σ."""
    constant, found = np.ones((len(sums), 1)), []
    for kappa, width in _KAPPAS if effects.size else [(0.0, 1.0)]:
        design = np.concatenate([constant, effects], axis=1) if kappa else constant
        penalty = np.full(design.shape[1], 1 / kappa**2 if kappa else 0.0)
        penalty[0] = _FLAT
        most = max(_MAX_BLOCK // (design.size + noise.shared.size), 1)
        for first in range(0, len(_SPREADS), most):
            tau, sigma, weight = _SPREADS[first : first + most].T
            spread = tau[:, None] ** 2 + sigma[:, None] ** 2 / np.maximum(size, 1.0)
            log, known = given_spread(sums, size, noise, design, penalty, spread)
            found.append((log + np.log(weight * width), *moments(known)))
    logs, means, variances = (np.concatenate(part) for part in zip(*found, strict=True))
    likely = np.exp(logs - logs.max())
    likely /= likely.sum()
    mean = likely @ means
    return mean, likely @ (variances + (means - mean) ** 2)


def given_spread(
    sums: Floats, size: Floats, noise: _Noise, design: Floats, penalty: Floats, spread: Floats
) -> tuple[Floats, _Fitted]:
    """The log-likelihood (h,), and what is known of each group's mean, for some D and variances of β.

    penalty  one over the variance of each coefficient
    spread   D of each group, (h, k), in each of several cases

    Shared parts of the noise are further coefficients, by which S has covariance Z diag(v) Zᵀ besides: of some v < 0
    too, as all that follows holds for every v by which the covariance of S is positive (Woodbury's identity).
    """
    own, first = spread * size**2 + noise.own, design.shape[1]
    columns = np.concatenate([design * size[:, None], noise.shared], axis=1)
    penalty = np.concatenate([penalty, noise.inverse])
    rows = columns / np.sqrt(own)[:, :, None]
    across = rows.transpose(0, 2, 1)
    inner = across @ rows + np.diag(penalty)
    inverse = np.linalg.inv(inner)
    beta = (inverse @ (across @ (sums / np.sqrt(own))[:, :, None]))[:, :, 0]
    missed = ((sums - beta @ columns.T) ** 2 / own).sum(axis=1) + beta**2 @ penalty
    log = -0.5 * (np.log(own).sum(axis=1) + missed + np.linalg.slogdet(inner)[1] - np.log(np.abs(penalty)).sum())
    of_design, of_shared = design @ inverse[:, :first], noise.shared @ inverse[:, first:]
    return log, _Fitted(
        beta[:, :first] @ design.T,
        (of_design[:, :, :first] * design).sum(axis=2),
        spread,
        beta[:, first:] @ noise.shared.T,
        (of_shared[:, :, first:] * noise.shared).sum(axis=2),
        (of_design[:, :, first:] * noise.shared).sum(axis=2),
    )


def _effects(shape: tuple[int, ...], ordered: tuple[int, ...]) -> Floats:
    """What each group has of what the cells of each column add, (k, coefficients), all of variance κ².

    Of one column alone only what its order says: that cells differ is what u is for.
    """
    cells, parts = int(np.prod(shape, dtype=np.int64)), list[tuple[int, Floats]]()
    for i, (n, first) in enumerate(zip(shape, ordered or (0,) * len(shape), strict=True)):
        if n**2 * cells > _MAX_WORK and len(shape) > 1:
            return np.zeros((cells, 0))
        parts += [(i, np.eye(n))] if len(shape) > 1 else []
        parts += [(i, _walk(n, first))] if first >= _FEWEST_STEPS else []
    width = sum(part.shape[1] for _, part in parts)
    if not width or cells * width**2 > _MAX_WORK:
        return np.zeros((cells, 0))
    codes = np.indices(shape).reshape(len(shape), -1)
    return np.concatenate([part[codes[i]] for i, part in parts], axis=1)


def _walk(cells: int, ordered: int) -> Floats:
    """A root of the covariance of a walk on those cells of a column that are in order, at κ = 1, (cells, waves).

    A walk about its mean has the covariance of the path's Laplacian inverted, whose eigenvectors are cosines (Strang
    1999): its slowest waves, of a mean variance of 1. The cells that follow, such as what is missing, have none of it.
    """
    waves = np.arange(1, min(ordered - 1, _MOST_WAVES) + 1)
    found = np.zeros((cells, len(waves)))
    place = (np.arange(ordered) + 0.5)[:, None] / ordered
    walk = np.cos(np.pi * place * waves) / np.sin(np.pi * waves / (2 * ordered))
    found[:ordered] = walk / np.sqrt((walk**2).sum(axis=1).mean())
    return found
