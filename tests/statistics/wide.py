"""Tables of many columns, and what a statistic measures of them."""

import numpy as np

from qrelease.data.domain import Domain
from qrelease.data.table import Table
from tests.statistics.doors import door

D = 12


COLUMNS = tuple(f"c{i}" for i in range(D))


def table(n, cells=200, centre=60, spread=8, seed=0):
    rng = np.random.default_rng(seed)
    values = np.clip(np.rint(rng.normal(centre, spread, (n, D))), 0, cells - 1).astype(np.int64)
    return Table(Domain.coded(dict.fromkeys(COLUMNS, cells)), tuple(values.T)), values.mean(axis=0)


class Recorded:
    """Noise of nothing, and a list of what was asked for."""

    def __init__(self):
        self.asked = []

    def noise(self, law, parameter, size):
        self.asked.append((law.law, parameter, size))
        return np.zeros(size, np.int64)


def vectors(statistic, records, cost, neighbours):
    """What a statistic measures last, and the noise parameter."""
    recorded = Recorded()
    private = door(records, cost, neighbours, recorded)
    seen = []
    measure = private.measure

    def spied(what, exact, sensitivity, cost):
        seen.append((exact, sensitivity))
        return measure(what, exact, sensitivity, cost)

    private.measure = spied
    statistic.estimate(private, cost)
    return seen, recorded.asked
