"""The bits of numpy's Laplace noise tell the truth; those of exact noise do not."""

import math
from fractions import Fraction

import numpy as np
import pytest

from qrelease.evaluation.attacks.floating import attainable, low_order_bits
from qrelease.noise.entropy import Entropy
from qrelease.noise.samplers import discrete_laplace

SCALE, RUNS = 8.0, 1000


def played(sampler):
    return low_order_bits("it", sampler, scale=SCALE, runs=RUNS, rng=np.random.default_rng(0))


def test_what_numpy_draws_is_attainable_and_its_neighbours_mostly_are_not():
    rng = np.random.default_rng(1)
    drawn = rng.laplace(1.0, SCALE, 500)
    assert all(attainable(float(y), 1.0, SCALE) for y in drawn)
    beside = [attainable(math.nextafter(float(y), math.inf), 1.0, SCALE) for y in drawn]
    assert np.mean(beside) < 0.5


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_numpys_noise_is_convicted(make):
    rng = make(2)
    found = played(lambda truth, k: rng.laplace(truth, SCALE, k))
    assert found.advantage.low > 0.4 > 5 * found.advantage.bound


@pytest.mark.parametrize("bits", [0, 20, 45])
def test_exact_noise_is_not_told_apart_on_any_grid(bits):
    """Also on a grid as fine as floats are: what could come out for one truth could for the other."""
    entropy = Entropy.insecure(3)

    def sampler(truth, k):
        return truth + discrete_laplace(Fraction(SCALE) * 2**bits, k, entropy) / 2.0**bits

    found = played(sampler)
    assert not found.advantage.convicts
    assert found.advantage.high < 0.3


def test_opendps_noise_is_not_told_apart():
    opendp = pytest.importorskip("opendp.prelude")
    opendp.enable_features("contrib")
    numbers = opendp.atom_domain(T=float, nan=False), opendp.absolute_distance(T=float)
    noisy = opendp.m.make_laplace(*numbers, scale=SCALE)
    found = played(lambda truth, k: np.array([noisy(truth) for _ in range(k)]))
    assert not found.advantage.convicts
    assert found.advantage.high < 0.3
