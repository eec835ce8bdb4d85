"""How much better than plain Laplace noise is it? Compare with the truth, and draw error against epsilon.

    python examples/compare_with_laplace.py [error.svg]

NOT PRIVATE: the comparison reads the true table, so on real data its table and picture are for the data holder only.
"""

import sys

import qrelease as qr
from qrelease.data.bundled import adult

COLUMNS = ["workclass", "marital-status", "sex", "income"]


def main(picture: str) -> None:
    """Print the comparison and draw it into an .svg or .png file."""
    table = adult(COLUMNS)
    found = qr.evaluate(
        table,
        qr.Workload.marginals(table.domain, 3),
        {"maxent": qr.MaxEnt(), "mwem": qr.MWEM()},
        epsilons=[0.1, 0.5, 2.0],
        delta=1e-9,
        dataset="adult",
    )
    print(found)
    found.plot(picture)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "error.svg")
