"""Propose, test, release: what it costs, listed exactly, and when it refuses."""

import math

import pytest

from qrelease.data.domain import Domain
from qrelease.errors import InvalidInput
from qrelease.evaluation.audit import compare
from qrelease.privacy.costs import ApproxDP, Neighbours
from qrelease.statistics import propose_test_release
from qrelease.statistics.base import BETA, refuse_empty
from qrelease.statistics.local_sensitivity import TrimmedMean
from qrelease.statistics.propose_test_release import ProposeTestRelease, threshold
from tests.statistics.doors import column, door, outcome
from tests.statistics.small_tables import ADD, CELLS

FLIPS = ((0, 0, 3, 3), (0, 3, 3))
"""One record moves their median by 3, more than the bound of 1: D is 0."""


def seen(result):
    return result.value is not None, tuple(m.value for m in result.measured[1:])


def test_a_threshold_lets_delta_pass():
    for epsilon, delta in ((1.0, 1e-6), (0.1, 1e-2), (3.0, 0.4)):
        q, t = math.exp(-epsilon), threshold(epsilon, delta)
        assert q**t / (1 + q) <= delta * (1 + 1e-9) < (1 + 1e-6) * max(q ** (t - 1) / (1 + q), delta)


def test_propose_test_release_costs_what_it_says_and_the_notes_threshold_more(monkeypatch):
    """The published mistake: ln(2/δ)/(2ε), at which a table at distance 0 passes with probability √(δ/8)."""
    cost, statistic = ApproxDP(4.0, 1e-3), ProposeTestRelease("x", 1)

    def found():
        return compare(*(outcome(statistic, column(v, CELLS), cost, ADD, 1e-7, seen) for v in FLIPS), cost)

    assert not found().convicted
    monkeypatch.setattr(propose_test_release, "threshold", lambda e, d: math.ceil(math.log(2 / d) / (2 * e)))
    assert found().convicted


def test_a_table_far_from_harm_is_answered_and_one_near_is_refused():
    cost, statistic = ApproxDP(1.0, 1e-6), ProposeTestRelease("x", 1)
    near, far = column([0] * 50 + [9] * 50, 10), column([4] * 300, 10)
    refused, answered = ([statistic.estimate(door(t, cost, noise=s), cost) for s in range(30)] for t in (near, far))
    assert all(r.value is None for r in refused)
    assert all(r.value is not None for r in answered)
    bound = statistic.error_bound(far.domain, 300, cost, ADD, beta=BETA)
    assert sum(abs(r.value - 4) > bound for r in answered) <= 5


def test_noise_that_the_public_number_of_records_makes_too_large_is_refused_before_the_charge():
    """The mean of trimmed values is a sum in parts of 1/n: what `check` allows 2^24 records is too much for 2^29."""
    statistic, cost = ProposeTestRelease("x", 2.0**20, TrimmedMean(0.0)), ApproxDP(0.5, 1e-6)
    domain = Domain.coded({"x": 1 << 26})
    statistic.check(domain, cost, Neighbours.REPLACE_ONE)
    refuse_empty(statistic, domain, 1 << 24, cost, Neighbours.REPLACE_ONE)
    with pytest.raises(InvalidInput, match="beyond 2"):
        refuse_empty(statistic, domain, 1 << 29, cost, Neighbours.REPLACE_ONE)
