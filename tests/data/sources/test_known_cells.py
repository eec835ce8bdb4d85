"""Bytes have the number that they were given, as many as are remembered, and others none."""

import numpy as np

from qrelease.data.sources.csv_kernels import PADDING
from qrelease.data.sources.known_cells import LONGEST, REMEMBERED_VALUES, KnownCells


def block(cells):
    """Cells as the bytes of a block, and their places."""
    ends = np.cumsum([0, *map(len, cells)]).astype(np.int32)
    return b"".join(cells) + bytes(PADDING), ends[:-1].copy(), ends[1:].copy()


def test_what_was_given_a_number_has_it_and_the_rest_is_left_in_order():
    known = KnownCells()
    known.remember({b"": 7, b"eight ch": 8, b"eight characters and more": 3})
    known.remember({b"eight characters and mope": 4})
    cells = [b"eight characters and mope", b"e", b"", b"eight ch", b"eight characters and more", b"7"]
    found, left, _ = known.find(*block(cells))
    assert found.tolist() == [4, -1, 7, 8, 3, -1]
    assert left.tolist() == [1, 5]


def test_what_is_long_or_comes_after_the_bound_is_left():
    known = KnownCells()
    known.remember({b"x" * LONGEST: 0, b"x" * (LONGEST + 1): 1})
    assert not known.is_full
    cells = [b"%d" % number for number in range(REMEMBERED_VALUES)]
    known.remember({cell: number for number, cell in enumerate(cells)})
    assert known.is_full
    found, left, _ = known.find(*block([b"x" * LONGEST, b"x" * (LONGEST + 1), *cells]))
    assert left.tolist() == [1, len(cells) + 1]
    assert found[2:-1].tolist() == [*range(len(cells) - 1)]
