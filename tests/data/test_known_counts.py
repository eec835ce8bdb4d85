"""Counts that are remembered: counted once, the same in any order of columns, and no more kept than fits."""

from concurrent.futures import ThreadPoolExecutor
from itertools import combinations

import numpy as np
import pytest
from worlds import coded, random_table

from qrelease.data.domain import Domain
from qrelease.data.known_counts import MAX_REMEMBERED_CELLS
from qrelease.data.table import Table
from qrelease.errors import InvalidInput, TooLarge


@pytest.mark.parametrize("axes", [(0, 0), (2,), (-1,)])
def test_counts_refuse_what_is_no_set_of_columns(axes):
    found = Table(Domain.coded({"a": 2, "b": 2}), (np.zeros(1, np.int64),) * 2)
    with pytest.raises(InvalidInput, match=r"must be distinct positions 0\.\.1, got \("):
        found.counts([axes])


def test_too_many_cells_are_refused_before_allocation():
    found = Table(Domain.coded({"a": 2**20, "b": 2**20}), (np.zeros(1, np.int64),) * 2)
    with pytest.raises(TooLarge, match=r"2\^40 cells do not fit; at most 268,435,456 do"):
        found.histogram()


def test_counts_are_taken_once():
    """A mechanism of many rounds asks the same things again; of many cells they are not kept, but counted again."""
    found = random_table(coded(3, 4, 2), 50, 0)
    first = found.counts([(0, 1), (2,)])
    second = found.counts([(2,), (1, 2), (0, 1), (1, 0)])
    assert np.shares_memory(first[1], second[0])
    assert np.shares_memory(first[0], second[2])
    second = second[:2] + second[3:]
    np.testing.assert_array_equal(second[2].reshape(4, 3).T.reshape(-1), first[0])
    with pytest.raises(ValueError, match="read-only"):
        first[0][0] = 1
    wide = random_table(coded(1 << 11, (1 << 11) + 1), 50, 0)
    few, many = ((wide.counts([s])[0], wide.counts([s])[0]) for s in ((0,), (0, 1)))
    assert np.shares_memory(*few)
    assert many[0].size == MAX_REMEMBERED_CELLS + (1 << 11)
    assert not np.shares_memory(*many)
    np.testing.assert_array_equal(*many)


def test_threads_share_a_table(monkeypatch):
    """What one of them forgets another has still."""
    monkeypatch.setattr("qrelease.data.known_counts.MAX_REMEMBERED_CELLS", 40)
    found = random_table(coded(3, 4, 2, 5), 200, 0)
    sets = [s for k in (1, 2) for s in combinations(range(4), k)]
    expected = {s: found.counts([s])[0].tolist() for s in sets}

    def ask(seed):
        rng = np.random.default_rng(seed)
        for _ in range(300):
            asked = [sets[i] for i in rng.choice(len(sets), 3, replace=False)]
            assert [c.tolist() for c in found.counts(asked)] == [expected[s] for s in asked]

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(ask, range(6)))
