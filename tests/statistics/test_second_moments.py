"""Which second moments are measured: what a row adds to them, what is known of the rest, and what noise goes."""

import numpy as np
import pytest

from qrelease.statistics.design import UNIT, Design, PublicRecords
from qrelease.statistics.second_moments import SecondMoments, shrunk_interaction
from tests.statistics.test_regression import DOMAIN

DESIGN = Design.of(DOMAIN, "y", None)
EVERY = np.indices((4, 50, 2)).reshape(3, -1)
ROWS = DESIGN.rows(PublicRecords({"a": EVERY[0], "b": EVERY[1], "c": EVERY[2]}))


def test_a_row_adds_as_much_to_the_measured_entries_as_is_said_and_no_more():
    """The twin forgets the squares of numbers."""
    moments = SecondMoments(DESIGN)
    squares = [int((np.outer(r, r)[moments.places].astype(object) ** 2).sum()) for r in ROWS]
    assert max(squares) == moments.square
    forgetful = moments.square - UNIT**4
    assert max(squares) > forgetful


@pytest.mark.parametrize("deviation", [0.0, 1e-9])
def test_without_noise_the_measured_entries_are_all_there_is(deviation):
    moments = SecondMoments(DESIGN)
    exact = ROWS.T @ ROWS
    assert np.allclose(moments.completed(exact[moments.places], deviation), exact, atol=1)


def test_the_directions_hold_all_rows():
    basis = SecondMoments(DESIGN).directions
    assert basis.shape == (DESIGN.width, DESIGN.width - 2)
    assert np.allclose(basis.T @ basis, np.eye(basis.shape[1]))
    assert np.allclose(ROWS @ basis @ basis.T, ROWS)


def test_what_is_only_noise_goes_and_what_is_more_stays():
    rng = np.random.default_rng(0)
    left, right = rng.normal(0, 1, 12), rng.normal(0, 1, 16)
    strong = 40 * np.outer(left - left.mean(), right - right.mean())
    noise = rng.normal(0, 5, (12, 16))
    assert np.linalg.norm(shrunk_interaction(noise, 5.0)) < 0.35 * np.linalg.norm(noise)
    assert np.linalg.norm(shrunk_interaction(strong + noise, 5.0) - strong) < 0.6 * np.linalg.norm(noise)
    assert np.linalg.norm(shrunk_interaction(strong, 5.0) - strong) < 0.02 * np.linalg.norm(strong)
