"""The exact source of noise: the samplers' own draws, from one stream, and labels that are about equally likely."""

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from qrelease.noise import selection
from qrelease.noise.cauchy import discrete_cauchy
from qrelease.noise.entropy import Entropy
from qrelease.noise.samplers import SAMPLERS
from qrelease.noise.sparse_vector import SparseVector
from qrelease.privacy import PureDP
from qrelease.statistics.noise_source import ExactNoise


@pytest.mark.parametrize("name", SAMPLERS)
def test_noise_is_what_the_sampler_of_that_law_draws(name):
    """And the stream goes on where it ended."""
    one, other = ExactNoise(Entropy.insecure(3)), Entropy.insecure(3)
    law = SimpleNamespace(law=name)
    for size in (1, 50):
        assert one.noise(law, Fraction(7, 2), size).tolist() == SAMPLERS[name](Fraction(7, 2), size, other).tolist()
    assert one.cauchy(Fraction(3)) == discrete_cauchy(Fraction(3), 1, other)[0]


@pytest.mark.parametrize(
    ("rule", "chooses"),
    [("exponential", selection.exponential_mechanism), ("permute-and-flip", selection.permute_and_flip)],
)
@pytest.mark.parametrize("monotone", [False, True])
def test_a_choice_is_made_by_the_rule_that_is_asked_for(rule, chooses, monotone):
    scores, epsilon = np.array([0, 3, 5, 5, -2]), Fraction(1, 2)
    one, other = ExactNoise(Entropy.insecure(5)), Entropy.insecure(5)
    found = [one.choose(scores, epsilon, 2, rule, monotone=monotone) for _ in range(60)]
    assert found == [chooses(scores, epsilon, 2, other, monotone=monotone) for _ in range(60)]
    assert len(set(found)) > 2


@pytest.mark.parametrize("below", [1, 2, 7, 1000])
def test_labels_are_as_many_as_asked_and_each_about_as_likely(below):
    found = ExactNoise(Entropy.insecure(7)).labels(20_000, below)
    assert (found.dtype, len(found)) == (np.int64, 20_000)
    seen = np.bincount(found, minlength=below)
    assert len(seen) == below
    if below > 1:
        assert stats.chisquare(seen).pvalue > 1e-3
    if 1 < below < 1000:
        skewed = np.array([1.2, *[1] * (below - 1)])
        assert stats.chisquare(seen, 20_000 * skewed / skewed.sum()).pvalue < 1e-6


def test_no_labels_and_those_of_very_many_are_in_range():
    source = ExactNoise(Entropy.insecure(8))
    assert source.labels(0, 5).tolist() == []
    found = source.labels(1000, 1 << 31)
    assert 0 <= found.min() < found.max() < 1 << 31
    assert found.max() > 1 << 30


def test_a_stream_is_of_the_same_words_as_one_that_is_made_by_itself():
    values = np.random.default_rng(1).integers(-20, 20, 300)
    one = ExactNoise(Entropy.insecure(9)).stream(SparseVector, PureDP(1.0), 3, 1, monotone=True)
    other = SparseVector(PureDP(1.0), 3, 1, Entropy.insecure(9), monotone=True)
    assert one.ask_many(values, 15) == other.ask_many(values, 15)
    assert one.calibration == other.calibration
