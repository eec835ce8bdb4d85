"""Tables of log-linear models, their true marginals, and what is measured of them."""

from itertools import combinations

import numpy as np
from worlds import BOTH, coded

from qrelease.data.table import Table
from qrelease.queries.workload import Workload

ADD, SWAP = BOTH


def log_linear(shape, records, seed, strength=1.0):
    """A table drawn from a log-linear model with interactions of one and two columns."""
    rng = np.random.default_rng(seed)
    logs = np.zeros(shape)
    for k in (1, 2):
        for s in combinations(range(len(shape)), k):
            logs = logs + strength * rng.normal(size=[n if a in s else 1 for a, n in enumerate(shape)]) / k
    p = np.exp(logs).reshape(-1)
    cells = rng.choice(p.size, records, p=p / p.sum())
    return Table(coded(*shape), [c.astype(np.uint8) for c in np.unravel_index(cells, shape)])


def truth(table, order):
    """The workload of the marginals of so many columns, and their exact counts."""
    asked = Workload.marginals(table.domain, order)
    return asked, np.concatenate([c.reshape(-1) for c in table.counts(asked.sets)]).astype(float)
