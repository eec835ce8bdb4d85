"""Sample and aggregate: what limits do, what it costs, and that blocks by position are convicted."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.evaluation.audit import Distribution, compare, laplace_distribution
from qrelease.privacy.costs import Neighbours, PureDP
from qrelease.statistics.sample_and_aggregate import STEPS, SampleAndAggregate, run_on_blocks
from tests.statistics.doors import door

FUNCTIONS = Path(__file__).parent / "functions.py"
FRAMES = [{"x": np.array([1.0, 2.0])}, {"x": np.array([3.0, 18.0])}, {"x": np.array([4.0])}]


def test_a_function_that_fails_has_no_answer_and_blocks_share_nothing():
    found = run_on_blocks(f"{FUNCTIONS}:fails", FRAMES, 10.0, 1 << 32)
    assert found[[0, 2]].tolist() == [1.0, 1.0]
    assert np.isnan(found[1])


def test_a_function_is_stopped_by_time_and_by_memory():
    assert np.isnan(run_on_blocks(f"{FUNCTIONS}:sleeps", FRAMES[:1], 0.3, 1 << 32)).all()
    assert np.isnan(run_on_blocks(f"{FUNCTIONS}:grows", FRAMES[:1], 10.0, 1 << 30)).all()
    assert np.isnan(run_on_blocks(f"{FUNCTIONS}:gone", FRAMES[:1], 10.0, 1 << 32)).all()


def test_a_regression_coefficient_is_estimated():
    rng = np.random.default_rng(9)
    x = rng.integers(0, 20, 20_000)
    table = Table(Domain.coded({"x": 20, "y": 200}), (x, np.clip(3 * x + rng.integers(0, 60, 20_000), 0, 199)))
    statistic, cost = SampleAndAggregate(("x", "y"), f"{FUNCTIONS}:slope", 0, 10, blocks=60), PureDP(1.0)
    result = statistic.estimate(door(table, cost), cost)
    assert abs(result.value - 3) < 1
    assert result.interval[0] < 3 < result.interval[1]
    assert statistic.error_bound(table.domain, 20_000, cost, Neighbours.ADD_REMOVE, beta=0.05) < 1


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


HOSTILE = """
import os, signal


def f(block):
    if 7.0 in block["x"]:
        WHAT
    return float(block["x"].mean())
"""


@pytest.mark.parametrize(
    "what", ["os.read(0, 1 << 20)", "os.kill(os.getppid(), signal.SIGKILL)", "os.killpg(0, signal.SIGKILL)"]
)
def test_a_block_takes_no_answer_from_the_others(tmp_path, what):
    file = tmp_path / "f.py"
    file.write_text(HOSTILE.replace("WHAT", what))
    frames = [{"x": np.full(3, float(i))} for i in range(10)]
    found = run_on_blocks(f"{file}:f", frames, 20.0, 1 << 30)
    others = [i for i in range(10) if i != 7]
    np.testing.assert_array_equal(found[others], others)


def test_a_block_does_not_see_those_that_follow(tmp_path):
    file = tmp_path / "peek.py"
    file.write_text("import sys\n\n\ndef f(block):\n    return float(len(sys.stdin.buffer.peek()))\n")
    frames = [{"x": np.full(3, float(i))} for i in range(4)]
    assert set(run_on_blocks(f"{file}:f", frames, 20.0, 1 << 30)) == {0.0}


def test_a_block_does_not_find_those_before_it_in_memory_that_it_did_not_write(tmp_path):
    """One function fills what it is given; the next looks for the records of that block in fresh arrays."""
    (tmp_path / "looking.py").write_text(
        "import numpy as np\n"
        "def f(block):\n"
        "    sizes = [len(block['x']) * k // 4 for k in range(1, 9)] * 8\n"
        "    return float(sum((np.frombuffer(bytearray(np.empty(n))) == 1234.5).sum() for n in sizes))\n"
    )
    frames = [{"x": np.full(n, value)} for n in (30, 1000, 4000) for value in (1234.5, 0.0, 0.0)]
    found = run_on_blocks(f"{tmp_path / 'looking.py'}:f", frames, 5.0, 1 << 32)
    assert found[[1, 2, 4, 5, 7, 8]].tolist() == [0.0] * 6
