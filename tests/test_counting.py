"""The plan by which records are counted: whatever tables it chooses, the counts are exact."""

import re
from itertools import combinations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from worlds import PROPERTY, SHAPES

from qrelease import counting, cover
from qrelease.counting import CountingPlan


def twin(columns, shape, axes):
    """Record by record."""
    counts = np.zeros([shape[a] for a in axes], np.int64)
    for record in zip(*columns, strict=True):
        counts[tuple(record[a] for a in axes)] += 1
    return counts.reshape(-1)


def records(shape, rows, seed):
    rng = np.random.default_rng(seed)
    return [rng.integers(0, n, rows).astype(np.min_scalar_type(n - 1)) for n in shape]


@pytest.mark.parametrize("parallel", [1, cover._PARALLEL], ids=["threads", "serial"])
@pytest.mark.parametrize("worthwhile", [0, counting._WORTHWHILE], ids=["shared", "alone"])
@example(shape=(2,) * 9, k=3, rows=100, seed=0)
@example(shape=(300, 2, 40, 1, 7), k=2, rows=1, seed=0)
@example(shape=(5,), k=0, rows=0, seed=0)
@given(shape=SHAPES, k=st.integers(0, 3), rows=st.integers(0, 300), seed=st.integers(0, 99))
@PROPERTY
def test_counts_are_exact(parallel, worthwhile, shape, k, rows, seed):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cover, "_PARALLEL", parallel)
        patch.setattr(counting, "_WORTHWHILE", worthwhile)
        patch.setattr(counting, "_ROWS", 64)
        sets = [s for i in range(k + 1) for s in combinations(range(len(shape)), i)]
        plan = CountingPlan.choose(shape, sets, rows)
        columns = records(shape, rows, seed)
        flat = plan.count(columns)
    assert flat.dtype == np.int64
    np.testing.assert_array_equal(flat, np.concatenate([twin(columns, shape, s) for s in sets]))


def test_marginals_share_tables_where_there_is_much_to_count():
    shape, sets = (4, 5, 6, 3, 2, 7, 4, 3), tuple(combinations(range(8), 3))
    alone, shared = CountingPlan.choose(shape, sets, 1000), CountingPlan.choose(shape, sets, 10**8)
    assert not alone.shared
    assert len(shared.shared) < len(sets) / 4
    for axes, held in shared.shared:
        assert np.prod([shape[a] for a in axes]) <= counting._SHARED
        assert all(set(s) <= set(axes) for s in held)
    assert sum(len(held) for _, held in shared.shared) == len({s for _, held in shared.shared for s in held})
    head, table, *_ = str(shared).splitlines()
    assert head == "56 marginals of 4 x 5 x 6 x 3 x 2 x 7 x 4 x 3 cells, in one pass over the records:"
    assert re.fullmatch(r"  columns [-0-7, ]+: [\d,]+ cells, \d+ summed from it", table)


def test_the_same_question_gets_the_same_plan():
    assert CountingPlan.choose((3, 4), [(0,), (1,)], 10) is CountingPlan.choose((3, 4), [(0,), (1,)], 20)
