"""Records with a target, for regressions."""

import numpy as np

from qrelease.data.domain import Attribute, Domain
from qrelease.data.table import Table

DOMAIN = Domain(
    (
        Attribute("a", "category", categories=("p", "q", "r"), missing=("?",)),
        Attribute("b", "coded", codes=50, ordered=True),
        Attribute("c", "category", categories=("x", "y")),
        Attribute("y", "coded", codes=21, ordered=True),
    )
)


def people(n, seed=0):
    rng = np.random.default_rng(seed)
    a, b, c = rng.integers(0, 4, n), rng.integers(0, 50, n), rng.integers(0, 2, n)
    mean = 10 + 4 * (a == 1) - 3 * (a == 2) + (b - 25) / 8 + 2 * (2 * c - 1)
    y = np.clip(np.rint(mean + rng.normal(0, 1, n)), 0, 20).astype(int)
    return Table(DOMAIN, (a, b, c, y))
