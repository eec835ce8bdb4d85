"""Release a dozen records that answer like 48 842, drawn exactly from a million million small databases and more.

    python examples/smalldb.py

SmallDB (Blum, Ligett & Roth 2008) draws a database of m records by the exponential mechanism. There are too many to
list, so a branch-and-bound search draws from the same law, exactly.
"""

import numpy as np

import qrelease as qr
from qrelease._util.multisets import range_size
from qrelease.data.bundled import adult

SIZE = 18


def main() -> None:
    """Print what is promised, what is released, and how far it is off; the table is public."""
    table = adult(["marital-status", "sex", "income"])
    workload = qr.Workload.marginals(table.domain, 2)
    mechanism, cost = qr.SmallDB(size=SIZE), qr.PureDP(0.5)
    print(
        f"{len(workload)} queries over {table.domain.size} cells: {range_size(table.domain.size, SIZE):.1e} databases"
    )

    # What the theorem says, before anything is spent. The number of records is private, so "about 50 000" is used.
    promised = mechanism.error(workload, 50_000, cost, qr.Neighbours.ADD_REMOVE, beta=0.05)
    print(f"promised: with probability 0.95 no answer is off by more than {promised:.3f} of the records")

    with qr.Ledger.open(None, cost, dataset="adult") as ledger:
        release = qr.Curator(table, ledger).release(mechanism, workload, cost)
    truth = np.concatenate(table.counts(workload.sets))
    print(f"measured: {np.abs(release.answers() - truth).max() / len(table):.3f}\n")

    print(", ".join(table.domain.names))
    small = release.synthetic(SIZE)
    for record in sorted(zip(*small.values(), strict=True), key=str):
        print(", ".join(map(str, record)))


if __name__ == "__main__":
    main()
