"""A table and a mechanism for each kind of stored synopsis."""

from archives import DOMAIN

from qrelease.data.domain import Domain
from qrelease.inference.median_rule import MedianRule
from qrelease.inference.nets import quantiles
from qrelease.inference.update_rules import Projection
from qrelease.mechanisms.gaussian import Gaussian
from qrelease.mechanisms.iterative.construction import IterativeConstruction
from qrelease.mechanisms.iterative.distinguishers import Select
from qrelease.mechanisms.iterative.mwem import MWEM
from qrelease.mechanisms.matrix import Matrix
from qrelease.mechanisms.maxent import MaxEnt
from qrelease.mechanisms.small_db.small_db import SmallDB
from qrelease.mechanisms.weighted_records import FittedRecords

LINE = Domain.coded({"a": 6})
LARGE = Domain.coded({f"a{i}": 64 for i in range(6)})
STORED = {
    "histogram": (DOMAIN, MWEM(rounds=4)),
    "answers": (DOMAIN, Gaussian()),
    "maximum entropy": (DOMAIN, MaxEnt()),
    "residuals": (LARGE, MaxEnt()),
    "least squares": (LINE, Matrix()),
    "weighted codes": (DOMAIN, FittedRecords(weighted_records=20)),
    "weighted records": (LINE, SmallDB(size=3)),
    "dual": (LINE, IterativeConstruction(Projection(0.25), Select("query"))),
    "medians": (
        LINE,
        IterativeConstruction(MedianRule(quantiles(LINE, alpha=1 / 4), 0.3, radius=1 / 4), Select("query")),
    ),
}
"""What makes each kind of synopsis."""
