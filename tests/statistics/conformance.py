"""What every statistic must keep: `tests/statistics/test_conformance.py` runs it for each of a list.

A statistic of your own joins by one line: `CASES.append(Case(MyStatistic("x"), PureDP(1.0)))`. It sees a column `x` of
codes 0..19, some missing, and a column `y` of codes 0..4.
"""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from qrelease.data.domain import Attribute, Domain
from qrelease.data.table import Table
from qrelease.noise.entropy import Entropy
from qrelease.privacy.costs import ZCDP, Cost, Neighbours, PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.release.curator import Curator
from qrelease.statistics.chi_squared import FitTest, IndependenceTest
from qrelease.statistics.mean import Mean, TextbookMean
from qrelease.statistics.vector_mean import TruncatedMean, VectorMean

DOMAIN = Domain(
    (Attribute("x", "coded", codes=20, missing=("?",), ordered=True), Attribute("y", "coded", codes=5, ordered=True))
)


UNIT = PureDP(1.0)


@dataclass(frozen=True)
class Case:
    """A statistic and a cost that it takes; `refusals` are like statistics that must be refused before a charge."""

    statistic: Any
    cost: Cost = UNIT
    refusals: tuple[Any, ...] = ()

    def __str__(self):
        return f"{self.statistic!r} {self.cost!r}"


CASES = [
    Case(Mean("x"), refusals=(Mean("none"), Mean("x", 5, 5), Mean("x", 0.5))),
    Case(TextbookMean("x", 2, 10), refusals=(TextbookMean("x", origin="left"),)),
    Case(IndependenceTest("x", "y"), refusals=(IndependenceTest("x", "x"), IndependenceTest("x", "none"))),
    Case(FitTest("y", (1, 2, 3, 2, 1)), refusals=(FitTest("y", (1, 1)),)),
    Case(TruncatedMean(("x", "y")), refusals=(TruncatedMean(("x", "x")), TruncatedMean(("x",), 0.1))),
    Case(VectorMean(("x", "y")), ZCDP(1.0), refusals=(VectorMean(()), VectorMean(("none",)))),
]


def people(n, seed=0):
    """n records; every tenth has no x."""
    rng = np.random.default_rng(seed)
    x = rng.binomial(19, 0.3, n)
    x[::10] = 20
    return Table(DOMAIN, (x, rng.integers(0, 5, n)))


def estimated(case, table, seed=1, neighbours=Neighbours.ADD_REMOVE):
    """The estimate, and what the ledger was charged."""
    with Ledger.open(None, case.cost, dataset="people", neighbours=neighbours) as ledger:
        return Curator(table, ledger, Entropy.insecure(seed)).estimate(case.statistic, case.cost), ledger.spent


def contained(value, interval):
    """Whether each number of a value lies in its interval."""
    if interval is None or value is None:
        return True
    if isinstance(interval[0], tuple):
        numbers = list(value.values()) if isinstance(value, dict) else value
        return all(contained(v, i) for v, i in zip(numbers, interval, strict=True))
    return interval[0] <= value <= interval[1]


def parameter_names(statistic):
    """The public parameters."""
    return [f.name for f in fields(statistic)]
