"""Tables whose columns go together, another sample of the same people, and one whose columns are independent."""

import math
from collections import Counter

import numpy as np

from qrelease.data.domain import Attribute, Domain
from qrelease.data.table import Table


def ordered(name, size):
    return Attribute(name, "number", edges=tuple(range(size + 1)), integer=True)


DOMAIN = Domain(
    (ordered("age", 8), Attribute("sex", "category", categories=("F", "M")), ordered("pay", 6), ordered("time", 5))
)


def population(n, seed):
    """Records whose columns go together."""
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 8, n)
    sex = (rng.random(n) < 0.3 + 0.05 * age).astype(int)
    pay = np.clip(age // 2 + sex + rng.integers(-1, 2, n), 0, 5)
    time = np.clip(pay - rng.integers(0, 3, n), 0, 4)
    return Table(DOMAIN, tuple(c.astype(np.uint8) for c in (age, sex, pay, time)))


REAL = population(4000, 1)

OTHER = population(4000, 2)

INDEPENDENT = Table(DOMAIN, tuple(np.random.default_rng(7 + i).permutation(c) for i, c in enumerate(REAL.columns)))


def rows(table):
    return list(zip(*(c.tolist() for c in table.columns), strict=True))


def by_definition(real, synthetic, sets):
    """The k-marginal score as it is defined, without any of the package's arithmetic."""
    found = []
    for axes in sets:
        one, other = (Counter(tuple(r[a] for a in axes) for r in rows(t)) for t in (real, synthetic))
        found.append(math.fsum(abs(one[c] / len(real) - other[c] / len(synthetic)) for c in {*one, *other}))
    return (2 - math.fsum(found) / len(found)) * 500
