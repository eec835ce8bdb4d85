"""Anderson's mixing: where repeated steps end, and in how few."""

import numpy as np

from qrelease.inference.mixing import Mixing

EVEN = np.full(6, 1 / 6)


def steps(advance, start, turns, kept):
    """Where so many steps lead, with mixing or, for none kept, without."""
    x, mixing = start, Mixing(max(kept, 1))
    for _ in range(turns):
        after = advance(x)
        (x,) = mixing.next(after - x, EVEN, (after,)) if kept else (after,)
    return x


def test_linear_steps_end_in_not_many_more_than_they_have_dimensions():
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    matrix = basis @ np.diag([0.999, 0.95, 0.7, 0.3, 0.1, 0.0]) @ basis.T
    end = rng.normal(size=6)

    def advance(x):
        return end + matrix @ (x - end)

    assert np.abs(steps(advance, np.zeros(6), 9, 8) - end).max() < 0.02
    assert np.abs(steps(advance, np.zeros(6), 9, 0) - end).max() > 0.1


def test_steps_that_are_nearly_linear_end_sooner():
    end = np.linspace(-1, 1, 6)
    slow = np.array([0.98, 0.9, 0.8, 0.5, 0.2, 0.0])

    def advance(x):
        return end + slow * np.sin(x - end)

    assert np.abs(steps(advance, np.zeros(6), 25, 4) - end).max() < 1e-3
    assert np.abs(steps(advance, np.zeros(6), 25, 0) - end).max() > 0.1


def test_all_parts_move_by_the_same_coefficients():
    mixing = Mixing(3)
    first = np.zeros(2), np.ones(3)
    mixing.next(np.array([1.0, 1.0]), np.full(2, 0.5), first)
    mixed = mixing.next(np.array([0.5, 0.5]), np.full(2, 0.5), (np.ones(2), np.full(3, 5.0)))
    np.testing.assert_allclose(mixed[0], 2.0)  # the change would be none twice as far on
    np.testing.assert_allclose(mixed[1], 9.0)


def test_after_a_step_that_went_much_further_it_begins_anew():
    mixing = Mixing(3)
    mixing.next(np.full(2, 0.1), np.full(2, 0.5), (np.zeros(2),))
    (x,) = mixing.next(np.full(2, 1.0), np.full(2, 0.5), (np.full(2, 7.0),))
    np.testing.assert_array_equal(x, 7.0)
