"""No trusted curator: each person randomises on her own device, and the collector fits a synthetic table to reports.

python examples/local_reports.py
"""

import random

import qrelease as qr
from qrelease.inference.maxent import fit_histogram
from qrelease.inference.residuals import Estimates
from qrelease.local import Book, DeviceEntropy, Marginals, MarginalsServer

SMOKER = qr.Attribute("smoker", "category", categories=("yes", "no"))
SPORT = qr.Attribute("sport", "category", categories=("never", "weekly", "daily"))
DOMAIN = qr.Domain((SMOKER, SPORT))
CLIENT = Marginals(2.0, DOMAIN.shape, ((0,), (1,), (0, 1)))  # public: each person answers one of three questions


def device() -> bytes:
    """What one person's phone sends; her record never leaves it, and her book says how much she may still give."""
    record = (smoker := int(random.random() < 0.8), random.randrange(3) if smoker else 0)
    return Book(2.0).report("health", CLIENT, record, DeviceEntropy()).to_bytes()


server, people = MarginalsServer(CLIENT), 5_000
batch = server.read(b"".join(device() for _ in range(people)))  # strict: a wrong report is refused
table, _ = fit_histogram(Estimates.of(DOMAIN, server.measurements(batch, DOMAIN), records=people))
print(table.answer(qr.Workload.marginals(DOMAIN, 2)).round())
print("50 liars move each share by at most", server.moved_by(50, batch).round(3))
