"""Which groups have a mean, and which a sum, of at least a threshold: for one charge that pays for those found alone.

python examples/groups_above.py
"""

import numpy as np

import qrelease as qr

rng = np.random.default_rng(0)
shop = rng.integers(0, 8, 20_000, dtype=np.uint64)
paid = np.clip(rng.normal(30 + 5 * shop, 20).round(), 0, 150).astype(np.uint64)
receipts = qr.Table(qr.Domain.coded({"shop": 8, "paid": 151}), (shop, paid))
with qr.Ledger.open(None, qr.PureDP(1.0), dataset="receipts") as ledger:
    curator = qr.Curator(receipts, ledger)
    for above in (
        qr.AboveThresholds(("shop",), 50, positives=4, measure="mean", column="paid"),
        qr.AboveThresholds(("shop",), 130_000, positives=4, measure="sum", column="paid"),
    ):
        print(curator.estimate(above, qr.PureDP(0.5)), end="\n\n")
