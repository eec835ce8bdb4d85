"""What every statistic must keep: `tests/statistics/test_base_conformance.py` runs it for each of a list.

A statistic of your own joins by one line: `CASES.append(Case(MyStatistic("x"), PureDP(1.0)))`. It sees a column `x` of
codes 0..19, some missing, a column `y` of codes 0..4 and a column `z` of codes 0 and 1.
"""

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from qrelease.data.domain import Attribute, Domain
from qrelease.data.table import Table
from qrelease.evaluation.quality.private_score import QualityScores
from qrelease.noise.entropy import Entropy
from qrelease.privacy.costs import ZCDP, ApproxDP, Cost, Neighbours, PureDP
from qrelease.privacy.ledger import Ledger
from qrelease.release.curator import Curator
from qrelease.statistics.clipped_mean import ClippedMean, QuantileMean, SparseVectorMean
from qrelease.statistics.local_sensitivity import StableMean, TrimmedMean, WinsorisedMean
from qrelease.statistics.mean import Mean, TextbookMean
from qrelease.statistics.propose_test_release import ProposeTestRelease
from qrelease.statistics.quantile import Quantile
from qrelease.statistics.quantiles import RecursiveQuantiles, TreeQuantiles
from qrelease.statistics.sample_and_aggregate import SampleAndAggregate
from qrelease.statistics.selection import MostCommon
from qrelease.statistics.smooth_sensitivity import SmoothSensitivity
from qrelease.statistics.sums import Sum
from qrelease.statistics.thresholds import AboveThresholds

DOMAIN = Domain(
    (
        Attribute("x", "coded", codes=20, missing=("?",), ordered=True),
        Attribute("y", "coded", codes=5, ordered=True),
        Attribute("z", "coded", codes=2),
    )
)


UNIT, DELTA = PureDP(1.0), ApproxDP(1.0, 1e-6)
ADD_REMOVE, REPLACE_ONE = (Neighbours.ADD_REMOVE,), (Neighbours.REPLACE_ONE,)
AVERAGE = SampleAndAggregate(("x", "y"), f"{Path(__file__).parent / 'functions.py'}:average", 0, 9, blocks=7)


@dataclass(frozen=True)
class Case:
    """A statistic and a cost that it takes.

    `refusals` must be refused before a charge, and so must the statistic under other relations than `relations`. It is
    run with so many `seeds`: few where a run takes long; and on no fewer records than `least`, below which its promise
    is empty and their number public, so that it is refused.
    """

    statistic: Any
    cost: Cost = UNIT
    refusals: tuple[Any, ...] = ()
    relations: tuple[Neighbours, ...] = tuple(Neighbours)
    seeds: int = 20
    least: int = 0

    def __str__(self):
        return f"{self.statistic!r} {self.cost!r}"


PUBLIC = Table(DOMAIN, (np.arange(30) % 21, np.arange(30) % 5, np.arange(30) % 2))

CASES = [
    Case(Mean("x"), refusals=(Mean("none"), Mean("x", 5, 5), Mean("x", 0.5))),
    Case(TextbookMean("x", 2, 10), refusals=(TextbookMean("x", origin="left"),)),
    Case(Mean("x", 0, 19), ZCDP(0.1)),
    Case(TextbookMean("x", origin="zero"), ApproxDP(0.5, 1e-6)),
    Case(QualityScores(PUBLIC), refusals=(QualityScores(PUBLIC, "none"),)),
    Case(QualityScores(PUBLIC), ApproxDP(1.0, 1e-6)),
    Case(Sum("x", 0, 10), refusals=(Sum("none"),)),
    Case(ClippedMean("x"), refusals=(ClippedMean("none"),)),
    Case(ClippedMean("x"), ApproxDP(1.0, 1e-6)),
    Case(QuantileMean("x"), refusals=(QuantileMean("none"),)),
    Case(SparseVectorMean("x"), refusals=(SparseVectorMean("x", early=-1),)),
    Case(Quantile("x"), refusals=(Quantile("x", 1.0), Quantile("x", 1 / 3))),
    Case(Quantile("x", 0.9, interval=False), ZCDP(0.2)),
    Case(Quantile("x", by=("z",)), refusals=(Quantile("x", by=("none",)), Quantile("x", by="z"))),
    Case(Quantile("y", 0.75, by=("z", "x")), ZCDP(0.2)),
    Case(RecursiveQuantiles("x", (0.1, 0.25, 0.5, 0.9)), refusals=(RecursiveQuantiles("x", (0.5, 0.1)),)),
    Case(RecursiveQuantiles("x", (0.5,)), ApproxDP(1.0, 1e-6)),
    Case(TreeQuantiles("x", (0.1, 0.25, 0.5, 0.9)), refusals=(TreeQuantiles("x", ()), TreeQuantiles("x", 0.5))),
    Case(TreeQuantiles("x", (0.5,)), ZCDP(0.2)),
    Case(MostCommon(("x",), 3), refusals=(MostCommon("x"), MostCommon(("x",), 21), MostCommon(("none",)))),
    Case(MostCommon(("x", "y"), 2), ApproxDP(1.0, 1e-6)),
    Case(AboveThresholds(("x",), 20, 3), refusals=(AboveThresholds(("x",), -1), AboveThresholds(("x",), 1, 0))),
    Case(AboveThresholds(("x",), 20, 3, "sparse"), DELTA),
    Case(AboveThresholds(("x", "y"), 10, 3, "numeric")),
    Case(
        AboveThresholds(("y",), 50, 3, measure="sum", column="x"),
        refusals=(
            AboveThresholds(("y",), 50, measure="sum"),
            AboveThresholds(("y",), 50, measure="mean", column="x"),
            AboveThresholds(("y",), 5, column="x"),
        ),
    ),
    Case(AboveThresholds(("y", "z"), 10, 3, "numeric", "sum", "x", high=15), DELTA),
    Case(
        AVERAGE,
        refusals=(replace(AVERAGE, low=9), replace(AVERAGE, function="gone.py:f"), replace(AVERAGE, blocks=0)),
        seeds=2,
    ),
    Case(replace(AVERAGE, aggregate="median"), DELTA, relations=ADD_REMOVE, seeds=2),
    Case(SmoothSensitivity("x"), UNIT, (SmoothSensitivity("x", of=Mean("x")),), ADD_REMOVE),
    Case(SmoothSensitivity("x"), DELTA, relations=ADD_REMOVE),
    Case(SmoothSensitivity("y"), DELTA),
    Case(SmoothSensitivity("x", StableMean()), DELTA, relations=ADD_REMOVE),
    Case(SmoothSensitivity("y", TrimmedMean()), DELTA, relations=REPLACE_ONE),
    Case(SmoothSensitivity("y", WinsorisedMean()), DELTA, relations=REPLACE_ONE),
    Case(ProposeTestRelease("y", 1), ApproxDP(4.0, 1e-6), (ProposeTestRelease("x", 0.5), ProposeTestRelease("x", 99))),
    Case(ProposeTestRelease("x", 0.2, StableMean()), ApproxDP(4.0, 1e-6), relations=ADD_REMOVE),
]


def people(n, seed=0):
    """n records; every tenth has no x."""
    rng = np.random.default_rng(seed)
    x = rng.binomial(19, 0.3, n)
    x[::10] = 20
    return Table(DOMAIN, (x, rng.integers(0, 5, n), rng.integers(0, 2, n)))


def estimated(case, table, seed=1, neighbours=None):
    """The estimate, and what the ledger was charged."""
    neighbours = neighbours or case.relations[0]
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
