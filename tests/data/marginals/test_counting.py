"""The plan by which records are counted: whatever tables it chooses, the counts are exact."""

import re
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pieces import cut_from
from worlds import PROPERTY, SHAPES

from qrelease._util import parallel as parallel_module
from qrelease.data.marginals import counting
from qrelease.data.marginals.plan import MarginalPlan
from qrelease.errors import InvalidInput

WAYS = ["alone", "whole", "shared"]
WIDE = (4, 5, 6, 3, 2, 7, 4, 3)


def triples(shape):
    return tuple(combinations(range(len(shape)), 3))


def twin(columns, shape, axes):
    """Record by record."""
    counts = np.zeros([shape[a] for a in axes], np.int64)
    for record in zip(*columns, strict=True):
        counts[tuple(record[a] for a in axes)] += 1
    return counts.reshape(-1)


def records(shape, rows, seed):
    rng = np.random.default_rng(seed)
    return [rng.integers(0, n, rows).astype(np.min_scalar_type(n - 1)) for n in shape]


def names(shape):
    return [f"c{i}" for i in range(len(shape))]


@pytest.mark.parametrize("parallel", [1, parallel_module.MIN_PARALLEL_CELLS], ids=["threads", "serial"])
@pytest.mark.parametrize("way", WAYS)
@example(shape=(2,) * 9, k=3, rows=100, seed=0)
@example(shape=(300, 2, 40, 1, 7), k=2, rows=1, seed=0)
@example(shape=(5,), k=0, rows=0, seed=0)
@given(shape=SHAPES, k=st.integers(0, 3), rows=st.integers(0, 300), seed=st.integers(0, 99))
@PROPERTY
def test_counts_are_exact(parallel, way, shape, k, rows, seed):
    with cut_from(parallel), pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "SETTINGS", replace(counting.SETTINGS, block_bytes=2560, block_records=1))
        sets = tuple(s for i in range(k + 1) for s in combinations(range(len(shape)), i))
        columns = records(shape, rows, seed)
        flat = getattr(MarginalPlan(shape, sets, 1 << 8), way).count(columns, names(shape))
    assert flat.dtype == np.int64
    np.testing.assert_array_equal(flat, np.concatenate([twin(columns, shape, s) for s in sets]))


def test_marginals_share_tables_where_there_is_much_to_count():
    found, sets = MarginalPlan.choose(WIDE, triples(WIDE)).shared, triples(WIDE)
    held = [s for node in found.shared for s in read_from(node)]
    assert len(found.shared) < len(sets) / 4
    assert sorted([*held, *found.alone]) == sorted(sets)
    for node in found.shared:
        assert node.cells <= counting.SETTINGS.shared_table_cells
        assert all(set(s) <= set(node.axes) for s in read_from(node))


def read_from(node):
    return [*node.direct, *(s for child in node.children for s in read_from(child))]


@pytest.mark.parametrize("shape", [WIDE, WIDE * 2, (2,) * 16, (3, 2)])
def test_the_tables_are_those_that_cost_least(shape):
    """And what is printed says which, and for how many records."""
    plan = MarginalPlan.choose(shape, list(combinations(range(len(shape)), 2)))
    every = [way for way in (plan.alone, plan.whole, plan.shared) if way is not None]
    printed = [int(n.replace(",", "")) for n in re.findall(r"from ([\d,]+) records on", str(plan))]
    assert printed == [first for first, _ in plan.ways()]
    for records in {*printed, *(n - 1 for n in printed if n), 10, 10**4, 10**8}:
        chosen = plan.counting_tables(records)
        assert chosen.cost(records) == min(way.cost(records) for way in every)
        assert chosen is [way for first, way in plan.ways() if first <= records][-1]


def test_a_universe_that_is_small_beside_the_records_is_counted_once():
    """And one that is too large never."""
    small, large = (MarginalPlan.choose((2,) * d, triples((2,) * d)) for d in (16, 30))
    assert small.counting_tables(20_000) is small.whole
    assert large.whole is None
    assert large.counting_tables(10**9) is large.shared


def test_a_plan_prints_how_marginals_are_read_and_counted():
    head, *rest = str(MarginalPlan.choose(WIDE, triples(WIDE))).splitlines()
    assert head == "56 marginals of 4 x 5 x 6 x 3 x 2 x 7 x 4 x 3 cells, in one pass over them:"
    counted = rest[rest.index("counted from records, of which each adds one to every table:") :]
    assert counted[1:3] == ["  from 0 records on", "    56 for a marginal each"]
    assert counted[4:5] == ["    the universe, which is then read in the one pass"]
    wider = str(MarginalPlan.choose(WIDE * 2, list(combinations(range(16), 2))))
    assert re.search(r"records on\n    columns [-0-9, ]+: [\d,]+ cells", wider)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("code", [3, 255])
def test_a_code_that_its_column_has_not_is_named_and_writes_nothing(way, code):
    shape, rows = (4, 3, 5, 2), 10_000
    columns = records(shape, rows, 0)
    columns[1][-1] = code
    with pytest.raises(InvalidInput, match=r"column 'c1' has codes that it had not .* did a file change\?"):
        getattr(MarginalPlan.choose(shape, triples(shape)), way).count(columns, names(shape))


def test_many_cores_take_little_memory():
    """However many there are, their own tables have `private_table_cells` cells together."""
    most = counting.SETTINGS.private_table_cells
    assert [counting.counting_cores(cells, 64) for cells in (0, 2, most // 5 + 1, most * 2)] == [64, 64, 4, 1]
