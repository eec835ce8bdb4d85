"""Medians and means by how stable they are on the table at hand, not by the worst of all tables; one may refuse.

python examples/stable_numbers.py
"""

import numpy as np

import qrelease as qr

codes = np.clip(np.random.default_rng(0).lognormal(5.0, 0.5, 5_000).astype(int), 0, 999)
table = qr.Table(qr.Domain.coded({"price": 1000}), (codes,))
pure, delta = qr.PureDP(1.0), qr.ApproxDP(1.0, 1e-6)
with qr.Ledger.open(None, qr.ApproxDP(6.0, 1e-5), dataset="prices") as ledger:
    curator = qr.Curator(table, ledger)
    for statistic, cost in (
        (qr.Quantile("price"), pure),
        (qr.SmoothSensitivity("price"), delta),
        (qr.ProposeTestRelease("price", 20), delta),
        (qr.ProposeTestRelease("price", 1, qr.StableMean()), delta),
        (qr.ClippedMean("price"), pure),
    ):
        found = curator.estimate(statistic, cost)
        print(f"{found.statistic}: {found.value}, typical error {found.typical}, {cost}")
    print(f"without noise: median {np.median(codes)}, mean {codes.mean():.2f}")
