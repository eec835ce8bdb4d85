"""Bits of real people, and questions about them."""

import numpy as np

from qrelease.data import adult


def secret_of(people, seed=0):
    """Whether each of some real people is married: a bit that near to half of them have."""
    table = adult(["marital-status"])
    chosen = np.random.default_rng(seed).choice(len(table), people, replace=False)
    return table.columns[0][chosen] == 0
