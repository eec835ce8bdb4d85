"""Columns in memory and in files: the same records, and in files by person where they are asked for so."""

import sys

import numpy as np
import pytest

from qrelease.data.sources.kernels import BUCKETS
from qrelease.data.spill import Spill, entries_of_runs, held
from qrelease.errors import OutOfMemory

TYPES = [np.dtype(np.uint8), np.dtype(np.uint32), np.dtype(np.int64)]


def pieces(n=5000, size=700):
    rng = np.random.default_rng(3)
    columns = [rng.integers(200, size=n).astype(np.uint8), np.arange(n, dtype=np.uint32), rng.integers(-90, 90, n)]
    return columns, [[column[i : i + size] for column in columns] for i in range(0, n, size)]


@pytest.mark.parametrize("limit", [1 << 30, 20_000, 0])
def test_columns_are_the_same_in_memory_and_in_files(limit):
    columns, parts = pieces()
    spill = Spill(TYPES, limit)
    for part in parts:
        spill.add(part)
    found, cuts = spill.whole()
    assert cuts is None
    assert isinstance(found[0], np.memmap) == (limit < 1 << 30)
    for one, other in zip(found, columns, strict=True):
        assert one.dtype == other.dtype
        assert np.array_equal(one, other)


@pytest.mark.parametrize("limit", [20_000, 0])
def test_records_of_persons_stand_by_bucket_in_runs_and_a_persons_in_their_order(limit):
    columns, parts = pieces()
    spill = Spill(TYPES, limit, by_word=True)
    for part in parts:
        spill.add(part)
    found, cuts = spill.whole()
    assert cuts.shape[1] == BUCKETS + 1
    assert cuts[0, 0] == 0
    assert cuts[-1, -1] == len(columns[0])
    assert (np.diff(cuts) >= 0).all()
    assert np.array_equal(cuts[1:, 0], cuts[:-1, -1])
    number, words = found[1], found[2]
    assert sorted(number.tolist()) == columns[1].tolist()
    assert np.array_equal(found[0], columns[0][number])
    assert np.array_equal(words, columns[2][number])
    for word in set(words.tolist()):
        assert (np.diff(number[words == word].astype(int)) > 0).all()
        places = np.flatnonzero(words == word)
        bucket = {
            int(np.searchsorted(cuts[run], place, "right"))
            for run in range(len(cuts))
            for place in places
            if cuts[run, 0] <= place < cuts[run, -1]
        }
        assert len(bucket) == 1


@pytest.mark.parametrize("kinds", [["u1"] * 10, ["u1"], ["u2", "u1", "u4", "u1", "u2", "u1"], ["u8", "u4", "u2"]])
def test_columns_that_stand_side_by_side_are_read_again_each_by_itself(kinds):
    rng, types = np.random.default_rng(5), [*map(np.dtype, kinds), np.dtype(np.int64)]
    columns = [rng.integers(np.iinfo(dtype).max, size=3000, dtype=dtype) for dtype in types]
    spill = Spill(types, 9000, by_word=True)
    for first in range(0, 3000, 500):
        spill.add([column[first : first + 500] for column in columns])
    found, cuts = spill.whole()
    assert len(cuts) > 1
    assert sorted(zip(*map(np.ndarray.tolist, found), strict=True)) == sorted(
        zip(*map(np.ndarray.tolist, columns), strict=True)
    )
    for one, other in zip(found, columns, strict=True):
        assert one.dtype == other.dtype
        assert one.largest == (None if one is found[-1] else other.max())
    assert max(column.strides[0] for column in found) <= 8
    runs = [slice(run[7], run[9]) for run in cuts.tolist()]
    for one, other in zip(entries_of_runs([*found, columns[0]], runs), [*found, columns[0]], strict=True):
        assert one.flags.c_contiguous
        assert np.array_equal(one, np.concatenate([other[run] for run in runs]))


def test_nothing_is_columns_of_nothing():
    for by_word in (False, True):
        found, cuts = Spill(TYPES, 0, by_word=by_word).whole()
        assert [(column.shape, column.dtype) for column in found] == [((0,), dtype) for dtype in TYPES]
        assert cuts is None


def test_a_fourth_of_what_is_free_is_held_and_no_more_than_is_said(free_memory):
    free_memory(1000)
    assert (held(100), held(1 << 30)) == (100, 250)


@pytest.mark.skipif(sys.platform == "win32", reason="limits of files are POSIX's")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of files that cannot be flushed
@pytest.mark.parametrize("by_word", [False, True])
def test_of_files_that_may_not_grow_it_is_said_where_they_are(by_word):
    import resource

    _, parts = pieces(n=50_000, size=20_000)
    spill, before = Spill(TYPES, 0, by_word=by_word), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(OutOfMemory, match="name another by TMPDIR"):
            spill.add(parts[0])
            spill.whole()  # which waits for what is written on another core
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
