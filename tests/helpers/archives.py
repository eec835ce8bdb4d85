"""A release with queries of every kind, and the rows of its files."""

import csv
from pathlib import Path

import numpy as np

from qrelease.data.domain import Attribute, Domain
from qrelease.data.table import Table
from qrelease.mechanisms.iterative.mwem import MWEM
from qrelease.noise.entropy import Entropy
from qrelease.privacy import ApproxDP
from qrelease.privacy.ledger import Ledger
from qrelease.queries.workload import Workload
from qrelease.release.curator import Curator
from qrelease.release.release import Release

COST = ApproxDP(1.0, 1e-6)
DOMAIN = Domain(
    (
        Attribute("sex", "category", categories=("F", "M, or other"), missing=("?",)),
        Attribute("age", "number", edges=(18, 30, 40, 70), integer=True),
        Attribute("code", "coded", codes=4, ordered=True),
    )
)


def released(mechanism=None, seed=7) -> Release:
    rng = np.random.default_rng(0)
    table = Table(DOMAIN, tuple(rng.integers(0, size, 500).astype(np.uint8) for size in DOMAIN.shape))
    workload = (
        Workload.marginals(DOMAIN, 2)
        + Workload.ranges(DOMAIN, "code")
        + Workload.predicates(DOMAIN, "age in 18..39 and sex = 'F'")
        + Workload.vectors(DOMAIN, [[0.25, 0.5, 1]], ["sex"])
    )
    curator = Curator(table, Ledger.open(None, COST, dataset="made up"), Entropy.insecure(seed))
    return curator.release(mechanism or MWEM(rounds=4), workload, COST)


def many(mechanism) -> Release:
    """A release of more noisy answers than its manifest lists."""
    domain, rng = Domain.coded({"a": 80, "b": 64}), np.random.default_rng(0)
    table = Table(domain, tuple(rng.integers(0, size, 500) for size in domain.shape))
    curator = Curator(table, Ledger.open(None, COST, dataset="made up"), Entropy.insecure(7))
    return curator.release(mechanism, Workload.marginals(domain, 2), COST)


def rows_of(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as content:
        return list(csv.DictReader(content))
