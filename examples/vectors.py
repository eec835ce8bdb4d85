"""Means of many columns at once: clipped to a box, to a ball, and of the few columns that matter.

python examples/vectors.py
"""

import numpy as np

import qrelease as qr

D, N = 200, 4_000
chances = np.where(np.arange(D) < 3, 0.5, 0.01)
answers = (np.random.default_rng(0).random((N, D)) < chances).astype(int)
names = tuple(f"q{i}" for i in range(D))
table, cost = qr.Table(qr.Domain.coded(dict.fromkeys(names, 2)), tuple(answers.T)), qr.ApproxDP(1.0, 1e-6)
with qr.Ledger.open(None, qr.ApproxDP(4.5, 1e-5), dataset="survey") as ledger:
    curator = qr.Curator(table, ledger)
    for statistic in (qr.TruncatedMean(names), qr.VectorMean(names)):
        off = curator.estimate(statistic, cost).value - answers.mean(axis=0)
        print(f"{statistic.name}: off by {np.sqrt(np.mean(off**2)):.3f} a column")
    for sparse in (qr.SparseMean(3), qr.PeelingMean(3)):
        print(f"{sparse.name}: {curator.estimate(sparse, cost).value}")
    print(f"spent {ledger.spent:.3g} of {ledger.total:.3g}")
