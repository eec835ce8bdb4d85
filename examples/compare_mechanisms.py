"""The mechanisms of the text beside independent noise: draw the error of the worst query against epsilon.

    python examples/compare_mechanisms.py [mechanisms.svg]

500 queries about 20 cells: independent noise pays for each of them, the others for what the queries have in common.
NOT PRIVATE: the comparison reads the true table, which for Adult is public.
"""

import sys

import numpy as np
from matplotlib.figure import Figure

import qrelease as qr
from qrelease.data.bundled import adult
from qrelease.inference.nets import small_databases
from qrelease.mechanisms.base import OnlineMechanism, Session
from qrelease.mechanisms.simulation import ask

EPSILONS = [0.1, 1.0, 10.0]
DELTA = 1e-9


def main(picture: str) -> None:
    """Print the errors, fractions of the table, and draw them into an .svg or .png file."""
    table = adult(["race", "sex", "income"])
    sets = np.unique(np.random.default_rng(0).integers(0, 2, (500, table.domain.size)), axis=0)
    workload = qr.Workload.vectors(table.domain, sets.astype(float))
    truth = sets @ table.histogram()
    contenders: dict[str, qr.Mechanism | OnlineMechanism[Session]] = {
        "Laplace": qr.Laplace(),
        "Gaussian": qr.Gaussian(),
        "MWEM": qr.MWEM(choice="query"),
        "iterative construction": qr.IterativeConstruction(),
        "SmallDB": qr.SmallDB(),
        "Net": qr.Net(small_databases(table.domain, 5)),
        "private multiplicative weights, online": qr.PrivateMultiplicativeWeights(queries=len(workload)),
    }

    figure = Figure(figsize=(6.4, 5.2), layout="constrained")
    axes = figure.subplots()
    for (name, mechanism), marker in zip(contenders.items(), "osD^vP*", strict=True):
        errors = []
        for epsilon in EPSILONS:
            cost = qr.ApproxDP(epsilon, DELTA)
            with qr.Ledger.open(None, cost) as ledger:
                curator = qr.Curator(table, ledger)
                if isinstance(mechanism, OnlineMechanism):
                    answers = ask(curator.open(mechanism, cost), workload, np.arange(len(workload)))
                else:
                    answers = curator.release(mechanism, workload, cost).answers()
            errors.append(np.abs(answers - truth).max() / len(table))
        print(f"{name:40}" + "".join(f"{e:10.4f}" for e in errors))
        axes.loglog(EPSILONS, errors, marker=marker, label=name)
    axes.set(title=f"{len(workload):,} queries about {len(table):,} records", xlabel="epsilon", ylabel="worst error")
    figure.legend(loc="outside lower center", ncols=2)
    figure.savefig(picture)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "mechanisms.svg")
