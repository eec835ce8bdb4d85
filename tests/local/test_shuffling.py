"""Amplification by shuffling against exact numbers: binary randomised response, whose shuffled reports are a count."""

import math

import numpy as np
import pytest
from scipy import stats

from qrelease.errors import InvalidInput
from qrelease.local import shuffled
from qrelease.privacy import ApproxDP


def exact_delta(local, n, epsilon):
    """The least δ of the count of ones, for n - 1 people with a 0 and one with a 0 or a 1."""
    p = math.exp(local) / (math.exp(local) + 1)
    others = stats.binom.pmf(np.arange(n), n - 1, 1 - p)
    zero = (1 - p) * np.append(0, others) + p * np.append(others, 0)
    one = p * np.append(0, others) + (1 - p) * np.append(others, 0)
    return max(np.maximum(a - math.exp(epsilon) * b, 0).sum() for a, b in ((zero, one), (one, zero)))


def clones_delta(local, n, epsilon):
    """The least δ that the theorem's proof leaves for any local mechanism, up to 1e-12 (Feldman et al., Theorem 3.2).

    C ~ Bin(n - 1, e^-ε₀) others look like one of the two people, half of them like each, and she herself like the one
    that she is with probability e^ε₀/(e^ε₀ + 1).
    """
    own = math.exp(local) / (math.exp(local) + 1)
    law, total = stats.binom(n - 1, math.exp(-local)), 0.0
    for clones in range(int(law.ppf(1e-14)), int(law.isf(1e-14)) + 1):
        half = stats.binom(clones, 0.5)
        low, high = int(half.ppf(1e-14)), int(half.isf(1e-14))
        like = np.append(0, np.append(half.pmf(np.arange(low, high + 1)), 0))
        here, there = own * like[:-1] + (1 - own) * like[1:], (1 - own) * like[:-1] + own * like[1:]
        total += law.pmf(clones) * np.maximum(here - math.exp(epsilon) * there, 0).sum()
    return total


@pytest.mark.parametrize("local", [0.5, 1.0, 2.0])
def test_the_theorem_holds_for_all_that_a_mechanism_may_be(local):
    n, delta = 5_000, 1e-6
    found = shuffled(local, n, delta)
    assert clones_delta(local, n, found.epsilon) <= delta
    assert clones_delta(local, n, found.epsilon / 8) > delta


@pytest.mark.parametrize("local", [0.1, 0.5, 1.0, 2.0, 4.0])
@pytest.mark.parametrize("n", [20_000, 300_000])
@pytest.mark.parametrize("delta", [1e-6, 1e-9])
def test_the_theorem_holds_for_randomised_response_and_is_not_vacuous(local, n, delta):
    found = shuffled(local, n, delta)
    assert isinstance(found, ApproxDP)
    assert found.delta == delta
    assert found.epsilon < local
    assert exact_delta(local, n, found.epsilon) <= delta
    # It is generous: a twentieth of it is not true, though, nor is the bound without its root.
    assert exact_delta(local, n, found.epsilon / 20) > delta
    rootless = math.log1p(math.tanh(local / 2) * 8 * math.exp(local) / n)
    assert exact_delta(local, n, rootless) > delta


def test_more_people_hide_better():
    found = [shuffled(1.0, n, 1e-6).epsilon for n in (10**4, 10**5, 10**6)]
    assert found[0] / found[2] == pytest.approx(10, rel=0.2)
    assert found == sorted(found, reverse=True)


@pytest.mark.parametrize(("local", "n", "delta"), [(8.0, 1000, 1e-6), (1.0, 100, 1e-6)])
def test_where_the_theorem_says_nothing_it_says_so(local, n, delta):
    with pytest.raises(InvalidInput, match="the theorem needs at least"):
        shuffled(local, n, delta)
