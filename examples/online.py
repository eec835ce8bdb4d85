"""Answer an adaptive stream of queries from one budget, with private multiplicative weights.

    python examples/online.py

Each query may be chosen by the answers to earlier ones. Most answers are read off a hypothesis that the others taught;
all of them together cost one charge. The theorem asks for large tables: this one has two million made-up people.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import qrelease as qr

DOMAIN = qr.Domain(
    (
        qr.Attribute("smoker", "category", categories=("yes", "no")),
        qr.Attribute("sport", "category", categories=("never", "weekly", "daily")),
        qr.Attribute("age", "number", edges=(18, 30, 45, 60, 75, 100), integer=True),
    )
)

QUESTIONS = [
    "smoker = yes",
    "smoker = yes and age >= 60",
    "sport = never and age < 45",
    "sport = daily or smoker = yes",
    "age >= 60 and smoker = yes",  # again, in other words
]


def people(n: int) -> qr.Table:
    """Made-up people of whom few smoke and the old do little sport."""
    rng = np.random.default_rng(0)
    age = rng.choice(5, n, p=[0.2, 0.3, 0.25, 0.15, 0.1])
    sport = np.where(rng.random(n) < 0.2 * age, 0, rng.integers(1, 3, n))
    smoker = rng.random(n) < 0.9
    return qr.Table(DOMAIN, tuple(column.astype(np.uint8) for column in (smoker, sport, age)))


def main() -> None:
    """Print answers as they come; the session survives the process that opened it."""
    cost = qr.ApproxDP(2.0, 1e-9)
    mechanism = qr.PrivateMultiplicativeWeights(alpha=0.05, beta=0.01, queries=1000)
    table = people(2_000_000)
    with TemporaryDirectory() as folder:  # yours is one that lasts
        path = Path(folder, "people.ledger")
        stream(table, mechanism, cost, path)


def stream(table: qr.Table, mechanism: qr.PrivateMultiplicativeWeights, cost: qr.ApproxDP, path: Path) -> None:
    """One session in two processes, as it were."""
    ledger = qr.Ledger.open(path, cost, neighbours="replace-one")
    with ledger, qr.Curator(table, ledger).open(mechanism, cost, key="stream of May") as session:
        print(session)
        for question in QUESTIONS:
            print(f"  {question}: {session.answer(question)}")

    # Another process, another day: what was answered is answered again, at no cost, and the stream goes on.
    ledger = qr.Ledger.open(path)
    with ledger, qr.Curator(table, ledger).open(mechanism, cost, key="stream of May") as session:
        print(f"{session}; spent {ledger.spent} of {ledger.total}")
        print(f"  {QUESTIONS[0]}: {session.answer(QUESTIONS[0])}")
        print(f"  sport = weekly: {session.answer('sport = weekly')}")


if __name__ == "__main__":
    main()
