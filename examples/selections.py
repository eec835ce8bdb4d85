"""Which groups are large, which are the largest, and who is above a threshold: each for one charge.

python examples/selections.py
"""

import qrelease as qr

table, cost = qr.data.adult(), qr.PureDP(0.1)
with qr.Ledger.open(None, qr.PureDP(0.5), dataset="adult") as ledger:
    curator = qr.Curator(table, ledger)
    for statistic in (
        qr.MostCommon(("occupation",), 3),
        qr.AboveThresholds(("education",), 3_000, positives=5),
        qr.AboveThresholds(("education",), 3_000, positives=5, form="numeric"),
    ):
        print(curator.estimate(statistic, cost), end="\n\n")
    print(f"spent {ledger.spent:.3g} of {ledger.total:.3g}")
