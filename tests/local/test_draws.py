"""Exact choices: their laws, and the rational number that stands for e^ε."""

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from paths import at_most_e_to
from scipy import stats

from qrelease.errors import InvalidInput
from qrelease.local.draws import DeviceEntropy, ExactDraws, checked_epsilon, factor, share_of, two_sided_geometric
from qrelease.noise.entropy import Entropy

EPSILONS = [Fraction(1, 1 << 40), 1e-6, 0.01, 0.1, 0.5, math.log(3), 1, 2.0, 5, Fraction(31, 3), 32]


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_factor_is_just_below_e_to_the_epsilon(epsilon):
    exact = checked_epsilon(epsilon)
    e = factor(exact)
    assert e > 1
    assert at_most_e_to(e, exact)
    # 2^-31 of e^ε - 1 more would be too much.
    assert not at_most_e_to(e + (e - 1) / 2**31, exact)


class Script:
    """A source that plays the given words."""

    insecure_seed = None

    def __init__(self, *words):
        self.stock = list(words)

    def words(self, n):
        played, self.stock = self.stock[:n], self.stock[n:]
        assert len(played) == n
        return played


def test_below_takes_the_first_bits_that_are_below():
    top = 1 << 61  # three bits: 5 is 101
    assert ExactDraws(Script(5 * top, 7 * top, 4 * top + 9)).below(5) == 4
    assert ExactDraws(Script(0)).below(1) == 0
    assert ExactDraws(Script(1, 2)).below(1 << 100) == (1 << 64 | 2) >> 28
    assert {ExactDraws(Script(i * top)).below(8) for i in range(8)} == set(range(8))
    with pytest.raises(InvalidInput, match="no integer from 0 to -1"):
        ExactDraws(Script()).below(0)


def test_below_and_pick_have_their_laws_and_others_would_show():
    draws = ExactDraws(Entropy.insecure(1))
    seen = Counter(draws.pick((3, 5, 7)) for _ in range(20_000))
    table = [seen[i] for i in range(3)]
    assert stats.chisquare(table, np.array([3, 5, 7]) * 20_000 / 15).pvalue > 1e-3
    assert stats.chisquare(table, np.array([3.9, 4.7, 6.4]) * 20_000 / 15).pvalue < 1e-6
    assert 0 <= ExactDraws(DeviceEntropy()).below(10**30) < 10**30


@pytest.mark.parametrize("gamma", [Fraction(1, 3), Fraction(5, 2)])
def test_geometric_noise_has_its_law(gamma):
    draws = ExactDraws(Entropy.insecure(2))
    seen = Counter(two_sided_geometric(gamma, draws) for _ in range(8_000))

    def p_value(rate):
        q = math.exp(-rate)
        expected = np.array([(1 - q) / (1 + q) * q ** abs(y) for y in range(-4, 5)] + [2 * q**5 / (1 + q)]) * 8_000
        table = [seen[y] for y in range(-4, 5)]
        return stats.chisquare([*table, 8_000 - sum(table)], expected).pvalue

    assert p_value(gamma) > 1e-3
    assert p_value(gamma * 1.3) < 1e-6


def test_shares_are_the_nearest_integers():
    for whole, gamma in [(65536, Fraction(1, 2)), (1000, Fraction(3)), (7, Fraction(0)), (1 << 24, Fraction(16))]:
        assert share_of(whole, gamma) == round(whole * math.exp(-gamma))


@pytest.mark.parametrize("epsilon", [0, -1, 33, math.inf, math.nan, True, "1", Fraction(1, 1 << 41)])
def test_bad_epsilons_are_refused(epsilon):
    with pytest.raises(InvalidInput, match="epsilon"):
        checked_epsilon(epsilon)
