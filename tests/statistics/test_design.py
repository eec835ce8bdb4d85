"""Rows of whole numbers for a regression: their lengths, and roots rounded up."""

import numpy as np

from qrelease.statistics.design import Design, PublicRecords, root_up
from tests.statistics.persons import DOMAIN


def test_the_second_moments_of_a_record_are_as_long_as_is_said_and_no_longer():
    design = Design.of(DOMAIN, "y", None)
    every = np.indices((4, 50, 2)).reshape(3, -1)
    rows = design.rows(PublicRecords({"a": every[0], "b": every[1], "c": every[2]}))
    upper = np.triu_indices(design.width)
    squares, sums = zip(
        *((int((m.astype(object) ** 2).sum()), int(np.abs(m).sum())) for m in (np.outer(r, r)[upper] for r in rows)),
        strict=True,
    )
    assert max(squares) == design.moment_square
    assert max(sums) == design.moment_sum
    assert max((rows * rows).sum(axis=1)) == design.square


def test_roots_are_rounded_up():
    for square in (0, 1, 2, 99, 100, 101, 10**12 - 1, 10**12, (1 << 52) + 1):
        root = root_up(square)
        assert root**2 >= square
        assert root == 0 or (root - 1) ** 2 < square
