"""Bins from pieces."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qrelease.mechanisms.learning.bins import cuts_of, shape_of
from qrelease.mechanisms.learning.point_tree import Pieces
from qrelease.mechanisms.learning.round_points import RoundPoints


def pieces(*runs):
    starts, stops, masses = zip(*runs, strict=True)
    return Pieces(np.array(starts), np.array(stops), np.array(masses, float))


def unrounded_cuts(made, most):
    """Where no point is rounder than another."""
    return cuts_of(made, most, RoundPoints(-1, int(made.stops[-1])))


def test_heaps_are_cells_of_their_own():
    cuts = unrounded_cuts(pieces((0, 1, 500), (1, 40, 100), (40, 41, 300), (41, 100, 100)), 6)
    assert {0, 1, 40, 41, 100} <= set(cuts)
    assert len(cuts) <= 7


def test_even_records_make_even_bins():
    assert unrounded_cuts(pieces((0, 100, 1000)), 4) == [0, 25, 50, 75, 100]
    assert unrounded_cuts(pieces((0, 100, 0)), 4) == [0, 25, 50, 75, 100]
    assert unrounded_cuts(pieces((0, 3, 10)), 4) == [0, 1, 2, 3]


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 1000)), min_size=1, max_size=20), st.integers(2, 40))
def test_bins_cover_the_grid_and_are_no_more_than_asked(runs, most):
    ends = np.cumsum([0, *(width for width, _ in runs)]).tolist()
    made = pieces(*((a, b, m) for a, b, (_, m) in zip(ends[:-1], ends[1:], runs, strict=True)))
    cuts = unrounded_cuts(made, most)
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
    held = np.add.reduceat(counts, unrounded_cuts(made, most)[:-1])
    assert held.max() < 2.5 * 100_000 / most


def test_cuts_are_at_round_points_where_that_moves_few_records():
    """A quarter of a bin's records at most on each side, and of points as round the one that moves the fewest."""
    ages = RoundPoints(0, 100, (1, 5, 10, 50))
    even = pieces((0, 100, 1000))
    assert cuts_of(even, 4, ages) == [0, 20, 50, 80, 100]  # 25 and 75, of which 20 and 80 are five points off
    assert cuts_of(even, 7, ages) == [0, 15, 30, 40, 60, 70, 85, 100]
    held = np.diff(cuts_of(even, 16, ages))
    assert held.min() >= 100 / 16 / 2
    assert held.max() <= 1.5 * 100 / 16
    heavy = pieces((0, 37, 10), (37, 38, 900), (38, 100, 90))
    assert {37, 38} <= set(cuts_of(heavy, 4, ages))  # a heap stays a bin of its own
    delays = RoundPoints(60, 200, (1, 5, 10, 50, 100))  # from -60 on: 0 is the roundest of all
    assert 60 in cuts_of(pieces((0, 50, 500), (50, 64, 10), (64, 200, 500)), 2, delays)


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(0, 1000)), min_size=1, max_size=20),
    st.integers(2, 40),
    st.integers(-30, 1000),
)
def test_rounded_cuts_cover_the_grid_and_are_no_more_than_asked(runs, most, origin):
    ends = np.cumsum([0, *(width for width, _ in runs)]).tolist()
    made = pieces(*((a, b, m) for a, b, (_, m) in zip(ends[:-1], ends[1:], runs, strict=True)))
    cuts = cuts_of(made, most, RoundPoints(origin, ends[-1], (1, 5, 10, 50)))
    assert cuts[0] == 0
    assert cuts[-1] == ends[-1]
    assert all(a < b for a, b in pairwise(cuts))
    assert len(cuts) - 1 <= most


def test_no_bin_is_wide_where_noise_may_hide_records():
    """Pieces that seem empty, but may have as many records as others, share the bins with these."""
    starts, masses = np.array([0, 1, 10, 20]), np.array([1000.0, 0.0, 0.0, 0.0])
    known, noisy = (
        unrounded_cuts(Pieces(starts, np.append(starts[1:], 100), masses, e), 8) for e in (0.0, np.full(4, 500.0))
    )
    assert max(b - a for a, b in pairwise(known)) == 99
    assert max(b - a for a, b in pairwise(noisy)) <= 40
