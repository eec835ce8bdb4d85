"""Points beside bins: which columns have them, and that bins are a function of the points."""

from fractions import Fraction

import numpy as np
import pytest

from qrelease.data.domain import Attribute
from qrelease.data.points import agree, any_of, binned, has_points

PRICE = Attribute("x", "number", edges=(0, 1, 5, 9.25), within=(0, 9), step=Fraction(1, 4), missing=("",))


@pytest.mark.parametrize(
    ("attribute", "kept"),
    [
        (PRICE, True),
        (Attribute("x", "number", edges=(0, 1, 5, 10)), False),  # no grid
        (Attribute("x", "number", edges=(0, 1, 2, 3), within=(0, 2), step=1), False),  # a bin for each point
        (Attribute("x", "number", edges=(0, 2, 3), within=(0, 2), step=1), True),
        (Attribute("x", "number", within=(0, 9), step=1, learn=4), False),  # no bins as yet
        (Attribute("x", "coded", codes=3), False),
    ],
)
def test_points_are_kept_where_bins_say_less(attribute, kept):
    assert has_points(attribute) == kept


def test_the_bin_of_a_point_is_that_of_its_value():
    grid = PRICE.grid
    points = np.arange(grid.size + 1)  # the last is missing
    values = [grid.value(int(point)) for point in points[:-1]]
    wanted = [sum(value >= edge for edge in PRICE.edges[1:-1]) for value in values] + [PRICE.values]
    found = binned(PRICE, points)
    assert found.tolist() == wanted
    assert found.dtype == np.uint8


@pytest.mark.parametrize("place", [0, (1 << 16) - 1, 1 << 16, (1 << 16) + 40])
def test_one_record_in_a_wrong_bin_is_found_wherever_it_is(place):
    points = np.resize(np.arange(PRICE.grid.size), (1 << 16) + 41)
    column = binned(PRICE, points)
    assert agree(PRICE, points, column)
    assert not agree(PRICE, points[:-1], column)
    column[place] = (column[place] + 1) % 3
    assert not agree(PRICE, points, column)


def test_a_table_without_any_points_has_an_empty_tuple_of_them():
    some = np.zeros(2, np.uint8)
    assert any_of([None, None]) == any_of([]) == ()
    assert any_of([None, some]) == (None, some)
