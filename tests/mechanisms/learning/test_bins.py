"""Bins from pieces."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qrelease.mechanisms.learning.bins import cuts_of, shape_of
from qrelease.mechanisms.learning.point_tree import Pieces


def pieces(*runs):
    starts, stops, masses = zip(*runs, strict=True)
    return Pieces(np.array(starts), np.array(stops), np.array(masses, float))


def test_heaps_are_cells_of_their_own():
    cuts = cuts_of(pieces((0, 1, 500), (1, 40, 100), (40, 41, 300), (41, 100, 100)), 6)
    assert {0, 1, 40, 41, 100} <= set(cuts)
    assert len(cuts) <= 7


def test_even_records_make_even_bins():
    assert cuts_of(pieces((0, 100, 1000)), 4) == [0, 25, 50, 75, 100]
    assert cuts_of(pieces((0, 100, 0)), 4) == [0, 25, 50, 75, 100]
    assert cuts_of(pieces((0, 3, 10)), 4) == [0, 1, 2, 3]


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 1000)), min_size=1, max_size=20), st.integers(2, 40))
def test_bins_cover_the_grid_and_are_no_more_than_asked(runs, most):
    ends = np.cumsum([0, *(width for width, _ in runs)]).tolist()
    made = pieces(*((a, b, m) for a, b, (_, m) in zip(ends[:-1], ends[1:], runs, strict=True)))
    cuts = cuts_of(made, most)
    assert cuts[0] == 0
    assert cuts[-1] == ends[-1]
    assert all(a < b for a, b in pairwise(cuts))
    assert len(cuts) - 1 <= most


def test_a_shape_of_nobody_is_none():
    assert shape_of(pieces((0, 5, 0.2), (5, 9, 0.1))) == ()
    assert shape_of(pieces((0, 5, 2.6), (5, 9, 0.1))) == ((0, 3), (5, 0))


@pytest.mark.parametrize("most", [2, 7, 32])
def test_bins_hold_about_as_many_records(most):
    rng = np.random.default_rng(1)
    counts = np.bincount(rng.geometric(0.01, 100_000).clip(0, 999), minlength=1000)
    made = pieces(*((i, i + 1, c) for i, c in enumerate(counts)))
    held = np.add.reduceat(counts, cuts_of(made, most)[:-1])
    assert held.max() < 2.5 * 100_000 / most


def test_no_bin_is_wide_where_noise_may_hide_records():
    """Pieces that seem empty, but may have as many records as others, share the bins with these."""
    starts, masses = np.array([0, 1, 10, 20]), np.array([1000.0, 0.0, 0.0, 0.0])
    known, noisy = (cuts_of(Pieces(starts, np.append(starts[1:], 100), masses, e), 8) for e in (0.0, np.full(4, 500.0)))
    assert max(b - a for a, b in pairwise(known)) == 99
    assert max(b - a for a, b in pairwise(noisy)) <= 40
