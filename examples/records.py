"""Release a table of 20 columns, 2^45 cells, as weighted records; what is impossible stays impossible.

    python examples/records.py

No memory holds the histogram of such a universe. `FittedRecords` selects marginals on which its records are off,
measures them, and moves and weighs the records until they agree with all that was measured.
"""

from dataclasses import replace

import numpy as np

import qrelease as qr

ROWS = 20_000
YOUNG, RICH = 0, 3


def made_up(rule: str) -> qr.Table:
    """Ages, incomes that nobody young has, and 18 columns that each follow the one before, mostly."""
    rng = np.random.default_rng(0)
    sizes = {"age": 8, "income": 4, **{f"c{i}": 5 if i < 13 else 4 for i in range(18)}}
    domain = replace(qr.Domain.coded(sizes), impossible=(rule,))
    age = rng.choice(8, ROWS, p=[0.18, 0.14, 0.14, 0.14, 0.12, 0.11, 0.09, 0.08])
    income = np.where(age == YOUNG, rng.integers(RICH, size=ROWS), rng.integers(4, size=ROWS))
    columns = [age, income]
    for size in domain.shape[2:]:
        columns.append(np.where(rng.random(ROWS) < 0.7, columns[-1] % size, rng.integers(size, size=ROWS)))
    return qr.Table(domain, tuple(columns))


def main() -> None:
    """Print what a release will take, what it measured, how far it is off, and rows of it; the table is made up."""
    rule = f"age = {YOUNG} and income = {RICH}"
    table = made_up(rule)
    workload = qr.Workload.marginals(table.domain, 2)
    mechanism, cost = qr.FittedRecords(order=2, weighted_records=1 << 13), qr.ApproxDP(1.0, 1e-9)
    print(f"{len(workload.sets)} marginals over 2^{np.log2(np.array(table.domain.shape, float)).sum():.0f} cells")
    print(f"about {mechanism.seconds(workload, cost, ROWS):.0f} s, {mechanism.memory(workload) / 2**20:.0f} MiB")

    with qr.Ledger.open(None, cost, dataset="made up") as ledger:
        release = qr.Curator(table, ledger).release(mechanism, workload, cost)
    truth = np.concatenate([counts.reshape(-1) for counts in table.counts(workload.sets)])
    off = np.abs(release.answers() / release.synopsis.total - truth / ROWS)
    print("selected:", ", ".join(" x ".join(names) for names in release.parameters["selected"]) or "nothing")
    print(f"off by {np.add.reduceat(off, workload.bounds[:-1]).mean():.3f} in L1, {off.max():.4f} in the worst cell")

    rows = release.synthetic(100_000)
    broken = (np.array(rows["age"]) == YOUNG) & (np.array(rows["income"]) == RICH)
    print(f"of 100,000 synthetic rows {broken.sum()} have {rule}")
    for name in ("age", "income", "c0", "c1"):
        print(f"{name:8}", *(f"{value:>3}" for value in rows[name][:12]))


if __name__ == "__main__":
    main()
