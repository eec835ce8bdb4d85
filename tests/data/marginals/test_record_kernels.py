"""Kernels that redraw records."""

import numpy as np

from qrelease.data.marginals import record_kernels


def test_what_rounding_leaves_draws_no_impossible_cell():
    seed, none = np.uint64(0x31628AF67B2131AB), np.empty(0, np.int64)
    assert np.float32(record_kernels._uniform(seed, 0)) == 1
    codes, logs = np.zeros((1, 1), np.uint16), np.array([0, 0, -np.inf, -np.inf], np.float32)
    record_kernels.redraw(codes, 0, 4, none, none, np.zeros(2, np.int64), np.zeros(1, np.int64), logs, 0, 1, seed)
    assert codes.item() == 1
