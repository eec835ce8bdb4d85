"""Classes of round points: each point is in one, by its value and not by its place; counted in closed form."""

import datetime
from fractions import Fraction

import numpy as np
import pytest

from qrelease.data.grids import PointGrid
from qrelease.mechanisms.learning.round_points import RoundPoints

GRIDS = [
    PointGrid(Fraction(0), Fraction(1), 100),
    PointGrid(Fraction(17), Fraction(1), 74),
    PointGrid(Fraction(-60), Fraction(1), 200),
    PointGrid(Fraction(-10), Fraction(1, 4), 90),
    PointGrid(Fraction(1, 2), Fraction(1), 50),
    PointGrid(Fraction(100), Fraction(3), 40),
]


@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_each_point_is_in_one_class_and_counted_there(grid):
    rounds, points = RoundPoints.of(grid), np.arange(grid.size)
    classes = rounds.classes(points)
    assert (classes[0], classes[-1]) == (0, 1)
    for start, stop in ((0, grid.size), (3, 31), (7, 7), (grid.size - 1, grid.size)):
        found = rounds.numbers(np.array([start]), np.array([stop]))[0]
        assert found.tolist() == np.bincount(classes[start:stop], minlength=rounds.number).tolist()
        for own in range(rounds.number):
            assert rounds.places(own, start, stop).tolist() == points[start:stop][classes[start:stop] == own].tolist()
    held = rounds.counts(points[5:9], np.array([3, 0, 2, 1]))
    assert held.sum() == 6
    assert held[classes[5]] >= 3


def rounder(grid, low, high):
    rounds = RoundPoints.of(grid)
    first, second = (int(rounds.classes(np.array([grid.place(v)]))[0]) for v in (low, high))
    return second - first


def test_roundness_is_of_values():
    """Of 20 and 25 in euros from 17 on, of 3.50 and 3.75 in cents, and of none where 0 is no point."""
    assert rounder(GRIDS[1], 23, 25) == 1
    assert rounder(GRIDS[1], 25, 20) == 1
    assert rounder(GRIDS[2], 25, 20) == rounder(GRIDS[2], -25, -20) == 1
    cents = PointGrid(Fraction(0), Fraction(1, 100), 1001)
    assert rounder(cents, 3.74, 3.75) == rounder(cents, 3.75, 3.7) == rounder(cents, 3.7, 3.5) == 1
    assert RoundPoints.of(GRIDS[4]).periods == (1,)
    assert RoundPoints.of(GRIDS[5]).periods == (1,)
    assert RoundPoints.of(GRIDS[3]).periods == (1, 2, 4, 20, 40)


def test_zero_is_a_class_of_its_own():
    rounds = RoundPoints.of(GRIDS[2])
    assert rounds.classes(np.array([60])).tolist() == [rounds.number - 1]


def test_moments_are_round_at_full_hours():
    first = (datetime.date(2013, 1, 1) - datetime.date(1970, 1, 1)).days
    rounds = RoundPoints.of(PointGrid(Fraction(first), Fraction(1, 1440), 31 * 1440, begins=True))
    assert rounds.periods == (1, 5, 15, 30, 60, 360, 720, 1440)
    at = [24 * 60, 24 * 60 + 1, 25 * 60, 25 * 60 + 30]  # the second day's begin, and what follows
    assert rounds.classes(np.array(at)).tolist() == [9, 2, 6, 5]


def test_a_grid_of_all_floats_has_classes():
    rounds = RoundPoints.of(PointGrid(Fraction(-(2**52)), Fraction(1), 2**53))
    found = rounds.numbers(np.array([0]), np.array([2**53]))
    assert found.sum() == 2**53
    assert (found >= 0).all()
