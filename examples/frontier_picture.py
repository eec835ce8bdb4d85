"""Error against epsilon for four mechanisms, with the least error of unbiased noise and the sampling floor drawn in.

    python examples/frontier_picture.py [frontier.svg]

All three-way marginals of a made-up table of eight columns. Laplace and Gaussian noise stay above the bound, which no
unbiased mechanism of additive Gaussian noise gets below; MWEM and MaxEnt fit models, which may. The floor is what as
many rows drawn again from the table are off by: below it privacy costs less than the size of the table does.
NOT PRIVATE: the comparison reads the table.
"""

import sys

import numpy as np
from matplotlib.figure import Figure

import qrelease as qr
from qrelease.inference.residuals import ResidualPlan
from qrelease.noise.calibration import analytic_gaussian_sigma

EPSILONS = [0.1, 1.0, 10.0]
DELTA = 1e-9
NAMES = {"laplace": "Laplace", "gaussian": "Gaussian", "mwem": "MWEM", "maxent": "MaxEnt"}


def chain(rows: int, columns: int) -> qr.Table:
    """Records whose every column leans on the one before."""
    rng = np.random.default_rng(0)
    found = [rng.integers(0, 2, rows).astype(np.uint8)]
    for _ in range(columns - 1):
        found.append(np.where(rng.random(rows) < 0.7, found[-1], rng.random(rows) < 0.2).astype(np.uint8))
    return qr.Table(qr.Domain.coded({f"c{i}": 2 for i in range(columns)}), tuple(found))


def main(picture: str) -> None:
    """Print the root mean squared errors, fractions of the table, and draw them into an .svg or .png file."""
    table = chain(20_000, 8)
    workload = qr.Workload.marginals(table.domain, 3)
    contenders: dict[str, qr.Mechanism] = {"mwem": qr.MWEM(), "maxent": qr.MaxEnt()}
    found = qr.evaluate(table, workload, contenders, EPSILONS, delta=DELTA, entropy=qr.Entropy())
    plan = ResidualPlan.choose(table.domain, workload.sets)
    bound = [plan.bound * analytic_gaussian_sigma(1, e, DELTA) / len(table) for e in EPSILONS]

    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    axes = figure.subplots()
    for (mechanism, name), marker in zip(NAMES.items(), "osD^", strict=True):
        errors = [found.runs(mechanism, e)[0].errors.rmse for e in EPSILONS]
        print(f"{name:20}" + "".join(f"{e:11.6f}" for e in errors))
        axes.loglog(EPSILONS, errors, marker=marker, label=name)
    print(f"{'least unbiased':20}" + "".join(f"{e:11.6f}" for e in bound))
    axes.loglog(EPSILONS, bound, "k--", label="least of unbiased Gaussian noise")
    if found.floor:
        print(f"{'sampling floor':20}{found.floor.rmse:11.6f}")
        axes.axhline(found.floor.rmse, color="#666666", linestyle=":", label="as many rows drawn again")
    axes.set(title=f"{len(workload):,} cells of marginals, {len(table):,} records, delta = {DELTA:g}")
    axes.set(xlabel="epsilon", ylabel="root mean squared error, of the table")
    axes.legend(frameon=False)
    figure.savefig(picture)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "frontier.svg")
