"""What would it cost? Promises and typical errors before anything is spent.

    python examples/planning.py

A plan needs the schema, the queries and about how many records there are; no data. What a theorem promises holds for
any table, so it is careful; what is typical is simulated on a made-up one. They bracket what to expect.
"""

import qrelease as qr
from qrelease.data.bundled import adult


def main() -> None:
    """Print two plans, and check a promise against the mechanism that makes it."""
    domain = adult(["race", "sex", "income"]).domain  # the public part of the table
    workload = qr.Workload.marginals(domain, 2)

    print("What takes the least to be within 0.2 % of the records, on all queries at once?\n")
    print(qr.plan(workload, n=50_000, target_error=0.002, delta=1e-9, trials=1))

    print("\nWhat does epsilon = 0.1 buy?\n")
    print(qr.plan(workload, n=50_000, epsilon=0.1, trials=0))

    promised = qr.Laplace().error(workload, 50_000, qr.PureDP(0.1), qr.Neighbours.ADD_REMOVE, beta=0.05)
    print(f"\nThe same from the mechanism itself: no answer is off by more than {promised:.2%}, with probability 95 %.")


if __name__ == "__main__":
    main()
