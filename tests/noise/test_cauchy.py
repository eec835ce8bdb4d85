"""The sampler of Cauchy noise has its distribution."""

import math

import numpy as np
import pytest
from scipy import stats

from qrelease.errors import InvalidInput
from qrelease.noise.cauchy import discrete_cauchy
from qrelease.noise.entropy import Entropy


def test_the_cauchy_sampler_has_its_law():
    """χ² on 20 000 draws: the scale it was given is accepted, one 30 % off is rejected."""
    for b in (1.0, 1.5, 20.25):
        drawn = discrete_cauchy(b, 6000, Entropy.insecure(5))
        edges = np.unique(np.round(b * np.tan(np.pi * (np.arange(1, 20) / 20 - 0.5)))).astype(int)
        counts = np.bincount(np.searchsorted(edges, drawn), minlength=len(edges) + 1)

        def p_value(scale, edges=edges, counts=counts):
            z = np.arange(-200_000, 200_001)
            masses = scale / math.pi * math.tanh(math.pi * scale) / (scale**2 + z.astype(float) ** 2)
            cells = np.bincount(np.searchsorted(edges, z), weights=masses, minlength=len(edges) + 1)
            return stats.chisquare(counts, cells / cells.sum() * counts.sum()).pvalue

        assert p_value(b) > 1e-3
        assert p_value(1.3 * b) < 1e-6
    with pytest.raises(InvalidInput):
        discrete_cauchy(0.5, 1, Entropy.insecure(0))
