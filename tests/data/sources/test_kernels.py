"""The loops from numbers to codes, against searching and looking up by NumPy and Python."""

import numpy as np
import pytest

from qrelease.data.mixing import mixed
from qrelease.data.sources.kernels import bin_codes, drawn_places, key_places, read_only, table_codes

EDGES = np.array([-2.5, 0.0, 1.0, 4.0, 1e16])
SPECIAL = [-np.inf, np.inf, np.nan, -0.0, 0.5, -2.5, 1e16, np.nextafter(1e16, 0), np.nextafter(-2.5, -9), 3.9999999]


@pytest.mark.parametrize("spread", [1, 7], ids=["one block", "several blocks"])
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("edges", [EDGES, EDGES[:2], np.arange(257.0)], ids=len)
def test_bins_are_those_of_a_search(edges, whole, spread):
    rng = np.random.default_rng(0)
    numbers = np.concatenate([SPECIAL, edges, rng.uniform(-5, 300, 500), rng.integers(-5, 300, 200)])
    numbers = rng.permutation(np.repeat(numbers, spread))
    found, left = np.full(len(numbers), 999, np.uint16), np.full(len(numbers), -7)
    count = bin_codes(read_only(numbers, np.float64), read_only(edges, np.float64), whole, found, left)
    places = np.searchsorted(edges, numbers, side="right") - 1
    inside = (numbers >= edges[0]) & (numbers < edges[-1])
    if whole:
        inside &= np.floor(numbers) == numbers
    assert found[inside].tolist() == places[inside].tolist()
    assert left[:count].tolist() == np.flatnonzero(~inside).tolist()


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("low", [-4, 0, 1 << 30])
@pytest.mark.parametrize("spread", [1, 1000], ids=["one block", "several blocks"])
def test_a_table_has_the_codes_from_its_lowest_number_on(low, dtype, spread):
    """Its own -1s are left open too, and so is what no difference of 64 bits can tell from the table's numbers."""
    table, ends = np.array([3, -1, 0, 2, -1], np.int32), np.iinfo(dtype)
    numbers = np.array([*range(low - 1, low + 6), low + 3, ends.min, ends.max, low ^ ends.min], dtype)
    numbers = np.concatenate([np.full(3000, low, dtype), np.repeat(numbers, spread)])
    found, left = np.full(len(numbers), 99, np.uint8), np.full(len(numbers), -7)
    count = table_codes(read_only(numbers, dtype), low, table, found, left)
    codes = np.array([dict(zip(range(low, low + 5), table.tolist(), strict=True)).get(n, -1) for n in numbers.tolist()])
    assert found[codes >= 0].tolist() == codes[codes >= 0].tolist()
    assert left[:count].tolist() == np.flatnonzero(codes < 0).tolist()


def test_a_table_that_leaves_all_and_no_numbers():
    left = np.zeros(2, np.int64)
    assert table_codes(read_only([0, 1], np.int64), 0, np.array([-1], np.int32), np.zeros(2, np.uint8), left) == 2
    assert left.tolist() == [0, 1]
    none = read_only([], np.int64)
    assert table_codes(none, 0, np.array([-1], np.int32), np.empty(0, np.uint8), np.empty(0, np.int64)) == 0


def test_what_is_read_only_is_one_type_and_leaves_what_it_came_of():
    numbers = np.arange(10, dtype=np.int32)[::2]
    found = read_only(numbers, np.float64)
    assert found.tolist() == numbers.tolist()
    assert (found.dtype, found.flags.c_contiguous, found.flags.writeable) == (np.float64, True, False)
    same = np.arange(3.0)
    read_only(same, np.float64)
    same[0] = 9  # it may still be written by who has it


def test_places_are_those_of_the_first_ones_and_new_keys_are_told_in_order():
    slots, places = np.zeros(16, np.int64), np.full(16, -1)
    found, firsts = np.empty(6, np.int64), np.empty(6, np.int64)
    keys = read_only([5, -1, 5, 0, -1, 2**60], np.int64)
    assert key_places(keys, slots, places, 10, found, firsts) == 4
    assert found.tolist() == [10, 11, 10, 12, 11, 13]
    assert firsts[:4].tolist() == [0, 1, 3, 5]
    assert key_places(keys, slots, places, 14, found, firsts) == 0
    assert found.tolist() == [10, 11, 10, 12, 11, 13]


@pytest.mark.parametrize(("records", "groups", "highest"), [(0, 3, 9), (500, 400, 2**64), (2000, 7, 3), (900, 30, 40)])
def test_places_are_those_of_sorts_that_keep_equal_values_in_order(records, groups, highest):
    """Of few and of many values in a group, most of them equal to others or none."""
    rng, word = np.random.default_rng(records), np.uint64(2 * records + 1)
    values, of_group = rng.integers(highest, size=records, dtype=np.uint64), rng.integers(groups, size=records)
    counts, places = np.bincount(of_group, minlength=groups), np.empty(records, np.int64)
    drawn_places(values, of_group, np.cumsum(counts) - counts, word, places)
    for group in range(groups):
        rows = np.flatnonzero(of_group == group)
        own = values[rows]
        ranks = np.array([np.count_nonzero(own[:i] == own[i]) for i in range(len(own))], np.uint64)
        order = np.argsort(mixed(own + ranks * word), kind="stable")
        assert places[rows[order]].tolist() == [*range(len(rows))]


def test_a_place_does_not_depend_on_other_groups():
    """Two persons' records may be hashed to one number; whose rank is first must not go by who else is there."""
    values, of_group = np.array([5, 5, 7, 5, 7, 5], np.uint64), np.array([0, 1, 0, 1, 1, 0])

    def places(values, of_group):
        counts, found = np.bincount(of_group), np.empty(len(values), np.int64)
        drawn_places(values, of_group, np.cumsum(counts) - counts, np.uint64(3), found)
        return found

    together = places(values, of_group)
    for group in (0, 1):
        alone = of_group == group
        assert places(values[alone], np.zeros(3, np.int64)).tolist() == together[alone].tolist()
