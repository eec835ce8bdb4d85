"""Sums and means of one column, each for one charge: with known bounds, and with bounds that are chosen privately.

python examples/averages.py
"""

import numpy as np

import qrelease as qr

pay = np.clip(np.random.default_rng(0).lognormal(5.5, 0.6, 20_000).astype(int), 0, 9_999)
table, cost = qr.Table(qr.Domain.coded({"pay": 10_000}), (pay,)), qr.PureDP(0.2)
with qr.Ledger.open(None, qr.PureDP(2.0), dataset="payroll") as ledger:
    curator = qr.Curator(table, ledger)
    for statistic in (
        qr.Sum("pay", 0, 2_000),
        qr.Mean("pay", 0, 2_000),  # the best where bounds are known
        qr.TextbookMean("pay", 0, 2_000),
        qr.TextbookMean("pay", 0, 2_000, origin="zero"),
        qr.ClippedMean("pay"),  # the best where they are not
        qr.QuantileMean("pay"),
        qr.SparseVectorMean("pay"),
    ):
        bound = statistic.error_bound(table.domain, len(pay), cost, qr.Neighbours.ADD_REMOVE, beta=0.05)
        found = curator.estimate(statistic, cost)
        print(f"{found.statistic}: {found.value:.1f}, typically off by {found.typical:.2g}, at most by {bound:.3g}")
        if found.least_error is not None:
            print(f"    no mean of values of that range has less than {found.least_error:.2g} on all tables")
    print(f"without noise: {pay.sum()} and {pay.mean():.1f}; spent {ledger.spent:.3g} of {ledger.total:.3g}")
