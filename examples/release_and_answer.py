"""Release six columns of the bundled Adult table under (epsilon, delta), answer conditions, draw synthetic rows.

    python examples/release_and_answer.py

The budget is kept in memory here. For a table about real people give `Ledger.open` a path: the ledger then survives
crashes, and refuses what does not fit any more.
"""

import qrelease as qr
from qrelease.data.bundled import adult

COLUMNS = ["age", "education", "marital-status", "sex", "hours-per-week", "income"]

QUESTIONS = [
    "income = '>50K'",
    "sex = Female and income = '>50K'",
    "age in 30..39 and hours-per-week >= 50",
    "education in {Masters, Doctorate} and not marital-status = Divorced",
]


def main() -> None:
    """Print what is released; nothing is written."""
    table = adult(COLUMNS)
    workload = qr.Workload.marginals(table.domain, 2)
    total = qr.ApproxDP(1.0, 1e-9)
    with qr.Ledger.open(None, total, dataset="adult") as ledger:
        release = qr.Curator(table, ledger).release(qr.Auto(), workload, total)
        print(release)
        print(f"spent {ledger.spent} of {ledger.total}; what follows is free")

    for question in QUESTIONS:
        print(f"  {question}: {release.answer(question)}")

    rows = release.synthetic(5)
    print("\n" + ",".join(rows))
    for record in zip(*rows.values(), strict=True):
        print(",".join(map(str, record)))


if __name__ == "__main__":
    main()
