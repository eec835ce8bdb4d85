"""A release by every mechanism, and a session of each kind: whatever runs a kernel. A program of `test_warmup`."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from serving import Client, admit, worker
from worlds import coded, random_table

import qrelease as qr
from qrelease import local
from qrelease.inference.nets import quantiles
from qrelease.inference.update_rules import Hedge
from qrelease.mechanisms.iterative.distinguishers import Select
from qrelease.mechanisms.weighted_records import FittedRecords

PURE, APPROX = qr.PureDP(1.0), qr.ApproxDP(1.0, 1e-9)
WIDE, SMALL, LINE = coded(*[4] * 8), coded(3, 2), coded(5)
RELEASES = [
    (WIDE, qr.MWEM(rounds=2), PURE),
    (WIDE, qr.MaxEnt(), APPROX),
    (WIDE, qr.Laplace(), PURE),
    (WIDE, qr.Gaussian(), APPROX),
    (WIDE, FittedRecords(weighted_records=1 << 16), APPROX),
    (SMALL, qr.Matrix(), APPROX),
    (SMALL, qr.SmallDB(size=4), PURE),
    (SMALL, qr.IterativeConstruction(Hedge(0.2), Select("query")), APPROX),
    (LINE, qr.Net(quantiles(LINE, alpha=1 / 4), radius=1 / 4), PURE),
]


def release(domain, mechanism, cost, folder):
    table, workload = random_table(domain, 5_000, 0), qr.Workload.marginals(domain, min(len(domain), 2))
    with qr.Ledger.open(None, cost, dataset="people") as ledger:
        released = qr.Curator(table, ledger).release(mechanism, workload, cost)
    released.save(folder)
    loaded = qr.load(folder)
    loaded.answer("a = 1")
    if loaded.has_table:
        loaded.synthetic(50)


def stream():
    mechanism = qr.PrivateMultiplicativeWeights(alpha=0.3, beta=0.1, queries=100)
    with qr.Ledger.open(None, APPROX, neighbours="replace-one") as ledger:
        table = random_table(WIDE, 200_000, 0)
        with qr.Curator(table, ledger).open(mechanism, APPROX, key="stream") as session:
            session.answer("a = 1 and h = 2")


def serve(ledger):
    with worker(ledger) as app:
        client = Client(app, admit(ledger, "ada"))
        for query in (
            {"where": "sex = 'F'"},
            {"range": {"column": "age", "low": "0", "high": "39"}},
            {"marginal": ["age"]},
        ):
            assert client.ask(query).status == 200


def texts():
    server = local.serve(local.Text(2.0, "abc", 4, 2))
    server.estimate(server.from_codes(np.array([0, server.client.size - 1])))


if __name__ == "__main__":
    with TemporaryDirectory() as scratch:
        for i, (domain, mechanism, cost) in enumerate(RELEASES):
            release(domain, mechanism, cost, Path(scratch, str(i)))
        stream()
        texts()
        serve(Path(scratch, "people.ledger"))
