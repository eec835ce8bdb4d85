"""Linear regression from noisy moments, and from an objective with noisy coefficients, beside that without noise.

python examples/least_squares.py
"""

from typing import Any

import numpy as np

import qrelease as qr
from qrelease.statistics.design import Design, PublicRecords

rng = np.random.default_rng(0)
years, town = rng.integers(0, 50, 20_000, np.uint8), rng.integers(0, 4, 20_000, np.uint8)
pay = 20 + years + 5 * town + rng.integers(0, 21, 20_000, np.uint8)
table = qr.Table(qr.Domain.coded({"years": 50, "town": 4, "pay": 121}), (years, town, pay))
design, records = Design.of(table.domain, "pay", None), PublicRecords({"years": years, "town": town, "pay": pay})
with qr.Ledger.open(None, qr.ApproxDP(2.5, 1e-5), dataset="payroll") as ledger:
    curator = qr.Curator(table, ledger)
    for statistic, cost in (
        (qr.AdaSSP("pay"), qr.ApproxDP(1.0, 1e-6)),
        (qr.FunctionalMechanism("pay"), qr.PureDP(1.0)),
    ):
        weights: Any = curator.estimate(statistic, cost).value
        off = 60 + 60 * design.predict(weights, records) - pay
        print(f"{statistic.name}, {cost}: off by {np.sqrt(np.mean(off**2)):.2f} of 0..120")
    print(f"always the mean: {pay.std():.2f}; the best line: {np.sqrt(440 / 12):.2f}; spent {ledger.spent:.3g}")
