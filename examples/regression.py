"""Who earns more: logistic regression on Adult under differential privacy, and from a release's marginals for nothing.

python examples/regression.py
"""

from typing import Any

import numpy as np

import qrelease as qr
from qrelease.statistics.design import Design, PublicRecords

table = qr.data.adult()
records = PublicRecords(dict(zip(table.domain.names, table.columns, strict=True)))
rich = records.cells("income") == 1
design, cost = Design.of(table.domain, "income", None), qr.ApproxDP(1.0, 1e-9)


def right(weights: Any) -> float:
    """How often the linear prediction has the right sign."""
    return float(np.mean((design.predict(weights, records) > 0) == rich))


with qr.Ledger.open(None, qr.ApproxDP(2.0, 1e-8), dataset="adult") as ledger:
    curator = qr.Curator(table, ledger)
    descent = curator.estimate(qr.NoisyDescent("income"), cost)
    print(f"{descent.choices['steps']} noisy steps, {ledger.spent:.3g}: {right(descent.value):.3f} are right")
    release = curator.release(qr.MaxEnt(), qr.Workload.marginals(table.domain, 2), cost)
    free = qr.regression_from_marginals(table.domain, "income", release.answer, positive=">50K", deviation=5.0)
    print(f"from a release of {cost:.3g}, at no further cost: {right(free):.3f}; without any: {1 - rich.mean():.3f}")
