"""Releases whose noise is enumerated, and whole releases audited on neighbouring tables."""

import math
from functools import partial

import numpy as np
import reference
from scipy.special import ndtr

from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.evaluation.audit import Distribution, audit, gaussian_distribution, laplace_distribution, released
from qrelease.noise import selection
from qrelease.noise.entropy import Entropy
from qrelease.noise.samplers import SAMPLERS
from qrelease.privacy import Neighbours
from qrelease.queries.workload import Workload

DOMAIN = Domain.coded({"a": 2, "b": 2})
SINGLES = Workload.marginals(DOMAIN, 1)
SWAP = Neighbours.REPLACE_ONE


def table(*records):
    return Table(DOMAIN, tuple(np.array(column) for column in zip(*records, strict=True)))


FOUR = ((0, 1),) * 4 + ((1, 1),)
TIPPED = table(*FOUR, (1, 1)), table(*FOUR, (0, 0))


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


def softmax(scores, gamma):
    weights = [math.exp(gamma * s) for s in scores]
    return Distribution({r: w / math.fsum(weights) for r, w in enumerate(weights)})


def coins(scores, gamma):
    return Distribution(dict(enumerate(reference.permute_and_flip_law(scores, gamma))))


CHOICES = {"exponential_mechanism": softmax, "permute_and_flip": coins}


def drawn_by(monkeypatch, noise, choose):
    """Of a source without random words two functions draw, which are told the law or the rule first."""

    def instead(usual, ours):
        return lambda *given, **options: (usual if hasattr(given[-1], "words") else ours)(*given, **options)

    for law in LAWS:
        monkeypatch.setitem(SAMPLERS, law, instead(SAMPLERS[law], partial(noise, law)))
    for rule in CHOICES:
        monkeypatch.setattr(selection, rule, instead(getattr(selection, rule), partial(choose, rule)))


def listed(monkeypatch):
    """Noise and selection take every value in turn: `enumerated` runs through them."""

    def drawn(law, parameter, size, choices):
        distribution = LAWS[law](parameter)
        return np.array([choices.draw(distribution) for _ in range(size)])

    def picked(rule, scores, epsilon, sensitivity, choices):
        return choices.draw(CHOICES[rule]((scores - scores.max()).tolist(), float(epsilon) / (2 * sensitivity)))

    drawn_by(monkeypatch, drawn, picked)


def hashable(transcript):
    """A transcript by which outputs can be told apart and counted, NaN being a value like others."""
    return tuple((name, -1.0 if value != value else value) for name, value in transcript.items())


CUBE = Domain.coded({"a": 2, "b": 2, "c": 2})
ALIKE = {Neighbours.ADD_REMOVE: ([0, 0, 0], [0, 0, 0, 0]), Neighbours.REPLACE_ONE: ([0, 0, 0], [0, 0, 1])}
"""Codes in every column of neighbours that differ in all marginals: records alike, and one more, or one opposite."""


def audited(mechanism, cost, neighbours, samples, domain=CUBE):
    """All that a release says of the marginals of two columns."""
    run = released(mechanism, Workload.marginals(domain, 2), cost, neighbours)
    pair = [Table(domain, (np.array(codes),) * len(domain)) for codes in ALIKE[neighbours]]
    return audit(run, *pair, cost, samples=samples, entropy=Entropy.insecure(10))
