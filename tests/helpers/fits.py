"""Weighted records, estimates of tables and fits to them."""

from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
from worlds import coded, private

from qrelease.inference.residuals import Estimates, ResidualPlan
from qrelease.inference.weighted_records import WeightedCodes
from qrelease.noise.entropy import Entropy
from qrelease.queries.workload import Workload

SHAPE = (3, 2, 4)
SETS = [(0,), (2,), (0, 1), (1, 2), (0, 1, 2)]


def some(seed, count=40, shape=SHAPE):
    """Codes of records, their weights, and the generator that made them."""
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(n, size=count) for n in shape]).astype(np.uint16)
    return codes, rng.dirichlet(np.ones(count)), rng


def estimates_of(table, cost, order=2, seed=0):
    """What is measured of all sets of up to so many columns, and the workload of those of so many."""
    sets = [s for k in range(1, order + 1) for s in combinations(range(len(table.domain)), k)]
    plan = ResidualPlan.choose(table.domain, sets)
    made = private(table, cost, entropy=Entropy.insecure(seed))
    return Estimates.of(table.domain, made.measure(plan.workload, cost)), Workload.marginals(table.domain, order)


def answers(fitted, domain, workload):
    """Of the records of a fit."""
    return WeightedCodes(domain, fitted.chains.codes, fitted.chains.weights, fitted.total).answer(workload)


def follow(*sizes, excluded=()):
    """Columns of these sizes, each of whose cells are equal parts of one cell of the column before; and the rules."""
    domain = coded(*sizes)
    rules = [
        f"{fine} = {cell} and not {coarse} = {cell * m // n}"
        for (coarse, m), (fine, n) in pairwise(zip(domain.names, sizes, strict=True))
        for cell in range(n)
    ]
    return replace(domain, impossible=(*rules, *excluded))
