"""The cover: marginals read from, and written into, a table in one pass, against NumPy's sums."""

import os
import re
import signal
import time
from itertools import combinations
from math import prod

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pieces import cut_from
from worlds import PROPERTY, SHAPES

from qrelease._util import parallel as parallel_module
from qrelease.data.marginals import counting
from qrelease.data.marginals import plan as plan_module
from qrelease.data.marginals.plan import MarginalPlan
from qrelease.errors import InvalidInput

ADULT_LIKE = (3, 2, 5, 4, 2, 6)


def subsets(d, k):
    return list(combinations(range(d), k))


def project(table, shape, axes):
    """The marginal by NumPy, flat."""
    away = tuple(a for a in range(len(shape)) if a not in axes)
    return table.reshape(shape).sum(axis=away).reshape(-1)


def expand(factors, shape, sets):
    """One factor for each cell, (cells,), from one for each cell of every marginal, flat."""
    product, at = np.ones(shape), 0
    for axes in sets:
        sizes = [n if a in axes else 1 for a, n in enumerate(shape)]
        product = product * factors[at : at + prod(sizes)].reshape(sizes)
        at += prod(sizes)
    return product.reshape(-1)


def assert_reads_and_writes(shape, sets, direct_work=None, seed=0):
    """Sums of whole numbers are exact; those after scaling are of positive numbers, so their error is relative."""
    rng = np.random.default_rng(seed)
    plan = MarginalPlan.choose(shape, sets)
    if direct_work is not None:
        plan = MarginalPlan(plan.shape, plan.sets, direct_work)
    table = rng.integers(0, 100, prod(shape)).astype(float)
    before = table.copy()
    found = plan.marginals(table)
    expected = [project(table, shape, s) for s in sets]
    np.testing.assert_array_equal(found, np.concatenate(expected))
    np.testing.assert_array_equal(table, before)
    assert plan.offsets == np.cumsum([0, *map(len, expected)]).tolist()
    factors = np.exp(rng.uniform(-1, 1, plan.offsets[-1]))
    scaled = before * expand(factors, shape, sets)
    sums = plan.scale(table, factors)
    np.testing.assert_allclose(table, scaled, rtol=1e-12)
    np.testing.assert_allclose(sums, np.concatenate([project(scaled, shape, s) for s in sets]), rtol=1e-12)
    return plan


@st.composite
def plans(draw):
    shape = draw(SHAPES)
    axes = st.sets(st.integers(0, len(shape) - 1), max_size=4).map(lambda s: tuple(sorted(s)))
    return shape, draw(st.lists(axes, min_size=1, max_size=12, unique=True))


@pytest.mark.parametrize("direct", [0, plan_module.MAX_DIRECT_WORK], ids=["tree", "direct"])
@pytest.mark.parametrize("parallel", [1, parallel_module.MIN_PARALLEL_CELLS], ids=["threads", "serial"])
@example(plan=((7,), [(0,)]))
@example(plan=((7,), [()]))
@example(plan=((2,) * 10, subsets(10, 3)))
@example(plan=((300, 2, 3, 2), subsets(4, 2)))
@example(plan=((2, 3, 300, 2), subsets(4, 3)))
@example(plan=((1, 1, 1, 1), subsets(4, 2)))
@example(plan=((2, 3, 2, 3, 2), [*subsets(5, 4), (0, 1, 2, 3, 4), ()]))
@given(plan=plans())
@PROPERTY
def test_reads_and_writes_every_marginal(direct, parallel, plan):
    with cut_from(parallel):
        assert_reads_and_writes(*plan, direct)


def test_a_large_table_goes_through_the_tree():
    plan = assert_reads_and_writes(ADULT_LIKE * 2, [(0, 3, 5), (1, 8), (2, 3, 4), (5, 9, 11), (0, 6, 10), (7,)])
    head, root, *_ = str(plan).splitlines()
    assert head == f"6 marginals of {' x '.join(map(str, ADULT_LIKE * 2))} cells, in one pass over them:"
    assert root.startswith(f"  columns 0-{len(ADULT_LIKE) * 2 - 1}: 2,073,600 cells in blocks of ")


class Steps:
    """How often the plan cut a table, and how many tables it found for sets to share."""

    def __init__(self, patch):
        self.cuts = self.found = 0
        cut, gather = plan_module.choose_blocks, counting.gathered

        def choose(*arguments):
            self.cuts += 1
            return cut(*arguments)

        def gathered(*arguments):
            for table in gather(*arguments):
                self.found += 1
                yield table

        patch.setattr(plan_module, "choose_blocks", choose)
        patch.setattr(counting, "gathered", gathered)


