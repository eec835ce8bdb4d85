"""Are bits fair, is a mean as it was, is a die fair: tests of hypotheses whose number of records is public.

python examples/testers.py
"""

import numpy as np

import qrelease as qr

rng, bits = np.random.default_rng(0), tuple(f"b{i}" for i in range(8))
columns = {name: (rng.random(4_000) < 0.6).astype(int) for name in bits}  # 60 % ones: the signs' mean has norm 0.57
columns |= {"height": rng.normal(52.5, 10, 4_000).clip(0, 99).astype(int), "die": rng.integers(0, 6, 4_000)}
table = qr.Table(qr.Domain.coded({**dict.fromkeys(bits, 2), "height": 100, "die": 6}), tuple(columns.values()))
pure, delta = qr.PureDP(0.5), qr.ApproxDP(1.0, 1e-6)
with qr.Ledger.open(None, qr.ApproxDP(4.0, 1e-5), dataset="bits", neighbours="replace-one") as ledger:
    curator = qr.Curator(table, ledger)
    for statistic, cost in (
        (qr.UniformityTest(bits), pure),
        (qr.EfficientTester(bits, 0.5), delta),
        (qr.LipschitzTester(bits[:1], 0.5), pure),
        (qr.GaussianMeanTest(("height",), (49.5,), (100.0,)), pure),
        (qr.FitTest("die", (1, 1, 1, 1, 1, 1)), pure),
    ):
        found = curator.estimate(statistic, cost)
        print(f"{found.statistic}, {cost}: {found.value}")
    print(f"spent {ledger.spent:.3g} of {ledger.total:.3g}")
