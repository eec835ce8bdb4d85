"""Multisets by number: against a list of them all."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from qrelease._util.multisets import multiset, range_size


@given(st.integers(1, 6), st.integers(1, 5))
def test_multisets_are_in_lexicographic_order(cells, records):
    expected = list(itertools.combinations_with_replacement(range(cells), records))
    assert [tuple(multiset(i, cells, records)) for i in range(range_size(cells, records))] == expected
