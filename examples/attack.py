"""Is rounding not enough? Attack one secret of a thousand people, through answers given in several ways.

    python examples/attack.py

Every question is "how many of these people are married?", about people whom the attacker chooses. Rounded answers give
away everybody's secret, as exact ones do; a release gives away what other people's records give away as well.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import qrelease as qr
from qrelease.data import adult
from qrelease.evaluation.attacks.publishers import Released, Rounded
from qrelease.evaluation.attacks.reconstruction import least_squares, questions, reconstruct
from qrelease.evaluation.attacks.study import study

COLUMNS = ["age", "education", "marital-status", "sex", "income"]


def main() -> None:
    """Print what two publishers of the same answers give away, and the whole study; the table is public."""
    table = adult(COLUMNS)
    secret = np.asarray(table.columns[2][:1000] == 0)
    asked = questions(1000, 2000, np.random.default_rng(0))
    for publisher in (Rounded(secret, 10), Released(secret, qr.Laplace(), qr.PureDP(1.0))):
        found = reconstruct(publisher, secret, asked, least_squares)
        print(f"{publisher.name}: {found.recovered:.1%} of the bits right, {found.base_rate:.1%} by guessing\n")

    cost = qr.ApproxDP(1.0, 1e-9)
    with qr.Ledger.open(None, cost, dataset="adult") as ledger:
        release = qr.Curator(table, ledger).release(qr.MaxEnt(), qr.Workload.marginals(table.domain, 2), cost)
    results = study(table, release, "marital-status", people=1000)
    print(results)
    with TemporaryDirectory() as folder:  # yours is one that lasts, and that nobody else reads
        Path(folder, "attack.svg").write_text(results.picture(), encoding="utf-8")


if __name__ == "__main__":
    main()
