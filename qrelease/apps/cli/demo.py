"""`qrelease demo`."""

import argparse
import os
from pathlib import Path

from qrelease._util.compiling import tell_of_compiling
from qrelease.apps.cli.mechanisms import DEFAULT, mechanism_of
from qrelease.apps.cli.shared import check_memory, entropy_of, seed_option, wrote
from qrelease.privacy.costs import cost_of

_NEXT = """
What to do next:
  open {0}/report.html, the page for people
  qrelease answer {0} "sex = Female and income = '>50K'"   a further query, at no cost
  qrelease schema draft people.csv --out people.toml          a schema of your own table: review it, then
  qrelease release people.csv --schema people.toml --epsilon 1 --delta 1e-9"""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.set_defaults(run=_demo)
    parser.add_argument(
        "--out", type=Path, help="the folder to make (default: demo-release, or if there is one, demo-release-2, …)"
    )
    parser.add_argument("--epsilon", type=float, default=1.0, help="what the release may cost (default: %(default)s)")
    parser.add_argument(
        "--delta",
        type=float,
        default=1e-9,
        help="the probability with which the promise may fail (default: %(default)s)",
    )
    seed_option(parser)


def _free_name() -> Path:
    """A folder for this run, so that the demo can be run again and overwrites nothing."""
    number, found = 1, Path("demo-release")
    while os.path.lexists(found):
        number += 1
        found = Path(f"demo-release-{number}")
    return found


def _demo(arguments: argparse.Namespace) -> None:
    check_memory()
    tell_of_compiling()
    from qrelease.data.bundled import CATEGORICAL, adult
    from qrelease.evaluation.evaluate import Truth
    from qrelease.privacy.ledger import Ledger
    from qrelease.queries.workload import Workload
    from qrelease.release import writer
    from qrelease.release.curator import Curator

    cost = cost_of(arguments.epsilon, arguments.delta)
    out = arguments.out or _free_name()
    with writer.new_folder(out) as folder:
        table = adult(CATEGORICAL)
        workload = Workload.marginals(table.domain, 3)
        print(
            f"UCI Adult, {len(table.domain)} columns, a universe of {table.domain.size:,} cells:"
            f" all {len(workload.sets)} three-way marginals, {len(workload):,} queries, at {cost}"
        )
        truth = Truth.of(table, workload)
        lines = []
        for name in ("laplace", "gaussian", DEFAULT):
            # The table is public and this is a demonstration: each mechanism gets a budget of its own, in memory.
            with Ledger.open(None, cost, dataset="adult") as ledger:
                release = Curator(table, ledger, entropy_of(arguments)).release(mechanism_of(name), workload, cost)
            lines.append((name, truth.errors(release.answers())))
        writer.save(release, folder)
    print("\nerror against the truth (this table is public; for private data such a comparison is not private):\n")
    print(f"{'mechanism':12}{'average L1':>12}{'of Laplace':>12}{'of Gaussian':>13}{'largest':>10}")
    for name, found in lines:
        ratios = [found.avg_l1 / lines[i][1].avg_l1 for i in (0, 1)]
        print(f"{name:12}{found.avg_l1:12.4f}{ratios[0]:12.2f}{ratios[1]:13.2f}{found.max_abs:10.4f}")
    print(f"\n{wrote(out)}")
    print(_NEXT.format(out))
