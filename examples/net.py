"""Answer all ranges of a column from a net: a public list of synopses, one of which is near to every table.

    python examples/net.py

The Net mechanism (Dwork & Roth 2014, §5.1) draws one synopsis of a list. The list is made without a look at the table;
how near it comes to the worst of tables is proved by a theorem, or by linear programs, or refuted by a table.
"""

import numpy as np

import qrelease as qr
from qrelease.data.bundled import adult
from qrelease.inference.net_radius import radius
from qrelease.inference.nets import Candidates, Thinned, quantiles, thin

CONDITIONS = ["hours-per-week < 20", "hours-per-week in 20..39", "hours-per-week in 40..49", "hours-per-week >= 60"]


def main() -> None:
    """Print what is promised of two nets, and how far a release is off; the table is public."""
    table = adult(["hours-per-week"])
    workload = qr.Workload.predicates(table.domain, *CONDITIONS)
    (counts,) = table.counts(workload.sets)
    truth = [int(group.queries.apply(counts)[0]) for group in workload.groups]

    # Eight records at the right quantiles answer every range within 1/8. To so few ranges most of them answer alike:
    # thinning the net makes the choice cheaper, and costs no more than the slack.
    net, slack = quantiles(table.domain, alpha=1 / 8), 0.01
    cost = qr.PureDP(0.02)
    nets: list[tuple[Candidates, float]] = [(net, 1 / 8), (thin(net, workload, slack), 1 / 8 + slack)]
    for candidates, alpha in nets:
        mechanism = qr.Net(candidates, radius=alpha)
        promised = mechanism.error(workload, 50_000, cost, qr.Neighbours.ADD_REMOVE, beta=0.05)
        with qr.Ledger.open(None, cost, dataset="adult") as ledger:
            release = qr.Curator(table, ledger).release(mechanism, workload, cost)
        off = np.abs(release.answers() - truth).max() / len(table)
        print(f"{len(candidates):,} synopses: promised {promised:.3f}, measured {off:.3f}")

    # For few cells the checker finds α by itself, and a table that shows what is wrong with a net with holes.
    small = qr.Domain.coded({"hours": 4})
    prefixes = qr.Workload.prefixes(small, "hours")
    whole = quantiles(small, alpha=1 / 2)
    print(f"\n{whole}, for prefixes: {radius(whole, prefixes, gap=0.02)}")
    holed = Thinned(whole, tuple(range(0, len(whole), 3)))
    found = radius(holed, prefixes, alpha=0.3)
    print(f"{holed}: {found}; refuted as a 0.3-net: {found.refutes(0.3)}")
    print(f"the table that shows it: {np.round(found.witness, 3)}")


if __name__ == "__main__":
    main()
