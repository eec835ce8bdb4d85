"""The candidates of quantiles that are chosen, and the probabilities that can be."""

from fractions import Fraction

import pytest

from qrelease.data.domain import Attribute
from qrelease.inference.chosen_quantiles import QuantileCells, exact_probability


def test_cells_part_the_grid_and_know_their_ends():
    x = Attribute("x", "number", edges=(0, 10, 12, 100), within=(0, 99), step=1)
    cells = QuantileCells.of(x, 4)
    assert cells.low.tolist() == [0, 2, 5, 7, 10, 11, 12, 34, 56, 78]
    assert cells.high.tolist() == [*(cells.low[1:] - 1).tolist(), 99]
    assert QuantileCells.of(x, 1).high.tolist() == [9, 11, 99]
    assert len(QuantileCells.of(x, 1000)) == 100


@pytest.mark.parametrize(
    ("q", "exact"), [(0.5, Fraction(1, 2)), (0.999, Fraction(999, 1000)), (0, None), (1 / 3, None)]
)
def test_probabilities_that_have_losses_in_whole_numbers(q, exact):
    assert exact_probability(q) == exact
