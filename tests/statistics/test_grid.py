"""The grid of a column, and its values as sorted counts: against lists of records."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qrelease.data.domain import Attribute, Domain
from qrelease.errors import InvalidInput
from qrelease.statistics.grid import Grid, Numbers, exact_dot

CODES = st.lists(st.integers(-1, 9), max_size=30)


@given(CODES, st.integers(0, 9), st.integers(0, 9))
def test_values_are_those_of_the_records(codes, low, high):
    """Negative ones are missing, and the order they come in does not matter."""
    low, high = min(low, high), max(low, high)
    records = sorted(c for c in codes if c >= 0)
    found = Numbers.listed(codes, 10)
    again = Numbers.counted(np.bincount(records, minlength=10))
    assert found.values.tolist() == again.values.tolist()
    assert found.counts.tolist() == again.counts.tolist()
    assert found.n == len(records)
    assert found.total(low, high) == sum(min(max(c, low), high) for c in records)
    assert found.below(np.arange(11)).tolist() == [sum(c < k for c in records) for k in range(11)]
    places = np.arange(-1, len(records) + 3)
    assert found.order(places).tolist() == [
        0 if p < 1 else 9 if p > len(records) else records[p - 1] for p in places.tolist()
    ]


def test_private_values_are_not_shown():
    assert repr(Numbers.listed([3, 7], 10)) == "Numbers(private)"


@given(st.lists(st.tuples(st.integers(-(2**62), 2**62), st.integers(0, 2**20)), max_size=5))
def test_sums_are_exact_beyond_64_bits(pairs):
    values, counts = (np.array([p[i] for p in pairs], np.int64) for i in (0, 1))
    assert exact_dot(values, counts) == sum(v * c for v, c in pairs)


def test_only_values_of_the_grid_have_codes():
    grid = Grid("x", 0.1, 0.1, 10)
    assert [grid.code(k / 10) for k in range(1, 11)] == list(range(10))
    for value in (0.0, 1.1, 0.15, 0.1000001):
        with pytest.raises(InvalidInput, match=r"no value of column 'x', which has 0.1 to 1 in steps of 0.1"):
            grid.code(value)
    assert grid.codes(None, 0.5) == (0, 4)
    with pytest.raises(InvalidInput, match="must be below the upper"):
        grid.codes(0.5, 0.5)


def test_which_columns_have_a_grid():
    def number(*edges):
        return Domain((Attribute("x", "number", edges=edges, integer=True),))

    assert Grid.of(number(3, 4, 5, 6), "x") == Grid("x", 3, 1.0, 3)
    for domain in (number(3, 5, 6), Domain((Attribute("x", "category", categories=("p", "q")),))):
        with pytest.raises(InvalidInput, match="no exact numbers"):
            Grid.of(domain, "x")
