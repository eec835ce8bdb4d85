"""The probability distributions of noise: variance, expected size, quantiles, error bars and tail bounds of each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

import numpy as np

from qrelease._util.typing import Floats

NoiseLaw = Literal["discrete Laplace", "discrete Gaussian", "rounded Gaussian", "sum of reports"]


CONFIDENCE = 0.95
"""The probability with which a true count lies within the error bar of its noisy answer."""


@dataclass(frozen=True)
class Noise:
    """The distribution of the noise on an answer: discrete on the multiples of `unit`, of this scale, in counts.

    Attributes
    ----------
    law
        Its name: `discrete Laplace`, `discrete Gaussian`, `rounded Gaussian`, a real normal rounded to the nearest
        multiple.
    scale
        In counts: b of the discrete Laplace, P(y) ∝ e^(-|y|/b); σ of the discrete Gaussian, P(y) ∝ e^(-y²/2σ²), and of
        the rounded Gaussian.
    unit
        The step of the grid, in counts.

    Examples
    --------
    >>> noise = Noise("discrete Laplace", 2.0)
    >>> noise.variance, round(noise.half_width(), 2)
    (8.0, 6.49)
    """

    law: NoiseLaw
    scale: float
    unit: float = 1.0

    @property
    def order(self) -> Literal[1, 2]:
        """The norm of the sensitivity that it is calibrated to: L1 for Laplace noise, L2 for Gaussian."""
        return 1 if self.law == "discrete Laplace" else 2

    @property
    def variance(self) -> float:
        """An upper bound: that of the continuous law of the same scale, and 1/12 of a squared unit more if rounded."""
        if self.law == "rounded Gaussian":
            return self.scale**2 + self.unit**2 / 12
        return self.scale**2 * (2.0 if self.law == "discrete Laplace" else 1.0)

    @property
    def magnitude(self) -> float:
        """The expected absolute value, of the continuous law of the same scale."""
        return self.scale * (1.0 if self.law == "discrete Laplace" else math.sqrt(2 / math.pi))

    def half_width(self, terms: float = 1.0) -> float:
        """h such that a sum of so many independent draws lies within ±h with probability `CONFIDENCE`.

        The quantile of the continuous law (for a sum of Laplace draws, the variance-gamma law), and half a unit more
        for the grid.

        Parameters
        ----------
        terms : float
            How many; of a weighted sum the sum of the squared weights.

        Returns
        -------
        float
            h, a count.
        """
        # Sums of fewer Laplace draws have heavier tails: rounding down errs to the safe side.
        if self.law == "discrete Laplace":
            return self.scale * _quantile(min(max(int(terms), 1), 64)) * math.sqrt(terms) + self.unit / 2
        return math.sqrt(self.variance * terms) * _quantile(0) + self.unit / 2

    def reach(self, beta: float) -> float:
        """t, a count, such that one draw is beyond ±t with probability at most β.

        In units, P(|Z| >= t) = 2q^t/(1 + q) for the discrete Laplace law, q = e^(-1/b); a Gaussian is beyond tσ with
        probability at most 2e^(-t²/2), the discrete one too (Canonne, Kamath & Steinke 2020).

        Parameters
        ----------
        beta : float
            The probability, in (0, 1).

        Returns
        -------
        float
            t, a count.
        """
        if self.law == "discrete Laplace":
            return self.scale * max(0.0, math.log(2 / (beta * (1 + math.exp(-self.unit / self.scale)))))
        rounding = self.unit / 2 if self.law == "rounded Gaussian" else 0.0
        return self.scale * math.sqrt(2 * math.log(2 / beta)) + rounding

    def largest_of(self, draws: int, beta: float) -> float:
        """t, a count, such that the largest of so many independent draws exceeds it in size with probability at most β.

        P(|Y| > t) = 2q^(t+1) / (1 + q) for the discrete Laplace law on integers, q = e^(-1/b). A rounded Gaussian is
        within half a unit of a real one; P(Y >= m) of a discrete one is at most that of a real one at m - 1 (Canonne,
        Kamath & Steinke 2020, Proposition 25).

        Parameters
        ----------
        draws : int
            How many.
        beta : float
            The probability, in (0, 1).

        Returns
        -------
        float
            t, a count.
        """
        if self.law == "discrete Laplace":
            b = self.scale / self.unit
            return max(math.ceil(b * math.log(2 * draws / (beta * (1 + math.exp(-1 / b))))) - 1, 0) * self.unit
        from scipy.special import ndtri

        quantile = -float(ndtri(beta / (2 * draws)))
        return self.scale * quantile + self.unit * (0.5 if self.law == "rounded Gaussian" else 1.0)

    def weighted_sum_bound(self, squares: float, largest: float, beta: float) -> float:
        """d, a count, such that a weighted sum of independent draws is off by more with probability at most β.

        Parameters
        ----------
        squares
            The sum of the squared weights, A.
        largest
            The largest weight in size.
        beta
            The probability, in (0, 1).

        Returns
        -------
        float
            d, a count.

        Notes
        -----
        By Chernoff's bound, at h <= 1/(√2 b max a): the logarithm of a Laplace law's moment function, -ln(1 - (hab)²),
        is at most 2 ln 2 (hab)² there, and that of the discrete law is less. A discrete Gaussian's is at most (haσ)²/2
        (Canonne, Kamath & Steinke 2020), a rounded one's, by Hölder's inequality, as if σ were half a unit more.
        """
        logs = math.log(2 / beta)
        if self.law == "discrete Laplace":
            variance = 2 * math.log(2) * squares * self.scale**2
            if variance == 0:  # of a scale whose square is below the floats
                return 0.0
            h = min(math.sqrt(logs / variance), 1 / (math.sqrt(2) * self.scale * largest))
            return h * variance + logs / h
        sigma = self.scale + (self.unit / 2 if self.law == "rounded Gaussian" else 0.0)
        return sigma * math.sqrt(2 * logs * squares)

    def sum_bound(self, terms: int, tail: float) -> float:
        """t, a count, such that a sum of so many independent draws exceeds it with probability at most e^(-tail).

        A sum of c Gaussians of scale σ is beyond σ √(2c tail) with no larger a probability: the discrete Gaussian is
        sub-Gaussian (Canonne, Kamath & Steinke 2020). A discrete Laplace variable of scale b has E e^(tZ) <=
        1/(1 - t²b²), as the continuous one: it is (cosh 1/b - 1)/(cosh 1/b - cosh t), and cosh √u - 1 is convex in u
        and 0 at 0. That is at most e^(2t²b²) for t <= 1/(b√2), so a sum of c is beyond 2ctb² + tail/t with no larger a
        probability; t = √(tail/2c)/b is best, or the largest allowed.

        Parameters
        ----------
        terms : int
            How many.
        tail : float
            The negative logarithm of the probability, positive.

        Returns
        -------
        float
            t, a count.
        """
        if self.law == "discrete Laplace":
            t = min(math.sqrt(tail / (2 * terms)), math.sqrt(0.5)) / self.scale
            return 2 * terms * t * self.scale**2 + tail / t
        return self.scale * math.sqrt(2 * terms * tail)


@cache
def _quantile(laplace_terms: int) -> float:
    """The two-sided 95 % quantile of a sum of Laplace(1) draws over √terms; 0 terms stand for the normal law."""
    from scipy import special

    if laplace_terms == 0:
        return float(special.ndtri(0.5 + CONFIDENCE / 2))
    if laplace_terms == 1:
        return -math.log(1 - CONFIDENCE)
    from scipy.optimize import brentq

    # Given G ~ Gamma(terms), the sum is normal with variance 2G: average the normal's tail over quantiles of G.
    spread = np.sqrt(2 * special.gammaincinv(laplace_terms, (np.arange(2048) + 0.5) / 2048))

    def excess(h: float) -> float:
        return float(np.mean(2 * special.ndtr(-h / spread))) - (1 - CONFIDENCE)

    return float(brentq(excess, 0.1, 10 * math.sqrt(2 * laplace_terms))) / math.sqrt(laplace_terms)


def half_widths(variances: Floats, order: Literal[1, 2] = 2) -> Floats:
    """The half-widths of the 95 % error bars of unbiased answers with these variances.

    Parameters
    ----------
    variances
        (k,), of weighted sums of independent draws of noise.
    order
        `Noise.order` of the draws: 2 where all of them are Gaussian, 1 where some may be of a Laplace law.

    Returns
    -------
    ndarray of shape (k,)
        Standard deviations times 1.96 for Gaussian noise, the normal law's quantile; times 2.12 for Laplace noise, that
        of a single draw, b ln 20. A sum of several draws needs less, down to 1.96 for very many equal ones.
    """
    widths = np.sqrt(variances)
    widths *= _quantile(0) if order == 2 else _quantile(1) / math.sqrt(2)
    return widths


MAX_SCALE: Final = 1 << 50
"""Largest scale of the discrete Laplace and geometric laws."""


MAX_VARIANCE: Final = 1 << 80
"""Largest variance parameter of the discrete Gaussian law."""
