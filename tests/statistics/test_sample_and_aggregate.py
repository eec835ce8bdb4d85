"""Sample and aggregate: what limits do, what it costs, and that blocks by position are convicted."""

import json
from itertools import product
from pathlib import Path

import numpy as np

from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.evaluation.audit import Distribution, compare, laplace_distribution
from qrelease.privacy.costs import Neighbours, PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.release.curator import Curator
from qrelease.statistics.sample_and_aggregate import STEPS, SampleAndAggregate
from tests.statistics.doors import door

FUNCTIONS = Path(__file__).parent / "functions.py"
FRAMES = [{"x": np.array([1.0, 2.0])}, {"x": np.array([3.0, 18.0])}, {"x": np.array([4.0])}]


def test_a_regression_coefficient_is_estimated():
    rng = np.random.default_rng(9)
    x = rng.integers(0, 20, 20_000)
    table = Table(Domain.coded({"x": 20, "y": 200}), (x, np.clip(3 * x + rng.integers(0, 60, 20_000), 0, 199)))
    statistic, cost = SampleAndAggregate(("x", "y"), f"{FUNCTIONS}:slope", 0, 10, blocks=60), PureDP(1.0)
    result = statistic.estimate(door(table, cost), cost)
    assert abs(result.value - 3) < 1
    assert result.interval[0] < 3 < result.interval[1]
    assert statistic.error_bound(table.domain, 20_000, cost, Neighbours.ADD_REMOVE, beta=0.05) < 1


def test_an_estimate_does_not_tell_in_which_folder_the_function_is():
    table, cost = Table(Domain.coded({"x": 20}), (np.arange(40) % 20,)), PureDP(1.0)
    statistic = SampleAndAggregate(("x",), f"{FUNCTIONS}:average", 0, 19, blocks=4)
    with Ledger.open(None, cost) as ledger:
        found = Curator(table, ledger).estimate(statistic, cost)
    for told in (str(found), found.html(), json.dumps(found.to_json())):
        assert str(FUNCTIONS.parent) not in told
    assert found.parameters["function"] == "functions.py:average"
    assert found.parameters["columns"] == ("x",)


def mixture(values, blocks, assign):
    """The law of the noisy sum of the block answers (the largest value of a block, 0..1; a half of none), in halves."""
    masses = {}
    assignments = assign(len(values))
    for blocks_of in assignments:
        sums = 0
        for b in range(blocks):
            held = [v for v, at in zip(values, blocks_of, strict=True) if at == b]
            sums += 2 * max(held) if held else 1
        for z, mass in laplace_distribution(2.0, missing=1e-12).masses.items():
            masses[sums + z] = masses.get(sums + z, 0.0) + mass / len(assignments)
    return Distribution(masses, missing=1e-12)


def test_random_blocks_cost_epsilon_and_blocks_by_position_more():
    """Two halves a step, so the sum moves by 2 and the noise of scale 2 is for ε = 1."""
    table, without = [1, 0, 0, 1, 1, 0, 0], [0, 0, 1, 1, 0, 0]

    def by_chance(n):
        return list(product(range(3), repeat=n))

    def by_position(n):
        return [[i // 2 for i in range(n)]]

    assert not compare(mixture(table, 3, by_chance), mixture(without, 3, by_chance), PureDP(1.0)).convicted
    assert compare(mixture(table, 4, by_position), mixture(without, 4, by_position), PureDP(1.0)).convicted


def test_one_record_moves_one_answer():
    """With the draws of the others the same; the blocks of the door, not those of the test above."""
    domain = Domain.coded({"x": 20})
    rng = np.random.default_rng(10)
    values = rng.integers(0, 20, 60)
    statistic = SampleAndAggregate(("x",), f"{FUNCTIONS}:average", 0, 19, blocks=6)
    answers = [
        statistic.answers(door(Table(domain, (v,)), PureDP(1.0), noise=3)) for v in (values, np.append(values, 19))
    ]
    assert (answers[0] != answers[1]).sum() <= 1
    assert all(0 <= a.min() <= a.max() <= STEPS for a in answers)
