"""A release for which sums of a column were measured, by group."""

from functools import cache

import numpy as np

import qrelease as qr

DOMAIN = qr.Domain(
    (
        qr.Attribute("delay", "coded", codes=9, ordered=True, missing=("NA",)),
        qr.Attribute("carrier", "category", categories=("A & B", "UA")),
        qr.Attribute("late", "category", categories=("no", "yes")),
    )
)
ASKED = ("mean:delay by carrier*late", "quantile(0.5,0.9):delay by carrier", "sum:delay")


@cache
def with_numbers(rho=1.0, asked=ASKED, mechanism=None, share=0.5):
    rng = np.random.default_rng(0)
    table = qr.Table(DOMAIN, tuple(rng.integers(0, size, 3000) for size in DOMAIN.shape))
    with qr.Ledger.open(None, qr.ZCDP(rho)) as ledger:
        curator = qr.Curator(table, ledger, qr.Entropy.insecure(4))
        sums = qr.NumberSums(list(asked), mechanism=mechanism, share=share)
        return curator.release(sums, qr.Workload.marginals(DOMAIN, [["carrier"]]), qr.ZCDP(rho))