@pytest.mark.parametrize(
    ("size", "d", "cuts", "lines"), [(2, 16, 5, 13), (2, 24, 5, 11), (9, 24, 0, 6), (9, 40, 0, 6)], ids=str
)
def test_a_plan_for_thousands_of_marginals_prints_in_few_steps(monkeypatch, size, d, cuts, lines):
    """It cuts the table and those below it, and searches for nothing: that is left to those who read or count."""
    steps, plan = Steps(monkeypatch), MarginalPlan((size,) * d, tuple(subsets(d, 3)))
    text = str(plan)
    assert (steps.cuts, steps.found) == (cuts, 0)
    assert len(text.splitlines()) == lines
    assert text.startswith(f"{len(plan.sets):,} marginals of {size} x {size} x ")
    assert f"\n    {len(plan.sets):,} for a marginal each\n" in text
    (searched,) = re.findall(r"from ([\d,]+) records on\n    those that sets can share are looked for", text)
    searched = int(searched.replace(",", ""))
    plan.counting_tables(searched - 1)
    assert steps.found == 0
    plan.counting_tables(searched)
    assert steps.found > 0


def test_a_plan_for_few_marginals_names_the_tables_they_share(monkeypatch):
    steps, plan = Steps(monkeypatch), MarginalPlan((4,) * 12, tuple(subsets(12, 3)))
    text = str(plan)
    assert steps.found == len(plan.shared.shared) + len(plan.shared.alone) < len(plan.sets)
    assert all(f"    {node}\n" in f"{text}\n" for node in plan.shared.shared)


@pytest.mark.parametrize("shape", [(2,) * 14, ADULT_LIKE])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_all_marginals_of_an_order(shape, k):
    assert_reads_and_writes(shape, subsets(len(shape), k), 1 << 8)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_24_binary_attributes(dtype):
    """Every marginal of three is read in one pass, and so is an update."""
    shape, sets, rng = (2,) * 24, subsets(24, 3), np.random.default_rng(0)
    plan, table = MarginalPlan.choose(shape, sets), rng.integers(0, 100, 1 << 24).astype(dtype)
    factors = np.ones(plan.offsets[-1])
    changed = [0, 700, 2023]
    for i in changed:
        factors[8 * i : 8 * i + 8] = 2.0 ** rng.integers(-2, 3, 8)
    scaled = table * expand(
        np.concatenate([factors[8 * i : 8 * i + 8] for i in changed]), shape, [sets[i] for i in changed]
    )
    before = table.copy()
    for found, expected in ((plan.marginals(table), before), (plan.scale(table, factors), scaled)):
        for i in (*changed, 5, 1000, 2000):
            np.testing.assert_array_equal(found[8 * i : 8 * i + 8], project(expected.astype(float), shape, sets[i]))
    np.testing.assert_array_equal(table, scaled)


def test_a_table_of_counts_need_not_be_floats_or_contiguous():
    plan = MarginalPlan.choose((4, 3), [(0,), (1,)])
    counts = np.arange(24)[::2]
    expected = [*counts.reshape(4, 3).sum(1), *counts.reshape(4, 3).sum(0)]
    np.testing.assert_array_equal(plan.marginals(counts), expected)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_can_use_a_cover_that_its_parent_used():
    """Servers fork their workers. Threads do not survive that, and nobody may wait for them."""
    plan, table = MarginalPlan.choose((2,) * 22, subsets(22, 2)), np.ones(1 << 22)
    plan.marginals(table)
    child = os.fork()
    if not child:
        plan.marginals(table)
        os._exit(0)
    for _ in range(200):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        time.sleep(0.05)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        pytest.fail("the child hangs")
    assert status == 0


@pytest.mark.parametrize("sets", [[(1, 0)], [(0, 0)], [(2,)], [(-1,)], [(0,), (0,)]])
def test_sets_of_columns_that_are_none(sets):
    with pytest.raises(InvalidInput, match="set of columns"):
        MarginalPlan.choose((4, 3), sets)


def test_tables_and_factors_of_other_sizes_reach_no_kernel():
    cover = MarginalPlan.choose((4, 3), [(0,), (1,)])
    with pytest.raises(InvalidInput, match="over 12 cells is needed, got 5"):
        cover.marginals(np.ones(5))
    with pytest.raises(InvalidInput, match="12 cells and 7 factors are needed, got 12 and 6"):
        cover.scale(np.ones(12), np.ones(6))
