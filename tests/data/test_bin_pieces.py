"""Runs of points inside bins."""

from dataclasses import replace
from fractions import Fraction

import numpy as np

from qrelease.data.attribute import Attribute
from qrelease.data.bin_pieces import BinPieces

EVEN = Attribute("x", "number", edges=(0, 10, 100), integer=True, within=(Fraction(0), Fraction(99)), step=Fraction(1))


def test_a_bin_without_a_shape_is_one_run():
    pieces = BinPieces.of(EVEN)
    assert pieces.cells.tolist() == [0, 1]
    assert pieces.shares.tolist() == [1.0, 1.0]
    assert pieces.starts.tolist() == [0, 10]
    assert pieces.lengths.tolist() == [10, 90]
    assert pieces.first.tolist() == [0, 1]


def test_a_shape_cuts_bins_by_its_heights():
    # Of 0..49 there are 50, a height of 1, and of 50..99 150, a height of 3; 10..49 are 40 of 190 in the second bin.
    pieces = BinPieces.of(replace(EVEN, shape=((0, 50), (50, 150))))
    assert pieces.cells.tolist() == [0, 1, 1]
    assert pieces.first.tolist() == [0, 1]
    assert np.allclose(pieces.shares, [1, 40 / 190, 150 / 190])
    assert pieces.lengths.tolist() == [10, 40, 50]


def test_a_bin_of_which_a_shape_knows_nothing_is_even():
    pieces = BinPieces.of(replace(EVEN, shape=((0, 5), (10, 0), (40, 0))))
    assert np.allclose(pieces.shares, [1, 30 / 90, 60 / 90])
