"""Classifiers of others on the rows of our regressions: diffprivlib's, and DP-SGD accounted by hand as Opacus does."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln, logsumexp

from benchmarks.statistics import dpl
from qrelease.privacy.costs import ApproxDP
from qrelease.statistics.design import Design

Floats = npt.NDArray[np.float64]
Scored = Callable[[Floats, npt.NDArray[np.bool_], Floats], Floats]

RATE, STEPS, LENGTH, STEP = 0.05, 400, 1.0, 1.0


def sampled_gaussian_epsilon(rate: float, sigma: float, steps: int, delta: float) -> float:
    """ε of so many steps with noise σ on Poisson batches: Rényi divergences at whole orders (Mironov, Talwar & Zhang
    2019), added, and converted as Opacus converts them (Balle et al. 2020)."""
    best = math.inf
    for order in (*range(2, 64), 80, 128, 256):
        k = np.arange(order + 1)
        chance = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
        chance = chance + k * math.log(rate) + (order - k) * math.log1p(-rate)
        divergence = steps * float(logsumexp(chance + (k * k - k) / (2 * sigma**2))) / (order - 1)
        best = min(best, divergence + math.log1p(-1 / order) - math.log(delta * order) / (order - 1))
    return best


def dp_sgd(rows: Floats, yes: npt.NDArray[np.bool_], test: Floats, cost: ApproxDP) -> Floats:
    """Logistic regression: clipped gradients of Poisson batches, Gaussian noise, the average of the second half."""
    low, high = 0.3, 100.0
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        enough = sampled_gaussian_epsilon(RATE, middle, STEPS, cost.delta) <= cost.epsilon
        low, high = (low, middle) if enough else (middle, high)
    rng, signs = np.random.default_rng(0), np.where(yes, 1.0, -1.0)
    lengths, weights, mean = np.linalg.norm(rows, axis=1), np.zeros(rows.shape[1]), np.zeros(rows.shape[1])
    for step in range(STEPS):
        batch = rng.random(len(rows)) < RATE
        slopes = -signs[batch] / (1 + np.exp(signs[batch] * (rows[batch] @ weights)))
        slopes = slopes * np.minimum(1.0, LENGTH / np.maximum(np.abs(slopes) * lengths[batch], 1e-12))
        gradient = slopes @ rows[batch] + rng.normal(0, high * LENGTH, len(weights))
        weights = weights - STEP * gradient / (RATE * len(rows))
        mean = mean + weights * (2 / STEPS) * (step >= STEPS // 2)
    return test @ mean


def classifiers(design: Design, cost: ApproxDP) -> dict[str, Scored]:
    """By name, what they predict of a test side; without diffprivlib where it does not import."""

    def theirs(rows: Floats, yes: npt.NDArray[np.bool_], test: Floats) -> Floats:
        norm = math.sqrt(len(design.features) + 1)
        return np.array(dpl.logistic_scores(rows, yes, test, norm, cost.epsilon))

    def by_hand(rows: Floats, yes: npt.NDArray[np.bool_], test: Floats) -> Floats:
        return dp_sgd(rows, yes, test, cost)

    found: dict[str, Any] = {"DP-SGD, Opacus' accounting": by_hand}
    return found if dpl.missing() else found | {"diffprivlib, logistic": theirs}
