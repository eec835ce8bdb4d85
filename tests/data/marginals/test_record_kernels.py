"""Kernels that redraw records."""

import numpy as np

from qrelease.data.marginals import record_kernels


def test_what_rounding_leaves_draws_no_impossible_cell():
    seed, none = np.uint64(0x31628AF67B2131AB), np.empty(0, np.int64)
    assert np.float32(record_kernels._uniform(seed, 0)) == 1
    codes, logs = np.zeros((1, 1), np.uint16), np.array([0, 0, -np.inf, -np.inf], np.float32)
    record_kernels.redraw(codes, 0, 4, none, none, np.zeros(2, np.int64), np.zeros(1, np.int64), logs, 0, 1, seed)
    assert codes.item() == 1


def test_a_single_cell_that_noise_took_away_is_not_taken_to_be_empty():
    """Among the cells of all marginals some are four standard deviations off: one of them was 0 in all records."""
    rng = np.random.default_rng(1)
    expected, noise = np.full(400, 300.0), 65.0**2
    measured = expected + rng.normal(0, 65, 400)
    measured[7] = 300 - 4 * 65
    zero = np.zeros(400)
    record_kernels.strength(measured, expected, noise, 0.2, True, zero, -1.0)
    assert zero.max() < 0.5
    measured[:40] = rng.normal(0, 65, 40)  # a tenth of the cells are empty
    record_kernels.strength(measured, expected, noise, 0.2, True, zero, -1.0)
    assert (zero[:40] > 0.5).sum() >= 35
    assert (zero[40:] > 0.5).sum() == 0


def test_cells_of_which_nothing_can_be_told_do_not_say_that_others_are_empty():
    """Half of the cells expect too few records to be told from none."""
    rng = np.random.default_rng(2)
    expected, noise = np.repeat([300.0, 3.0], 200), 65.0**2
    measured = expected + rng.normal(0, 65, 400)
    measured[[7, 8]] = 300 - 4 * 65
    zero = np.zeros(400)
    record_kernels.strength(measured, expected, noise, 0.2, True, zero, -1.0)
    assert zero[[i for i in range(200) if i not in (7, 8)]].max() < 0.1
    assert zero[200:].max() < 0.5


def test_a_cell_of_few_records_is_not_taken_to_be_empty_where_few_are_expected():
    """What was measured is two standard deviations of noise above none: it depends on what else there might be."""
    found = []
    for expected in (150.0, 2_000.0):
        zero = np.zeros(1)
        _, share = record_kernels.strength(np.array([116.0]), np.array([expected]), 58.0**2, 0.2, True, zero, 0.4)
        assert share == 0.4  # as it was known
        found.append(zero.item())
    assert found[0] < 0.4 < found[1]
