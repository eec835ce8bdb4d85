"""Pairs of neighbouring columns, and a column with cells of very different counts."""

import numpy as np

from qrelease.data.domain import Domain
from qrelease.data.table import Table
from qrelease.privacy.costs import Neighbours

PAIRS = {
    Neighbours.ADD_REMOVE: [([0, 1], [0, 1, 2]), ([2, 2], [2])],
    Neighbours.REPLACE_ONE: [([0, 1, 1, 2], [0, 1, 2, 2]), ([0, 1], [1, 1])],
}


COUNTS = np.random.default_rng(8).integers(0, 900, 40)


TABLE = Table(Domain.coded({"x": 40}), (np.repeat(np.arange(40), COUNTS),))
