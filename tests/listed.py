"""Noise and selection that take every value in turn, so that `enumerated` runs a whole mechanism through them."""

import math
from functools import partial

import numpy as np
import reference
from scipy.special import ndtr

from qrelease.evaluation.audit import Distribution, gaussian_distribution, laplace_distribution
from qrelease.mechanisms.private_data import _SAMPLERS
from qrelease.noise import selection


def rounded_gaussian_distribution(variance):
    """A continuous Gaussian, rounded to whole numbers, but for a tail of mass 1e-15."""
    sigma = math.sqrt(variance)
    grid = np.arange(-math.ceil(8.5 * sigma) - 1, math.ceil(8.5 * sigma) + 2)
    # By symmetry each mass is that of its negative: the left tail has no rounding of numbers near 1.
    near = -np.abs(grid)
    masses = np.where(grid == 0, 1 - 2 * ndtr(-0.5 / sigma), ndtr((near + 0.5) / sigma) - ndtr((near - 0.5) / sigma))
    return Distribution(dict(zip(grid.tolist(), masses.tolist(), strict=True)), 1e-15)


LAWS = {
    "discrete Laplace": laplace_distribution,
    "discrete Gaussian": gaussian_distribution,
    "rounded Gaussian": rounded_gaussian_distribution,
}


def listed(monkeypatch):
    """Let all noise and selection be drawn from the `Choices` that stand for the entropy."""

    def drawn(law, size, choices):
        return np.array([choices.draw(law) for _ in range(size)])

    def picked(law, scores, epsilon, sensitivity, choices):
        return choices.draw(law((scores - scores.max()).tolist(), float(epsilon) / (2 * sensitivity)))

    def softmax(scores, gamma):
        weights = [math.exp(gamma * s) for s in scores]
        return Distribution({r: w / math.fsum(weights) for r, w in enumerate(weights)})

    def coins(scores, gamma):
        return Distribution(dict(enumerate(reference.permute_and_flip_law(scores, gamma))))

    for name, law in LAWS.items():
        monkeypatch.setitem(_SAMPLERS, name, lambda scale, n, choices, law=law: drawn(law(scale), n, choices))
    monkeypatch.setattr(selection, "exponential_mechanism", partial(picked, softmax))
    monkeypatch.setattr(selection, "permute_and_flip", partial(picked, coins))
