"""Bounds on noise that hold for all queries of a class at once, so that an adversary may choose the query afterwards.

Whoever sees answers that were read off one noisy table can look for the query on which its noise is largest. So what a
table promises, it promises to all queries of a class together: with probability 1 - β none of them is off by more. Then
it does not matter who chooses which, or when.

**Discrete noise.** Discrete Laplace noise of scale b is the difference of the integer parts of two exponential numbers,
whose fractions are independent of them (and equal in law): so it is the conditional mean of continuous Laplace noise
given itself, and by Jensen's inequality no convex function of it has a larger mean. So Chernoff's bound for the
continuous law holds for the discrete one, on any grid; and the mean of e^(hY), for the discrete Gaussian, is at most
e^(h²σ²/2) (Canonne, Kamath & Steinke 2020).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
from scipy import optimize, special

from qrelease._util.typing import Floats


def laplace_sums(counts: Mapping[int, int], beta: float) -> float:
    """t, in units of b: with probability 1 - β no query of a class is off by more than t b.

    counts  by the number of cells m that a query sums up, each with Laplace noise of scale b: how many queries do so

    The sum of m noises exceeds t with probability at most e^(-ht) (1 - h²)^-m, least at h = (√(m² + t²) - m)/t. Both
    sides, and a union bound.
    """
    m = np.array(list(counts), np.float64)
    logs = np.log(2.0) + np.array([math.log(n) for n in counts.values()])

    def surplus(t: float) -> float:
        h = (np.sqrt(m * m + t * t) - m) / t
        return float(np.logaddexp.reduce(logs - m * np.log1p(-h * h) - h * t)) - math.log(beta)

    return _least(surplus, 4 * math.sqrt(float(m.max())) + 8)


def laplace_averages(squares: Floats, largest: Floats, counts: Floats, beta: float) -> float:
    """t, in units of b: with probability 1 - β no query of a class is off by more than t b.

    squares  (k,) the sum of the squared weights that k kinds of queries give to noises of scale b
    largest  (k,) no weight of a kind is larger
    counts   (k,) how many queries are of each kind

    A noise of weight w has E e^(hwY) = 1/(1 - h²w²), and -ln(1 - x)/x grows with x: so Σ -ln(1 - h²w²) is at most that
    of squares/largest² noises which all have the largest weight, which is the case of `laplace_sums`.
    """
    m, logs = squares / largest**2, np.log(2 * counts)

    def surplus(t: float) -> float:
        far = t / largest
        h = (np.sqrt(m * m + far * far) - m) / far
        return float(np.logaddexp.reduce(logs - m * np.log1p(-h * h) - h * far)) - math.log(beta)

    return _least(surplus, 4 * math.sqrt(float(squares.max())) + 8)


def laplace_norm(cells: int, beta: float) -> float:
    """t, in units of b: with probability 1 - β no query with entries in [0, 1] is off by more than t b.

    The worst such query sums up all noises that are positive, or all that are negative. E e^(h max(Y, 0)) is
    1/2 + 1/(2 - 2h) for one cell: Chernoff's bound, least where (1 - h)(2 - h) is cells/t.
    """

    def surplus(t: float) -> float:
        h = max((3 - math.sqrt(1 + 4 * cells / t)) / 2, 0.0)
        return cells * math.log(0.5 + 0.5 / (1 - h)) - h * t + math.log(2 / beta)

    return _least(surplus, cells + 8.0)


def gaussian_union(deviations: Floats, counts: Floats, beta: float) -> float:
    """t such that with probability 1 - β no query of a class is off by more than t.

    deviations  (k,) standard deviations of the errors of k kinds of queries
    counts      (k,) how many queries are of each kind
    """
    noisy = deviations > 0

    def surplus(t: float) -> float:
        logs = special.log_ndtr(-t / deviations[noisy]) + np.log(2 * counts[noisy])
        return float(np.logaddexp.reduce(logs)) - math.log(beta)

    return _least(surplus, 4 * float(deviations.max()))


def _least(surplus: Callable[[float], float], guess: float) -> float:
    """Where a decreasing function falls to 0, or a little beyond.

    Such functions sum exponentials by `numpy.logaddexp`, as `scipy.special.logsumexp` takes fifty times as long for the
    few that they are, and prices of answers are found so again and again.
    """
    high = guess
    while surplus(high) > 0:
        high *= 2
    low = high
    while surplus(low) <= 0:
        low /= 2
    found = float(optimize.brentq(surplus, low, high, rtol=1e-9))
    return found * (1 + 1e-8)
