"""Means of many columns beside what no private mean can beat, the few that stand out, and whether all are fair coins.

python examples/many_columns.py
"""

import numpy as np

import qrelease as qr
from qrelease.statistics.lower_bounds import mean_bound

d, n, cost = 200, 5_000, qr.ZCDP(0.2)
chances = np.where(np.arange(d) < 5, 0.8, 0.5)
bits = np.random.default_rng(0).random((n, d)) < chances
table = qr.Table(qr.Domain.coded({f"b{i}": 2 for i in range(d)}), tuple(bits.T.astype(int)))
names = table.domain.names
with qr.Ledger.open(None, qr.ZCDP(0.8), dataset="bits") as ledger:
    curator = qr.Curator(table, ledger)
    means = np.array(curator.estimate(qr.TruncatedMean(names), cost).value)
    squares = 4 * ((means - chances) ** 2).sum()
    print(f"squared error of the signs' means {squares:.3f}; no mean can do better than {mean_bound(d, n, cost):.3f}")
    print("furthest from a half:", curator.estimate(qr.SparseMean(5, origin=0.5), cost).value)
    print("all fair?", curator.estimate(qr.UniformityTest(names), cost).value)
    print("the last 100?", curator.estimate(qr.UniformityTest(names[100:]), cost).value)
