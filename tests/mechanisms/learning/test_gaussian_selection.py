"""Categories that persons vote for: δ-approximate ρ-zCDP of persons by exact enumeration, with broken twins."""

import math
from functools import cache, partial
from itertools import combinations, combinations_with_replacement

import numpy as np
import pytest
from scipy.special import ndtr

from qrelease.data.named_categories import MAX_NAMED, WEIGHT, weight
from qrelease.errors import InvalidInput
from qrelease.evaluation.audit.enumeration import Distribution, compare
from qrelease.mechanisms.learning.gaussian_selection import chance, passed, select, threshold, variance
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ApproxDP
from qrelease.privacy.conversions import zcdp_delta

STEP = WEIGHT // 8
RHO, DELTA = 0.5, 0.05
CATEGORIES = range(3)
SUBSETS = [named for d in (1, 2, 3) for named in combinations(CATEGORIES, d)]
TABLES = [persons for n in (0, 1, 2) for persons in combinations_with_replacement(SUBSETS, n)]


def law(squared):
    """The grid and the probabilities of rounded Gaussian noise, but for 1e-15."""
    sigma = math.sqrt(squared)
    grid = np.arange(-math.ceil(9 * sigma), math.ceil(9 * sigma) + 1)
    return grid, ndtr((grid + 0.5) / sigma) - ndtr((grid - 0.5) / sigma)


def named_alone(total, rho, delta, moved=1, lower=0, cut=64):
    """Of one category: the chance that it is not named, and that it is, with so many units; by every value of noise.

    Units are counted in steps from the threshold on, and all that is beyond the last as one: what is published is a
    function of less.

    lower  makes a broken twin, whose threshold is so much lower
    """
    grid, masses = law(variance(rho, moved))
    least = threshold(rho, delta, moved) - lower
    named, noisy = passed(np.full(len(grid), total), grid, least)
    return np.bincount(np.where(named, np.clip(1 + (noisy - least) // STEP, 0, cut - 1), 0), masses, cut)


def published(alone, sums):
    """The law of what is published of all categories, whose noise is independent."""
    first, second, third = (alone(int(total)) for total in sums)
    return first[:, None, None] * second[None, :, None] * third[None, None, :]


def sums_of(persons, vote=None):
    vote = weight if vote is None else vote
    found = np.zeros(len(CATEGORIES), np.int64)
    for named in persons:
        found[list(named)] += vote(len(named))
    return found


def remembered(**given):
    """The law of one category by its sum."""
    return cache(partial(named_alone, **given))


def worst(alone, pairs, vote=None, delta=DELTA):
    """How far δ(ε) is beyond what is claimed, at the worst of all neighbours and ε."""
    beyond = -1.0
    for first, second in pairs:
        p, q = (published(alone, sums_of(persons, vote)) for persons in (first, second))
        for epsilon in (0.0, 0.5, 1.0, 2.0, 4.0):
            allowed = zcdp_delta(RHO, epsilon) + delta
            for a, b in ((p, q), (q, p)):
                beyond = max(beyond, np.maximum(a - math.exp(epsilon) * b, 0).sum() - allowed)
    return beyond


ADDED = [(table, (*table, person)) for table in TABLES for person in SUBSETS]
REPLACED = [((*table, a), (*table, b)) for table in TABLES[:8] for a, b in combinations(SUBSETS, 2)]


def test_persons_more_or_less():
    assert worst(remembered(rho=RHO, delta=DELTA), ADDED) <= 1e-9


def test_persons_who_are_replaced():
    assert worst(remembered(rho=RHO, delta=DELTA, moved=2), REPLACED) <= 1e-9
    crowd = ((0,), (1,)) * 10  # so that both are named, and the noise alone protects the one who is replaced
    swapped = [((*crowd, (0,)), (*crowd, (1,)))]
    few, cut = 1e-4, 96
    assert worst(remembered(cut=cut, rho=RHO, delta=few, moved=2), swapped, delta=few) <= 1e-9
    assert worst(remembered(cut=cut, rho=RHO, delta=few), swapped, delta=few) > 0.01  # the noise of one


def test_a_whole_vote_for_each_category_is_convicted():
    """The sensitivity of one category in the place of that of k."""
    alone = remembered(rho=RHO, delta=DELTA)
    assert worst(alone, ADDED, vote=lambda named: WEIGHT) > 0.01
    crowd = ((0, 1, 2),) * 4  # so that all are named, and the noise alone protects the fifth
    tables, epsilon = (crowd, (*crowd, (0, 1, 2))), 3.0
    claim = ApproxDP(epsilon, zcdp_delta(RHO, epsilon) + DELTA)

    def audited(vote):
        found = [published(alone, sums_of(persons, vote)).ravel() for persons in tables]
        return compare(*(Distribution({i: float(m) for i, m in enumerate(x) if m}, 1e-12) for x in found), claim)

    assert audited(lambda named: WEIGHT).convicted
    assert not audited(weight).convicted


def test_a_threshold_that_is_lower_is_convicted():
    assert worst(remembered(rho=RHO, delta=DELTA, lower=WEIGHT), ADDED) > 0


@pytest.mark.parametrize("rho", [0.5, 0.02, 0.001])
@pytest.mark.parametrize("delta", [0.05, 1e-3, 1e-9])
def test_a_lone_person_is_named_with_delta_at_most(rho, delta):
    """By the exact law of the noise, for each number of categories that she may have."""
    grid, masses = law(variance(rho))

    def of_one(least, named):
        alone = masses[grid + weight(named) >= least].sum()
        return -math.expm1(named * math.log1p(-alone))

    found = threshold(rho, delta)
    largest = [of_one(found, named) for named in range(1, MAX_NAMED + 1)]
    assert max(largest) <= delta
    assert max(of_one(found - 1, named) for named in range(1, MAX_NAMED + 1)) > delta * 0.9
    sums = np.array([0, weight(1)])
    assert chance(sums, rho, delta) == pytest.approx([0, of_one(found, 1)], rel=1e-6)
    if rho < 0.5:  # a threshold for one category each, and a person who has many
        assert max(of_one(threshold(rho, delta, most=1), d) for d in range(1, MAX_NAMED + 1)) > delta


def test_what_is_named_is_named_as_often_as_is_said():
    sums = np.repeat([0, 1, 20, 30, 40, 60], 4000) * WEIGHT
    named, noisy = select(sums, 0.02, 1e-6, Entropy.insecure(5))
    assert not named[:4000].any()
    assert (noisy[named] >= threshold(0.02, 1e-6)).all()
    expected = chance(sums, 0.02, 1e-6).reshape(6, -1)[:, 0]
    assert np.allclose(named.reshape(6, -1).mean(axis=1), expected, atol=0.03)
    assert 0.01 < expected[2] < 0.3 < expected[3] < 0.7 < expected[4]  # so that a wrong threshold would show


@pytest.mark.parametrize(("rho", "delta"), [(0.5, 0), (0.5, 1), (0, 1e-9), (1e-30, 1e-9)])
def test_what_names_nothing_is_refused(rho, delta):
    with pytest.raises(InvalidInput):
        threshold(rho, delta)
