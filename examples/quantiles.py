"""One quantile and many: by the exponential mechanism, by halving, and by a tree of counts.

python examples/quantiles.py
"""

import numpy as np

import qrelease as qr

minutes = np.clip(np.random.default_rng(0).lognormal(4.0, 0.6, 10_000).astype(int), 0, 999)
table, deciles = qr.Table(qr.Domain.coded({"minutes": 1_000}), (minutes,)), tuple(i / 10 for i in range(1, 10))
with qr.Ledger.open(None, qr.ZCDP(0.5), dataset="trips") as ledger:
    curator, cost = qr.Curator(table, ledger), qr.ZCDP(0.1)
    median = curator.estimate(qr.Quantile("minutes", 0.5), cost)
    print(f"median {median.value}, between {median.interval}: {median.method}")
    for statistic in (qr.RecursiveQuantiles("minutes", deciles), qr.TreeQuantiles("minutes", deciles)):
        bound = statistic.error_bound(table.domain, len(minutes), cost, qr.Neighbours.ADD_REMOVE, beta=0.05)
        print(f"{statistic.name}: {curator.estimate(statistic, cost).value}, within {bound:.1%} of the records")
    print(f"without noise: {np.quantile(minutes, deciles, method='lower')}")
