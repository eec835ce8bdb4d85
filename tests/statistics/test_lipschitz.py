"""The Lipschitz extension: that it is one, on all small tables; its cost, listed; the printed budget and constant."""

import itertools
import math
from dataclasses import dataclass

import numpy as np
import pytest

from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.errors import InvalidInput
from qrelease.evaluation.audit import compare
from qrelease.privacy.costs import ApproxDP, Neighbours, PureDP
from qrelease.privacy.filters import Filter
from qrelease.statistics.lipschitz import (
    LipschitzRound,
    LipschitzTester,
    Plan,
    extended,
    lipschitz_constant,
    run_rounds,
)
from qrelease.statistics.uniformity import signs_of
from tests.statistics.doors import door, outcome
from tests.statistics.test_uniformity import names, signs, table

REPLACE = Neighbours.REPLACE_ONE


def squared(rows):
    sums = rows.sum(axis=0)
    return int(sums @ sums) - rows.size


def counted(rows):
    return np.bincount((rows > 0) @ (1 << np.arange(rows.shape[1])), minlength=1 << rows.shape[1])


def every_table(n, d):
    kinds = [np.array(r) for r in itertools.product((-1, 1), repeat=d)]
    return [np.array(rows) for rows in itertools.combinations_with_replacement(kinds, n)]


def farthest(rows):
    return int(np.abs(rows @ rows.sum(axis=0)).max())


@pytest.mark.parametrize(("n", "d"), [(9, 1), (5, 2), (3, 3)])
def test_it_is_t_where_rows_are_near_and_lipschitz_everywhere(n, d):
    tables = every_table(n, d)
    for reach in range(d, n * d + 1):
        if not any(farthest(rows) <= reach for rows in tables):
            continue
        held = LipschitzRound(reach, lipschitz_constant(n, d, reach), PureDP(1.0))
        found = [extended(counted(rows), d, held) for rows in tables]
        for rows, value in zip(tables, found, strict=True):
            assert farthest(rows) > reach or value == squared(rows)
        for (one, first), (other, second) in itertools.combinations(zip(tables, found, strict=True), 2):
            distance = n - np.minimum(counted(one), counted(other)).sum()
            assert abs(first - second) <= held.lipschitz * distance


def test_the_printed_constant_is_too_small_and_ours_is_not():
    """d = 16, n = 18, Δ = 4: both tables are in C(4), two rows apart, and T differs by 64 > 2 · 16."""
    n, d, reach = 18, 16, 4
    row = np.array([1] * 9 + [-1] * 7)
    common = np.array([np.roll(row, i) for i in range(16)])
    balanced, low = np.repeat((1, -1), 8), -np.ones(16, np.int64)
    one, other = np.vstack([common, balanced, -balanced]), np.vstack([common, low, low])
    assert one.shape == (n, d)
    assert max(farthest(one), farthest(other)) == reach
    assert squared(one) - squared(other) == 64 > 2 * 4 * reach
    assert 2 * lipschitz_constant(n, d, reach) >= 64


@dataclass(frozen=True)
class Printed:
    """The mistake: ε/M in each round and ε in the end."""

    statistic: LipschitzTester
    shares: tuple[float, ...]

    def estimate(self, private, cost):
        costs = tuple(PureDP(s * cost.epsilon) for s in self.shares)
        private.filter = Filter(PureDP(sum(c.epsilon for c in costs) + 1e-9))
        rows = signs_of(private, self.statistic.columns)
        return run_rounds(private, rows, Plan(len(rows), rows.shape[1], costs), self.statistic.distance)


def noisy_numbers(result):
    return tuple(m.value for m in result.measured)


def audit(statistic, n, d, epsilon=6.0):
    one = np.ones((n, d), np.int64)
    other = np.vstack([one[1:], -one[:1]])
    cost = PureDP(epsilon)
    laws = (outcome(statistic, table(rows), cost, REPLACE, missing=1e-6, seen=noisy_numbers) for rows in (one, other))
    return compare(*laws, cost)


@pytest.mark.parametrize(("n", "d", "rounds"), [(2, 1, 2), (3, 1, 1), (2, 2, 2)])
def test_it_costs_what_it_says_and_no_less(n, d, rounds):
    found = audit(LipschitzTester(names(d), 0.5, rounds), n, d)
    assert not found.convicted
    assert found.epsilon == pytest.approx(6.0, rel=1e-3)


def test_the_printed_budget_of_the_extension_is_convicted():
    """(2 − 1/M)ε: one and a half times ε for two rounds."""
    found = audit(Printed(LipschitzTester(names(1), 0.5), (1 / 2, 1.0)), 2, 1)
    assert found.convicted
    assert found.epsilon == pytest.approx(9.0, rel=1e-2)


@pytest.mark.parametrize(("d", "n", "norm"), [(1, 1000, 0.9), (2, 100, 1.4)])
def test_it_keeps_its_level_and_finds_what_is_far(d, n, norm):
    cost, rng = PureDP(2.0), np.random.default_rng(4)
    statistic = LipschitzTester(names(d), 1.2 * norm)
    rejected = []
    for null in (True, False):
        tables = [table(signs(n, d, 0.0 if null else norm, rng)) for _ in range(40)]
        rejected.append(
            sum(statistic.estimate(door(t, cost, REPLACE, i), cost).value["rejects"] for i, t in enumerate(tables))
        )
    assert rejected[0] <= 4
    assert rejected[1] >= 36


def test_the_promise_is_the_same_theorem_with_other_numbers():
    domain = Domain.coded(dict.fromkeys(names(1), 2))
    statistic = LipschitzTester(names(1), 0.5)
    bounds = [statistic.error_bound(domain, n, PureDP(1.0), REPLACE, beta=0.05) for n in (10, 1000, 10_000)]
    assert bounds[0] == math.inf
    assert bounds[1] > 2 * bounds[2] > 0
    plan = Plan.of(1000, 1, PureDP(1.0), 2)
    assert plan.rounds[1].lipschitz < plan.rounds[0].lipschitz / 2  # the extension is worth something
    assert not Plan.of(100, 5, PureDP(1.0), 2).listed


def test_what_does_not_fit_is_refused():
    domain = Domain.coded({"a": 2, "b": 3})
    for columns, cost, neighbours in (
        (("a",), ApproxDP(1.0, 1e-6), REPLACE),
        (("a",), PureDP(1.0), Neighbours.ADD_REMOVE),
        (("b",), PureDP(1.0), REPLACE),
    ):
        with pytest.raises(InvalidInput):
            LipschitzTester(columns, 0.5).check(domain, cost, neighbours)
    assert isinstance(table(np.ones((2, 1), np.int64)), Table)
